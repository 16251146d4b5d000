package telemetry

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// TargetLabels are what all records of one target have in common.
type TargetLabels struct {
	Model         string // as the configuration names it, else Unnamed
	Upstream      string // name of the account
	Provider      string // gen_ai.provider.name
	RequestModel  string // the target's own model, if the configuration names it, else Unnamed
	Operation     string // one of the Operation values
	ServerAddress string // host of the base URL; empty if there is none
	ServerPort    int    // 0 if there is none
	Price         *Price // nil: costs are told only as far as the upstream reports them
}

// Attempt is what one upstream did for one dispatch.
type Attempt struct {
	Reason     string        // one of the Attempt reasons
	ErrorClass string        // one of the Class values; empty is ClassNone
	ErrorType  string        // an HTTP status or one of the Error values; empty: no error
	Duration   time.Duration // to the last byte
	FirstChunk time.Duration // to the first chunk of a stream; 0 = none
	Usage      Usage         // start from NoUsage: zero is a count, too
	Cost       Cost
}

// TargetRecorder records attempts on one target. It is safe for concurrent use and allocates nothing once every combination
// has been seen.
type TargetRecorder struct {
	t         *Telemetry
	target    labels
	chunk     labels
	price     *Price
	costs     *costLabels
	attempts  *sets[attemptKey, labels]
	failovers *sets[string, labels]
	results   *sets[string, resultLabels]
}

type attemptKey struct{ reason, class string }

// resultLabels belong to one error type; tokens carry a modality as well.
type resultLabels struct{ inference, tokens labels }

// Target makes the recorder of one target. Keep it: sets are built once per recorder.
func (t *Telemetry) Target(l TargetLabels) *TargetRecorder {
	model, upstream := attribute.String(AttrModel, l.Model), attribute.String(AttrUpstream, l.Upstream)
	provider := attribute.String(AttrProvider, l.Provider)
	common := l.inference()
	return &TargetRecorder{
		t: t, target: newLabels(model, upstream), chunk: newLabels(common...), price: l.Price, costs: newCostLabels(model, upstream),
		attempts: newSets(func(k attemptKey) attemptKey {
			return attemptKey{attemptReasons.close(k.reason), closeClass(k.class)}
		}, func(k attemptKey) labels {
			return newLabels(model, upstream, provider, attribute.String(AttrAttemptReason, k.reason), attribute.String(AttrErrorClass, k.class))
		}),
		failovers: newSets(closeClass, func(class string) labels {
			return newLabels(model, upstream, attribute.String(AttrErrorClass, class))
		}),
		results: newSets(closeType, func(errorType string) resultLabels {
			attrs := common
			if errorType != "" {
				attrs = append(slices.Clip(attrs), attribute.String(AttrErrorType, errorType))
			}
			// Providers do not tell the modality of all tokens, and the conventions want one.
			unknown := append(slices.Clip(attrs), attribute.String(AttrModality, "unknown"))
			return resultLabels{inference: newLabels(attrs...), tokens: newLabels(unknown...)}
		}),
	}
}

// inference returns the attributes that inferenceKeys lists.
func (l TargetLabels) inference() []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String(AttrOperation, l.Operation), attribute.String(AttrProvider, l.Provider),
		attribute.String(AttrRequestModel, l.RequestModel), attribute.String(AttrUpstream, l.Upstream), attribute.String(AttrModel, l.Model),
	}
	if l.ServerAddress != "" {
		attrs = append(attrs, attribute.String(AttrServerAddress, l.ServerAddress))
	}
	if l.ServerAddress != "" && l.ServerPort != 0 {
		attrs = append(attrs, attribute.Int(AttrServerPort, l.ServerPort))
	}
	return attrs
}

// Attempt records one finished dispatch. Tokens that are unknown or none add nothing.
func (r *TargetRecorder) Attempt(ctx context.Context, a Attempt) {
	s := r.results.get(a.ErrorType)
	r.t.attempts.Add(ctx, 1, r.attempts.get(attemptKey{a.Reason, a.ErrorClass}).add...)
	r.t.duration.Record(ctx, a.Duration.Seconds(), s.inference.record...)
	if a.FirstChunk > 0 {
		r.t.first.Record(ctx, a.FirstChunk.Seconds(), s.inference.record...)
	}
	u := a.Usage
	if n := u.TotalInput(); n > 0 {
		r.t.usageInput.Add(ctx, n, s.tokens.add...)
		r.t.operationInput.Record(ctx, n, s.inference.record...)
	}
	if n := u.Output; n > 0 {
		r.t.usageOutput.Add(ctx, n, s.tokens.add...)
		r.t.operationOutput.Record(ctx, n, s.inference.record...)
	}
	if n := u.CacheRead; n > 0 {
		r.t.usageCacheRead.Add(ctx, n, s.tokens.add...)
	}
	if n := u.TotalCacheWrite(); n > 0 {
		r.t.usageCacheWrite.Add(ctx, n, s.tokens.add...)
	}
	if n := u.Reasoning; n > 0 {
		r.t.usageReasoning.Add(ctx, n, s.tokens.add...)
	}
	r.addCost(ctx, a.Cost)
}

// Chunk records the time between two chunks of a stream.
func (r *TargetRecorder) Chunk(ctx context.Context, gap time.Duration) {
	r.t.chunk.Record(ctx, gap.Seconds(), r.chunk.record...)
}

// Failover counts that this target was left for another one.
func (r *TargetRecorder) Failover(ctx context.Context, errorClass string) {
	r.t.failovers.Add(ctx, 1, r.failovers.get(errorClass).add...)
}

// alertedAttempts are the series that alerts on a failing upstream, truncated streams and unclassified errors read.
func alertedAttempts() []attemptKey {
	return []attemptKey{
		{AttemptInitial, ClassNone},
		{AttemptFailover, ClassNone},
		{AttemptInitial, ClassRateLimited},
		{AttemptInitial, ClassOverloaded},
		{AttemptInitial, ClassServerError},
		{AttemptInitial, ClassTimeout},
		{AttemptInitial, ClassConnectionFailed},
		{AttemptInitial, ClassStreamTruncated},
		{AttemptInitial, ClassInternal},
	}
}

// alertedFailovers are the classes that the failover-rate alert sees most.
func alertedFailovers() []string {
	return []string{ClassRateLimited, ClassOverloaded, ClassServerError, ClassTimeout, ClassConnectionFailed}
}

// Zero makes the series that an alert reads exist. Call it once a configuration, for declared targets and their usual
// operation only: an instrument holds 2,000 sets, and each target takes nine.
func (r *TargetRecorder) Zero(ctx context.Context) {
	for _, s := range r.attempts.all(alertedAttempts()) {
		r.t.attempts.Add(ctx, 0, s.add...)
	}
	for _, s := range r.failovers.all(alertedFailovers()) {
		r.t.failovers.Add(ctx, 0, s.add...)
	}
	r.zeroCost(ctx)
}

// Translated counts what a translation left out of one request; a request that lost nothing counts 0, so that the series
// exists.
func (r *TargetRecorder) Translated(ctx context.Context, dropped int) {
	r.t.translationDrops.Add(ctx, int64(dropped), r.target.add...)
}
