package health

import "time"

// family is a kind of trouble with a streak of its own, so that a row of server errors does not lengthen the next rate
// limit.
type family uint8

const (
	serverFamily family = iota
	limitFamily
	quotaFamily
	authFamily
	billingFamily
	modelFamily
	families
)

func familyOf(r Reason) family {
	switch r {
	case RateLimit:
		return limitFamily
	case Quota:
		return quotaFamily
	case Auth:
		return authFamily
	case Billing:
		return billingFamily
	case ModelMissing:
		return modelFamily
	}
	return serverFamily
}

// rest is the condition of one account or one target.
//
// Trouble begins with a cooling and ends with a success, not with the timer: until then one request at a time may find
// out, and holds the probe lease meanwhile. All others count as the same outage: what they come back with does not
// lengthen the streak, so that fifty requests that fail together are one failure and a client that keeps calling does
// not prolong a cooling. Only a longer hint, or trouble of another kind that lasts longer, is heard from them.
type rest struct {
	reason  Reason
	source  Source
	since   time.Time // zero = no trouble
	until   time.Time
	probed  time.Time // when the last probe went out
	serial  uint64    // of the cooling: only attempts begun later can end the trouble
	streaks [families]int
	probe   *Lease // who is finding out
	hold    hold   // survives everything but the operator
}

// hold is an operator's order to leave something alone.
type hold struct {
	since, until time.Time // until is zero for an order without an end
}

func (h hold) on(now time.Time) bool {
	return !h.since.IsZero() && (h.until.IsZero() || now.Before(h.until))
}

// calm reports whether nobody ever had a reason to stay away, or all is over.
func (r *rest) calm() bool { return r.since.IsZero() && r.hold.since.IsZero() }

func (r *rest) troubled() bool { return !r.since.IsZero() }

// own reports whether the trouble is one that nobody but the router's own policy made a rest of.
func (r *rest) own() bool {
	switch r.reason {
	case ServerError, Timeout, Connection, Stream, Unusable, ModelMissing:
		return true
	case Overloaded:
		return r.source == SourcePolicy
	}
	return false
}

// opens is when the next request may find out: at the end, or at the next turn of a cooling that is too long to be
// believed.
func (r *rest) opens(p *Policy) time.Time {
	if p.ProbeEvery <= 0 {
		return r.until
	}
	turn := r.since
	if r.probed.After(turn) {
		turn = r.probed
	}
	if turn = turn.Add(p.ProbeEvery); turn.Before(r.until) {
		return turn
	}
	return r.until
}

// block is why the trouble keeps a request away.
func (r *rest) block(p *Policy, now time.Time, scope Scope) Block {
	if !r.troubled() {
		return Block{}
	}
	b := Block{Scope: scope, Reason: r.reason, Source: r.source, own: r.own()}
	if r.probe != nil {
		b.Probing = true
		return b
	}
	if b.Until = r.opens(p); !now.Before(b.Until) {
		return Block{}
	}
	return b
}

// lend gives the probe lease to an attempt if the time for it has come.
func (r *rest) lend(p *Policy, now time.Time, e *Lease) bool {
	if !r.troubled() || r.probe != nil || now.Before(r.opens(p)) {
		return false
	}
	r.probe, r.probed, e.Probe = e, now, true
	return true
}

// takeBack ends a probe. One that found out nothing does not use up the turn of a long cooling.
func (r *rest) takeBack(e *Lease) {
	if r.probe != e {
		return
	}
	r.probe = nil
	if !e.booked {
		r.probed = time.Time{}
	}
}

// hears reports whether an attempt may say that the trouble is over. One begun before the cooling says nothing about it.
func (r *rest) hears(e *Lease) bool { return !r.troubled() || r.probe == e || e.serial > r.serial }

// heal ends all trouble and forgets the streaks.
func (r *rest) heal() { *r = rest{hold: r.hold} }

// clear ends the trouble but keeps the streaks, so that what flaps still rests for longer each time.
func (r *rest) clear() { *r = rest{hold: r.hold, streaks: r.streaks} }

// lift ends a cooling of one of the given kinds, and forgets their streaks.
func (r *rest) lift(kinds ...family) (lifted bool) {
	for _, k := range kinds {
		if r.streaks[k] = 0; r.troubled() && familyOf(r.reason) == k {
			r.clear()
			lifted = true
		}
	}
	return lifted
}

// fails counts the failures since the last success.
func (r *rest) fails() (n int) {
	for _, s := range r.streaks {
		n += s
	}
	return n
}

// book takes a failure in and returns the length of the cooling that follows, 0 if none does.
func (r *rest) book(p *Policy, now time.Time, f *Failure, e *Lease) time.Duration {
	kind := familyOf(f.Reason)
	outside := r.troubled() && r.probe != e
	same := outside && familyOf(r.reason) == kind
	n := r.streaks[kind]
	if !same {
		n++
	}
	d, source := p.length(f, n)
	until := now.Add(d)
	if outside && (!until.After(r.until) || same && source == SourcePolicy) {
		return 0
	}
	r.streaks[kind] = n
	if d <= 0 {
		return 0
	}
	e.account.serial++
	r.reason, r.source, r.since, r.until, r.probed, r.serial = f.Reason, source, now, until, time.Time{}, e.account.serial
	if r.probe == e {
		r.probe = nil
	}
	return d
}

// scope is what a failure makes rest. If the policy fixed it, there is nothing to conclude from several failures.
func (p *Policy) scope(f *Failure) (s Scope, fixed bool) {
	switch {
	case f.Scope == ScopeSession:
		return ScopeSession, true
	case f.Reason == RateLimit && p.RateLimitScope != "":
		return p.RateLimitScope, true
	case p.Scope != "":
		return p.Scope, true
	}
	return f.Scope, false
}

// length is how long a failure, the n-th of its kind in a row, makes its scope rest.
func (p *Policy) length(f *Failure, n int) (time.Duration, Source) {
	hint := f.Hint.After
	if p.HintCap > 0 && f.Reason != Quota {
		hint = min(hint, p.HintCap)
	}
	if hint > 0 && (f.Reason == RateLimit || f.Reason == Quota || f.Reason == Overloaded && n >= p.Server.After) {
		return hint, f.Hint.Source
	}
	switch f.Reason {
	case RateLimit:
		return p.RateLimit.delay(n), SourcePolicy
	case Quota:
		return p.QuotaDefault, SourcePolicy
	case Auth:
		return p.Auth.delay(n), SourcePolicy
	case Billing:
		return p.Billing.delay(n), SourcePolicy
	case ModelMissing:
		return p.ModelMissing, SourcePolicy
	case Rejected:
		return p.Exclusion, SourcePolicy
	}
	return p.Server.delay(n), SourcePolicy
}
