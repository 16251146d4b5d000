package upstream

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func traceContext() propagation.TextMapPropagator { return propagation.TraceContext{} }

// tracers returns a provider of spans and what they end up in.
func tracers() (*sdktrace.TracerProvider, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), spans
}

// recorded returns a client together with the spans and metrics it makes.
func recorded(t *testing.T, base string, p propagation.TextMapPropagator) (*Client, *tracetest.SpanRecorder, *sdkmetric.ManualReader) {
	t.Helper()
	provider, spans := tracers()
	reader := sdkmetric.NewManualReader()
	c := New(Config{
		Name: "a", Base: parse(t, base), Propagator: p,
		TracerProvider: provider,
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
	})
	t.Cleanup(c.CloseIdle)
	return c, spans, reader
}

func attributes(s sdktrace.ReadOnlySpan) map[attribute.Key]string {
	m := map[attribute.Key]string{}
	for _, kv := range s.Attributes() {
		m[kv.Key] = kv.Value.String()
	}
	return m
}

// secretive is a call whose URL and header hold what must not be told.
func secretive(t *testing.T, base string) *Call {
	call := newCall(t, base, "SECRET prompt")
	call.URL.Path, call.URL.RawQuery = "/v1beta/models/SECRET-model:generateContent", "key=SECRET"
	call.URL.User = url.UserPassword("SECRET", "SECRET")
	call.Route = "/v1beta/models/{model}"
	call.Header.Set("X-Api-Key", "SECRET")
	return call
}

func TestSpans(t *testing.T) {
	var n atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for _, h := range []string{"Traceparent", "Tracestate", "Baggage"} {
			if r.Header.Get(h) != "" {
				t.Errorf("%s was sent", h)
			}
		}
		if n.Add(1) < 3 {
			http.Error(w, "SECRET", http.StatusServiceUnavailable)
		}
	})
	c, spans, reader := recorded(t, s.URL, nil)
	call := secretive(t, s.URL)
	call.Retry = func(int, *http.Response, []byte, error) (bool, time.Duration) { return true, 0 }
	a, err := do(t, c, call)
	text(t, a, err)
	if len(spans.Ended()) != 3 {
		t.Fatalf("%d spans", len(spans.Ended()))
	}
	for i, span := range spans.Ended() {
		got := attributes(span)
		if span.Name() != "POST /v1beta/models/{model}" || got["url.full"] != s.URL+"/v1beta/models/{model}" {
			t.Errorf("span %q with %v", span.Name(), got)
		}
		if want := []string{"", "1", "2"}[i]; got["http.request.resend_count"] != want {
			t.Errorf("send %d has resend_count %q", i+1, got["http.request.resend_count"])
		}
	}
	noSecrets(t, spans, reader)
}

func TestSpansOfFailures(t *testing.T) {
	broken := tcp(t, answer("SECRET garbage\r\n\r\n"))
	cut := tcp(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nSECRET"))
	for _, c := range []struct{ base, kind, text string }{
		{broken, kindInvalid, "invalid response"},
		{cut, kindTruncated, "stream truncated"},
		{"http://127.0.0.1:1", kindRefused, "connection refused"},
	} {
		client, spans, reader := recorded(t, c.base, nil)
		a, err := do(t, client, secretive(t, c.base))
		if err == nil {
			_, err = a.Body.Read(make([]byte, 100))
			for err == nil {
				_, err = a.Body.Read(make([]byte, 100))
			}
			a.Body.Close()
		}
		if Kind(err) != c.kind || err.Error() != c.text {
			t.Errorf("got %q of kind %s, want %q", err, Kind(err), c.text)
		}
		if len(spans.Ended()) != 1 {
			t.Fatalf("%d spans", len(spans.Ended()))
		}
		span := spans.Ended()[0]
		if span.Status().Code != codes.Error || span.Status().Description != c.text || attributes(span)["error.type"] != c.kind {
			t.Errorf("span has %v, %v", span.Status(), attributes(span))
		}
		noSecrets(t, spans, reader)
	}
}

// noSecrets fails if anything that was recorded holds what only requests and answers may hold.
func noSecrets(t *testing.T, spans *tracetest.SpanRecorder, reader *sdkmetric.ManualReader) {
	t.Helper()
	var told []string
	for _, s := range spans.Ended() {
		told = append(told, s.Name(), s.Status().Description)
		for _, v := range attributes(s) {
			told = append(told, v)
		}
	}
	points := durations(t, reader)
	for ; len(points) == 0; points = durations(t, reader) {
		time.Sleep(time.Millisecond) // otelhttp records once the request body is closed, which may be later
	}
	for _, p := range points {
		told = append(told, p.Attributes.Encoded(attribute.DefaultEncoder()))
	}
	if all := strings.Join(told, "\n"); strings.Contains(all, "SECRET") {
		t.Errorf("telemetry tells too much:\n%s", all)
	}
}

func durations(t *testing.T, reader *sdkmetric.ManualReader) (points []metricdata.HistogramDataPoint[float64]) {
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == "http.client.request.duration" {
				points = append(points, h.DataPoints...)
			}
		}
	}
	return points
}

func TestPropagation(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Got", r.Header.Get("Traceparent")) })
	c, spans, _ := recorded(t, s.URL, traceContext())
	a, err := do(t, c, newCall(t, s.URL, "x"))
	text(t, a, err)
	if span := spans.Ended()[0].SpanContext(); !strings.Contains(a.Header.Get("Got"), span.SpanID().String()) {
		t.Errorf("the upstream got %q", a.Header.Get("Got"))
	}
}

func TestSpanNameOfOddMethod(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	c, spans, _ := recorded(t, s.URL, nil)
	call := newCall(t, s.URL)
	call.Method = "SECRET"
	a, err := do(t, c, call)
	text(t, a, err)
	if name := spans.Ended()[0].Name(); name != "HTTP /v1/messages" {
		t.Errorf("span %q", name)
	}
}
