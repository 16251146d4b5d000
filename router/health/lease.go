package health

import "time"

// Lease is one attempt in flight. Its first Success or Fail counts, and Release must always follow.
type Lease struct {
	Probe bool // this attempt finds out whether a cooling is over

	ledger   *Ledger
	account  *account
	model    string
	serial   uint64
	booked   bool
	released bool
}

// Admitted books that the answer has begun to come: the account is let in again, so a limit, quota, auth or billing
// cooling is over and others need not wait for the end of a long stream. Only Success tells that the target is well.
func (e *Lease) Admitted(time.Time) {
	e.account.mu.Lock()
	defer e.account.mu.Unlock()
	for _, r := range e.concerned() {
		if r != nil && r.hears(e) {
			r.lift(limitFamily, quotaFamily, authFamily, billingFamily)
		}
	}
}

// Success books an answer that was usable to its end: the trouble of the target and of its account is over, but for
// coolings that began after this attempt did and for manual holds.
func (e *Lease) Success(time.Time) {
	e.account.mu.Lock()
	defer e.account.mu.Unlock()
	if e.booked {
		return
	}
	e.booked = true
	for _, r := range e.concerned() {
		if r != nil && r.hears(e) {
			r.heal()
		}
	}
}

// concerned are the conditions that the attempt says something about; the second is nil if nothing is known.
func (e *Lease) concerned() [2]*rest {
	both := [2]*rest{&e.account.rest}
	if t := e.account.targets[e.model]; t != nil {
		both[1] = &t.rest
	}
	return both
}

// Release gives back the place and, if the attempt did not find out anything, the probe lease. It may be called twice.
func (e *Lease) Release() {
	e.account.mu.Lock()
	defer e.account.mu.Unlock()
	if e.released {
		return
	}
	e.released = true
	e.account.inFlight--
	for _, r := range e.concerned() {
		if r != nil {
			r.takeBack(e)
		}
	}
}

// Fail books a failure and returns the coolings that begin with it: the target's, the account's, or both.
func (e *Lease) Fail(now time.Time, f Failure) []Cooling {
	p, a := e.ledger.policy.Load(), e.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.booked {
		return nil
	}
	e.booked = true
	now = wall(now)
	a.lastError = &LastError{Type: f.ErrorType, Status: f.Status, At: now, Reason: f.Reason}
	if e.serial <= a.rekeyed {
		return nil // it was about another key or URL
	}
	scope, fixed := p.scope(&f)
	if t := a.targets[e.model]; t != nil {
		t.lastError = a.lastError
	}
	switch scope {
	case ScopeSession:
		return e.exclude(p, now, &f)
	case ScopeAccount:
		return e.cool(nil, p, now, &f, ScopeAccount)
	}
	t := a.target(e.model)
	t.lastError = a.lastError
	out := e.cool(nil, p, now, &f, ScopeTarget)
	if fixed {
		return out
	}
	if a.shared(p, now, &f, t) || a.rest.probe == e && familyOf(a.rest.reason) == familyOf(f.Reason) {
		out = e.cool(out, p, now, &f, ScopeAccount)
	}
	return out
}

// cool books a failure with one scope.
func (e *Lease) cool(out []Cooling, p *Policy, now time.Time, f *Failure, scope Scope) []Cooling {
	r, model := &e.account.rest, ""
	if scope == ScopeTarget {
		r, model = &e.account.targets[e.model].rest, e.model
	}
	d := r.book(p, now, f, e)
	if d <= 0 {
		return out
	}
	return append(out, Cooling{
		Scope: scope, Upstream: e.account.name, Model: model, Reason: r.reason, Source: r.source, Duration: d, Until: r.until,
		Streak: r.streaks[familyOf(f.Reason)],
	})
}

// shared reports whether a failure of one target, soon after the same of another, tells of the whole account. That the
// other has answered well in between does not matter, and one target that fails twice does not either.
func (a *account) shared(p *Policy, now time.Time, f *Failure, t *target) bool {
	at := func(t *target) *time.Time { return &t.failed }
	switch f.Reason {
	case ServerError, Timeout, Connection:
	case RateLimit:
		at = func(t *target) *time.Time { return &t.limited }
	default:
		return false
	}
	*at(t) = now
	for _, other := range a.targets {
		if when := *at(other); other != t && !when.IsZero() && now.Sub(when) < p.OutageWindow {
			return true
		}
	}
	return false
}

// exclude makes one session leave the target alone. Nobody is to blame, so nothing else changes.
func (e *Lease) exclude(p *Policy, now time.Time, f *Failure) []Cooling {
	d, source := p.length(f, 1)
	if d <= 0 || f.Session == "" {
		return nil
	}
	excluded := e.account.excluded
	if len(excluded) >= maxExcluded {
		for k, until := range excluded {
			if !now.Before(until) {
				delete(excluded, k)
			}
		}
		if len(excluded) >= maxExcluded {
			return nil // a crowd of sessions is rejected: forgetting one costs a request, not more
		}
	}
	excluded[exclusion{f.Session, e.model}] = now.Add(d)
	return []Cooling{{
		Scope: ScopeSession, Upstream: e.account.name, Model: e.model, Reason: f.Reason, Source: source, Duration: d, Until: now.Add(d), Streak: 1,
	}}
}
