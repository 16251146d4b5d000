package router

import (
	"math"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// retries is what one attempt knows of its sends to the same target.
type retries struct {
	first, last *retrier   // before another target is tried, and when there is no other
	waiting     trace.Span // of the wait before the next send
	until       time.Time  // when that wait is over
}

// sendAgain tells package upstream whether the same target is asked once more, and after which wait. The target's books
// are closed once, whatever the number of sends.
func (a *attempt) sendAgain(_ int, resp *http.Response, body []byte, err error) (bool, time.Duration) {
	x, r, conf := a.x, &a.retries, &a.t.of.cfg.Retry
	now := x.r.opts.now()
	r.endWait(now)
	if x.repeats == 0 && conf.Max == 0 || x.ctx.Err() != nil {
		return false, 0
	}
	if r.first == nil {
		r.first = newRetrier(x.repeats, conf.Base, conf.Cap, conf.Multiplier, conf.Budget)
		r.last = newRetrier(conf.Max, conf.Base, conf.Cap, conf.Multiplier, conf.Budget)
	}
	v := x.snap.policy.Judge(now, a.sendEvidence(resp, body, err))
	again, wait := r.first.next(v.Retryable, v.Failure.Hint.After)
	if !again && x.nextEligible(a.rest) == nil {
		again, wait = r.last.next(v.Retryable, v.Failure.Hint.After)
	}
	if again && wait > time.Millisecond {
		_, r.waiting = x.r.tel.Tracer().Start(a.ctx, telemetry.SpanWait+" "+telemetry.WaitRetry, trace.WithTimestamp(now),
			trace.WithAttributes(attribute.String(telemetry.AttrReason, telemetry.WaitRetry)))
		r.until = now.Add(wait)
		x.model.recs[x.route.Wire.Name].Wait(a.ctx, telemetry.WaitRetry, wait)
	}
	return again, wait
}

// sendEvidence is what one send left behind.
func (a *attempt) sendEvidence(resp *http.Response, body []byte, err error) verdict.Evidence {
	if err != nil {
		return verdict.Evidence{Kind: upstream.Kind(err)}
	}
	text := undone(resp.Header, body)
	return verdict.Evidence{Status: resp.StatusCode, Header: resp.Header, Body: text, Failure: a.w.ErrorOf(text)}
}

// endWait closes the span of a wait that is over, or that was cut short.
func (r *retries) endWait(now time.Time) {
	if r.waiting == nil {
		return
	}
	if now.After(r.until) {
		now = r.until
	}
	r.waiting.End(trace.WithTimestamp(now))
	r.waiting = nil
}

// retrier decides whether one attempt asks the same target again, and after which wait. It is told what the failure was
// worth and asks nobody for the time: what sends take does not count, only waits do.
type retrier struct {
	left       int           // repeats
	budget     time.Duration // that is left for waits
	wait       time.Duration // its own next one
	limit      time.Duration // of its own waits
	multiplier float64
}

// newRetrier allows so many repeats. Its k-th wait is base*multiplier^(k-1), at most limit (0 = no limit); all waits
// together last at most budget (0 = no limit).
func newRetrier(repeats int, base, limit time.Duration, multiplier float64, budget time.Duration) *retrier {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	if budget <= 0 {
		budget = math.MaxInt64
	}
	return &retrier{left: repeats, budget: budget, wait: min(base, limit), limit: limit, multiplier: multiplier}
}

// next answers for the send that has just failed. The upstream's own hint (Retry-After; 0 = none) counts instead of a wait
// that is shorter, beyond the limit too. One that does not fit into the budget ends the retries: to ask before the time
// that the upstream named is to be refused again.
func (r *retrier) next(retryable bool, hint time.Duration) (again bool, wait time.Duration) {
	wait = max(r.wait, hint)
	if !retryable || r.left <= 0 || wait > r.budget {
		return false, 0
	}
	r.left--
	r.budget -= wait
	if grown := float64(r.wait) * r.multiplier; grown < float64(r.limit) {
		r.wait = time.Duration(grown)
	} else {
		r.wait = r.limit
	}
	return true, wait
}
