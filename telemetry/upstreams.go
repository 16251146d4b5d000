package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// UpstreamRecorder records what happens to one account. It is safe for concurrent use and allocates nothing once every
// combination has been seen.
type UpstreamRecorder struct {
	t        *Telemetry
	upstream labels
	coolings *sets[coolingKey, coolingLabels]
}

type coolingKey struct{ scope, reason, source string }

type coolingLabels struct{ coolings, duration labels }

// Upstream makes the recorder of one account. Keep it: sets are built once per recorder.
func (t *Telemetry) Upstream(name string) *UpstreamRecorder {
	upstream := attribute.String(AttrUpstream, name)
	return &UpstreamRecorder{
		t: t, upstream: newLabels(upstream),
		coolings: newSets(func(k coolingKey) coolingKey {
			return coolingKey{scopes.close(k.scope), coolReasons.close(k.reason), sources.close(k.source)}
		}, func(k coolingKey) coolingLabels {
			reason := attribute.String(AttrReason, k.reason)
			return coolingLabels{
				coolings: newLabels(upstream, attribute.String(AttrScope, k.scope), reason, attribute.String(AttrSource, k.source)),
				duration: newLabels(upstream, reason),
			}
		}),
	}
}

// Active counts dispatches in flight: 1 when one begins, -1 when it has ended.
func (r *UpstreamRecorder) Active(ctx context.Context, delta int64) {
	r.t.active.Add(ctx, delta, r.upstream.add...)
}

// Cooling counts one cooling that began or was prolonged; d ≤ 0 means until someone lifts it, and has no length to record.
func (r *UpstreamRecorder) Cooling(ctx context.Context, scope, reason, source string, d time.Duration) {
	s := r.coolings.get(coolingKey{scope, reason, source})
	r.t.coolings.Add(ctx, 1, s.coolings.add...)
	if d > 0 {
		r.t.coolingDuration.Record(ctx, d.Seconds(), s.duration.record...)
	}
}

// alertedCoolings are the series that the alerts on credentials, billing and cooling upstreams read.
func alertedCoolings() []coolingKey {
	return []coolingKey{
		{ScopeAccount, ReasonAuth, SourcePolicy},
		{ScopeAccount, ReasonBilling, SourcePolicy},
		{ScopeAccount, ReasonQuota, SourcePolicy},
		{ScopeAccount, ReasonQuota, SourceHeaders},
		{ScopeAccount, ReasonRateLimit, SourceRetryAfter},
		{ScopeTarget, ReasonRateLimit, SourceRetryAfter},
		{ScopeTarget, ReasonRateLimit, SourcePolicy},
		{ScopeTarget, ReasonOverloaded, SourcePolicy},
		{ScopeTarget, ReasonServerError, SourcePolicy},
		{ScopeTarget, ReasonTimeout, SourcePolicy},
	}
}

// Zero makes the series that an alert reads exist. Call it once a configuration.
func (r *UpstreamRecorder) Zero(ctx context.Context) {
	r.Active(ctx, 0)
	for _, s := range r.coolings.all(alertedCoolings()) {
		r.t.coolings.Add(ctx, 0, s.coolings.add...)
	}
}

// Rest says how long something still cools. The zero value does not cool.
type Rest struct {
	Remaining time.Duration // below 0 counts as 0
	Manual    bool          // until someone lifts it
}

// UpstreamState is what one account looks like at a moment. Only names that the configuration holds belong into it.
type UpstreamState struct {
	Upstream string
	Account  Rest          // of the account as a whole
	Quotas   []QuotaState  // those that the provider's headers have told
	Targets  []TargetState // each declared target
}

// QuotaState is how far one quota is used up.
type QuotaState struct {
	Kind        string  // one of the Quota values
	Utilization float64 // 0 to 1
}

// TargetState is what one target looks like at a moment.
type TargetState struct {
	Model   string // the target's own model
	State   string // one of the State values, those that its account puts it into included
	Cooling Rest   // its own, without its account's
}

// Observe has states asked for all upstreams and entries for what affinity holds whenever metrics are collected: often, and
// from several goroutines. They must not block. Upstreams and targets that states no longer returns are no longer reported;
// with nil for entries, none are.
func (t *Telemetry) Observe(states func() []UpstreamState, entries func() Entries) (unregister func(), err error) {
	w := newWatcher(t)
	reg, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, u := range states() {
			w.observe(o, u)
		}
		if entries != nil {
			w.observeEntries(o, entries())
		}
		return nil
	}, t.targetState, t.coolingRemaining, t.quota, t.affinityEntries)
	if err != nil {
		return nil, err
	}
	return func() { _ = reg.Unregister() }, nil
}

// watcher keeps the sets of observed series, so that collecting does not build them anew.
type watcher struct {
	t       *Telemetry
	states  *sets[[3]string, labels] // upstream, model, state
	rests   *sets[[3]string, labels] // upstream, model, scope
	quotas  *sets[[2]string, labels] // upstream, kind
	entries entryLabels
}

func newWatcher(t *Telemetry) *watcher {
	three := func(last string) *sets[[3]string, labels] {
		return newSets(func(k [3]string) [3]string { return k }, func(k [3]string) labels {
			return newLabels(attribute.String(AttrUpstream, k[0]), attribute.String(AttrRequestModel, k[1]), attribute.String(last, k[2]))
		})
	}
	return &watcher{
		t: t, states: three(AttrState), rests: three(AttrScope), entries: newEntryLabels(),
		quotas: newSets(func(k [2]string) [2]string { return [2]string{k[0], quotas.close(k[1])} }, func(k [2]string) labels {
			return newLabels(attribute.String(AttrUpstream, k[0]), attribute.String(AttrKind, k[1]))
		}),
	}
}

func (w *watcher) observe(o metric.Observer, u UpstreamState) {
	o.ObserveFloat64(w.t.coolingRemaining, u.Account.seconds(), w.rests.get([3]string{u.Upstream, "", ScopeAccount}).observe...)
	for _, q := range u.Quotas {
		o.ObserveFloat64(w.t.quota, q.Utilization, w.quotas.get([2]string{u.Upstream, q.Kind}).observe...)
	}
	for _, target := range u.Targets {
		o.ObserveFloat64(w.t.coolingRemaining, target.Cooling.seconds(), w.rests.get([3]string{u.Upstream, target.Model, ScopeTarget}).observe...)
		for _, state := range states {
			var is int64
			if state == target.State {
				is = 1
			}
			o.ObserveInt64(w.t.targetState, is, w.states.get([3]string{u.Upstream, target.Model, state}).observe...)
		}
	}
}

// seconds is the value of cooling.remaining.
func (r Rest) seconds() float64 {
	if r.Manual {
		return -1
	}
	return max(0, r.Remaining.Seconds())
}
