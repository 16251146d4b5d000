package router

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/session"
	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// exchange is one request on its way through the engine. One goroutine owns it, for as long as its context lasts.
type exchange struct {
	r      *Router
	w      http.ResponseWriter // through the HTTP instrumentation
	raw    http.ResponseWriter // the server's own, for the chunks of streams: no instrumentation, no allocation for a chunk
	req    *http.Request
	route  wire.Route
	ctx    context.Context    //nolint:containedctx // lives exactly as long as the request
	cancel context.CancelFunc // of request_timeout, nil if there is none
	span   trace.Span
	silent bool   // nobody records spans, and the caller has none that goes on here
	notes  *notes // for the span, nil if it is not recorded
	given  RouteContext
	snap   *snapshot
	start  time.Time
	call   string
	trace  string // id of the trace, "" if there is none
	hash   string // of the session's key, "" if there is none
	key    string // name of the caller's auth key

	group      string // of upstreams that the caller may use, "" = all
	client     string // type of the agent, by the configuration's client rules
	clientType string // the same for telemetry, where well-known agents need no rule
	repeats    int    // on the same target before another is tried
	upstream   string // that the client named in its URL, "" = any
	named      string // the word it had for it: a name or an index

	body      *body
	asked     string // the model id that the client sent
	streaming bool
	session   session.Key

	conversation string // what the ledger knows the session by: one caller's exclusions are not another's, whose id may be the same

	model     *model
	plan      []*target
	blocks    []*health.Block // what held each target of the plan off when it was made
	confined  confinement
	sticky    bool // it follows pins
	continues bool // it goes on from a response that an upstream issued
	cooling   int  // targets of the plan that may not be tried
	held      []held
	lifted    bool // coolings were, so that who was passed by may be tried after all
	admitted  bool // counts against the ceiling of requests

	left, leftClass string // the target that was left, until the next is tried

	last    *answer         // the newest answer that failed, for when nothing better comes
	failure verdict.Verdict // of the attempt that was left last
	outcome outcome
	waited  time.Duration // spent on the client's and the upstreams' side, not in the router
	aborted bool          // the answer must not end cleanly
	told    Event         // the newest

	first attempt
	reused
}

// reused is what an exchange keeps the memory of for the next request.
type reused struct {
	object     peek.Object
	overlay    peek.Overlay
	edits      []peek.Edit
	candidates candidates
	pins       []pinned    // what is remembered of the session, by model
	facts      *wire.Facts // of the first attempt
}

// exchanges lends what requests are served with. One goes back when its handler returns, since no other goroutine gets to
// see it: what a send that was given up may still read are the body and its own dispatch.
var exchanges = sync.Pool{New: func() any { return &exchange{reused: reused{facts: &wire.Facts{}}} }}

func (r *Router) newExchange(raw http.ResponseWriter, route wire.Route, upstream string) *exchange {
	x, _ := exchanges.Get().(*exchange)
	x.r, x.raw, x.route, x.upstream = r, raw, route, upstream
	return x
}

// maxReused bounds the lists, in elements, that are kept for the next request.
const maxReused = 256

// free gives an exchange back with nothing in it but memory.
func (x *exchange) free() {
	kept := &x.reused
	kept.object = peek.Object{Members: emptied(kept.object.Members)}
	kept.overlay.Clear(maxReused)
	kept.edits, kept.pins = emptied(kept.edits), emptied(kept.pins)
	kept.candidates.clear()
	kept.facts.Reset()
	saved := *kept
	*x = exchange{}
	x.reused = saved
	exchanges.Put(x)
}

// emptied is the memory of a list, none if that is large.
func emptied[T any](list []T) []T {
	if cap(list) > maxReused {
		return nil
	}
	clear(list)
	return list[:0]
}

// outcome is what became of a request.
type outcome struct {
	committed  bool // something reached the client: nothing may be tried again
	status     int  // what the client saw, 0 if it left before
	result     string
	class      string // signalbox.error.class
	errorType  string // error.type, "" when all went well
	attempts   int    // real dispatches
	decision   string
	upstream   string // that served
	index      int    // of that upstream in the configuration
	model      string // the upstream's model that served
	firstChunk time.Duration
	usage      telemetry.Usage // of the attempt that ended the request
	usageKnown bool
	cost       telemetry.Cost  // of that attempt
	usd        float64         // that all attempts cost, as far as it is known
	used       telemetry.Usage // of all attempts
}

// Short names for the values that are used most.
const (
	rejected      = telemetry.OutcomeRejected
	callerInvalid = telemetry.ClassInvalidRequest
)

// corridor is the way of a request, up to the account. A step that returns an error has the request refused. What could never
// be served does not wait for its turn first.
var corridor = [...]func(*exchange) error{
	(*exchange).accept, (*exchange).identify, (*exchange).findModel, (*exchange).admit, (*exchange).makePlan, (*exchange).attempt,
}

// serve walks the corridor, and accounts for how it ended.
func (x *exchange) serve() {
	x.open()
	defer x.account()
	if x.cancel != nil {
		defer x.cancel()
	}
	for _, step := range corridor {
		if err := step(x); err != nil {
			x.refuse(err)
			return
		}
	}
}

// open begins the span and the clock of a request.
func (x *exchange) open() {
	x.snap = x.r.snap.Load()
	x.start = x.r.opts.now()
	x.r.inFlight.Add(1)
	x.given = routeContext(x.req.Context())
	if x.call = x.given.RequestID; x.call == "" {
		x.call = callID()
	}
	x.outcome.decision, x.outcome.usage, x.outcome.used = telemetry.DecisionNone, telemetry.NoUsage(), telemetry.NoUsage()
	x.ctx, x.span = x.req.Context(), noSpan
	if x.silent = x.r.opts.tracers == nil && !trace.SpanContextFromContext(x.ctx).IsValid(); !x.silent {
		x.ctx, x.span = x.r.tel.Tracer().Start(x.ctx, telemetry.SpanRoute)
	}
	x.notes, x.trace = newNotes(x.span), traceID(x.span)
	if limit := x.snap.cfg.Server.RequestTimeout; limit > 0 {
		x.ctx, x.cancel = context.WithTimeoutCause(x.ctx, limit, errRequestTimeout)
	}
	if x.watched() {
		x.tell(PhaseReceived, x.start, nil)
	}
}

// noSpan stands for all spans of a request that nobody records.
var noSpan trace.Span = nooptrace.Span{}

// notes gather what is to be said of a span, which is told when it ends: each telling costs the span a larger list. Methods of
// nil do nothing.
type notes struct{ list []attribute.KeyValue }

var notePool = sync.Pool{New: func() any { return &notes{make([]attribute.KeyValue, 0, 28)} }}

func newNotes(span trace.Span) *notes {
	if !span.IsRecording() {
		return nil
	}
	n, _ := notePool.Get().(*notes)
	return n
}

func (n *notes) add(attrs ...attribute.KeyValue) {
	if n != nil {
		n.list = append(n.list, attrs...)
	}
}

// tell puts all on the span. Nothing can be noted any more.
func (n *notes) tell(span trace.Span) {
	if n == nil {
		return
	}
	span.SetAttributes(n.list...)
	clear(n.list)
	n.list = n.list[:0]
	notePool.Put(n)
}

// await runs something that waits for the client or an upstream, so that the time is not counted as the router's own. It
// returns when that was over.
func (x *exchange) await(f func()) (now time.Time) {
	from := x.r.opts.now()
	f()
	now = x.r.opts.now()
	x.waited += now.Sub(from)
	return now
}

// Phase is a point in a request's life at which an Event is told.
type Phase string

// The phases, in order. PhaseAttemptStart to PhaseFailover repeat for every dispatch; PhaseCompleted comes exactly once for every
// request that entered the corridor, refusals included.
const (
	PhaseReceived     Phase = "received"
	PhaseAttemptStart Phase = "attempt_start"
	PhaseCommitted    Phase = "committed"
	PhaseAttemptEnd   Phase = "attempt_end"
	PhaseFailover     Phase = "failover"
	PhaseCompleted    Phase = "completed"
)

// Event tells an embedding program what happens. Fields that a phase does not know are empty.
type Event struct {
	Phase   Phase
	Time    time.Time
	Call    string // call id, the same on every event of a request
	TraceID string // 32 hex digits, empty without tracing
	Wire    string
	Route   string // the path as telemetry has it, a constant of the wire: /v1/messages
	Stream  bool

	Model   string // configured id or glob
	Key     string // name of the caller's key
	Client  string // type of the agent
	Session string // hash of the session's key, 8 hex digits
	Agent   string // id of the sub-agent, at most 256 bytes

	Upstream      string
	Index         int // of the upstream in the configuration, from 0; -1 without one
	UpstreamModel string
	Attempt       int           // from 1
	Attempts      int           // dispatches of the whole request
	Decision      string        // why the first target tried was chosen
	Outcome       string        // of the request, on PhaseCompleted; of the attempt, on PhaseAttemptEnd
	Status        int           // what the client saw
	ErrorClass    string        // signalbox.error.class, empty when all went well
	Duration      time.Duration // of the request or the attempt
	FirstChunk    time.Duration

	// What the attempt used, on PhaseAttemptEnd. On PhaseCompleted that of the attempt that ended the request; those before it
	// have had an event of their own, with Outcome failed_over.
	Usage telemetry.Usage
	Cost  telemetry.Cost
}

// OnEvent has f called for every event, in the request's own goroutine and before it goes on, so f must be quick. The event is
// f's to read until it returns: what is kept must be copied. A panic of f is logged and goes no further.
func (r *Router) OnEvent(f func(*Event)) {
	for {
		old := r.observers.Load()
		var list []func(*Event)
		if old != nil {
			list = append(list, *old...)
		}
		list = append(list, f)
		if r.observers.CompareAndSwap(old, &list) {
			return
		}
	}
}

// watched reports whether anybody observes events.
func (x *exchange) watched() bool { return x.r.observers.Load() != nil }

// event begins one about the request and the attempt that it concerns, nil for none. It is valid until the next: an event
// is larger than all that a handler has on its stack while it relays.
func (x *exchange) event(p Phase, now time.Time, a *attempt) *Event {
	e := &x.told
	*e = Event{
		Phase: p, Time: now, Call: x.call, TraceID: x.trace, Wire: string(x.route.Wire.Name), Route: x.route.Wire.Template(x.route.Op), Stream: x.streaming,
		Key: x.key, Client: x.clientType, Session: x.hash, Agent: clip(x.session.Agent, 256), Index: -1,
	}
	if x.model != nil {
		e.Model = x.model.id
	}
	if a != nil {
		e.Upstream, e.Index, e.UpstreamModel, e.Attempt = a.t.cfg.Name, a.t.index, a.t.asks(x.asked), a.number
	}
	return e
}

// tell emits an event, off the stack of what goes on for as long as an answer does.
func (x *exchange) tell(p Phase, now time.Time, a *attempt) {
	e := x.event(p, now, a)
	if p == PhaseAttemptStart {
		e.Decision = x.outcome.decision
	}
	x.r.emit(e)
}

func (r *Router) emit(e *Event) {
	if list := r.observers.Load(); list != nil {
		for _, f := range *list {
			r.notify(f, e)
		}
	}
}

func (r *Router) notify(f func(*Event), e *Event) {
	defer func() {
		if p := recover(); p != nil {
			r.opts.logger.Error("an observer of events failed", slog.Any("panic", p))
		}
	}()
	f(e)
}
