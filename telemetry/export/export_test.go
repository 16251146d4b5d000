package export

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// TestMain takes away what the environment may say about telemetry, and looks for goroutines left behind.
func TestMain(m *testing.M) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			_ = os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// lines is a log that can be read while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *lines) count() int { return strings.Count(l.String(), "\n") }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// unset is a configuration in which nothing is said.
func unset() Config { return Config{SampleRatio: -1} }

func begin(t *testing.T, c Config) (*Providers, *lines) {
	t.Helper()
	var log lines
	p, err := Start(t.Context(), c, log.logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, &log
}

func TestNothingConfigured(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"no endpoint":  {},
		"all are none": {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"},
		"disabled":     {"OTEL_SDK_DISABLED": "TRUE", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range variables {
				t.Setenv(k, v)
			}
			p, log := begin(t, unset())
			_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
			if p.Enabled || span.SpanContext().IsValid() {
				t.Error("something is exported")
			}
			if log.count() != 1 || !strings.Contains(log.String(), "telemetry is off") {
				t.Errorf("log: %q, want one line", log)
			}
			if err := p.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSignalsChosenByVariables(t *testing.T) {
	const endpoint = "http://localhost:1"
	for name, c := range map[string]struct {
		variables map[string]string
		endpoint  string
		want      wanted
	}{
		"configured endpoint":  {nil, endpoint, wanted{true, true, true, true, true, true}},
		"base variable":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, "", wanted{true, true, true, true, true, true}},
		"one signal only":      {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, "", wanted{traces: true, otlpTraces: true}},
		"one signal off":       {map[string]string{"OTEL_LOGS_EXPORTER": "none"}, endpoint, wanted{true, true, false, true, true, false}},
		"asked for by name":    {map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, "", wanted{metrics: true, otlpMetrics: true}},
		"one of several":       {map[string]string{"OTEL_LOGS_EXPORTER": "console, otlp"}, "", wanted{logs: true, otlpLogs: true}},
		"none that we know of": {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, endpoint, wanted{false, true, true, false, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.variables {
				t.Setenv(k, v)
			}
			if got := (Config{Endpoint: c.endpoint}).wanted(slog.New(slog.DiscardHandler)); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestReceiverAddress(t *testing.T) {
	for _, c := range []struct{ endpoint, protocol, want, err string }{
		{"http://c:4318", "", "http://c:4318/v1/traces", ""},
		{"https://c/otlp/", "http/protobuf", "https://c/otlp/v1/traces", ""},
		{"http://c:4317", "grpc", "http://c:4317", ""},
		{"", "", "", ""},
		{"c:4318", "", "", "no URL"},
		{"http://user:hunter22@c:4318", "", "", "use headers"},
		{"http://c:4318?key=hunter22", "", "", "use headers"},
		{"http://c:4318", "http/json", "", "neither"},
	} {
		r, err := Config{Endpoint: c.endpoint, Protocol: c.protocol}.receiver(traces)
		if c.err == "" && (err != nil || r.url != c.want) {
			t.Errorf("%s %s: %q, %v, want %q", c.endpoint, c.protocol, r.url, err, c.want)
		}
		if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "hunter22")) {
			t.Errorf("%s %s: error %v, want %q", c.endpoint, c.protocol, err, c.err)
		}
	}
}

func TestConfigErrorsEndWhatBegan(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, c := range map[string]Config{
		"protocol": {Endpoint: "http://localhost:1", Protocol: "smoke"},
		"address":  {Endpoint: "http://localhost:1", PrometheusListen: busy.Addr().String()},
	} {
		if _, err := Start(t.Context(), c, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestExtraExporters(t *testing.T) {
	spans, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
	c := unset()
	c.SpanExporters, c.Readers = []sdktrace.SpanExporter{flushed{spans}}, []sdkmetric.Reader{reader}
	p, log := begin(t, c)
	_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
	span.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !p.Enabled || len(spans.GetSpans()) != 1 {
		t.Errorf("%d spans, want 1", len(spans.GetSpans()))
	}
	if log.count() != 0 {
		t.Errorf("log: %s", log)
	}
}

// flushed keeps its spans when it is shut down.
type flushed struct{ *tracetest.InMemoryExporter }

func (flushed) Shutdown(context.Context) error { return nil }

func TestSamplingRatio(t *testing.T) {
	for name, c := range map[string]struct {
		ratio   float64
		sampler string
		sampled bool
	}{
		"none":                     {0, "", false},
		"all":                      {1, "always_off", true},
		"unset":                    {-1, "", true},
		"unset, told by variables": {-1, "always_off", false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.sampler != "" {
				t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			}
			p, _ := begin(t, Config{SampleRatio: c.ratio, SpanExporters: []sdktrace.SpanExporter{tracetest.NewNoopExporter()}})
			_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
			if span.SpanContext().IsSampled() != c.sampled {
				t.Errorf("sampled: %v", !c.sampled)
			}
			parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled})
			if c.ratio >= 0 {
				_, span = p.Tracer.Tracer("x").Start(trace.ContextWithRemoteSpanContext(t.Context(), parent), "x")
				if !span.SpanContext().IsSampled() {
					t.Error("the parent's decision does not count")
				}
			}
		})
	}
}

func TestResource(t *testing.T) {
	for name, c := range map[string]struct {
		service, variable, want string
	}{
		"default": {"", "", "signalbox"}, "variable": {"", "elsewhere", "elsewhere"}, "configuration": {"mine", "elsewhere", "mine"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.variable != "" {
				t.Setenv("OTEL_SERVICE_NAME", c.variable)
			}
			t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,"+telemetry.ContractKey+"=99")
			r, err := describe(t.Context(), Config{ServiceName: c.service, Version: "1.2.3"})
			if err != nil {
				t.Fatal(err)
			}
			for key, want := range map[string]string{
				"service.name": c.want, "service.version": "1.2.3", "deployment.environment.name": "test", telemetry.ContractKey: "1",
			} {
				if v, _ := r.Set().Value(attribute.Key(key)); v.AsString() != want {
					t.Errorf("%s = %q, want %q", key, v.AsString(), want)
				}
			}
			for _, key := range []string{"service.instance.id", "host.name", "os.type", "process.pid", "telemetry.sdk.version"} {
				if !r.Set().HasValue(attribute.Key(key)) {
					t.Errorf("no %s", key)
				}
			}
			for _, key := range []string{"process.command", "process.command_line", "process.command_args", "process.owner"} {
				if r.Set().HasValue(attribute.Key(key)) {
					t.Errorf("%s must not be told", key)
				}
			}
		})
	}
}

func TestPrometheus(t *testing.T) {
	c := unset()
	c.PrometheusListen = "127.0.0.1:0"
	p, _ := begin(t, c)
	tel, err := telemetry.New(p.Tracer, p.Meter, p.Logger)
	if err != nil {
		t.Fatal(err)
	}
	tel.Reload(t.Context(), telemetry.ReloadApplied)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + p.prometheus.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	for _, want := range []string{"signalbox_config_reloads_total{", `signalbox_result="applied"} 1`, "process_uptime_seconds", "go_goroutine_count", "target_info{"} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := client.Get("http://" + p.prometheus.String() + "/metrics"); err == nil {
		t.Error("it is still served after the shutdown")
	}
}

func TestLogHandlerAddsIDs(t *testing.T) {
	p, _ := begin(t, unset())
	var out lines
	log := slog.New(p.LogHandler(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))).With("a", 1).WithGroup("g")
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{0xab}, SpanID: trace.SpanID{0xcd}}))
	log.InfoContext(ctx, "not seen")
	log.WarnContext(ctx, "seen")
	log.Warn("no span")
	got := out.String()
	if strings.Contains(got, "not seen") || !strings.Contains(got, "trace_id=ab00") || !strings.Contains(got, "span_id=cd00") {
		t.Errorf("log: %s", got)
	}
	if strings.Count(got, "trace_id") != 1 {
		t.Errorf("ids without a span: %s", got)
	}
}
