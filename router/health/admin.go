package health

import (
	"slices"
	"time"
)

// Cool takes an account (model empty) or one target out of use, for d or, with d <= 0, until Uncool or Reset. It beats
// everything, and no success ends it. A model has to be configured or known from a failure, else the error is ErrUnknown.
func (l *Ledger) Cool(now time.Time, upstream, model string, d time.Duration) error {
	return l.with(upstream, model, func(a *account, r *rest) {
		r.hold = hold{since: wall(now)}
		if d > 0 {
			r.hold.until = r.hold.since.Add(d)
		}
	})
}

// Uncool ends every cooling, manual or not, of an account with all its targets, exclusions and its ejection (model empty)
// or of one target, and returns how many there were. Their streaks are forgotten.
func (l *Ledger) Uncool(now time.Time, upstream, model string) (lifted int, err error) {
	err = l.with(upstream, model, func(a *account, r *rest) {
		if model == "" {
			lifted = a.clear(now).sum()
			return
		}
		if r.troubled() || r.hold.on(now) {
			lifted = 1
		}
		*r = rest{}
	})
	return lifted, err
}

// with calls f under the lock of an account, with the condition of the account or of one of its targets.
func (l *Ledger) with(upstream, model string, f func(*account, *rest)) error {
	a := l.accounts.Load().byName[upstream]
	if a == nil {
		return ErrUnknown
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &a.rest
	if model != "" {
		t := a.targets[model]
		if t == nil {
			return ErrUnknown
		}
		r = &t.rest
	}
	f(a, r)
	return nil
}

// Lifted counts what Reset lifted. A scope that is cooling and held by hand counts in both.
type Lifted struct{ Accounts, Targets, Sessions, Manual, Ejected int }

func (n Lifted) sum() int { return n.Accounts + n.Targets + n.Sessions + n.Manual + n.Ejected }

// Reset lifts everything that can hold a request off: coolings, streaks, exclusions, manual holds, ejections, and the memory
// of which targets failed lately. What is in flight stays counted.
func (l *Ledger) Reset(now time.Time) (all Lifted) {
	for _, a := range l.accounts.Load().order {
		a.mu.Lock()
		n := a.clear(now)
		a.mu.Unlock()
		all.Accounts += n.Accounts
		all.Targets += n.Targets
		all.Sessions += n.Sessions
		all.Manual += n.Manual
		all.Ejected += n.Ejected
	}
	return all
}

func (a *account) clear(now time.Time) (n Lifted) {
	if a.rest.troubled() {
		n.Accounts++
	}
	if a.rest.hold.on(now) {
		n.Manual++
	}
	a.rest = rest{}
	if a.checks.restore() {
		n.Ejected++
	}
	for model, t := range a.targets {
		if t.troubled() {
			n.Targets++
		}
		if t.hold.on(now) {
			n.Manual++
		}
		if *t = (target{}); !slices.Contains(a.declared, model) {
			delete(a.targets, model)
		}
	}
	for _, until := range a.excluded {
		if now.Before(until) {
			n.Sessions++
		}
	}
	clear(a.excluded)
	return n
}

// Clear lifts what keeps a session away from targets and returns how much that was: coolings and probes of the targets and
// of their accounts, the session's exclusions, and ejections. Streaks stay. A target that an operator holds or that is switched
// off keeps all of its own, since it would not be open after all; ceilings stay, too.
func (l *Ledger) Clear(now time.Time, targets []Target, session string) (lifted int) {
	p, known := l.policy.Load(), l.accounts.Load()
	for _, t := range targets {
		if a := known.byName[t.Upstream]; a != nil {
			lifted += a.open(p, now, t.Model, session)
		}
	}
	return lifted
}

func (a *account) open(p *Policy, now time.Time, model, session string) (lifted int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.targets[model]
	if !a.enabled || a.held(now, t).Blocked() {
		return 0
	}
	if a.checks.restore() {
		lifted++
	}
	if a.rest.block(p, now, ScopeAccount).Blocked() {
		a.rest.clear()
		lifted++
	}
	if t != nil && t.block(p, now, ScopeTarget).Blocked() {
		t.clear()
		lifted++
	}
	if x := (exclusion{session, model}); a.exclusion(now, x).Blocked() {
		delete(a.excluded, x)
		lifted++
	}
	return lifted
}
