// Package affinity remembers which target served a session, who holds its prompt cache and who issued an id; it knows
// nothing of health, strategies or configuration.
package affinity

import "time"

// Key names a conversation. Callers ask only about conversations that have a session.
type Key struct {
	Credential string // name of the caller's auth key
	Session    string
	Agent      string // a sub-agent has pins and warmth of its own; empty for the session's main thread
	Model      string // the configured model, not the upstream's
}

// Target is one model at one upstream.
type Target struct{ Upstream, Model string }

// Policy says how long and how much is remembered.
type Policy struct {
	PinTTL      time.Duration // how long a pin lasts, by the wall clock; 0 = no expiry
	FromBinding bool          // PinTTL runs from when the target was first bound, and not from the last Bind
	MaxSessions int           // most entries of each kind (pins, conversations with warmth, issued ids); 0 = none at all
}

// State is what is known of a pin.
type State uint8

// The states of a pin.
const (
	Unpinned State = iota
	Pinned
	Expired // it lasted until its PinTTL, and nothing has been bound since
)

// Counts is how many entries of each kind are held, expired ones among them.
type Counts struct {
	Sessions  int // pins
	Caches    int // conversations with a warm target
	Responses int // issued ids
}

// Store keeps affinities. Implementations are safe for concurrent use and bounded; where a kind is full, the least
// recently used entry goes, and a look is a use. No method may block longer than a caller's request can bear.
type Store interface {
	// Configure replaces the policy. It holds for what is already known, too, and may shrink it.
	Configure(p Policy)

	// Pin returns the target that a conversation is pinned to. The target is empty unless the state is Pinned. A look alone
	// neither prolongs the pin nor removes one that is Expired: who looks may not be who binds.
	Pin(now time.Time, k Key) (Target, State)
	// Bind pins a conversation to the target that served it, or prolongs the pin to that target.
	Bind(now time.Time, k Key, t Target)

	// Warm reports whether a target is known to hold the provider's prompt cache of a conversation, seen less than ttl
	// ago. What is older may be forgotten, so a caller always asks about one target with the same ttl.
	Warm(now time.Time, k Key, t Target, ttl time.Duration) bool
	// Warmed notes that a target reported cache reads or writes.
	Warmed(now time.Time, k Key, t Target)

	// Owner returns who issued an id, such as that of a response, to a credential.
	Owner(credential, id string) (Target, bool)
	// Issued notes who issued an id.
	Issued(credential, id string, t Target)

	// Forget drops the pins and the warmth of one upstream ("" = of all) and returns how many pins that had not expired
	// there were. Owners stay: an issued id exists nowhere else.
	Forget(upstream string) int
	// Count is cheap enough to be called for every export of metrics.
	Count() Counts
}

// Off is the store that remembers nothing.
type Off struct{}

// Configure does nothing.
func (Off) Configure(Policy) {}

// Pin never finds anything.
func (Off) Pin(time.Time, Key) (Target, State) { return Target{}, Unpinned }

// Bind does nothing.
func (Off) Bind(time.Time, Key, Target) {}

// Warm never finds anything.
func (Off) Warm(time.Time, Key, Target, time.Duration) bool { return false }

// Warmed does nothing.
func (Off) Warmed(time.Time, Key, Target) {}

// Owner never finds anything.
func (Off) Owner(string, string) (Target, bool) { return Target{}, false }

// Issued does nothing.
func (Off) Issued(string, string, Target) {}

// Forget drops nothing.
func (Off) Forget(string) int { return 0 }

// Count is zero.
func (Off) Count() Counts { return Counts{} }

var _ Store = Off{}
