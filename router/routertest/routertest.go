// Package routertest has what tests of the router and the demo need around it: upstreams that answer as they are told, and
// a client that reads to the end and knows how an answer ended. It must not know the router, so that it cannot share its
// mistakes.
//
//	up := routertest.NewUpstream(routertest.Fail(429, "slow down").With("Retry-After", "30"), routertest.Good("hello", routertest.Usage{Input: 9, Output: 1}))
//	defer up.Close()
//	front := routertest.Serve(engine.Handler())
//	defer front.Close()
//	got := front.Send(t.Context(), routertest.NewRequest(routertest.Messages, "sonnet", true))
//	// got.Status, got.Header, got.Body, got.Text(), got.Events(), got.Err; up.Calls()[0].Body, .Header, .Sent()
package routertest

import (
	"sync"
	"time"
)

// The wires, by the names that configurations use.
const (
	Chat      = "openai-chat"
	Responses = "openai-responses"
	Messages  = "anthropic-messages"
	Gemini    = "gemini"
)

// Wires are all of them.
var Wires = []string{Chat, Responses, Messages, Gemini}

// Usage is a number of tokens of each kind. Each wire counts them in its own way; here they never overlap.
type Usage struct {
	Input      int // prompt tokens that were neither read from nor written to a cache
	CacheRead  int
	CacheWrite int
	Output     int // reasoning included
	Reasoning  int
}

// prompt is how many tokens went in.
func (u Usage) prompt() int { return u.Input + u.CacheRead + u.CacheWrite }

// Patience is how long anything here waits for what a test expects, in real time or in that of a synctest bubble.
const Patience = 5 * time.Second

// Clock is a clock that stands still until it is moved on.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows now.
func NewClock(now time.Time) *Clock { return &Clock{now: now} }

// Now is what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
