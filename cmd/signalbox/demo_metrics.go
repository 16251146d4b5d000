package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// shown are the metrics that the demo shows, each with the attributes that tell something; over the others it is summed up.
var shown = []struct {
	metric string
	keys   []string
}{
	{telemetry.MetricRequests, []string{telemetry.AttrModel, telemetry.AttrOutcome}},
	{telemetry.MetricRequestDuration, []string{telemetry.AttrOutcome}},
	{telemetry.MetricRequestFirstChunk, []string{telemetry.AttrModel}},
	{telemetry.MetricRequestAttempts, []string{telemetry.AttrOutcome}},
	{telemetry.MetricRequestCost, []string{telemetry.AttrClientType, telemetry.AttrModel}},
	{telemetry.MetricOverhead, nil},
	{telemetry.MetricAttempts, []string{telemetry.AttrUpstream, telemetry.AttrErrorClass}},
	{telemetry.MetricFailovers, []string{telemetry.AttrUpstream, telemetry.AttrErrorClass}},
	{telemetry.MetricCoolings, []string{telemetry.AttrUpstream, telemetry.AttrScope, telemetry.AttrReason}},
	{telemetry.MetricCoolingRemaining, []string{telemetry.AttrUpstream, telemetry.AttrRequestModel, telemetry.AttrScope}},
	{telemetry.MetricTargetState, []string{telemetry.AttrUpstream, telemetry.AttrState}},
	{telemetry.MetricDuration, []string{telemetry.AttrUpstream, telemetry.AttrErrorType}},
	{telemetry.MetricFirstChunk, []string{telemetry.AttrUpstream}},
	{telemetry.MetricChunk, []string{telemetry.AttrUpstream}},
	{telemetry.MetricUsageInput, []string{telemetry.AttrUpstream}},
	{telemetry.MetricUsageCacheRead, []string{telemetry.AttrUpstream}},
	{telemetry.MetricUsageOutput, []string{telemetry.AttrUpstream}},
}

// total is what several points of a metric come to.
type total struct {
	labels string
	sum    float64
	count  uint64  // how many were measured; 0 if it is no histogram
	most   float64 // the largest measured
}

// numbers collects the metrics and shows those that have something to say.
func (s *stage) numbers(ctx context.Context) error {
	var all metricdata.ResourceMetrics
	if err := s.metrics.Collect(ctx, &all); err != nil {
		return err
	}
	s.paint.head("The same in numbers", "These are the metrics as they were collected. Some are summed up here, and those that are zero are left out.")
	var rows [][]cell
	seen := map[string]float64{}
	for _, show := range shown {
		m := metricNamed(all, show.metric)
		name := show.metric
		for _, t := range totals(m, show.keys) {
			seen[show.metric] += t.sum
			rows = append(rows, []cell{{text: name, colour: cyan}, {text: t.labels}, {text: t.value(m.Unit)}})
			name = ""
		}
	}
	s.paint.table(rows)
	for name, want := range map[string]int{telemetry.MetricRequests: s.sent, telemetry.MetricFailovers: 2} {
		if got := int(seen[name]); got != want {
			s.differed = append(s.differed, fmt.Sprintf("%s should be %d and is %d", name, want, got))
		}
	}
	for _, name := range []string{telemetry.MetricCoolings, telemetry.MetricCoolingRemaining, telemetry.MetricUsageOutput, telemetry.MetricRequestCost} {
		if seen[name] <= 0 {
			s.differed = append(s.differed, name+" should tell something")
		}
	}
	slices.Sort(s.differed)
	return nil
}

func metricNamed(all metricdata.ResourceMetrics, name string) metricdata.Metrics {
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name == name {
				return m
			}
		}
	}
	return metricdata.Metrics{}
}

// totals adds up the points of a metric by the values of some attributes, and leaves out what comes to nothing.
func totals(m metricdata.Metrics, keys []string) []total {
	sums := map[string]total{}
	add := func(attrs attribute.Set, sum float64, count uint64, most float64) {
		labels := labelsOf(attrs, keys)
		t := sums[labels]
		sums[labels] = total{labels, t.sum + sum, t.count + count, max(t.most, most)}
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, float64(p.Value), 0, 0)
		}
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value, 0, 0)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			add(p.Attributes, p.Value, 0, 0)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			most, _ := p.Max.Value()
			add(p.Attributes, p.Sum, p.Count, most)
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			most, _ := p.Max.Value()
			add(p.Attributes, float64(p.Sum), p.Count, float64(most))
		}
	}
	var out []total
	for _, labels := range slices.Sorted(maps.Keys(sums)) {
		if t := sums[labels]; t.sum != 0 {
			out = append(out, t)
		}
	}
	return out
}

// labelsOf writes some attributes of a point; none is what goes without saying.
func labelsOf(attrs attribute.Set, keys []string) string {
	var out []string
	for _, key := range keys {
		v, ok := attrs.Value(attribute.Key(key))
		if text := v.String(); ok && text != "" && text != telemetry.ClassNone {
			out = append(out, strings.TrimPrefix(strings.TrimPrefix(key, "signalbox."), "gen_ai.")+"="+text)
		}
	}
	return strings.Join(out, " ")
}

// value writes a total in its unit: a number, or for a histogram how many and from what to what.
func (t total) value(unit string) string {
	amount := func(v float64) string {
		if unit == "s" {
			return duration(time.Duration(v * float64(time.Second)))
		}
		return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, noun(unit, v)))
	}
	if t.count < 2 {
		return amount(t.sum)
	}
	return fmt.Sprintf("%d x %s on average, %s at most", t.count, amount(t.sum/float64(t.count)), amount(t.most))
}

// noun is the unit as a word: {token} is "tokens".
func noun(unit string, n float64) string {
	word := strings.Trim(unit, "{}1")
	if word != "" && word != "USD" && n != 1 {
		word += "s"
	}
	return word
}
