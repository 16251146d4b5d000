package router_test

import (
	"testing"

	nolog "go.opentelemetry.io/otel/log/noop"
	nometric "go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// The instrumentation reads the route when the span begins, so that one set later reaches the metrics only.
func TestServerSpansTellTheRoute(t *testing.T) {
	t.Parallel()
	for wire, want := range map[string]string{
		routertest.Chat: "/v1/chat/completions", routertest.Responses: "/v1/responses",
		routertest.Messages: "/v1/messages", routertest.Gemini: "/v1beta/models/{model}",
	} {
		recorder := tracetest.NewSpanRecorder()
		traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		w := build(t, upstreams(good), nil, router.WithTelemetry(traces, nometric.NewMeterProvider(), nolog.NewLoggerProvider()))
		w.ask(wire, true)
		w.close()
		n := 0
		for _, s := range recorder.Ended() {
			if s.SpanKind() != trace.SpanKindServer {
				continue
			}
			n++
			got := ""
			for _, a := range s.Attributes() {
				if string(a.Key) == telemetry.AttrHTTPRoute {
					got = a.Value.AsString()
				}
			}
			if got != want || s.Name() != "POST "+want {
				t.Errorf("%s: span %q has route %q, want %q", wire, s.Name(), got, want)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d server spans", wire, n)
		}
	}
}
