package router

import (
	"encoding/hex"
	"hash/fnv"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/signalbox-llm/signalbox/router/affinity"
	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// makePlan finds the model that is asked for and puts its targets in the order in which they are tried.
func (x *exchange) makePlan() error {
	if x.model = x.snap.lookup(x.asked); x.model == nil {
		return &Error{
			Kind: "unknown_model", Status: http.StatusNotFound, class: telemetry.ClassModelUnknown,
			Msg: "there is no such model; there are " + strings.Join(x.snap.ids(), ", "),
		}
	}
	x.span.SetName(telemetry.SpanRoute + " " + x.model.cfg.ID)
	var candidates []strategy.Candidate
	var targets []*target
	for _, t := range x.model.targets {
		if t.cfg.Enabled && t.serves(x.model, x.route.Wire) {
			targets = append(targets, t)
			candidates = append(candidates, strategy.Candidate{Upstream: t.cfg.Name, Model: t.asks(x.asked)})
		}
	}
	if len(targets) == 0 && !x.model.speaks(x.route.Wire) {
		return invalid("protocol_mismatch", "this model is not served on "+string(x.route.Wire.Name)+"; it is on "+strings.Join(x.model.wires(), ", "))
	}
	for _, i := range x.model.order.Order(nil, candidates) {
		x.plan = append(x.plan, targets[i])
	}
	x.outcome.decision = telemetry.DecisionStrategy
	x.toOwner()
	x.inspect()
	return nil
}

// toOwner moves the target that a session is pinned to to the front.
func (x *exchange) toOwner() {
	if x.session.ID == "" {
		return
	}
	owner, ok := x.r.opts.pins.Lookup(x.start, x.pinKey())
	if !ok {
		return
	}
	i := slices.IndexFunc(x.plan, func(t *target) bool {
		return t.cfg.Name == owner.Upstream && t.asks(x.asked) == owner.Model
	})
	if i < 0 {
		return
	}
	t := x.plan[i]
	x.plan = slices.Insert(slices.Delete(x.plan, i, i+1), 0, t)
	x.outcome.decision = telemetry.DecisionSticky
}

func (x *exchange) pinKey() affinity.Key {
	return affinity.Key{Credential: x.key, Session: x.session.ID, Agent: x.session.Agent, Model: x.model.cfg.ID}
}

// inspect tells on the span which targets may be tried now, and why the others may not.
func (x *exchange) inspect() {
	now := x.r.opts.now()
	for _, t := range x.plan {
		if b := x.r.ledger.Check(now, x.ledgerTarget(t), x.session.ID); b.Blocked() {
			x.cooling++
			x.skipped(t, b)
		}
	}
	x.span.SetAttributes(
		attribute.String(telemetry.AttrModel, x.model.cfg.ID),
		attribute.String(telemetry.AttrStrategy, x.model.cfg.Strategy),
		attribute.Int(telemetry.AttrEligible, len(x.plan)-x.cooling),
		attribute.Int(telemetry.AttrCooling, x.cooling),
	)
}

func (x *exchange) skipped(t *target, b health.Block) {
	x.r.tel.Event(x.ctx, x.span, telemetry.EventSkipped,
		attribute.String(telemetry.AttrUpstream, t.cfg.Name),
		attribute.String(telemetry.AttrModel, x.model.cfg.ID),
		attribute.String(telemetry.AttrRequestModel, t.label),
		attribute.String(telemetry.AttrReason, skipReason(b)))
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
	}
	return string(b.Reason)
}

// ledgerTarget is what the ledger knows a target by.
func (x *exchange) ledgerTarget(t *target) health.Target {
	return health.Target{Upstream: t.cfg.Name, Model: t.asks(x.asked)}
}

func (m *model) speaks(w *wire.Wire) bool {
	return slices.ContainsFunc(m.targets, func(t *target) bool { return t.serves(m, w) })
}

// wires lists the wires on which a model can be asked for.
func (m *model) wires() []string {
	var names []string
	for _, w := range wire.All {
		if m.speaks(w) {
			names = append(names, string(w.Name))
		}
	}
	return names
}

// ids lists what clients may ask for, in the order of the configuration.
func (s *snapshot) ids() []string {
	var ids []string
	for i := range s.cfg.Models {
		ids = append(ids, s.cfg.Models[i].ID)
	}
	return ids
}

// sessionHash is what spans show of a session's key.
func sessionHash(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return hex.EncodeToString(h.Sum(nil))
}

// none answers a request for which nothing could be tried: 429 when only limits hold the pool, else 503.
func (x *exchange) none(blocks []health.Block) error {
	now := x.r.opts.now()
	e := &Error{Kind: "router_unavailable", Status: http.StatusServiceUnavailable, class: telemetry.ClassNoneEligible}
	limits, manual, full := 0, 0, 0
	var soonest time.Time
	for _, b := range blocks {
		switch {
		case b.Full:
			full++
		case b.Manual:
			manual++
		case b.Reason == health.RateLimit || b.Reason == health.Quota:
			limits++
		}
		until := b.Until
		if b.Probing || b.Full {
			until = now.Add(time.Second)
		}
		if !until.IsZero() && (soonest.IsZero() || until.Before(soonest)) {
			soonest = until
		}
	}
	e.retryAt = soonest
	switch n := len(blocks); {
	case n == 0:
		e.Kind, e.Msg = "no_targets", "every target of this model is switched off"
	case full == n:
		return saturated("every target of this model is busy")
	case limits == n:
		e.Kind, e.Status = "rate_limited", http.StatusTooManyRequests
		e.Msg = "every target of this model is over its limit: " + tally(blocks)
	case manual == n:
		e.Msg = "every target of this model was cooled by hand (" + tally(blocks) + "): uncool to restore"
	default:
		e.Msg = "no target of this model may be tried now: " + tally(blocks)
	}
	if !soonest.IsZero() {
		e.Msg += "; the next may be at " + soonest.UTC().Format(time.RFC3339)
	}
	return e
}

// tally counts blocks by scope and reason, most telling first, without naming anybody.
func tally(blocks []health.Block) string {
	var names []string
	counts := map[string]int{}
	for _, b := range blocks {
		name := string(b.Scope) + " " + skipReason(b)
		if b.Full || b.Probing && b.Scope == "" {
			name = "target " + skipReason(b)
		}
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
	}
	for i, name := range names {
		names[i] = plural(counts[name], name)
	}
	return strings.Join(names, ", ")
}
