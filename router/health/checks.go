package health

import "time"

// checks is what active checks have found out about an account.
type checks struct {
	on     bool
	failed int       // in a row
	since  time.Time // of the ejection, zero if there is none
}

// Checked books what an active check of an upstream found. The failures-th failure in a row (at least the first) ejects the
// account, one success restores it. A cooling stays: it is about real requests, and those end it. changed is true if the
// account was ejected or restored. What comes in after a reload that switched the checks off counts no more.
func (l *Ledger) Checked(now time.Time, upstream string, ok bool, failures int) (changed bool) {
	a := l.accounts.Load().byName[upstream]
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.checks
	switch {
	case !c.on:
		return false
	case ok:
		return c.restore()
	}
	if c.failed++; c.failed < failures || !c.since.IsZero() {
		return false
	}
	c.since = wall(now)
	return true
}

// restore ends an ejection and reports whether there was one. It takes as many failures as ever to bring it about again.
func (c *checks) restore() (was bool) {
	was = !c.since.IsZero()
	*c = checks{on: c.on}
	return was
}

func (c *checks) block() Block {
	if c.since.IsZero() {
		return Block{}
	}
	return Block{Scope: ScopeAccount, Ejected: true, own: true}
}
