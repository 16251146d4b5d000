package export

import (
	"slices"
	"testing"

	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// What is spared are exemplars, sizes of bodies and counts of what begins; bounds of buckets and all else stay as they were asked for.
func TestWhatIsSpared(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	c := unset()
	c.Readers, c.SampleRatio = []sdkmetric.Reader{reader}, 1
	c.SpanExporters = append(c.SpanExporters, &spanExporter{client: &marshalled{}})
	p, _ := begin(t, c)
	ctx, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
	defer span.End()
	m := p.Meter.Meter("x")
	bounds := []float64{1, 2, 3}
	for _, name := range []string{telemetry.MetricOverhead, telemetry.MetricChunk, "http.server.request.body.size", "http.server.request.duration"} {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription("d"), metric.WithExplicitBucketBoundaries(bounds...))
		if err != nil {
			t.Fatal(err)
		}
		h.Record(ctx, 1.5)
	}
	n, err := m.Int64Counter("count")
	if err != nil {
		t.Fatal(err)
	}
	n.Add(ctx, 1)

	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "x" {
			continue
		}
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				got[m.Name] = len(data.DataPoints[0].Exemplars)
				if !slices.Equal(data.DataPoints[0].Bounds, bounds) || m.Unit != "s" || m.Description != "d" {
					t.Errorf("%s: %v %s %s", m.Name, data.DataPoints[0].Bounds, m.Unit, m.Description)
				}
			case metricdata.Sum[int64]:
				got[m.Name] = len(data.DataPoints[0].Exemplars)
			}
		}
	}
	want := map[string]int{telemetry.MetricOverhead: 1, telemetry.MetricChunk: 0, "http.server.request.duration": 1, "count": 0}
	for _, name := range []string{"otel.sdk.span.started", "otel.sdk.span.live", "otel.sdk.log.created"} {
		c, err := m.Int64UpDownCounter(name)
		if err != nil {
			t.Fatal(err)
		}
		if c.Enabled(ctx) {
			t.Errorf("%s is recorded", name)
		}
	}
	for name, n := range want {
		if have, ok := got[name]; !ok || have != n {
			t.Errorf("%s: %d exemplars, there %v, want %d", name, have, ok, n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v", got)
	}
}
