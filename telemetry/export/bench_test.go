//go:build unix

package export

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// load is all that one request reports, as the router does it: four spans, an event, the records and a line of the log.
type load struct {
	p        *Providers
	tel      *telemetry.Telemetry
	model    *telemetry.ModelRecorder
	target   *telemetry.TargetRecorder
	upstream *telemetry.UpstreamRecorder
	log      *slog.Logger
	server   []attribute.KeyValue
	route    []attribute.KeyValue
	chat     []attribute.KeyValue
	client   []attribute.KeyValue
	web      metric.Float64Histogram
	labels   metric.MeasurementOption
}

// newLoad reports to a receiver that takes everything and keeps nothing.
func newLoad(t testing.TB, c Config) *load {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(receiver.Close)
	c.Endpoint, c.SampleRatio, c.Interval = receiver.URL, 1, time.Hour
	p, err := Start(context.Background(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	tel, err := telemetry.New(p.Tracer, p.Meter, p.Logger)
	if err != nil {
		t.Fatal(err)
	}
	web, err := p.Meter.Meter("web").Float64Histogram("http.server.request.duration")
	if err != nil {
		t.Fatal(err)
	}
	text, number := attribute.String, attribute.Int
	return &load{
		p: p, tel: tel, model: tel.Model("opus", "openai-chat"), upstream: tel.Upstream("a"), web: web,
		target: tel.Target(telemetry.TargetLabels{
			Model: "opus", Upstream: "a", Provider: "openai", RequestModel: "opus-4", Operation: telemetry.OperationChat,
			ServerAddress: "api.example", ServerPort: 443,
		}),
		log:    slog.New(p.LogHandler(slog.NewJSONHandler(io.Discard, nil))),
		labels: metric.WithAttributeSet(attribute.NewSet(text("http.request.method", "POST"), text("http.route", "/v1/chat/completions"))),
		server: []attribute.KeyValue{
			text("http.request.method", "POST"), text("url.scheme", "http"), text("server.address", "127.0.0.1"), number("server.port", 8080),
			text("url.path", "/v1/chat/completions"), text("network.protocol.version", "1.1"), text("user_agent.original", "client/1.0"),
			text("http.route", "/v1/chat/completions"), number("http.request.body.size", 1000), number("http.response.status_code", 200),
		},
		route: []attribute.KeyValue{
			text(telemetry.AttrModel, "opus"), text(telemetry.AttrWire, "openai-chat"), text(telemetry.AttrClientModel, "opus"),
			text(telemetry.AttrClientType, "agent"), text(telemetry.AttrKey, "dev"), text(telemetry.AttrCall, "0123456789abcdef"),
			attribute.Bool(telemetry.AttrStream, false), text(telemetry.AttrDecision, "strategy"), text(telemetry.AttrStrategy, "affinity"),
			number(telemetry.AttrEligible, 2), number(telemetry.AttrCooling, 0), number(telemetry.AttrAttempts, 1),
			text(telemetry.AttrOutcome, "success"), text(telemetry.AttrUpstream, "a"), text(telemetry.AttrSessionSource, "prefix"),
			text(telemetry.AttrSessionHash, "01234567"), attribute.Float64(telemetry.AttrOverhead, 0.0001),
		},
		chat: []attribute.KeyValue{
			text(telemetry.AttrOperation, "chat"), text(telemetry.AttrProvider, "openai"), text(telemetry.AttrRequestModel, "opus-4"),
			attribute.Bool(telemetry.AttrStream, false), attribute.Float64(telemetry.AttrTemperature, 1), number(telemetry.AttrMaxTokens, 4096),
			text(telemetry.AttrResponseID, "chatcmpl-0123456789"), text(telemetry.AttrResponseModel, "opus-4"),
			attribute.StringSlice(telemetry.AttrFinishReasons, []string{"stop"}), number(telemetry.AttrUsageInput, 1000), number(telemetry.AttrUsageOutput, 100),
			text(telemetry.AttrServerAddress, "api.example"), number(telemetry.AttrServerPort, 443), number(telemetry.AttrHTTPStatus, 200),
			text(telemetry.AttrUpstream, "a"), text(telemetry.AttrModel, "opus"), number(telemetry.AttrAttemptNumber, 1),
			text(telemetry.AttrAttemptReason, "initial"), text(telemetry.AttrAttemptOutcome, "served"),
		},
		client: []attribute.KeyValue{
			text("http.request.method", "POST"), text("server.address", "api.example"), number("server.port", 443),
			text("url.full", "https://api.example/v1/chat/completions"), text("network.protocol.version", "1.1"), number("http.response.status_code", 200),
		},
	}
}

func (l *load) spans(ctx context.Context) context.Context {
	tr := l.tel.Tracer()
	ctx, server := tr.Start(ctx, "POST /v1/chat/completions", trace.WithSpanKind(trace.SpanKindServer))
	server.SetAttributes(l.server...)
	inner, route := tr.Start(ctx, "route opus")
	route.SetAttributes(l.route...)
	inner, chat := tr.Start(inner, "chat opus-4", trace.WithSpanKind(trace.SpanKindClient))
	chat.SetAttributes(l.chat...)
	_, client := tr.Start(inner, "POST /v1/chat/completions", trace.WithSpanKind(trace.SpanKindClient))
	client.SetAttributes(l.client...)
	client.SetStatus(codes.Unset, "")
	client.End()
	chat.End()
	route.End()
	server.End()
	return ctx
}

func (l *load) records(ctx context.Context) {
	l.upstream.Active(ctx, 1)
	l.upstream.Active(ctx, -1)
	l.model.Affinity(ctx, telemetry.AffinitySession, telemetry.ResultHit)
	l.model.Request(ctx, telemetry.Request{
		Outcome: telemetry.OutcomeSuccess, Duration: time.Second, FirstChunk: time.Second, Overhead: time.Millisecond, Attempts: 1,
	})
	u := telemetry.NoUsage()
	u.Input, u.Output = 1000, 100
	l.target.Attempt(ctx, telemetry.Attempt{Reason: telemetry.AttemptInitial, Duration: time.Second, FirstChunk: time.Second, Usage: u})
	for range 4 {
		l.web.Record(ctx, 0.1, l.labels)
	}
}

func (l *load) line(ctx context.Context) {
	l.log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("call", "0123456789abcdef"), slog.String("wire", "openai-chat"),
		slog.String("model", "opus"), slog.String("outcome", "success"), slog.Int("status", 200), slog.Int("attempts", 1),
		slog.Float64("seconds", 0.123), slog.String("upstream", "a"), slog.String("upstream_model", "opus-4"),
		slog.Int64("input_tokens", 1000), slog.Int64("cache_read_tokens", 0), slog.Int64("output_tokens", 100))
}

func (l *load) event(ctx context.Context) {
	l.tel.Event(ctx, trace.SpanFromContext(ctx), telemetry.EventFirstChunk)
}

// flush waits until the receiver has everything.
func (l *load) flush() {
	type flusher interface{ ForceFlush(context.Context) error }
	_ = l.p.Tracer.(flusher).ForceFlush(context.Background())
	_ = l.p.Logger.(flusher).ForceFlush(context.Background())
}

// worked is how long this process was on a processor.
func worked() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkTelemetry reports, exports and receives what one request tells. Run it with -cpu 1; time on the processor is
// exact where the clock on the wall is not, since other work may take turns.
func BenchmarkTelemetry(b *testing.B) {
	parts := []struct {
		name string
		run  func(*load, context.Context)
	}{
		{"all", func(l *load, _ context.Context) { l.request() }},
		{"spans", func(l *load, _ context.Context) { l.spans(context.Background()) }},
		{"records", (*load).records},
		{"event", (*load).event},
		{"line", (*load).line},
	}
	for _, part := range parts {
		b.Run(part.name, func(b *testing.B) {
			l := newLoad(b, unset())
			ctx, root := l.tel.Tracer().Start(context.Background(), "root")
			root.End()
			b.ReportAllocs()
			begun, n := worked(), 0
			for b.Loop() {
				part.run(l, ctx)
				// Often enough that no queue is full, seldom enough that batches are.
				if n++; n%512 == 0 {
					l.flush()
				}
			}
			l.flush()
			b.ReportMetric(float64(worked()-begun)/float64(b.N), "cpu-ns/op")
		})
	}
}

// request is all of it.
func (l *load) request() {
	ctx := l.spans(context.Background())
	l.event(ctx)
	l.records(ctx)
	l.line(ctx)
}

// A request's telemetry takes 63 allocations, those of exporting and receiving it included; it took 286 when OpenTelemetry's
// own exporters made messages of spans and log records. The race detector adds fifteen.
func TestRequestAllocatesLittle(t *testing.T) {
	l := newLoad(t, unset())
	const most, batch = 85, 512
	n := testing.AllocsPerRun(2, func() {
		for range batch {
			l.request()
		}
		l.flush()
	}) / batch
	t.Logf("%.1f allocations a request", n)
	if n > most {
		t.Errorf("%.1f allocations a request, want %d at most", n, most)
	}
}
