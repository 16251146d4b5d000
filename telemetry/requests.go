package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// Request is what a client saw of one request.
type Request struct {
	Outcome    string        // one of the Outcome values
	ErrorClass string        // one of the Class values; empty is ClassNone
	Duration   time.Duration // to the last byte of the answer
	FirstChunk time.Duration // to the first output; 0 = there was none, or the answer was no stream
	Overhead   time.Duration // spent in the router itself
	Attempts   int           // dispatches; 0 = none was made, and none is recorded
}

// ModelRecorder records requests for one model on one wire. It is safe for concurrent use and allocates nothing once every
// combination has been seen.
type ModelRecorder struct {
	t          *Telemetry
	model      labels
	wire       labels
	requests   *sets[requestKey, requestLabels]
	waits      *sets[string, labels]
	affinities *sets[affinityKey, labels]
}

type requestKey struct{ outcome, class string }

type requestLabels struct{ requests, duration, attempts labels }

// Model makes the recorder of one model, as the configuration names it (else Unnamed), and one wire. Keep it: sets are built
// once per recorder.
func (t *Telemetry) Model(model, wire string) *ModelRecorder {
	m, w := attribute.String(AttrModel, model), attribute.String(AttrWire, wire)
	return &ModelRecorder{
		t: t, model: newLabels(m), wire: newLabels(w),
		requests: newSets(func(k requestKey) requestKey {
			return requestKey{outcomes.close(k.outcome), closeClass(k.class)}
		}, func(k requestKey) requestLabels {
			outcome := attribute.String(AttrOutcome, k.outcome)
			return requestLabels{
				requests: newLabels(m, w, outcome, attribute.String(AttrErrorClass, k.class)),
				duration: newLabels(m, w, outcome),
				attempts: newLabels(m, outcome),
			}
		}),
		waits:      newSets(waitReasons.close, func(reason string) labels { return newLabels(m, attribute.String(AttrReason, reason)) }),
		affinities: affinitySets(m),
	}
}

// Request records one finished request.
func (r *ModelRecorder) Request(ctx context.Context, q Request) {
	s := r.requests.get(requestKey{q.Outcome, q.ErrorClass})
	r.t.requests.Add(ctx, 1, s.requests.add...)
	r.t.requestDuration.Record(ctx, q.Duration.Seconds(), s.duration.record...)
	r.t.overhead.Record(ctx, q.Overhead.Seconds(), r.wire.record...)
	if q.Attempts > 0 {
		r.t.requestAttempts.Record(ctx, int64(q.Attempts), s.attempts.record...)
	}
	if q.FirstChunk > 0 {
		r.t.requestFirst.Record(ctx, q.FirstChunk.Seconds(), r.model.record...)
	}
}

// Wait records that a request was held back; reason is WaitQueue or WaitRetry.
func (r *ModelRecorder) Wait(ctx context.Context, reason string, d time.Duration) {
	r.t.wait.Record(ctx, d.Seconds(), r.waits.get(reason).record...)
}

// alertedRequests are the series that alerts on error budgets, truncated streams and unclassified errors read.
func alertedRequests() []requestKey {
	return []requestKey{
		{OutcomeSuccess, ClassNone},
		{OutcomeSuccessAfterFailover, ClassNone},
		{OutcomeFailed, ClassRateLimited},
		{OutcomeFailed, ClassOverloaded},
		{OutcomeFailed, ClassServerError},
		{OutcomeFailed, ClassTimeout},
		{OutcomeFailed, ClassStreamTruncated},
		{OutcomeFailed, ClassNoneEligible},
		{OutcomeRejected, ClassNoneEligible},
		{OutcomeFailed, ClassInternal},
	}
}

// Zero makes the series that an alert reads exist, so that increase sees the first event. Call it once a configuration, for
// the combinations of model and wire that it can serve: an instrument holds 2,000 sets, and each combination takes ten of
// requests. Those of affinity are three a model, whatever the wire.
func (r *ModelRecorder) Zero(ctx context.Context) {
	for _, s := range r.requests.all(alertedRequests()) {
		r.t.requests.Add(ctx, 0, s.requests.add...)
	}
	for _, s := range r.affinities.all(alertedAffinities()) {
		r.t.affinityDecisions.Add(ctx, 0, s.add...)
	}
}
