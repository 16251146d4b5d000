package router

import (
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// account closes the books of a request: exactly once, whatever happened, a panic included.
func (x *exchange) account() {
	if p := recover(); p != nil {
		x.panicked(p)
		defer panic(p)
	}
	defer x.body.release()
	defer x.r.inFlight.Add(-1)
	if x.admitted {
		defer x.r.queue.leave(x.r.snap.Load().cfg.Server.MaxConcurrentRequests)
	}
	o := &x.outcome
	now := x.r.opts.now()
	duration := now.Sub(x.start)
	overhead := max(0, duration-x.waited)
	modelID, wireName := unknown, string(x.route.Wire.Name)
	recs := x.snap.strange
	if x.model != nil {
		modelID, recs = x.model.id, x.model.recs
	}
	recs[x.route.Wire.Name].Request(x.ctx, telemetry.Request{
		Outcome: o.result, ErrorClass: o.class, Duration: duration, FirstChunk: o.firstChunk, Overhead: overhead, Attempts: o.attempts,
	})
	x.snap.callers.Request(x.ctx, telemetry.Caller{Key: x.key, Client: x.clientType, Model: modelID}, o.usd, o.used)
	x.closeSpan(overhead.Seconds())
	x.r.recent.add(x.snap.cfg.Server.RecentRequests, Recent{
		Call: x.call, TraceID: x.trace, At: now, Wire: wireName, Model: modelID, Session: x.hash, Kind: o.decision,
		Upstream: o.upstream, UpstreamModel: o.model, Status: o.status, Attempts: o.attempts, DurationMS: milliseconds(duration),
	})
	x.log(modelID, wireName, duration.Seconds())
	x.completed(now, modelID, duration)
}

// completed tells observers that the request has ended.
func (x *exchange) completed(now time.Time, modelID string, duration time.Duration) {
	if !x.watched() {
		return
	}
	o, e := &x.outcome, x.event(PhaseCompleted, now, nil)
	if o.upstream != "" {
		e.Upstream, e.Index, e.UpstreamModel = o.upstream, o.index, o.model
	}
	e.Model = modelID
	e.Attempts, e.Decision, e.Outcome, e.Status, e.ErrorClass = o.attempts, o.decision, o.result, o.status, o.class
	e.Duration, e.FirstChunk, e.Usage, e.Cost = duration, o.firstChunk, o.usage, o.cost
	x.r.emit(e)
}

// panicked notes how a request ends that is unwound by a panic: cut on purpose, which is noted already, or by a fault
// of the router's own.
func (x *exchange) panicked(p any) {
	if p == any(http.ErrAbortHandler) || x.outcome.result != "" {
		return
	}
	o := &x.outcome
	o.result, o.class, o.errorType = telemetry.OutcomeFailed, telemetry.ClassInternal, telemetry.Other
	if !o.committed {
		o.status = http.StatusInternalServerError
	}
}

// closeSpan puts the outcome on the route span, and the failure that the client saw on the server span too.
func (x *exchange) closeSpan(overhead float64) {
	o := &x.outcome
	x.notes.add(
		attribute.String(telemetry.AttrDecision, o.decision),
		attribute.String(telemetry.AttrOutcome, o.result),
		attribute.Int(telemetry.AttrAttempts, o.attempts),
		attribute.Float64(telemetry.AttrOverhead, overhead),
	)
	if o.upstream != "" {
		x.notes.add(attribute.String(telemetry.AttrUpstream, o.upstream))
	}
	if o.firstChunk > 0 {
		x.notes.add(attribute.Float64(telemetry.AttrFirstChunk, o.firstChunk.Seconds()))
	}
	switch o.result {
	case telemetry.OutcomeFailed, telemetry.OutcomeRejected:
		setError(x.span, o.errorType, o.class)
		setErrorType(trace.SpanFromContext(x.req.Context()), o.errorType, o.class)
	case telemetry.OutcomeCancelled:
		x.notes.add(attribute.String(telemetry.AttrErrorClass, o.class))
	}
	x.notes.tell(x.span)
	x.notes = nil
	x.span.End()
}

func (x *exchange) log(modelID, wireName string, seconds float64) {
	o := &x.outcome
	level := slog.LevelInfo
	if o.result == telemetry.OutcomeFailed {
		level = slog.LevelWarn
	}
	if !x.r.opts.logger.Enabled(x.ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 13)
	attrs = append(attrs, slog.String("call", x.call), slog.String("wire", wireName), slog.String("model", modelID), slog.String("outcome", o.result),
		slog.Int("status", o.status), slog.Int("attempts", o.attempts), slog.Float64("seconds", seconds))
	if o.upstream != "" {
		attrs = append(attrs, slog.String("upstream", o.upstream), slog.String("upstream_model", clip(o.model, 256)))
	}
	if o.class != "" {
		attrs = append(attrs, slog.String("error", o.class))
	}
	tokens := func(name string, n int64) {
		if o.usageKnown && n >= 0 { // what nobody told is not there
			attrs = append(attrs, slog.Int64(name, n))
		}
	}
	tokens("input_tokens", o.usage.TotalInput())
	tokens("cache_read_tokens", o.usage.CacheRead)
	tokens("output_tokens", o.usage.Output)
	x.r.opts.logger.LogAttrs(x.ctx, level, "request", attrs...)
}

// served notes a request that was answered well, which is also what makes its target healthy.
func (x *exchange) served(a *attempt) {
	o := &x.outcome
	o.upstream, o.index, o.model = a.ans.upstream, a.t.index, a.ans.model
	o.result = telemetry.OutcomeSuccess
	if o.attempts > 1 {
		o.result = telemetry.OutcomeSuccessAfterFailover
		o.decision = telemetry.DecisionFailover
	}
}

// failed notes a request that ended with a failure that the client sees.
func (x *exchange) failed(v verdict.Verdict) {
	o := &x.outcome
	o.result, o.class, o.errorType = telemetry.OutcomeFailed, v.Class, v.ErrorType
	if o.attempts > 1 {
		o.decision = telemetry.DecisionFailover
	}
}

// settle closes the books of an attempt: the ledger, the span, the counters.
func (a *attempt) settle(v verdict.Verdict, outcome string) {
	x := a.x
	now := x.r.opts.now()
	switch {
	case v.Move == verdict.Serve || v.Heals:
		a.lease.Success(now)
	case v.Blame:
		v.Failure.Session = x.conversation
		for _, c := range a.lease.Fail(now, v.Failure) {
			a.cooled(c)
		}
	}
	a.tellTranslated()
	usage, known := usageOf(a.facts.Usage)
	a.outcome, a.cost = outcome, a.rec.Cost(usage, a.facts.Cost, now)
	a.measure(now, v)
	a.describe(v, outcome, usage, known)
	a.rec.Attempt(a.ctx, telemetry.Attempt{
		Reason: a.reason, ErrorClass: v.Class, ErrorType: v.ErrorType, Duration: now.Sub(a.start), FirstChunk: a.firstChunk, Usage: usage, Cost: a.cost,
	})
	o := &x.outcome
	o.upstream, o.index, o.model = a.t.cfg.Name, a.t.index, a.t.asks(x.asked)
	o.usage, o.usageKnown, o.cost = usage, known, a.cost
	o.usd, o.used = o.usd+a.cost.USD, o.used.Plus(usage)
	if x.watched() {
		e := x.event(PhaseAttemptEnd, now, a)
		e.Outcome, e.ErrorClass, e.Duration, e.FirstChunk, e.Usage, e.Cost = outcome, v.Class, now.Sub(a.start), a.firstChunk, usage, a.cost
		x.r.emit(e)
	}
	if outcome == telemetry.AttemptFailedOver {
		o.usage, o.usageKnown, o.cost = telemetry.NoUsage(), false, telemetry.Cost{}
		a.leave(v)
	}
}

// measure tells strategies what the attempt says of its target; what is nobody's fault says nothing. Token counts are too
// cheap to be compared with, and plain answers come as a whole.
func (a *attempt) measure(now time.Time, v verdict.Verdict) {
	ok := v.Move == verdict.Serve
	if !a.x.generates() || !ok && !v.Blame {
		return
	}
	s := strategy.Sample{OK: ok}
	if ok && a.ans.stream {
		s.FirstToken, s.OutputTokens, s.Generation = a.firstChunk, a.facts.Usage.Output.N, a.lastChunk.Sub(a.start)-a.firstChunk
	}
	a.t.stats.Record(now, s)
}

// cooled tells of a rest that has begun.
func (a *attempt) cooled(c health.Cooling) {
	x := a.x
	a.t.rec.Cooling(x.ctx, string(c.Scope), string(c.Reason), string(c.Source), c.Duration)
	x.r.tel.Event(x.ctx, x.span, telemetry.EventCooling,
		attribute.String(telemetry.AttrScope, string(c.Scope)), attribute.String(telemetry.AttrUpstream, c.Upstream),
		attribute.String(telemetry.AttrModel, x.model.id), attribute.String(telemetry.AttrRequestModel, a.t.label),
		attribute.String(telemetry.AttrReason, string(c.Reason)), attribute.Float64(telemetry.AttrDuration, c.Duration.Seconds()),
		attribute.String(telemetry.AttrSource, string(c.Source)))
}

// leave tells that the request goes on to another target.
func (a *attempt) leave(v verdict.Verdict) {
	x := a.x
	a.rec.Failover(x.ctx, v.Class)
	x.left = a.t.cfg.Name
	x.leftClass = v.Class
	if p := x.pinOf(a.t); p != nil && p.owner == a.t {
		p.lost = v.Class
	}
}

// arrived tells where a request went after it had left a target.
func (x *exchange) arrived(t *target) {
	if x.left == "" {
		return
	}
	x.r.tel.Event(x.ctx, x.span, telemetry.EventFailover, attribute.String(telemetry.AttrFrom, x.left),
		attribute.String(telemetry.AttrTo, t.cfg.Name), attribute.String(telemetry.AttrErrorClass, x.leftClass))
	if x.watched() {
		e := x.event(PhaseFailover, x.r.opts.now(), nil)
		e.Upstream, e.Index, e.ErrorClass = t.cfg.Name, t.index, x.leftClass
		x.r.emit(e)
	}
	x.left = ""
}

// describe puts on the attempt's span what the answer told.
func (a *attempt) describe(v verdict.Verdict, outcome string, usage telemetry.Usage, known bool) {
	s, f := a.span, a.facts
	if a.notes == nil {
		return
	}
	attrs := append(a.notes.list, attribute.String(telemetry.AttrAttemptOutcome, outcome))
	if f.ID != "" {
		attrs = append(attrs, attribute.String(telemetry.AttrResponseID, clip(f.ID, 256)))
	}
	if f.Model != "" {
		attrs = append(attrs, attribute.String(telemetry.AttrResponseModel, clip(f.Model, 256)))
	}
	if len(f.Finish) > 0 {
		attrs = append(attrs, attribute.StringSlice(telemetry.AttrFinishReasons, f.Finish))
	}
	if a.firstChunk > 0 {
		attrs = append(attrs, attribute.Float64(telemetry.AttrResponseFirst, a.firstChunk.Seconds()))
	}
	attrs = usage.Attributes(attrs)
	if known && v.Move != verdict.Serve {
		attrs = append(attrs, attribute.Bool(telemetry.AttrUsagePartial, true))
	}
	if !known && v.Move == verdict.Serve && a.x.generates() {
		attrs = append(attrs, attribute.Bool(telemetry.AttrUsageMissing, true))
	}
	if a.cost.Known {
		attrs = append(attrs, attribute.Float64(telemetry.AttrCost, a.cost.USD))
	}
	if v.Failure.Hint.After > 0 {
		attrs = append(attrs, attribute.Float64(telemetry.AttrRetryAfter, v.Failure.Hint.After.Seconds()))
	}
	if v.Code != "" {
		attrs = append(attrs, attribute.String(telemetry.AttrProviderError, clip(v.Code, 64)))
	}
	a.notes.list = attrs
	a.notes.tell(s)
	a.notes = nil
	switch v.Move {
	case verdict.Serve:
	case verdict.Stop:
		s.SetAttributes(attribute.String(telemetry.AttrErrorClass, v.Class))
	default:
		setError(s, v.ErrorType, v.Class)
	}
}

// usageOf brings a wire's counts into telemetry's form.
func usageOf(u wire.Usage) (telemetry.Usage, bool) {
	n := func(c wire.Count) int64 {
		if !c.Known {
			return telemetry.Unknown
		}
		return c.N
	}
	return telemetry.Usage{
		Input: n(u.Input), CacheRead: n(u.CacheRead), CacheWrite: n(u.CacheWrite), CacheWrite5m: n(u.CacheWrite5m),
		CacheWrite1h: n(u.CacheWrite1h), Output: n(u.Output), Reasoning: n(u.Reasoning),
	}, u.Known()
}

func traceID(s trace.Span) string {
	if c := s.SpanContext(); c.HasTraceID() {
		return c.TraceID().String()
	}
	return ""
}

func plural(n int, what string) string { return strconv.Itoa(n) + " " + what }
