package telemetry

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// ignore is an observer that takes everything and keeps nothing.
type ignore struct{ noopmetric.Observer }

func (ignore) ObserveFloat64(metric.Float64Observable, float64, ...metric.ObserveOption) {}
func (ignore) ObserveInt64(metric.Int64Observable, int64, ...metric.ObserveOption)       {}

// keep is a log processor that keeps all records.
type keep struct{ records []sdklog.Record }

func (k *keep) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (k *keep) OnEmit(_ context.Context, r *sdklog.Record) error {
	k.records = append(k.records, r.Clone())
	return nil
}
func (k *keep) Shutdown(context.Context) error   { return nil }
func (k *keep) ForceFlush(context.Context) error { return nil }

func TestEvent(t *testing.T) {
	spans, logs := tracetest.NewSpanRecorder(), &keep{}
	tel, err := New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), nil, sdklog.NewLoggerProvider(sdklog.WithProcessor(logs)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, route := tel.Tracer().Start(t.Context(), SpanRoute)
	ctx, child := tel.Tracer().Start(ctx, OperationChat)
	from := attribute.String(AttrFrom, "a")
	tel.Event(ctx, route, EventFailover, from)
	child.End()
	route.End()

	ended := spans.Ended()
	if n := len(ended[0].Events()); n != 0 {
		t.Errorf("%d events on the span of the context, want them on the one given", n)
	}
	events := ended[1].Events()
	if len(events) != 1 || events[0].Name != EventFailover || len(events[0].Attributes) != 1 || events[0].Attributes[0] != from {
		t.Errorf("events of the span: %+v", events)
	}
	if len(logs.records) != 1 {
		t.Fatalf("%d log records, want 1", len(logs.records))
	}
	r := logs.records[0]
	if r.EventName() != EventFailover || r.AttributesLen() != 1 || !r.Timestamp().Equal(events[0].Time) {
		t.Errorf("record %q with %d attributes at %v", r.EventName(), r.AttributesLen(), r.Timestamp())
	}
	if r.SpanID() != route.SpanContext().SpanID() || r.TraceID() != route.SpanContext().TraceID() {
		t.Error("the record has other ids than the span")
	}
}

func TestWithoutProviders(t *testing.T) {
	tel, err := New(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tel.Tracer().Start(t.Context(), SpanRoute)
	tel.Event(ctx, span, EventFirstChunk)
	tel.Model("m", "w").Request(ctx, Request{})
	tel.Model("m", "w").Affinity(ctx, AffinityNone, ResultNone)
	tel.Target(TargetLabels{}).Attempt(ctx, Attempt{})
	stop, err := tel.Observe(func() []UpstreamState { return nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if span.IsRecording() {
		t.Error("a span is recorded without a provider")
	}
}

// Without a tracer there is no span to compare with, and the record is written all the same.
func TestEventWithoutSpans(t *testing.T) {
	kept := &keep{}
	tel, err := New(nil, nil, sdklog.NewLoggerProvider(sdklog.WithProcessor(kept)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tel.Tracer().Start(t.Context(), SpanRoute)
	tel.Event(ctx, span, EventFirstChunk)
	if len(kept.records) != 1 {
		t.Errorf("%d records", len(kept.records))
	}
}
