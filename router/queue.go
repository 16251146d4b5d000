package router

import (
	"container/list"
	"context"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// queue holds requests back above a ceiling, and lets them in by order of arrival.
type queue struct {
	mu      sync.Mutex
	inside  int
	waiting list.List // of chan struct{}, the oldest in front
}

// enter waits for a place among limit requests; at most depth others may be waiting already. It reports false at once if
// there are more, and the error of ctx if that ends first: who leaves the queue is forgotten.
func (q *queue) enter(ctx context.Context, limit, depth int) (ok bool, err error) {
	q.mu.Lock()
	if q.inside < limit && q.waiting.Len() == 0 {
		q.inside++
		q.mu.Unlock()
		return true, nil
	}
	if q.waiting.Len() >= depth {
		q.mu.Unlock()
		return false, nil
	}
	turn := make(chan struct{})
	place := q.waiting.PushBack(turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return true, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-turn: // it came at the same moment, and is passed on
		q.inside--
		q.admit(limit)
	default:
		q.waiting.Remove(place)
	}
	return false, context.Cause(ctx)
}

// leave gives a place back; limit is the ceiling of now, 0 for none.
func (q *queue) leave(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inside--
	q.admit(limit)
}

// resize lets in those who wait for a ceiling that is higher now; the next request to end may be a long stream.
func (q *queue) resize(limit int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.admit(limit)
}

func (q *queue) admit(limit int) {
	for q.waiting.Len() > 0 && (limit <= 0 || q.inside < limit) {
		turn, _ := q.waiting.Remove(q.waiting.Front()).(chan struct{})
		q.inside++
		close(turn)
	}
}

// length is how many requests wait.
func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len()
}

// admit has the request wait while as many as the configuration allows are under way. Token counts are cheap and come in
// bursts; they pass by.
func (x *exchange) admit() error {
	server := &x.r.snap.Load().cfg.Server // the newest, or a reload would find the request waiting for an old ceiling
	limit := server.MaxConcurrentRequests
	if limit <= 0 || !x.generates() {
		return nil
	}
	from := x.r.opts.now()
	var err error
	x.await(func() { x.admitted, err = x.r.queue.enter(x.ctx, limit, server.MaxQueueDepth) })
	x.queued(from)
	switch {
	case x.admitted:
		return nil
	case err == nil:
		e := saturated("too many requests are waiting already")
		e.Kind = "queue_full"
		return e
	case x.stopping():
		return stopping()
	case x.timedOut():
		return &Error{
			Kind: "queue_timeout", Status: http.StatusServiceUnavailable, class: telemetry.ClassSaturated, retry: time.Second,
			Msg: "the request waited for its turn until its time was over",
		}
	}
	return errGone
}

// queued tells how long the request was held back, if that was worth telling.
func (x *exchange) queued(from time.Time) {
	now := x.r.opts.now()
	if now.Sub(from) <= time.Millisecond {
		return
	}
	_, span := x.r.tel.Tracer().Start(x.ctx, telemetry.SpanWait+" "+telemetry.WaitQueue, trace.WithTimestamp(from),
		trace.WithAttributes(attribute.String(telemetry.AttrReason, telemetry.WaitQueue)))
	span.End(trace.WithTimestamp(now))
	x.model.recs[x.route.Wire.Name].Wait(x.ctx, telemetry.WaitQueue, now.Sub(from))
}
