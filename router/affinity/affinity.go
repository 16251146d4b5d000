// Package affinity remembers which target served a session and who holds its cache; it knows nothing of health or
// strategies.
package affinity

import "time"

// Key is what a pin is kept under.
type Key struct {
	Credential string // name of the caller's auth key
	Session    string
	Agent      string
	Model      string // the configured model, not the upstream's
}

// Target is the (upstream, upstream model) pair that a session is pinned to.
type Target struct{ Upstream, Model string }

// Store keeps pins. Implementations are safe for concurrent use and bounded; a lookup never blocks on a network longer
// than the caller's request can bear.
type Store interface {
	// Lookup returns the target that a key is pinned to.
	Lookup(now time.Time, k Key) (Target, bool)
	// Bind pins a key to the target that served it, or prolongs the pin.
	Bind(now time.Time, k Key, t Target)
	// Forget drops the pins of one upstream ("" = all) and returns how many there were.
	Forget(upstream string) int
}

// Off is the store that remembers nothing.
type Off struct{}

// Lookup never finds anything.
func (Off) Lookup(time.Time, Key) (Target, bool) { return Target{}, false }

// Bind does nothing.
func (Off) Bind(time.Time, Key, Target) {}

// Forget drops nothing.
func (Off) Forget(string) int { return 0 }

var _ Store = Off{}
