package router

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/signalbox-llm/signalbox/router/affinity"
	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// pinned is what is remembered of a session at one model.
type pinned struct {
	member *member
	key    affinity.Key
	target affinity.Target
	state  affinity.State
	owner  *target      // the target as a candidate of this request, nil if it is none
	block  health.Block // what holds the owner off
	lost   string       // class of the failure that made the request leave the owner
	warm   *target      // was put first since it holds the prompt cache
}

// confinement is why a request must not go to any other target.
type confinement uint8

const (
	unconfined     confinement = iota
	confinedByPath             // the client named the upstream in its URL
	confinedByMode             // the session's owner or nobody, says the configuration
	confinedByID               // the request refers to something that exists at one upstream only
)

// resolute reports whether a confined request is refused while its target rests, whatever none_eligible says.
func (c confinement) resolute() bool { return c == confinedByPath || c == confinedByMode }

// prefer finds the place in order of the target that a session should go to first: the one it is pinned to or, while that
// one is out, one that holds the provider's prompt cache for it. It is -1 if there is none.
func (x *exchange) prefer(m *member, targets []*target, blocks []health.Block, order []int, now time.Time) int {
	if x.session.ID == "" || x.upstream != "" {
		return -1
	}
	strict := x.snap.cfg.Affinity.Mode == "strict"
	p, at := pinned{member: m, key: x.pinKey(m)}, -1
	if x.sticky {
		p.target, p.state = x.r.opts.pins.Pin(now, p.key)
	}
	if p.state == affinity.Pinned {
		at = slices.IndexFunc(order, func(i int) bool { return x.pinTarget(targets[i]) == p.target })
	}
	if at >= 0 {
		p.owner, p.block = targets[order[at]], blocks[order[at]]
		if p.block.Blocked() && !strict {
			at = -1
		}
	}
	if at < 0 && x.snap.cfg.Affinity.Cache && (!strict || !m.owns) {
		at = slices.IndexFunc(order, func(i int) bool {
			t := targets[i]
			return !blocks[i].Blocked() && (t.weight > 0 || !m.weighted) && x.r.opts.pins.Warm(now, p.key, x.pinTarget(t), t.cacheTTL)
		})
		if at >= 0 {
			p.warm = targets[order[at]]
		}
	}
	x.pins = append(x.pins, p)
	return at
}

// home is the member of a preset that a session has to be kept to, -1 if there is none.
func (x *exchange) home(now time.Time) int {
	if !x.model.draws || x.session.ID == "" || x.upstream != "" || !x.sticky {
		return -1
	}
	t, state := x.r.opts.pins.Pin(now, x.homeKey())
	if state != affinity.Pinned {
		return -1
	}
	return slices.IndexFunc(x.model.members, func(m *member) bool { return m.cfg.ID == t.Model })
}

// sticks reports whether the request follows pins. What another account has encrypted can only be read there, so such a
// request prefers its owner even where pins are off.
func (x *exchange) sticks() bool {
	return x.snap.cfg.Affinity.Mode != "off" ||
		x.route.Wire.Name == wire.Responses && bytes.Contains(x.body.bytes, []byte(`"encrypted_content"`))
}

// pinKey is what a session's pin at a model is kept under. A pattern serves many models, and each has a prompt cache of
// its own.
func (x *exchange) pinKey(m *member) affinity.Key {
	id := m.cfg.ID
	if strings.Contains(id, "*") && x.asked != x.model.id { // in a preset all that is asked for is the preset
		id = x.asked
	}
	return affinity.Key{Credential: x.key, Session: x.session.ID, Agent: x.session.Agent, Model: id}
}

// homeKey is what a session's model within a preset is kept under. It is no id of a model: a preset may list one of its
// own name, whose pin is another.
func (x *exchange) homeKey() affinity.Key {
	return affinity.Key{Credential: x.key, Session: x.session.ID, Agent: x.session.Agent, Model: x.model.home}
}

func (x *exchange) pinTarget(t *target) affinity.Target {
	return affinity.Target{Upstream: t.cfg.Name, Model: t.asks(x.asked)}
}

// issuer is the upstream that issued the response which the request goes on from: it exists nowhere else.
func (x *exchange) issuer() string {
	if x.route.Wire.Name != wire.Responses {
		return ""
	}
	id, _ := peek.String(x.object.Value("previous_response_id"))
	if id == "" {
		return ""
	}
	x.continues = true
	t, _ := x.r.opts.pins.Owner(x.key, id)
	return t.Upstream
}

// confineTo leaves only the targets of one upstream in the plan, if there is one, and reports whether there was.
func (x *exchange) confineTo(upstream string) bool {
	n := 0
	for i, t := range x.plan {
		if t.cfg.Name == upstream {
			x.plan[n], x.blocks[n] = t, x.blocks[i]
			n++
		}
	}
	if n == 0 {
		return false
	}
	x.plan, x.blocks, x.confined = x.plan[:n], x.blocks[:n], confinedByID
	return true
}

// confine leaves only the owner in the plan: the target that is pinned or that the strategy gives the session for good,
// else the first that may be tried.
func (x *exchange) confine(why confinement) {
	if len(x.plan) == 0 {
		return
	}
	x.confined = why
	i := 0
	if p := x.pinOf(x.plan[0]); why == confinedByPath || !x.plan[0].of.owns && (p == nil || p.owner != x.plan[0]) {
		i = max(0, slices.IndexFunc(x.blocks, func(b *health.Block) bool { return !b.Blocked() }))
	}
	x.plan, x.blocks = x.plan[i:i+1], x.blocks[i:i+1]
}

// pinOf is what is remembered of the session at a target's model, nil if nothing is looked up.
func (x *exchange) pinOf(t *target) *pinned {
	for i := range x.pins {
		if x.pins[i].member == t.of {
			return &x.pins[i]
		}
	}
	return nil
}

// decided tells why the first target that may be tried was chosen.
func (x *exchange) decided() string {
	switch x.confined {
	case confinedByPath:
		return telemetry.DecisionPinned
	case confinedByID:
		return telemetry.DecisionSticky
	}
	if len(x.plan) == 0 {
		return telemetry.DecisionNone
	}
	i := max(0, slices.IndexFunc(x.blocks, func(b *health.Block) bool { return !b.Blocked() }))
	t := x.plan[i]
	switch p := x.pinOf(t); {
	case p == nil:
	case p.owner == t:
		return telemetry.DecisionSticky
	case p.warm == t:
		return telemetry.DecisionCache
	}
	return telemetry.DecisionStrategy
}

// remember learns from an answer that was good: where the session now lives, who holds its prompt cache, who issued the
// response. What carries a session's id without being the conversation follows its pin, and never makes or moves one.
func (x *exchange) remember(a *attempt) {
	if !x.generates() {
		return
	}
	now, t, pins := x.r.opts.now(), x.pinTarget(a.t), x.r.opts.pins
	if x.route.Wire.Name == wire.Responses && a.facts.ID != "" {
		pins.Issued(x.key, a.facts.ID, t)
	}
	rec := x.model.recs[x.route.Wire.Name]
	switch p := x.pinOf(a.t); {
	case x.confined == confinedByPath:
	case x.confined == confinedByID:
		rec.Affinity(x.ctx, telemetry.AffinityResponse, telemetry.ResultHit)
		x.settleAt(a, p, t, now)
	case x.continues:
		rec.Affinity(x.ctx, telemetry.AffinityResponse, telemetry.ResultNone)
		x.settleAt(a, p, t, now)
	case p == nil || p.warm == nil && !x.sticky:
		rec.Affinity(x.ctx, telemetry.AffinityNone, telemetry.ResultNone)
		x.settleAt(a, p, t, now)
	case x.session.Kind.Speaks():
		kind, result := p.outcome(a.t)
		rec.Affinity(x.ctx, kind, result)
		x.settleAt(a, p, t, now)
	}
}

// settleAt pins the session to the target that has served it, and tells if it has moved. A target that is for failover
// only keeps no session.
func (x *exchange) settleAt(a *attempt, p *pinned, t affinity.Target, now time.Time) {
	if p == nil || !x.session.Kind.Speaks() {
		return
	}
	pins := x.r.opts.pins
	if u := &a.facts.Usage; x.snap.cfg.Affinity.Cache && (u.CacheRead.N > 0 || u.CacheWrite.N > 0) {
		pins.Warmed(now, p.key, t)
	}
	if x.snap.cfg.Affinity.Mode == "off" && x.route.Wire.Name != wire.Responses || a.t.weight == 0 && a.t.of.weighted {
		return
	}
	if p.state == affinity.Pinned && p.target != t {
		x.moved(p, a.t)
	}
	pins.Bind(now, p.key, t)
	if x.model.draws {
		pins.Bind(now, x.homeKey(), affinity.Target{Upstream: t.Upstream, Model: a.t.of.cfg.ID})
	}
}

// outcome says in the words of telemetry what became of a session's pin when t served it.
func (p *pinned) outcome(t *target) (kind, result string) {
	switch {
	case p.state == affinity.Pinned && p.owner == t:
		return telemetry.AffinitySession, telemetry.ResultHit
	case p.state == affinity.Pinned:
		return telemetry.AffinitySession, telemetry.ResultMoved
	case p.warm == t:
		return telemetry.AffinityCache, telemetry.ResultHit
	case p.state == affinity.Expired:
		return telemetry.AffinitySession, telemetry.ResultExpired
	}
	return telemetry.AffinitySession, telemetry.ResultNew
}

// moved tells that a session lives at another target from now on, and why it left its owner.
func (x *exchange) moved(p *pinned, to *target) {
	reason := "gone" // from the configuration, or from what this caller may use
	switch {
	case p.lost != "":
		reason = p.lost
	case p.block.Blocked():
		reason = skipReason(p.block)
	case p.owner != nil:
		reason = telemetry.SkipFull // it was full, or another was finding out, when its turn came
	}
	x.r.tel.Event(x.ctx, x.span, telemetry.EventMoved, attribute.String(telemetry.AttrFrom, p.target.Upstream),
		attribute.String(telemetry.AttrTo, to.cfg.Name), attribute.String(telemetry.AttrReason, reason))
}

// pinned counts what is remembered, for telemetry.
func (r *Router) pinned() telemetry.Entries {
	c := r.opts.pins.Count()
	return telemetry.Entries{Sessions: c.Sessions, Caches: c.Caches, Responses: c.Responses}
}
