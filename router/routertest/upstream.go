package routertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Upstream is a provider that answers as it is told and remembers what it was asked. It is safe for concurrent use.
type Upstream struct {
	URL string // base URL without a version segment

	server server
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	script  []Reply
	first   int // number of the call at which script begins
	calls   []*Call
	arrived chan struct{} // closed and made anew with each call
}

// NewUpstream starts an upstream on a port of this machine. The first call gets the first reply and so on, and the last
// reply is repeated. Without any reply every call is answered well.
func NewUpstream(script ...Reply) *Upstream { return NewUpstreamOn(loopback(), script...) }

// NewUpstreamOn is NewUpstream on a listener, which Close closes.
func NewUpstreamOn(l net.Listener, script ...Reply) *Upstream {
	u := &Upstream{URL: "http://" + l.Addr().String(), closed: make(chan struct{}), arrived: make(chan struct{})}
	u.Script(script...)
	u.server.start(l, u)
	return u
}

// Script says what the calls from now on get.
func (u *Upstream) Script(script ...Reply) {
	if len(script) == 0 {
		script = []Reply{Good("hello", Usage{Input: 10, Output: 1})}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.script, u.first = script, len(u.calls)
}

// Calls lists what has been asked so far.
func (u *Upstream) Calls() []*Call {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.calls)
}

// Await waits for call number n, from 0; nil if it does not come within Patience.
func (u *Upstream) Await(n int) *Call {
	late := time.NewTimer(Patience)
	defer late.Stop()
	for {
		u.mu.Lock()
		calls, more := u.calls, u.arrived
		u.mu.Unlock()
		if n < len(calls) {
			return calls[n]
		}
		select {
		case <-more:
		case <-late.C:
			return nil
		}
	}
}

// Close ends the upstream and every answer that it is in the middle of. It may be closed again.
func (u *Upstream) Close() {
	u.once.Do(func() { close(u.closed) })
	u.server.close()
}

// ServeHTTP answers one call.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := newCall(r)
	defer close(c.over)
	u.mu.Lock()
	c.N = len(u.calls)
	reply := u.script[min(c.N-u.first, len(u.script)-1)]
	u.calls = append(u.calls, c)
	close(u.arrived)
	u.arrived = make(chan struct{})
	u.mu.Unlock()
	p := player{w: w, call: c, reply: reply, gone: r.Context().Done(), closed: u.closed}
	p.play()
}

// Call is one request as an upstream received it.
type Call struct {
	N           int    // number at this upstream, from 0
	Method      string // Path and Query are as they were sent, escaped.
	Path, Query string
	Host        string
	Header      http.Header
	Body        []byte
	Wire        string // by the path, "" if it belongs to none
	Model       string // by the body or, for Gemini, the path
	Stream      bool   // whether a stream is asked for
	CountTokens bool

	usage bool // a chat stream is to tell what it used

	over chan struct{}
	mu   sync.Mutex
	sent bytes.Buffer
	left bool
}

// Over is closed when the answer is over, however it ended.
func (c *Call) Over() <-chan struct{} { return c.over }

// Sent is the body of the answer as far as it has been sent, byte for byte.
func (c *Call) Sent() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent.String()
}

// HungUp waits until the answer is over, at most for Patience, and reports whether the caller left before that.
func (c *Call) HungUp() bool {
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case <-c.over:
	case <-late.C:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

func newCall(r *http.Request) *Call {
	body, _ := io.ReadAll(r.Body) // a caller that breaks off is seen by what is missing
	c := &Call{
		Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: r.Host, Header: r.Header, Body: body,
		over: make(chan struct{}),
	}
	var said struct {
		Model   string
		Stream  bool
		Options struct {
			Usage bool `json:"include_usage"`
		} `json:"stream_options"`
	}
	_ = json.Unmarshal(body, &said) // what is no JSON says nothing
	c.Model, c.Stream, c.usage = said.Model, said.Stream, said.Options.Usage
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/chat/completions"):
		c.Wire = Chat
	case strings.HasSuffix(path, "/responses"):
		c.Wire = Responses
	case strings.HasSuffix(path, "/messages"):
		c.Wire = Messages
	case strings.HasSuffix(path, "/messages/count_tokens"):
		c.Wire, c.CountTokens = Messages, true
	default:
		_, rest, _ := strings.Cut(path, "/models/")
		if model, action, ok := strings.Cut(rest, ":"); ok {
			c.Wire, c.Model, c.Stream = Gemini, model, action == "streamGenerateContent"
		}
	}
	return c
}
