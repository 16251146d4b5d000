package router

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

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
	raw    http.ResponseWriter // the server's own, for the chunks of streams
	req    *http.Request
	route  wire.Route
	ctx    context.Context    //nolint:containedctx // lives exactly as long as the request
	cancel context.CancelFunc // of request_timeout, nil if there is none
	span   trace.Span
	snap   *snapshot
	start  time.Time
	call   string
	key    string // name of the caller's auth key

	group    string // of upstreams that the caller may use, "" = all
	client   string // type of the agent, by the configuration's client rules
	repeats  int    // on the same target before another is tried
	upstream string // that the client named in its URL, "" = any
	named    string // the word it had for it: a name or an index

	body      *body
	object    peek.Object
	overlay   peek.Overlay
	edits     []peek.Edit
	asked     string // the model id that the client sent
	streaming bool
	session   session.Key

	conversation string // what the ledger knows the session by: one caller's exclusions are not another's, whose id may be the same

	model     *model
	plan      []*target
	blocks    []*health.Block // what held each target of the plan off when it was made
	pins      []pinned        // what is remembered of the session, by model
	confined  confinement
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
	model      string // the upstream's model that served
	firstChunk time.Duration
	usage      telemetry.Usage
	usageKnown bool
}

// Short names for the values that are used most.
const (
	rejected      = telemetry.OutcomeRejected
	callerInvalid = telemetry.ClassInvalidRequest
)

// serve is the corridor: accept, identify, admit, plan, attempt and relay, account. A step that returns an error has the
// request refused. What could never be served does not wait for its turn first.
func (x *exchange) serve() {
	x.open()
	defer x.account()
	if x.cancel != nil {
		defer x.cancel()
	}
	for _, step := range []func() error{x.accept, x.identify, x.findModel, x.admit, x.makePlan, x.attempt} {
		if err := step(); err != nil {
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
	if x.call = routeContext(x.req.Context()).RequestID; x.call == "" {
		x.call = callID()
	}
	x.outcome.decision, x.outcome.usage = telemetry.DecisionNone, telemetry.NoUsage()
	x.ctx, x.span = x.r.tel.Tracer().Start(x.req.Context(), telemetry.SpanRoute)
	if limit := x.snap.cfg.Server.RequestTimeout; limit > 0 {
		x.ctx, x.cancel = context.WithTimeoutCause(x.ctx, limit, errRequestTimeout)
	}
	x.r.emit(Event{Phase: PhaseReceived, Time: x.start, Call: x.call, Wire: string(x.route.Wire.Name)})
}

// await runs something that waits for the client or an upstream, so that the time is not counted as the router's own.
func (x *exchange) await(f func()) {
	from := x.r.opts.now()
	f()
	x.waited += x.r.opts.now().Sub(from)
}
