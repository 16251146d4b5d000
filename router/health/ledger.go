package health

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what is remembered without the configuration naming it.
const (
	maxStrange  = 1000  // models of an account that only requests name
	maxExcluded = 10000 // exclusions of an account
)

// Ledger holds the health of all accounts. It is safe for concurrent use; accounts do not wait for each other.
type Ledger struct {
	policy   atomic.Pointer[Policy]
	accounts atomic.Pointer[registry]
	config   sync.Mutex // held by Configure
}

// registry is the set of accounts; it is replaced, never changed.
type registry struct {
	byName map[string]*account
	order  []*account
}

// account is one upstream.
type account struct {
	name string

	mu          sync.Mutex
	enabled     bool
	ceiling     int
	fingerprint string
	declared    []string
	inFlight    int
	serial      uint64 // of attempts and coolings, in the order in which they began
	rest        rest
	targets     map[string]*target // the declared ones, and strange ones that failed
	excluded    map[exclusion]time.Time
	lastError   *LastError
	checks      checks
	rekeyed     uint64 // serial of the last change of the fingerprint
}

// target is one model at an account.
type target struct {
	rest
	failed    time.Time // newest failure that may be the whole account's
	limited   time.Time // newest rate limit
	lastError *LastError
}

// exclusion is a session that leaves a model alone.
type exclusion struct{ session, model string }

// New returns a ledger that knows no account yet.
func New(p Policy) *Ledger {
	l := &Ledger{}
	l.policy.Store(&p)
	l.accounts.Store(&registry{})
	return l
}

// Configure takes a configuration over. All that is known of accounts and targets that are still there stays; a changed
// fingerprint ends what was about the old key or URL.
func (l *Ledger) Configure(p Policy, upstreams []Upstream) {
	l.config.Lock()
	defer l.config.Unlock()
	old := l.accounts.Load()
	next := &registry{byName: make(map[string]*account, len(upstreams))}
	for i := range upstreams {
		u := &upstreams[i]
		a := old.byName[u.Name]
		if a == nil {
			a = &account{name: u.Name, fingerprint: u.Fingerprint, targets: map[string]*target{}, excluded: map[exclusion]time.Time{}}
		}
		a.configure(u)
		next.byName[u.Name] = a
		next.order = append(next.order, a)
	}
	l.policy.Store(&p)
	l.accounts.Store(next)
}

func (a *account) configure(u *Upstream) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.enabled, a.ceiling = u.Enabled, u.MaxConcurrent
	for _, model := range a.declared {
		if !slices.Contains(u.Targets, model) {
			delete(a.targets, model)
		}
	}
	if !u.Checked {
		a.checks = checks{}
	}
	a.checks.on = u.Checked
	a.declared = slices.Clone(u.Targets)
	for _, model := range a.declared {
		if a.targets[model] == nil {
			a.targets[model] = &target{}
		}
	}
	if a.fingerprint == u.Fingerprint {
		return
	}
	a.fingerprint, a.rekeyed = u.Fingerprint, a.serial
	a.checks.restore()
	a.rest.lift(authFamily, billingFamily, quotaFamily)
	for _, t := range a.targets {
		t.lift(authFamily, billingFamily, quotaFamily)
	}
}

// Check tells whether a request of a session may try a target now. It changes nothing.
func (l *Ledger) Check(now time.Time, t Target, session string) Block {
	a := l.accounts.Load().byName[t.Upstream]
	if a == nil {
		return Block{Scope: ScopeAccount, Disabled: true}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.check(l.policy.Load(), now, t.Model, session, NoForce)
}

// Begin starts an attempt: it checks once more, counts it in flight, and takes the probe lease of what has just ended
// its cooling. What force goes past neither ends nor lends its probe lease. Without a lease the Block says why.
func (l *Ledger) Begin(now time.Time, t Target, session string, force Force) (*Lease, Block) {
	a := l.accounts.Load().byName[t.Upstream]
	if a == nil {
		return nil, Block{Scope: ScopeAccount, Disabled: true}
	}
	p := l.policy.Load()
	a.mu.Lock()
	defer a.mu.Unlock()
	if b := a.check(p, now, t.Model, session, force); b.Blocked() {
		return nil, b
	}
	a.serial++
	a.inFlight++
	e := &Lease{ledger: l, account: a, model: t.Model, serial: a.serial}
	now = wall(now)
	a.rest.lend(p, now, e)
	if t := a.targets[t.Model]; t != nil {
		t.lend(p, now, e)
	}
	return e, Block{}
}

// InFlight counts the attempts that an upstream has in flight.
func (l *Ledger) InFlight(upstream string) int {
	a := l.accounts.Load().byName[upstream]
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inFlight
}

// check is the one answer to whether a target is eligible.
func (a *account) check(p *Policy, now time.Time, model, session string, force Force) Block {
	if !a.enabled {
		return Block{Scope: ScopeAccount, Disabled: true}
	}
	if t := a.targets[model]; !a.calm(t) {
		if b := a.held(now, t); b.Blocked() {
			return b
		}
		if b := a.off(p, now, t, exclusion{session, model}); b.Blocked() && !force.passes(b) {
			return b
		}
	}
	if a.ceiling > 0 && a.inFlight >= a.ceiling {
		return Block{Scope: ScopeAccount, Full: true}
	}
	return Block{}
}

// calm reports whether there is nothing to look at, which is nearly always so and the reason why a check is cheap.
func (a *account) calm(t *target) bool {
	return a.rest.calm() && (t == nil || t.calm()) && len(a.excluded) == 0 && a.checks.since.IsZero()
}

// held is the operator's order that keeps a request away.
func (a *account) held(now time.Time, t *target) Block {
	b := manual(now, a.rest.hold, ScopeAccount)
	if t != nil {
		b = b.and(manual(now, t.hold, ScopeTarget))
	}
	return b
}

// off is what else keeps a request away: all that Force may go past and Clear lifts.
func (a *account) off(p *Policy, now time.Time, t *target, x exclusion) Block {
	b := a.checks.block().and(a.rest.block(p, now, ScopeAccount))
	if t != nil {
		b = b.and(t.block(p, now, ScopeTarget))
	}
	return b.and(a.exclusion(now, x))
}

func manual(now time.Time, h hold, scope Scope) Block {
	if !h.on(now) {
		return Block{}
	}
	return Block{Scope: scope, Reason: Operator, Source: SourceOperator, Manual: true, Until: h.until}
}

// exclusion is why a session leaves a model alone. It is our own idea: nobody was blamed.
func (a *account) exclusion(now time.Time, x exclusion) Block {
	if len(a.excluded) == 0 {
		return Block{}
	}
	until, ok := a.excluded[x]
	if !ok || !now.Before(until) {
		return Block{}
	}
	return Block{Scope: ScopeSession, Reason: Rejected, Source: SourcePolicy, Until: until, own: true}
}

// and joins two reasons to stay away into the one that keeps a request away for longest. An order without an end
// outlasts all, a timer outlasts a probe in flight and an ejection.
func (b Block) and(o Block) Block {
	if !b.Blocked() {
		return o
	}
	if !o.Blocked() {
		return b
	}
	longest := b
	if o.Until.After(b.Until) && (!b.Manual || !b.Until.IsZero()) || o.Manual && o.Until.IsZero() {
		longest = o
	}
	longest.own = b.own && o.own
	return longest
}

// target returns what is known of a model, remembering it from now on. Of the models that only requests name, the one
// whose trouble is oldest makes room.
func (a *account) target(model string) *target {
	if t := a.targets[model]; t != nil {
		return t
	}
	if len(a.targets)-len(a.declared) >= maxStrange {
		a.forgetOldest()
	}
	t := &target{}
	a.targets[model] = t
	return t
}

func (a *account) forgetOldest() {
	oldest, found := "", false
	for model, t := range a.targets {
		if slices.Contains(a.declared, model) || !t.hold.since.IsZero() {
			continue
		}
		if !found || t.since.Before(a.targets[oldest].since) {
			oldest, found = model, true
		}
	}
	if found {
		delete(a.targets, oldest)
	}
}

// wall takes the monotonic reading off, which stands still while a laptop sleeps: a usage limit that resets at four
// o'clock does so all the same.
func wall(t time.Time) time.Time { return t.Round(0) }
