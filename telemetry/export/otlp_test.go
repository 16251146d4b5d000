package export

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// collector is an OTLP receiver that keeps what it got.
type collector struct {
	collectortrace.UnimplementedTraceServiceServer
	mu      sync.Mutex
	traces  []*collectortrace.ExportTraceServiceRequest
	metrics []*collectormetrics.ExportMetricsServiceRequest
	logs    []*collectorlogs.ExportLogsServiceRequest
	headers []http.Header
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, "not compressed", http.StatusBadRequest)
		return
	}
	raw, _ := io.ReadAll(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = append(c.headers, r.Header)
	switch r.URL.Path {
	case "/base/v1/traces":
		c.traces = take(w, raw, c.traces, &collectortrace.ExportTraceServiceRequest{})
	case "/base/v1/metrics":
		c.metrics = take(w, raw, c.metrics, &collectormetrics.ExportMetricsServiceRequest{})
	case "/base/v1/logs":
		c.logs = take(w, raw, c.logs, &collectorlogs.ExportLogsServiceRequest{})
	default:
		http.NotFound(w, r)
	}
}

func take[M proto.Message](w http.ResponseWriter, raw []byte, list []M, m M) []M {
	if err := proto.Unmarshal(raw, m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return list
	}
	return append(list, m)
}

// Export implements the trace service over gRPC.
func (c *collector) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.traces = append(c.traces, r)
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

// metric finds a metric as it was sent last, whatever its scope.
func (c *collector) metric(name string) *metricspb.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range slices.Backward(c.metrics) {
		for _, rm := range m.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					if m.Name == name {
						return m
					}
				}
			}
		}
	}
	return nil
}

func TestExportOverHTTP(t *testing.T) {
	var c collector
	server := httptest.NewServer(&c)
	defer server.Close()
	p, log := begin(t, Config{Endpoint: server.URL + "/base", Headers: map[string]string{"Authorization": "Bearer hunter22"}, SampleRatio: 1})
	tel, err := telemetry.New(p.Tracer, p.Meter, p.Logger)
	if err != nil {
		t.Fatal(err)
	}
	ctx, span := tel.Tracer().Start(t.Context(), telemetry.SpanRoute)
	tel.Event(ctx, span, telemetry.EventFailover, attribute.String(telemetry.AttrFrom, "a"))
	slog.New(p.LogHandler(slog.NewTextHandler(io.Discard, nil))).InfoContext(ctx, "hello")
	tel.Model("opus", "openai-chat").Request(ctx, telemetry.Request{Outcome: telemetry.OutcomeSuccess})
	span.End()
	// A processor's queue is told of while the processor runs.
	if err := p.Meter.(*sdkmetric.MeterProvider).ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.memory.used", "process.uptime", "otel.sdk.processor.span.queue.size", "otel.sdk.processor.span.queue.capacity"} {
		if c.metric(name) == nil {
			t.Errorf("no %s", name)
		}
	}
	if err := p.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}

	// What the flush at the end sent is in the counts.
	if m := c.metric("otel.sdk.processor.span.processed"); len(m.GetSum().GetDataPoints()) != 1 || m.GetSum().DataPoints[0].GetAsInt() != 1 {
		t.Errorf("spans processed: %v, want 1", m)
	}
	if len(c.traces) != 1 || c.traces[0].ResourceSpans[0].ScopeSpans[0].Spans[0].Name != telemetry.SpanRoute {
		t.Errorf("traces: %v", c.traces)
	}
	if m := c.metric(telemetry.MetricRequests); m.GetSum().GetAggregationTemporality() != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
		t.Errorf("requests: %v", m)
	}
	if len(c.logs) != 1 {
		t.Fatalf("%d log exports, want 1", len(c.logs))
	}
	id, names := span.SpanContext().TraceID(), ""
	for _, scope := range c.logs[0].ResourceLogs[0].ScopeLogs {
		for _, r := range scope.LogRecords {
			names += r.EventName + r.Body.GetStringValue() + ";"
			if string(r.TraceId) != string(id[:]) {
				t.Errorf("%s %v has another trace id", r.EventName, r.Body)
			}
		}
	}
	if !strings.Contains(names, telemetry.EventFailover+";") || !strings.Contains(names, "hello;") {
		t.Errorf("log records %s", names)
	}
	for _, h := range c.headers {
		if h.Get("Authorization") != "Bearer hunter22" || h.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("headers %v", h)
		}
	}
	if log.count() != 0 {
		t.Errorf("log: %s", log)
	}
}

func TestExportOverGRPC(t *testing.T) {
	t.Setenv("OTEL_METRICS_EXPORTER", "none")
	t.Setenv("OTEL_LOGS_EXPORTER", "none")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var c collector
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, &c)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	config := unset()
	config.Endpoint = "http://" + listener.Addr().String()
	p, log := begin(t, config)
	_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
	span.End()
	if err := p.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if len(c.traces) != 1 || log.count() != 0 {
		t.Errorf("%d exports, log: %s", len(c.traces), log)
	}
}

// refusing is an address where nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestDeadCollector(t *testing.T) {
	p, log := begin(t, Config{Endpoint: "http://" + refusing(t), SampleRatio: 1})
	for range 2000 {
		_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
		span.End()
	}
	began := time.Now()
	err := p.Shutdown(t.Context())
	if took := time.Since(began); took > flushTime {
		t.Errorf("the shutdown took %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v, want one that says so", err)
	}
	if log.count() != 1 {
		t.Errorf("log: %s\nwant one line", log)
	}
}

func TestDeadCollectorOverGRPC(t *testing.T) {
	others := goleak.IgnoreCurrent()
	p, _ := begin(t, Config{Endpoint: "http://" + refusing(t), Protocol: "grpc", SampleRatio: 1})
	_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := p.Shutdown(ctx); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the shutdown took %v, 0.1 s were allowed", took)
	}
	goleak.VerifyNone(t, others)
}

func TestHangingCollector(t *testing.T) {
	others := goleak.IgnoreCurrent()
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	p, _ := begin(t, Config{Endpoint: server.URL, SampleRatio: 1})
	began := time.Now()
	for range 20000 {
		_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
		span.End()
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20,000 spans took %v: the collector delays them", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began = time.Now()
	if err := p.Shutdown(ctx); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the shutdown took %v, 0.1 s were allowed", took)
	}
	close(hang)
	server.Close()
	// The SDK's worker still goes through its full queue, which takes seconds under the race detector.
	for deadline := time.Now().Add(30 * time.Second); goleak.Find(others) != nil && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	goleak.VerifyNone(t, others)
}

// What a receiver of spans that hangs leaves of the time is enough for the last metrics.
func TestHangingSpansKeepNoMetrics(t *testing.T) {
	others := goleak.IgnoreCurrent()
	hang, counted := make(chan struct{}), make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/metrics" {
			<-hang
		}
		select {
		case counted <- struct{}{}:
		default:
		}
	}))
	p, _ := begin(t, Config{Endpoint: server.URL, SampleRatio: 1})
	_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
	span.End()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := p.Shutdown(ctx); err == nil {
		t.Error("no error")
	}
	select {
	case <-counted:
	default:
		t.Error("the last metrics were not sent")
	}
	close(hang)
	server.Close()
	goleak.VerifyNone(t, others)
}

func TestReportsAreRareAndClean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=open%20sesame,x=1")
		var log lines
		r := newReporter(log.logger(), map[string]string{"Authorization": "Bearer hunter22"})
		r.Handle(errors.New(`Post "https://user:swordfish@c:4318/v1/traces?token=swordfish": refused; sent Bearer hunter22 and open sesame`))
		for range 5 {
			r.Handle(errors.New("again"))
		}
		if log.count() != 1 {
			t.Errorf("%d lines at once", log.count())
		}
		time.Sleep(quietTime)
		r.Handle(fmt.Errorf("see http://c:4318/x?token=swordfish: refused"))
		got := log.String()
		if log.count() != 2 || !strings.Contains(got, "suppressed=5") {
			t.Errorf("log: %s", got)
		}
		for _, secret := range []string{"swordfish", "hunter22", "sesame", "user:"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s is in the log: %s", secret, got)
			}
		}
		if !strings.Contains(got, "https://c:4318") || !strings.Contains(got, "http://c:4318: refused") {
			t.Errorf("the host is lost: %s", got)
		}
	})
}

func TestSDKsOwnLogIsKept(t *testing.T) {
	var log lines
	r := newReporter(log.logger(), nil)
	otel.SetLogger(r.logger())
	r.logger().V(levelDebug).Info("exporting spans", "count", 1, "total_dropped", uint32(0))
	r.logger().V(4).Info("configuration", "config", "swordfish")
	if log.count() != 0 {
		t.Errorf("log: %s", &log)
	}
	r.logger().V(levelDebug).Info("exporting spans", "count", 1, "total_dropped", uint32(7))
	if !strings.Contains(log.String(), "dropped spans: 7") {
		t.Errorf("log: %s", &log)
	}
	r.until = time.Time{}
	r.logger().V(levelWarn).Info("dropped log records", "dropped", uint64(3))
	if !strings.Contains(log.String(), "dropped log records: 3") {
		t.Errorf("log: %s", &log)
	}
	r.until = time.Time{}
	r.logger().Error(errors.New("missing ="), "parse headers", "input", "swordfish")
	if !strings.Contains(log.String(), "parse headers: missing =") || strings.Contains(log.String(), "swordfish") {
		t.Errorf("log: %s", &log)
	}
}
