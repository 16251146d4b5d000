package health

import (
	"maps"
	"slices"
	"time"
)

// LastError is the newest failure of an account or a target.
type LastError struct {
	Type   string // telemetry's error.type
	Status int    // HTTP status, 0 if there was no response
	At     time.Time
	Reason Reason
}

// UpstreamView is what an account looks like from outside. Until is zero and Remaining 0 where nothing is waited for,
// or where only an operator will end it (Manual). An ejected account shows since when, beside Reason and Until of a cooling
// that it may have as well.
type UpstreamView struct {
	Name          string
	State         string
	Reason        Reason
	Since, Until  time.Time
	Remaining     time.Duration
	Manual        bool
	InFlight      int
	ProbeInFlight bool
	LastError     *LastError
	Fails         int // failures of the account since the last success
	Targets       []TargetView
}

// TargetView is what one model of an account looks like. The state is the target's own: that its account is out of use
// shows on the account only.
type TargetView struct {
	Model         string
	State         string
	Reason        Reason
	Since, Until  time.Time
	Remaining     time.Duration
	Manual        bool
	Failures      int // since the last success
	ProbeInFlight bool
	LastError     *LastError
}

// View describes all accounts in the order of the configuration, each with the configured targets in their order and
// then, by name, those that only requests named and that failed.
func (l *Ledger) View(now time.Time) []UpstreamView {
	p, order := l.policy.Load(), l.accounts.Load().order
	out := make([]UpstreamView, 0, len(order))
	for _, a := range order {
		out = append(out, a.view(p, now))
	}
	return out
}

func (a *account) view(p *Policy, now time.Time) UpstreamView {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.rest.view(now)
	v := UpstreamView{
		Name: a.name, State: t.State, Reason: t.Reason, Since: t.Since, Until: t.Until, Remaining: t.Remaining, Manual: t.Manual,
		InFlight: a.inFlight, ProbeInFlight: t.ProbeInFlight, Fails: t.Failures, Targets: make([]TargetView, 0, len(a.targets)),
	}
	if a.lastError != nil {
		v.LastError = new(*a.lastError)
	}
	switch {
	case !a.enabled:
		v.State = StateDisabled
	case !v.Manual && !a.checks.since.IsZero():
		v.State, v.Since, v.Reason = StateEjected, a.checks.since, Checks
	}
	strange := slices.Sorted(maps.Keys(a.targets))
	strange = slices.DeleteFunc(strange, func(model string) bool { return slices.Contains(a.declared, model) })
	for _, model := range slices.Concat(a.declared, strange) {
		t := a.targets[model]
		w := t.view(now)
		if w.Model = model; t.lastError != nil {
			w.LastError = new(*t.lastError)
		}
		v.Targets = append(v.Targets, w)
	}
	return v
}

func (r *rest) view(now time.Time) TargetView {
	v := TargetView{State: StateHealthy, Failures: r.fails(), ProbeInFlight: r.probe != nil}
	switch {
	case r.hold.on(now):
		v.State, v.Reason, v.Manual, v.Since, v.Until = StateCooling, Operator, true, r.hold.since, r.hold.until
	case r.troubled():
		v.State, v.Reason, v.Since, v.Until = StateCooling, r.reason, r.since, r.until
		if r.probe != nil || !now.Before(r.until) {
			v.State = StateProbing
		}
	}
	if v.Until.After(now) {
		v.Remaining = v.Until.Sub(now)
	}
	return v
}
