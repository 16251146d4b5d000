package router

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// attempt is one dispatch to one target.
type attempt struct {
	x      *exchange
	t      *target
	number int
	reason string
	lease  *health.Lease
	span   trace.Span
	ctx    context.Context //nolint:containedctx // lives exactly as long as the attempt
	notes  *notes          // for the span, nil if it is not recorded
	watch  *upstream.Watch
	rec    *telemetry.TargetRecorder
	start  time.Time

	w          *wire.Wire            // that the upstream is spoken to in
	tr         translate.Translation // between it and the client's, nil if they are the same
	request    []byte                // in the upstream's wire
	object     *peek.Object          // its top level
	turned     []byte                // what the client gets for the events that came, while they are looked at
	rest       []*target             // of the plan, behind this one
	retries    retries
	ans        *answer // own, nil before there is one that the client may see
	own        answer
	call       upstream.Call
	src        *source
	facts      *wire.Facts
	scanner    sse.Scanner
	event      sse.Event // the one that is looked at
	strip      *stripper
	cut        bool // the connection broke before the answer's last event
	half       bool // the stream ended within an event
	alive      bool // the first event that is no comment or ping has come
	firstChunk time.Duration
	lastChunk  time.Time
	found      verdict.Evidence // left by whoever comes to an end: it is too large to be handed down the stack for as long as a stream lasts
	verdict    verdict.Verdict  // on what was found
	outcome    string           // telemetry's word for how it ended, "" before
	cost       telemetry.Cost
	capture    *capture // nil unless contents are told
}

// answer is what an upstream answered, as far as the client may get to see it.
type answer struct {
	upstream, model string
	status          int
	header          http.Header
	dropped         string // what a translation left out of the request
	held            []byte // read and not passed on yet; the whole body of an answer that is complete
	undone          bool   // held without the content coding that the upstream used
	stream          bool
}

// attempt goes through the plan until something is committed to the client or nothing is left to try.
func (x *exchange) attempt() error {
	if over, err := x.walk(x.plan); over {
		return err
	}
	return x.lastResort()
}

// lastResort tries who was passed by, where that is allowed, and has an answer if nobody else has.
func (x *exchange) lastResort() error {
	over, err := false, error(nil)
	if x.lift(nil) || x.lifted {
		again := make([]*target, 0, len(x.held))
		for _, h := range x.held {
			again = append(again, h.t)
		}
		x.held = nil
		over, err = x.walk(again)
	}
	switch {
	case over:
		return err
	case x.outcome.attempts > 0: // who was to be next went out before its turn
		return x.spent()
	}
	if t, force := x.rescue(); t != nil {
		if a := x.begin(t, force); a != nil {
			_, err := x.try(a, nil)
			return err
		}
	}
	return x.none(x.held)
}

// walk tries targets in their order and reports whether one of them was the last.
func (x *exchange) walk(targets []*target) (over bool, err error) {
	for i, t := range targets {
		a := x.begin(t, health.NoForce)
		if a == nil {
			continue
		}
		if again, err := x.try(a, targets[i+1:]); !again {
			return true, err
		}
	}
	return false, nil
}

// begin takes a place at a target, and the probe lease if one is due. It checks eligibility again: the plan may be old. It is nil
// if the target is held off, which is noted unless it is forced.
func (x *exchange) begin(t *target, force health.Force) *attempt {
	lease, block := x.r.ledger.Begin(x.r.opts.now(), x.ledgerTarget(t), x.conversation, force)
	if lease == nil {
		if force == health.NoForce {
			x.held = append(x.held, held{t, block})
		}
		return nil
	}
	x.outcome.attempts++
	a, facts := &x.first, x.facts
	if x.outcome.attempts > 1 {
		a, facts = &attempt{}, &wire.Facts{}
	}
	a.x, a.t, a.facts, a.lease, a.number, a.reason = x, t, facts, lease, x.outcome.attempts, telemetry.AttemptInitial
	switch {
	case lease.Probe:
		a.reason = telemetry.AttemptProbe
	case a.number > 1:
		a.reason = telemetry.AttemptFailover
	}
	a.w = t.speaks(x.route.Wire, x.route.Op)
	a.rec = t.recorder(recorderKey{a.w.Name, x.route.Op}, x.asked)
	return a
}

// try carries one attempt out and reports whether the next target should be tried. rest are the targets left.
func (x *exchange) try(a *attempt, rest []*target) (again bool, err error) {
	a.rest = rest
	defer a.lease.Release() // whatever happens
	if err := a.translate(); err != nil {
		x.outcome.attempts--
		return false, err
	}
	a.open()
	defer a.close()
	if resp := a.send(); resp != nil {
		a.run(resp)
	}
	v := a.judge()
	if again = x.tryAgain(v, rest); again {
		a.leaveBehind(v)
		return true, nil
	}
	return false, a.conclude()
}

// leaveBehind closes the books of an attempt after which another target is tried.
func (a *attempt) leaveBehind(v *verdict.Verdict) {
	a.settle(*v, telemetry.AttemptFailedOver)
	a.x.keep(a)
	a.x.failure = *v
}

// judge makes up the verdict on what was found. It has a frame of its own since what stands below it on the stack is there for
// as long as a stream lasts.
func (a *attempt) judge() *verdict.Verdict {
	x, ev := a.x, &a.found
	ev.Model, ev.Counts = a.t.asks(x.asked), !x.generates()
	ev.Stopping, ev.Overdue = x.stopping(), x.timedOut()
	a.verdict = x.snap.policy.Judge(x.r.opts.now(), *ev)
	return &a.verdict
}

// tryAgain is the one decision to go on with another target: nothing has reached the client, the failure is one that
// another target may not have, and there is one that may be tried within the limits.
func (x *exchange) tryAgain(v *verdict.Verdict, rest []*target) bool {
	cfg := &x.snap.cfg.Failover
	switch {
	case x.outcome.committed, v.Move != verdict.FailOver, x.ctx.Err() != nil:
		return false
	case cfg.MaxAttempts > 0 && x.outcome.attempts >= cfg.MaxAttempts:
		return false
	case cfg.Budget > 0 && x.r.opts.now().Sub(x.start) > cfg.Budget:
		return false
	}
	return x.nextEligible(rest) != nil || x.lift(rest)
}

func (x *exchange) nextEligible(rest []*target) *target {
	now := x.r.opts.now()
	for _, t := range rest {
		if b := x.r.ledger.Check(now, x.ledgerTarget(t), x.conversation); !b.Blocked() {
			return t
		}
	}
	return nil
}

// keep holds on to the newest answer of a target that is left, for when no other has a better one.
func (x *exchange) keep(a *attempt) {
	if a.ans != nil {
		x.last = a.ans
	}
}

// open begins the attempt's span and timers.
func (a *attempt) open() {
	x := a.x
	x.arrived(a.t)
	a.start = x.r.opts.now()
	op := operation(a.w, x.route.Op)
	if a.ctx, a.span = x.ctx, x.span; !x.silent {
		a.ctx, a.span = x.r.tel.Tracer().Start(x.ctx, op+" "+a.t.label, clientSpan...)
	}
	if a.notes = newNotes(a.span); a.notes != nil {
		a.announce(op)
	}
	a.ctx, a.watch = upstream.NewWatch(a.ctx)
	a.capture = x.newCapture(a.ctx)
	a.t.rec.Active(a.ctx, 1)
	if x.watched() {
		x.tell(PhaseAttemptStart, a.start, a)
	}
}

// announce notes what the attempt's span says from its start.
func (a *attempt) announce(op string) {
	x := a.x
	a.notes.add(
		attribute.String(telemetry.AttrOperation, op),
		attribute.String(telemetry.AttrProvider, a.t.provider(a.w)),
		attribute.String(telemetry.AttrRequestModel, clip(a.t.asks(x.asked), 256)),
		attribute.Bool(telemetry.AttrStream, x.streaming),
		attribute.String(telemetry.AttrServerAddress, a.t.address),
		attribute.Int(telemetry.AttrServerPort, a.t.port),
		attribute.String(telemetry.AttrUpstream, a.t.cfg.Name),
		attribute.String(telemetry.AttrModel, x.model.id),
		attribute.Int(telemetry.AttrAttemptNumber, a.number),
		attribute.String(telemetry.AttrAttemptReason, a.reason),
	)
	x.parameters(a.notes)
}

// clientSpan is how spans of attempts are begun.
var clientSpan = []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}

// close gives back what open and the answer took, whatever happened.
func (a *attempt) close() {
	a.watch.Stop()
	a.capture.tell(a)
	if a.src != nil {
		a.src.close()
	}
	a.t.rec.Active(a.x.ctx, -1)
	a.notes.tell(a.span) // if nothing was settled
	a.span.End()
}

// run reads the answer, to its end if it is good, else until it is known to be bad, and leaves what it found.
func (a *attempt) run(resp *upstream.Answer) {
	a.answered(resp)
	switch {
	case !verdict.IsSuccess(resp.StatusCode):
		a.refused(resp)
	case a.tr != nil && a.src.blind:
		a.unreadable(resp.Response)
	case a.ans.stream:
		a.stream()
	default:
		a.plain()
	}
}

// answered notes the head of an answer, and opens its body if its status tells of no failure.
func (a *attempt) answered(resp *upstream.Answer) {
	a.notes.add(attribute.Int(telemetry.AttrHTTPStatus, resp.StatusCode))
	if id := providerRequestID(resp.Header); id != "" {
		a.notes.add(attribute.String(telemetry.AttrProviderRequest, id))
	}
	a.t.quota.note(resp.Header)
	a.ans = &a.own
	a.own = answer{upstream: a.t.cfg.Name, model: a.t.asks(a.x.asked), status: resp.StatusCode, header: resp.Header, dropped: a.droppedHeader()}
	if !verdict.IsSuccess(resp.StatusCode) {
		return
	}
	a.ans.stream = isEventStream(resp.Header)
	changed := a.tr != nil || a.ans.stream && a.strip != nil || !a.ans.stream && a.rewrites()
	a.src, a.ans.undone = newSource(resp.Response, a.x.req.Header.Get("Accept-Encoding"), changed)
}

// refused ends with an answer whose status tells of a failure.
func (a *attempt) refused(resp *upstream.Answer) {
	a.ans.held = resp.ErrorBody
	text := undone(resp.Header, resp.ErrorBody)
	a.facts.Failure = a.w.ErrorOf(text)
	a.translateError(text)
	a.found = verdict.Evidence{Status: resp.StatusCode, Header: resp.Header, Body: text, Failure: a.facts.Failure, Gone: a.x.clientGone()}
}

// send dispatches the request in this target's shape. Without an answer, it leaves what it found instead.
func (a *attempt) send() *upstream.Answer {
	x, w := a.x, a.w
	s := a.shapeBody()
	if s.stripUsage {
		a.strip = &stripper{}
	}
	limits, header := &a.t.cfg.Timeouts, a.requestHeader()
	a.capture.request(header, s.segments)
	x.body.hold()
	a.call = upstream.Call{
		Method: http.MethodPost, Header: header,
		URL:      a.url(),
		Segments: s.segments, Length: s.length, Stream: x.streaming,
		FirstByte: limits.FirstByte, FirstEvent: limits.FirstEvent, Response: limits.Response,
		Route: w.Template(x.route.Op), Done: x.body.done, Retry: a.sendAgain,
	}
	var ans *upstream.Answer
	var err error
	a.retries.endWait(x.await(func() { ans, err = a.t.client.Do(a.ctx, &a.call, a.watch) }))
	a.call.Segments = nil // the attempt lasts as long as the answer does
	if err != nil {
		a.transport(err)
		return nil
	}
	return ans
}

// url is where the request goes.
func (a *attempt) url() *url.URL {
	x, w, query := a.x, a.w, a.query()
	if u := a.t.urls[recorderKey{w.Name, x.route.Op}]; u != nil && query == "" {
		return u
	}
	return w.JoinURL(a.t.base, w.Path(x.route.Op, a.t.asks(x.asked), x.route.Stream), query)
}

// transport ends without an answer, or with one that was lost on the way.
func (a *attempt) transport(err error) {
	a.found = verdict.Evidence{Kind: upstream.Kind(err), Committed: a.x.outcome.committed, Gone: a.x.clientGone() || errors.Is(err, errGone)}
	if a.ans != nil {
		a.found.Status, a.found.Header = a.ans.status, a.ans.header
	}
	if _, fired := a.watch.Fired(); fired || a.x.overtaken() != nil {
		a.found.Kind = telemetry.ErrorTimeout
	}
}

// clientGone reports whether the client has left. A request that ran into a limit of the router has not.
func (x *exchange) clientGone() bool { return x.req.Context().Err() != nil && !x.stopping() }

// stopping reports whether the router's own end has overtaken the request.
func (x *exchange) stopping() bool { return context.Cause(x.req.Context()) == ErrStopping } //nolint:errorlint // a cause is not wrapped

// timedOut reports whether the request ran into request_timeout.
func (x *exchange) timedOut() bool { return errors.Is(context.Cause(x.ctx), errRequestTimeout) }
