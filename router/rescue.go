package router

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// held is a target that could not be tried when its turn came.
type held struct {
	t     *target
	block health.Block
}

// rescue picks the target to try although all of them are out: the one that recovers first. By default only the
// router's own caution is overruled, never what a provider or an operator asked for: one cut stream would otherwise be
// an outage of 30 s for whoever has a single upstream.
func (x *exchange) rescue() (*target, health.Force) {
	mode := x.snap.cfg.Cooling.NoneEligible
	if x.confined.resolute() || mode != "auto" && mode != "soonest" {
		return nil, health.NoForce
	}
	force := health.PastOwn
	if mode == "soonest" {
		force = health.PastAll
	}
	best := -1
	for i, h := range x.held {
		if b := h.block; force == health.PastOwn && !b.OwnPolicy() || b.Manual || b.Full || b.Disabled {
			continue
		}
		if best < 0 || sooner(h.block.Until, x.held[best].block.Until) {
			best = i
		}
	}
	if best < 0 {
		return nil, health.NoForce
	}
	return x.held[best].t, force
}

// probed are the targets that were not tried, or are not going to be, only because another request is finding out about
// them. Their answer is moments away, so a client is not told instead that the key of one account is bad or its money
// spent: agents take that for their own and stop.
func (x *exchange) probed(rest []*target) (list []held) {
	for _, h := range x.held {
		if h.block.Probing {
			list = append(list, h)
		}
	}
	now := x.r.opts.now()
	for _, t := range rest {
		if b := x.r.ledger.Check(now, x.ledgerTarget(t), x.conversation); b.Probing {
			list = append(list, held{t, b})
		}
	}
	return list
}

// sooner compares times of which the zero one is not known.
func sooner(a, b time.Time) bool { return !a.IsZero() && (b.IsZero() || a.Before(b)) }

// lift ends the coolings of the targets that were passed by and of those in rest, where the configuration wants no
// target to be lost to a cooling alone. It reports whether that makes another try worth it.
func (x *exchange) lift(rest []*target) bool {
	if x.snap.cfg.Cooling.NoneEligible != "clear" || x.confined.resolute() {
		return false
	}
	var out []health.Target
	for _, h := range x.held {
		out = append(out, x.ledgerTarget(h.t))
	}
	for _, t := range rest {
		out = append(out, x.ledgerTarget(t))
	}
	if x.r.ledger.Clear(x.r.opts.now(), out, x.conversation) == 0 {
		return false
	}
	x.lifted = true
	return true
}

// none answers a request for which nothing could be tried: 429 when only limits hold the pool, else 503.
func (x *exchange) none(out []held) error {
	now := x.r.opts.now()
	x.outcome.decision = telemetry.DecisionNone
	e := &Error{Kind: "router_unavailable", Status: http.StatusServiceUnavailable, class: telemetry.ClassNoneEligible}
	limits, manual, full := 0, 0, 0
	var soonest time.Time
	for _, h := range out {
		b := h.block
		switch {
		case b.Full:
			full++
		case b.Manual:
			manual++
		case b.Reason == health.RateLimit || b.Reason == health.Quota:
			limits++
		}
		until := b.Until
		switch {
		case b.Probing || b.Full:
			until = now.Add(time.Second)
		case b.Ejected && until.IsZero() && h.t.cfg.HealthCheck != nil:
			until = now.Add(h.t.cfg.HealthCheck.Interval) // the next check may let it in
		}
		if sooner(until, soonest) {
			soonest = until
		}
	}
	e.retryAt = soonest
	switch n := len(out); {
	case n == 0:
		return x.noCandidate()
	case full == n:
		if x.confined != unconfined {
			return saturated("the target that this request is bound to is busy")
		}
		return saturated("every target of this model is busy")
	case x.confined == confinedByPath:
		e.Msg = fmt.Sprintf("pinned backend %q is unhealthy: %s", clip(x.named, 64), tally(out, scopeAndReason))
	case x.confined.resolute():
		e.Msg = "the target that this session belongs to may not be tried now: " + tally(out, scopeAndReason)
	case x.snap.cfg.Profile == "switchblade":
		e.Msg = likeSwitchblade(out, manual)
	case limits == n:
		e.Kind, e.Status = "rate_limited", http.StatusTooManyRequests
		e.Msg = "every target of this model is over its limit: " + tally(out, scopeAndReason)
	case manual == n:
		e.Msg = "every target of this model was cooled by hand (" + tally(out, scopeAndReason) + "): uncool to restore"
	default:
		e.Msg = "no target of this model may be tried now: " + tally(out, scopeAndReason)
	}
	if !soonest.IsZero() {
		e.Msg += "; the next may be at " + soonest.UTC().Format(time.RFC3339)
	}
	return e
}

// tally counts what is out by the names that name gives, without naming anybody.
func tally(out []held, name func(health.Block) string) string {
	var names []string
	counts := map[string]int{}
	for _, h := range out {
		name := name(h.block)
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
	}
	for i, name := range names {
		names[i] = plural(counts[name], name)
	}
	return strings.Join(names, ", ")
}

// scopeAndReason names a block in the router's own words.
func scopeAndReason(b health.Block) string {
	if b.Full {
		return "target " + skipReason(b)
	}
	return string(b.Scope) + " " + skipReason(b)
}

// noCandidate answers a request for a model of which no target is for it.
func (x *exchange) noCandidate() error {
	why := map[string]int{}
	for _, t := range x.model.targets {
		if x.upstream == "" || t.cfg.Name == x.upstream {
			why[x.bars(t)]++
		}
	}
	e := &Error{Kind: "no_targets", Status: http.StatusServiceUnavailable, class: telemetry.ClassNoneEligible}
	switch {
	case len(why) == 0:
		e.Kind, e.Status, e.Msg = "unknown_model", http.StatusNotFound, "this model has no target at the upstream that the path names"
		e.class = telemetry.ClassModelUnknown
	case why[outGroup]+why[outClient] > 0:
		e.Kind, e.Status, e.Msg = "not_allowed", http.StatusForbidden, "no target of this model is open to this key and this client"
		e.class = callerInvalid
	default:
		e.Msg = "every target of this model is switched off"
	}
	return e
}

// likeSwitchblade says that nothing may be tried with the two openings that Switchblade's operators look for, and counts
// by scope in its words.
func likeSwitchblade(out []held, manual int) string {
	if manual == len(out) {
		return "all available backends are cooling (" + plural(manual, "manually cooled") + " - uncool to restore)"
	}
	return "no provider is currently eligible for this request (" + tally(out, scopeLikeSwitchblade) + ")"
}

func scopeLikeSwitchblade(b health.Block) string {
	scope := "account"
	if b.Scope == health.ScopeTarget {
		scope = "route"
	}
	switch {
	case b.Manual:
		return "manually cooled"
	case b.Scope == health.ScopeSession:
		return "excluded for this session"
	case b.Probing:
		return scope + " probing"
	case b.Full:
		return scope + " full"
	}
	return scope + " cooling"
}
