package router

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Error is why the router itself refuses a request. Msg goes to the client, so it never holds a key, a URL or the name
// of an upstream; Err is for logs.
type Error struct {
	Kind   string // the router's own name for it, such as unknown_model; clients get it as code
	Status int    // HTTP status
	Msg    string
	Err    error

	class   string    // signalbox.error.class; empty: router_internal
	kind    string    // error.type when it is not the status
	retryAt time.Time // when it may go better; zero: not known
	retry   time.Duration
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Msg, e.Err)
	}
	return e.Kind + ": " + e.Msg
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

var (
	errGone                 = errors.New("the client went away")
	errAnswered             = errors.New("the router has answered by itself")
	errRequestTimeout error = requestTimeout{}
)

// ErrStopping is the cause with which a program that ends cancels the contexts of requests still in flight, before it closes
// their connections: they are broken off in words of their own wire, and not taken for requests whose clients have left.
var ErrStopping = errors.New("the router is being ended")

// requestTimeout is the cause with which request_timeout ends a request.
type requestTimeout struct{}

func (requestTimeout) Error() string { return "request_timeout is over" }

// Timeout makes it a timeout to those who ask for this method.
func (requestTimeout) Timeout() bool { return true }

func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := internalError()
	e.Err = err
	return e
}

func internalError() *Error {
	return &Error{Kind: "internal_error", Status: http.StatusInternalServerError, Msg: "the router failed at this request", class: telemetry.ClassInternal}
}

func invalid(kind, msg string) *Error {
	return &Error{Kind: kind, Status: http.StatusBadRequest, Msg: msg, class: callerInvalid}
}

func tooLarge(limit int64) *Error {
	return &Error{
		Kind: "body_too_large", Status: http.StatusRequestEntityTooLarge, class: telemetry.ClassTooLarge,
		Msg: fmt.Sprintf("the request body is larger than %d bytes; raise server.max_body to allow it", limit),
	}
}

func saturated(msg string) *Error {
	return &Error{Kind: "targets_busy", Status: http.StatusServiceUnavailable, Msg: msg, class: telemetry.ClassSaturated, retry: time.Second}
}

// stopping answers requests that the router's own end has overtaken; whoever takes its place can serve them.
func stopping() *Error {
	return &Error{
		Kind: "router_stopping", Status: http.StatusServiceUnavailable, Msg: "the router is being ended, and has no time left for this request",
		class: telemetry.ClassStopping, retry: time.Second,
	}
}

// overtaken is what a client is told whose request ran into a limit of the router itself; nil if it did not.
func (x *exchange) overtaken() *Error {
	switch {
	case x.stopping():
		return stopping()
	case x.timedOut():
		return &Error{
			Kind: "request_timeout", Status: http.StatusGatewayTimeout, Msg: "the request took longer than server.request_timeout allows",
			class: x.outcome.class, kind: x.outcome.errorType,
		}
	}
	return nil
}

func unsupportedEndpoint() *Error {
	var served []string
	for _, w := range wire.All {
		served = append(served, w.Template(wire.Generate))
	}
	return &Error{
		Kind: "unsupported_endpoint", Status: http.StatusNotFound, class: callerInvalid,
		Msg: "this path is not served; there are POST " + strings.Join(served, ", ") + ", each also under another prefix, and GET /v1/models",
	}
}

// refuse answers a request that the router cannot carry further. Nothing has reached the client by then, or the answer
// has been cut, which is told by a panic.
func (x *exchange) refuse(err error) {
	if errors.Is(err, errAborted) {
		panic(http.ErrAbortHandler)
	}
	if errors.Is(err, errAnswered) {
		return
	}
	if errors.Is(err, errGone) {
		x.outcome.result, x.outcome.class = telemetry.OutcomeCancelled, telemetry.ClassCancelled
		return
	}
	e := asError(err)
	if e.class == telemetry.ClassInternal || e.class == "" {
		x.r.opts.logger.ErrorContext(x.ctx, "a request failed in the router", "error", err)
	}
	x.write(e)
}

// write sends an error in the caller's wire and notes it as the outcome.
func (x *exchange) write(e *Error) {
	o := &x.outcome
	o.status, o.class, o.errorType = e.Status, e.class, e.kind
	if o.class == "" {
		o.class = telemetry.ClassInternal
	}
	if o.errorType == "" {
		o.errorType = strconv.Itoa(e.Status)
	}
	if o.result = rejected; o.attempts > 0 || o.class == telemetry.ClassInternal {
		o.result = telemetry.OutcomeFailed
	}
	if x.snap.cfg.Server.ResponseHeaders {
		x.w.Header().Set(headerCall, x.call)
		x.w.Header().Set(headerAttempts, strconv.Itoa(o.attempts))
	}
	x.retryHeaders(x.w.Header(), e)
	o.committed = true
	writeError(x.w, x.route.Wire, e)
}

// retryHeaders tells when to come back. Agents take seconds only and give up on long waits, so what they are told is
// bounded and the true time stands beside it.
func (x *exchange) retryHeaders(h http.Header, e *Error) {
	wait := e.retry
	if !e.retryAt.IsZero() {
		wait = e.retryAt.Sub(x.r.opts.now())
		h.Set(headerRetryAt, e.retryAt.UTC().Format(time.RFC3339))
	}
	if wait <= 0 && e.retryAt.IsZero() {
		return
	}
	h.Set("Retry-After", x.toldWait(wait))
	h.Set("X-Should-Retry", "true")
}

// deliver sends a failed answer that is complete. A final 429 or 503 always says when to come back.
func (x *exchange) deliver(a *answer) error {
	x.outcome.committed, x.outcome.status = true, a.status
	if verdict.MustSayWhen(a.status) && a.header.Get("Retry-After") == "" {
		a.header = a.header.Clone()
		a.header.Set("Retry-After", x.comeBack())
	}
	_ = x.emitAnswer(a, nil) // the client may have left; the outcome is the same
	return nil
}

// comeBack is in how many seconds the first target of the plan may be tried again.
func (x *exchange) comeBack() string {
	now := x.r.opts.now()
	var soonest time.Duration
	for _, t := range x.plan {
		b := x.r.ledger.Check(now, x.ledgerTarget(t), x.conversation)
		if d := b.Until.Sub(now); b.Blocked() && !b.Until.IsZero() && (soonest == 0 || d < soonest) {
			soonest = d
		}
	}
	return x.toldWait(soonest)
}

// toldWait is a wait as Retry-After tells it: whole seconds, at least one, at most retry_after_cap.
func (x *exchange) toldWait(wait time.Duration) string {
	seconds := max(1, int64(math.Ceil(wait.Seconds())))
	if limit := x.snap.cfg.Failover.RetryAfterCap; limit > 0 {
		seconds = min(seconds, max(1, int64(limit.Seconds())))
	}
	return strconv.FormatInt(seconds, 10)
}

func writeError(w http.ResponseWriter, dialect *wire.Wire, e *Error) {
	body := dialect.ErrorBody(e.Status, e.Kind, e.Msg)
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(e.Status)
	_, _ = w.Write(body) // a client that does not listen to its error has left
}

// WriteError answers a request outside the corridor, in the shape that OpenAI's clients read.
func WriteError(w http.ResponseWriter, e *Error) { writeError(w, wire.ByName(wire.Chat), e) }

// refusePlain answers a request that belongs to no wire.
func (r *Router) refusePlain(w http.ResponseWriter, e *Error) { WriteError(w, e) }

// refuseIn answers a request for a wire's path before it enters the corridor.
func (r *Router) refuseIn(w http.ResponseWriter, req *http.Request, dialect *wire.Wire, e *Error) {
	writeError(w, dialect, e)
	r.count(req.Context(), dialect.Name)
}

// count records a refusal that never became an exchange.
func (r *Router) count(ctx context.Context, w wire.Name) {
	r.snap.Load().strange[w].Request(ctx, telemetry.Request{Outcome: rejected, ErrorClass: callerInvalid})
}

// setError marks a span of the router's own as failed, in the router's own words.
func setError(span trace.Span, errorType, class string) {
	span.SetAttributes(attribute.String(telemetry.AttrErrorClass, class))
	setErrorType(span, errorType, class)
}

// setErrorType marks any span as failed; an HTTP span has no attributes of the router's own.
func setErrorType(span trace.Span, errorType, class string) {
	span.SetStatus(codes.Error, class)
	span.SetAttributes(attribute.String(telemetry.AttrErrorType, errorType))
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// exhausted answers when all that was tried has failed: with the newest answer that an upstream gave, unless the
// configuration wants one of the router's own, and with that if no upstream gave any.
func (x *exchange) exhausted(v verdict.Verdict) error {
	e := &Error{Kind: "upstream_error", Status: http.StatusBadGateway, Msg: "no upstream gave an answer", class: x.outcome.class, kind: x.outcome.errorType}
	a, mode := x.last, x.snap.cfg.Failover.AllFailed
	switch {
	case x.stopping():
		return stopping()
	case mode == "bad_gateway":
		e.Kind, e.Msg = "all_targets_failed", "every target that was tried has failed"
		if e.kind != "" {
			e.Msg += ", the last one with " + e.kind
		}
		return e
	case a != nil && mode == "unavailable":
		unavailable := *a
		unavailable.status = http.StatusServiceUnavailable
		return x.deliver(&unavailable)
	case a != nil:
		return x.deliver(a)
	case mode == "unavailable":
		e.Status = http.StatusServiceUnavailable
	case x.timedOut():
		return x.overtaken()
	case v.ErrorType == telemetry.ErrorTimeout:
		e.Kind, e.Status, e.Msg = "upstream_timeout", http.StatusGatewayTimeout, "the upstream did not answer in time"
	}
	return e
}

// spent ends a request with the failure of the attempt that was left last.
func (x *exchange) spent() error {
	x.failed(x.failure)
	return x.exhausted(x.failure)
}
