package router_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// recorded is observed with its log records, and with what is logged as text.
type recorded struct {
	*observed
	logs *logKeeper
	text *safeBuffer
}

func record(t *testing.T, ups []*routertest.Upstream, change func(*settings.Config)) *recorded {
	t.Helper()
	o := &observed{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	r := &recorded{observed: o, logs: &logKeeper{}, text: &safeBuffer{}}
	o.world = build(t, ups, change, router.WithClock(time.Now), router.WithLogger(slog.New(slog.NewJSONHandler(r.text, nil))), router.WithTelemetry(
		sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans)), sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader)),
		sdklog.NewLoggerProvider(sdklog.WithProcessor(r.logs)),
	))
	return r
}

// logKeeper is a log processor that keeps all records.
type logKeeper struct {
	mu      sync.Mutex
	records []sdklog.Record
}

func (k *logKeeper) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (k *logKeeper) Shutdown(context.Context) error                         { return nil }
func (k *logKeeper) ForceFlush(context.Context) error                       { return nil }

func (k *logKeeper) OnEmit(_ context.Context, r *sdklog.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records = append(k.records, r.Clone())
	return nil
}

type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// content is one captured request or answer.
type content struct {
	request bool
	who     string // upstream and number of the attempt
	outcome string
	body    string
	size    int64
	cut     bool
	attrs   map[string]attribute.Value
}

// contents are the log records with contents, in their order. The world has to be closed.
func (r *recorded) contents() (all []content) {
	r.t.Helper()
	spans := map[string]string{}
	for _, s := range r.spans.GetSpans() {
		spans[s.SpanContext.SpanID().String()] = s.Name
	}
	for _, rec := range r.logs.records {
		entry, ok := telemetry.Contract().Record(rec.EventName())
		if !ok {
			continue
		}
		attrs := map[string]attribute.Value{}
		rec.WalkAttributes(func(kv attribute.KeyValue) bool {
			if attrs[string(kv.Key)] = kv.Value; !entry.Has(string(kv.Key)) {
				r.t.Errorf("%s: %s is not in the contract", rec.EventName(), kv.Key)
			}
			return true
		})
		if name := spans[rec.SpanID().String()]; !strings.Contains(name, " m") || strings.HasPrefix(name, "route") {
			r.t.Errorf("%s belongs to span %q", rec.EventName(), name)
		}
		c := content{
			request: rec.EventName() == telemetry.RecordRequest, outcome: attrs["signalbox.attempt.outcome"].AsString(), attrs: attrs,
			who:  fmt.Sprint(attrs["signalbox.upstream"].AsString(), attrs["signalbox.attempt.number"].AsInt64()),
			body: rec.Body().AsString(), cut: attrs["signalbox.capture.truncated"].AsBool(),
			size: attrs["http.request.body.size"].AsInt64() + attrs["http.response.body.size"].AsInt64(),
		}
		all = append(all, c)
	}
	return all
}

// everything is all that leaves, as text.
func (r *recorded) everything() string {
	r.t.Helper()
	var out strings.Builder
	put := func(v any) {
		raw, err := json.Marshal(v)
		if err != nil {
			r.t.Fatal(err)
		}
		out.Write(raw)
	}
	for _, s := range r.spans.GetSpans() {
		put([]any{s.Name, s.Attributes, s.Events, s.Links, s.Status, s.Resource.Attributes()})
	}
	for _, m := range r.metrics() {
		fmt.Fprint(&out, m.Name)
		for _, set := range setsOf(m) {
			put(set.ToSlice())
		}
	}
	r.logs.mu.Lock()
	defer r.logs.mu.Unlock()
	for _, rec := range r.logs.records {
		fmt.Fprintln(&out, rec.EventName(), rec.Body().String())
		rec.WalkAttributes(func(kv attribute.KeyValue) bool { put(kv); return true })
	}
	return out.String() + r.text.String()
}

// sums are the values of a metric by its attributes as text.
func (o *observed) sums(name string) map[string]float64 {
	o.t.Helper()
	got := map[string]float64{}
	for _, m := range o.metrics() {
		if m.Name == name {
			maps.Copy(got, sumsOf(m))
		}
	}
	return got
}

// sumsOf are the values of a sum or the counts of a histogram, by attributes.
func sumsOf(m metricdata.Metrics) map[string]float64 {
	got := map[string]float64{}
	put := func(s attribute.Set, v float64) { got[s.Encoded(attribute.DefaultEncoder())] = v }
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			put(p.Attributes, float64(p.Value))
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			put(p.Attributes, p.Value)
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			put(p.Attributes, float64(p.Count))
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			put(p.Attributes, float64(p.Count))
		}
	}
	return got
}

// isMonotonic reports whether the values of sumsOf must never fall.
func isMonotonic(m metricdata.Metrics) bool {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		return d.IsMonotonic
	case metricdata.Sum[float64]:
		return d.IsMonotonic
	case metricdata.Histogram[int64], metricdata.Histogram[float64]:
		return true
	}
	return false
}

// spanNamed gives the only span whose name begins so.
func (o *observed) spanNamed(prefix string) tracetest.SpanStub {
	o.t.Helper()
	all := slices.DeleteFunc(o.spans.GetSpans(), func(s tracetest.SpanStub) bool { return !strings.HasPrefix(s.Name, prefix) })
	if len(all) != 1 {
		o.t.Fatalf("%d spans %s", len(all), prefix)
	}
	return all[0]
}

var _ sdklog.Processor = (*logKeeper)(nil)
