package telemetry

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	nooplog "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
)

// Telemetry holds the tracer, the logger and the instruments of one engine. Make one with New; it is safe for concurrent use.
type Telemetry struct {
	instruments
	tracer     trace.Tracer
	meter      metric.Meter
	logger     log.Logger
	reloadSets *sets[string, labels]
}

// New creates all instruments of the contract. A nil provider reports nothing.
func New(tp trace.TracerProvider, mp metric.MeterProvider, lp log.LoggerProvider) (*Telemetry, error) {
	if tp == nil {
		tp = nooptrace.NewTracerProvider()
	}
	if mp == nil {
		mp = noopmetric.NewMeterProvider()
	}
	if lp == nil {
		lp = nooplog.NewLoggerProvider()
	}
	t := &Telemetry{tracer: tp.Tracer(Scope), meter: mp.Meter(Scope), logger: lp.Logger(Scope)}
	m := &maker{meter: t.meter, table: Contract()}
	t.instruments = m.all()
	if m.err != nil {
		return nil, m.err
	}
	t.reloadSets = newSets(reloads.close, func(result string) labels { return newLabels(attribute.String(AttrResult, result)) })
	for _, result := range []string{ReloadApplied, ReloadRejected} {
		t.reloads.Add(context.Background(), 0, t.reloadSets.get(result).add...)
	}
	return t, nil
}

// Tracer is where every span of the engine comes from.
func (t *Telemetry) Tracer() trace.Tracer { return t.tracer }

// Reload counts one reload of the configuration; result is ReloadApplied or ReloadRejected. The start is none.
func (t *Telemetry) Reload(ctx context.Context, result string) {
	t.reloads.Add(ctx, 1, t.reloadSets.get(result).add...)
}

// Event puts an event on span, and writes the log record that mirrors it: same name and attributes, the ids of span.
func (t *Telemetry) Event(ctx context.Context, span trace.Span, name string, attrs ...attribute.KeyValue) {
	now := time.Now()
	if span.IsRecording() {
		// Each option is an allocation, and the event of every request has no attributes.
		if len(attrs) == 0 {
			span.AddEvent(name, trace.WithTimestamp(now))
		} else {
			span.AddEvent(name, trace.WithTimestamp(now), trace.WithAttributes(attrs...))
		}
	}
	if !t.logger.Enabled(ctx, log.EnabledParameters{Severity: log.SeverityInfo, EventName: name}) {
		return
	}
	var r log.Record
	r.SetEventName(name)
	r.SetTimestamp(now)
	r.SetSeverity(log.SeverityInfo)
	r.SetSeverityText("INFO")
	r.AddAttributes(attrs...)
	if !trace.SpanContextFromContext(ctx).Equal(span.SpanContext()) { // spans themselves may be no comparable type
		ctx = trace.ContextWithSpan(ctx, span)
	}
	t.logger.Emit(ctx, r)
}
