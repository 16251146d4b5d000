package router

import (
	"encoding/hex"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// findModel finds the model that is asked for, and that it is served on the caller's wire.
func (x *exchange) findModel() error {
	if x.model = x.snap.lookup(x.asked); x.model == nil {
		return &Error{
			Kind: "unknown_model", Status: http.StatusNotFound, class: telemetry.ClassModelUnknown,
			Msg: "there is no such model; there are " + strings.Join(x.snap.ids(), ", "),
		}
	}
	if x.span.IsRecording() {
		x.span.SetName(telemetry.SpanRoute + " " + x.model.id)
	}
	if !x.model.speaks(x.route.Wire, x.route.Op) {
		return x.mismatch()
	}
	return nil
}

// makePlan puts the targets of the model in the order in which they are tried.
func (x *exchange) makePlan() error {
	x.choose(x.r.opts.now())
	x.inspect()
	if len(x.plan) == 0 && !x.generates() && x.upstream == "" { // the targets that the caller may use speak another wire
		return x.estimate()
	}
	return nil
}

// Reasons why a target is no candidate for a request at all.
const (
	outDisabled = "disabled"
	outGroup    = "group"    // the caller's key may not use the upstream
	outClient   = "client"   // the upstream is for other agents
	outWire     = "wire"     // the target does not speak the caller's wire
	outUpstream = "upstream" // the path names another one
	outOwner    = "owner"    // the request is bound to another target
)

// bars is why a target is no candidate, "" if it is one.
func (x *exchange) bars(t *target) string {
	switch {
	case !t.cfg.Enabled:
		return outDisabled
	case x.group != "" && !slices.Contains(t.groups, x.group):
		return outGroup
	case len(t.cfg.Clients) > 0 && !slices.Contains(t.cfg.Clients, x.client):
		return outClient
	case t.speaks(x.route.Wire, x.route.Op) == nil:
		return outWire
	case x.upstream != "" && t.cfg.Name != x.upstream:
		return outUpstream
	}
	return ""
}

// candidates are the targets that could serve a request, in declared order, with what holds each of them off. The slices
// have room for all, since the plan points into blocks.
type candidates struct {
	targets []*target
	blocks  []health.Block
	ranked  []strategy.Candidate
	request strategy.Request

	// Memory of what is made of them.
	order []int
	plan  []*target
	held  []*health.Block
}

// reset makes room for n targets.
func (c *candidates) reset(n int) {
	c.targets, c.blocks, c.ranked = slices.Grow(c.targets[:0], n), slices.Grow(c.blocks[:0], n), slices.Grow(c.ranked[:0], n)
	c.order, c.plan, c.held = slices.Grow(c.order[:0], n), slices.Grow(c.plan[:0], n), slices.Grow(c.held[:0], n)
}

// clear leaves nothing but memory.
func (c *candidates) clear() {
	*c = candidates{
		targets: emptied(c.targets), blocks: emptied(c.blocks), ranked: emptied(c.ranked),
		order: emptied(c.order), plan: emptied(c.plan[:cap(c.plan)]), held: emptied(c.held[:cap(c.held)]),
	}
}

// choose is the decision: the targets in the order in which they are tried. Who is out stays in the plan, since it may
// be back when its turn comes.
func (x *exchange) choose(now time.Time) {
	c := &x.candidates
	c.reset(len(x.model.targets))
	c.request = strategy.Request{Key: x.session.String(), Now: now, Stream: x.streaming, Random: x.r.opts.random}
	x.plan, x.blocks = c.plan, c.held
	issuer := x.issuer()
	x.sticky = x.sticks()
	if len(x.model.members) == 1 {
		x.rank(c, x.model.members[0], &c.request)
	} else {
		x.rankMembers(c, &c.request)
	}
	switch {
	case x.upstream != "":
		x.confine(confinedByPath)
	case issuer != "" && x.confineTo(issuer):
	case x.snap.cfg.Affinity.Mode == "strict" && x.session.ID != "":
		x.confine(confinedByMode)
	}
	x.outcome.decision = x.decided()
}

// rankMembers ranks the targets of a preset: its models in the order of its strategy, each with its targets in its own.
// Where that order differs from request to request, a session stays with the model that served it.
func (x *exchange) rankMembers(c *candidates, req *strategy.Request) {
	members := x.model.members
	ranked := make([]strategy.Candidate, len(members))
	for i, m := range members {
		ranked[i] = strategy.Candidate{Price: 1, Out: true}
		if t, b := x.firstIn(m, req.Now); t != nil {
			ranked[i] = x.candidate(t, b)
		}
		ranked[i].Name, ranked[i].Weight = m.cfg.ID, m.weight
	}
	order := x.model.order.Order(make([]int, 0, len(members)), ranked, req)
	if home := x.home(req.Now); home >= 0 && (!ranked[home].Out || x.snap.cfg.Affinity.Mode == "strict") {
		at := slices.Index(order, home)
		order = slices.Insert(slices.Delete(order, at, at+1), 0, home)
	}
	for _, i := range order {
		x.rank(c, members[i], req)
	}
}

// firstIn is the first target of a member that may be tried now, nil if there is none. It stands for the member where
// members are compared.
func (x *exchange) firstIn(m *member, now time.Time) (*target, health.Block) {
	for _, t := range m.targets {
		if x.bars(t) != "" {
			continue
		}
		if b := x.r.ledger.Check(now, x.ledgerTarget(t), x.conversation); !b.Blocked() {
			return t, b
		}
	}
	return nil, health.Block{}
}

// rank appends the targets of one model to the plan: first the one that the session is pinned to, or that holds its
// prompt cache, then the strategy's order.
func (x *exchange) rank(c *candidates, m *member, req *strategy.Request) {
	from := len(c.targets)
	for _, t := range m.targets {
		if x.bars(t) != "" {
			continue
		}
		b := x.r.ledger.Check(req.Now, x.ledgerTarget(t), x.conversation)
		c.targets, c.blocks = append(c.targets, t), append(c.blocks, b)
		c.ranked = append(c.ranked, x.candidate(t, b))
	}
	targets, blocks := c.targets[from:], c.blocks[from:]
	order := m.order.Order(c.order, c.ranked[from:], req)
	if first := x.prefer(m, targets, blocks, order, req.Now); first > 0 {
		i := order[first]
		order = slices.Insert(slices.Delete(order, first, first+1), 0, i)
	}
	for _, i := range order {
		if !x.planned(targets[i]) {
			x.plan, x.blocks = append(x.plan, targets[i]), append(x.blocks, &blocks[i])
		}
	}
}

func (x *exchange) candidate(t *target, b health.Block) strategy.Candidate {
	c := strategy.Candidate{Name: t.cfg.Name, Weight: t.weight, Out: b.Blocked(), Price: t.cfg.PriceWeight, Stats: t.stats}
	if t.of.counts || x.model.counts {
		c.InFlight = x.r.ledger.InFlight(t.cfg.Name)
	}
	return c
}

// planned reports whether the plan has a target already, by way of another model of a preset.
func (x *exchange) planned(t *target) bool {
	upstreams := x.snap.cfg.Failover.Distinct == "upstream"
	for _, p := range x.plan {
		if p.account == t.account && (upstreams || p.asks(x.asked) == t.asks(x.asked)) {
			return true
		}
	}
	return false
}

// inspect tells on the span which targets may be tried now, and why the others may not.
func (x *exchange) inspect() {
	for i, t := range x.plan {
		if b := x.blocks[i]; b.Blocked() {
			x.cooling++
			x.skipped(t, b)
		}
	}
	x.notes.add(
		attribute.String(telemetry.AttrModel, x.model.id),
		attribute.String(telemetry.AttrStrategy, x.model.strategy),
		attribute.Int(telemetry.AttrEligible, len(x.plan)-x.cooling),
		attribute.Int(telemetry.AttrCooling, x.cooling),
	)
}

func (x *exchange) skipped(t *target, b *health.Block) {
	x.r.tel.Event(x.ctx, x.span, telemetry.EventSkipped,
		attribute.String(telemetry.AttrUpstream, t.cfg.Name),
		attribute.String(telemetry.AttrModel, x.model.id),
		attribute.String(telemetry.AttrRequestModel, t.label),
		attribute.String(telemetry.AttrReason, skipReason(*b)))
}

func skipReason(b health.Block) string {
	switch {
	case b.Disabled:
		return telemetry.SkipDisabled
	case b.Manual:
		return telemetry.ReasonOperator
	case b.Probing:
		return telemetry.SkipProbing
	case b.Full:
		return telemetry.SkipFull
	case b.Ejected:
		return telemetry.SkipEjected
	}
	return string(b.Reason)
}

// ledgerTarget is what the ledger knows a target by.
func (x *exchange) ledgerTarget(t *target) health.Target {
	return health.Target{Upstream: t.cfg.Name, Model: t.asks(x.asked)}
}

func (m *model) speaks(w *wire.Wire, op wire.Op) bool {
	return slices.ContainsFunc(m.targets, func(t *target) bool { return t.speaks(w, op) != nil })
}

// mismatch refuses what no target of the model can be asked for. Answers are translated, token counts are not, since what one
// provider counts says nothing about another's tokens: they are estimated.
func (x *exchange) mismatch() error {
	name := string(x.route.Wire.Name)
	if x.model.speaks(x.route.Wire, wire.Generate) {
		return x.estimate()
	}
	return invalid("protocol_mismatch", "this model is not served on "+name+"; it is on "+strings.Join(x.model.wires(), ", "))
}

// wires lists the wires on which a model can be asked for.
func (m *model) wires() []string {
	var names []string
	for _, w := range wire.All {
		if m.speaks(w, wire.Generate) {
			names = append(names, string(w.Name))
		}
	}
	return names
}

// ids lists what clients may ask for, in the order of the configuration.
func (s *snapshot) ids() []string {
	var ids []string
	for _, m := range s.models {
		ids = append(ids, m.id)
	}
	return ids
}

// sessionHash is what spans show of a session's key.
func sessionHash(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	var sum [4]byte
	var text [8]byte
	hex.Encode(text[:], h.Sum(sum[:0]))
	return string(text[:])
}
