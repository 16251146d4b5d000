// Package health knows who may be tried now: coolings, streaks, probe leases, exclusions and manual holds, in memory and
// told the time by its caller. It must not know HTTP, configuration files or telemetry.
package health

import (
	"errors"
	"math"
	"time"
)

// Scope is what a cooling holds off.
type Scope string

// The scopes: everything of an account, one model at it, or one model at it for one session.
const (
	ScopeAccount Scope = "account"
	ScopeTarget  Scope = "target"
	ScopeSession Scope = "session"
)

// Reason is why a cooling began.
type Reason string

// The reasons, a closed list.
const (
	RateLimit    Reason = "rate_limit"
	Quota        Reason = "quota"
	Overloaded   Reason = "overloaded"
	ServerError  Reason = "server_error"
	Timeout      Reason = "timeout"
	Connection   Reason = "connection"
	Auth         Reason = "auth"
	Billing      Reason = "billing"
	Unusable     Reason = "unusable"
	Rejected     Reason = "rejected"
	Stream       Reason = "stream"
	ModelMissing Reason = "model_missing"
	Operator     Reason = "operator"
	Checks       Reason = "health_check" // of an ejected account, in views only
)

// Source is who said how long a cooling lasts.
type Source string

// The sources, a closed list.
const (
	SourceRetryAfter Source = "retry_after"
	SourceHeaders    Source = "headers"
	SourceBody       Source = "body"
	SourcePolicy     Source = "policy"
	SourceOperator   Source = "operator"
)

// States of an account or a target. Probing is one whose cooling has ended and that has not yet proved itself, ejected an
// account that active checks found unwell.
const (
	StateHealthy  = "healthy"
	StateCooling  = "cooling"
	StateProbing  = "probing"
	StateEjected  = "ejected"
	StateDisabled = "disabled"
)

// Backoff is a rest that doubles from Base to Cap. It begins with the After-th failure in a row (0 means the first).
type Backoff struct {
	Base, Cap time.Duration
	After     int
}

// delay is the rest after the n-th failure in a row; 0 if it is too early for one.
func (b Backoff) delay(n int) time.Duration {
	n -= max(b.After, 1)
	if n < 0 || b.Base <= 0 {
		return 0
	}
	d := b.Base
	for ; n > 0 && d < b.Cap; n-- {
		if d > math.MaxInt64/2 {
			return b.Cap
		}
		d *= 2
	}
	if b.Cap > 0 {
		d = min(d, b.Cap)
	}
	return d
}

// Policy says how long what rests. Scope, if not empty, is what every failure makes rest, whatever the failure itself
// says: ScopeAccount all of the account, ScopeTarget never more than the target. RateLimitScope is the same for rate limits
// alone, and goes before Scope. Neither concerns what one session is told to leave alone.
type Policy struct {
	Scope, RateLimitScope            Scope
	RateLimit, Auth, Billing, Server Backoff
	QuotaDefault                     time.Duration // a usage limit that does not say when it ends
	HintCap                          time.Duration // longest hint that is believed, usage limits aside; 0 = any
	ProbeEvery                       time.Duration // how often one request tries a longer cooling; 0 = never
	OutageWindow                     time.Duration // two targets failing within it cool their account; 0 = never
	Exclusion                        time.Duration // a session leaves a target alone that rejected it without a word
	ModelMissing                     time.Duration
}

// Upstream is what the ledger has to know of a configured account.
type Upstream struct {
	Name          string
	Enabled       bool
	MaxConcurrent int      // 0 = no ceiling
	Fingerprint   string   // of key and URL; a change lifts what was about the old ones
	Checked       bool     // active checks run; where they do not, nothing is ejected
	Targets       []string // upstream models that the configuration names
}

// Target is one model at one account.
type Target struct{ Upstream, Model string }

// Hint is how long an upstream asked to be left alone; the zero value means that it did not say.
type Hint struct {
	After  time.Duration
	Source Source
}

// Failure is one failed attempt. Scope is ScopeTarget if empty; Session counts for ScopeSession only.
type Failure struct {
	Reason    Reason
	Scope     Scope
	Hint      Hint
	ErrorType string
	Status    int // HTTP status, 0 if there was no response
	Session   string
}

// Cooling is one rest that began or was prolonged.
type Cooling struct {
	Scope           Scope
	Upstream, Model string // Model is empty for an account
	Reason          Reason
	Source          Source
	Duration        time.Duration // from now to Until
	Until           time.Time
	Streak          int // failures of this kind in a row
}

// Block says why a target may not be tried now; the zero value means that it may.
type Block struct {
	Scope  Scope // never empty where something blocks
	Reason Reason
	Source Source
	Until  time.Time // when it may be tried again; zero if time alone will not tell (Probing, Ejected, Full, Disabled, held for ever)

	Probing  bool // another request is finding out
	Ejected  bool // active checks found the account unwell
	Manual   bool // an operator said so
	Full     bool // as many requests in flight as the account may have
	Disabled bool // switched off, or not in the configuration

	own bool
}

// Blocked reports whether the target may not be tried.
func (b Block) Blocked() bool { return b.Scope != "" }

// OwnPolicy reports whether nothing but this router's own caution holds the target: no limit, no hint and no operator. An
// ejection is such caution: a sole upstream that answers well, but not where the checks ask, would be out for good.
// Begin takes such a target when it is forced to.
func (b Block) OwnPolicy() bool { return b.own }

// Force is what Begin goes past. Manual holds, accounts that are switched off and ceilings stop all.
type Force uint8

// How hard a request insists on being tried.
const (
	NoForce Force = iota
	PastOwn       // past what Block.OwnPolicy holds of
	PastAll       // past every cooling, probe in flight, exclusion and ejection
)

func (f Force) passes(b Block) bool { return f == PastAll || f == PastOwn && b.own }

// ErrUnknown is returned for an upstream or a model that the ledger does not know.
var ErrUnknown = errors.New("no such upstream or model")
