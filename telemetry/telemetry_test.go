package telemetry

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
)

// bench is a Telemetry whose metrics can be read.
func bench(t testing.TB) (*Telemetry, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	tel, err := New(nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return tel, reader
}

// points is one metric's data points: value (of a histogram its sum) and count by attribute set.
type point struct {
	value float64
	count uint64
}

func collect(t testing.TB, reader sdkmetric.Reader) map[string]map[attribute.Distinct]point {
	t.Helper()
	got := map[string]map[attribute.Distinct]point{}
	for _, m := range collectRaw(t, reader) {
		got[m.Name] = pointsOf(m)
	}
	return got
}

func collectRaw(t testing.TB, reader sdkmetric.Reader) []metricdata.Metrics {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &rm); err != nil {
		t.Fatal(err)
	}
	var all []metricdata.Metrics
	for _, sm := range rm.ScopeMetrics {
		all = append(all, sm.Metrics...)
	}
	return all
}

func pointsOf(m metricdata.Metrics) map[attribute.Distinct]point {
	got := map[attribute.Distinct]point{}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			got[p.Attributes.Equivalent()] = point{value: float64(p.Value)}
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			got[p.Attributes.Equivalent()] = point{value: p.Value}
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			got[p.Attributes.Equivalent()] = point{value: p.Value}
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			got[p.Attributes.Equivalent()] = point{value: p.Sum, count: p.Count}
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			got[p.Attributes.Equivalent()] = point{value: float64(p.Sum), count: p.Count}
		}
	}
	return got
}

func key(pairs ...string) attribute.Distinct {
	var attrs []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		attrs = append(attrs, attribute.String(pairs[i], pairs[i+1]))
	}
	set := attribute.NewSet(attrs...)
	return set.Equivalent()
}

func someTarget() TargetLabels {
	return TargetLabels{
		Model: "opus", Upstream: "a", Provider: "anthropic", RequestModel: "claude", Operation: OperationChat,
		ServerAddress: "api.example.com", ServerPort: 443, Price: &Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75, Factor: fullPrice},
	}
}

// sampled is a context whose span is sampled, so that exemplars are taken as they are in operation.
func sampled() context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
}

func TestRecordersAllocateNothing(t *testing.T) {
	tel, _ := bench(t)
	model, target, upstream := tel.Model("opus", "anthropic-messages"), tel.Target(someTarget()), tel.Upstream("a")
	callers := tel.Callers(CallerNames{Keys: []string{"ci"}, Models: []string{"opus"}})
	full := Usage{Input: 10, CacheRead: 20, CacheWrite: 30, CacheWrite5m: 10, CacheWrite1h: 20, Output: 40, Reasoning: 5}
	for name, ctx := range map[string]context.Context{"no span": context.Background(), "sampled span": sampled()} {
		for what, f := range map[string]func(){
			"Request": func() {
				model.Request(ctx, Request{Outcome: OutcomeSuccess, Duration: time.Second, FirstChunk: time.Second, Overhead: 1, Attempts: 1})
			},
			"Request outside the vocabulary":  func() { model.Request(ctx, Request{Outcome: "odd", ErrorClass: "odder", Attempts: 1}) },
			"Wait":                            func() { model.Wait(ctx, WaitQueue, time.Second) },
			"Affinity":                        func() { model.Affinity(ctx, AffinitySession, ResultHit) },
			"Affinity outside the vocabulary": func() { model.Affinity(ctx, "odd", "odder") },
			"Attempt": func() {
				target.Attempt(ctx, Attempt{Reason: AttemptInitial, Duration: time.Second, FirstChunk: time.Second, Usage: full, Cost: target.Cost(full, 0, time.Time{})})
			},
			"Attempt failed": func() {
				target.Attempt(ctx, Attempt{Reason: AttemptFailover, ErrorClass: ClassRateLimited, ErrorType: "429", Usage: NoUsage()})
			},
			"Caller":                   func() { callers.Request(ctx, Caller{"ci", "codex", "opus"}, 0.5, full) },
			"Caller that nobody named": func() { callers.Request(ctx, Caller{"odd", "odder", "oddest"}, 0.5, full) },
			"Chunk":                    func() { target.Chunk(ctx, time.Millisecond) },
			"Failover":                 func() { target.Failover(ctx, ClassTimeout) },
			"Active":                   func() { upstream.Active(ctx, 1) },
			"Cooling":                  func() { upstream.Cooling(ctx, ScopeTarget, ReasonRateLimit, SourceHeaders, time.Second) },
			"Reload":                   func() { tel.Reload(ctx, ReloadApplied) },
		} {
			if n := testing.AllocsPerRun(200, f); n != 0 {
				t.Errorf("%s with %s: %v allocations", what, name, n)
			}
		}
	}
}

func TestRequest(t *testing.T) {
	tel, reader := bench(t)
	ctx := t.Context()
	r := tel.Model("opus", "openai-chat")
	r.Request(ctx, Request{Outcome: OutcomeSuccess, Duration: 2 * time.Second, FirstChunk: time.Second, Overhead: time.Millisecond, Attempts: 2})
	r.Request(ctx, Request{Outcome: OutcomeRejected, ErrorClass: ClassTooLarge, Duration: time.Second})
	r.Request(ctx, Request{Outcome: "made up", ErrorClass: "made up"})
	r.Request(ctx, Request{Outcome: "made up, too", ErrorClass: "made up, too"})
	got := collect(t, reader)

	mw := []string{AttrModel, "opus", AttrWire, "openai-chat"}
	for k, want := range map[attribute.Distinct]float64{
		key(append(mw, AttrOutcome, OutcomeSuccess, AttrErrorClass, ClassNone)...):      1,
		key(append(mw, AttrOutcome, OutcomeRejected, AttrErrorClass, ClassTooLarge)...): 1,
		key(append(mw, AttrOutcome, Other, AttrErrorClass, ClassInternal)...):           2,
	} {
		if p := got[MetricRequests][k]; p.value != want {
			t.Errorf("requests: got %v, want %v", p.value, want)
		}
	}
	if n := len(got[MetricRequests]); n != 3 {
		t.Errorf("%d series of requests, want 3", n)
	}
	if p := got[MetricRequestFirstChunk][key(AttrModel, "opus")]; p != (point{1, 1}) {
		t.Errorf("time to first chunk: %+v, want one of 1 s", p)
	}
	if p := got[MetricRequestAttempts][key(AttrModel, "opus", AttrOutcome, OutcomeSuccess)]; p != (point{2, 1}) {
		t.Errorf("attempts: %+v, want one of 2", p)
	}
	if n := len(got[MetricRequestAttempts]); n != 1 {
		t.Errorf("%d series of attempts, want none for a request without a dispatch", n)
	}
	if p := got[MetricOverhead][key(AttrWire, "openai-chat")]; p.count != 4 {
		t.Errorf("overhead recorded %d times, want 4", p.count)
	}
}

func TestAttemptUsage(t *testing.T) {
	zero := Usage{Input: 0, CacheRead: 0, CacheWrite: Unknown, CacheWrite5m: Unknown, CacheWrite1h: Unknown, Output: 0, Reasoning: Unknown}
	for name, c := range map[string]struct {
		usage Usage
		want  map[string]float64
	}{
		"nothing reported": {NoUsage(), map[string]float64{}},
		"zeros":            {zero, map[string]float64{}},
		"all": {Usage{10, 20, 30, 10, 20, 40, 5}, map[string]float64{
			MetricUsageInput: 60, MetricUsageOutput: 40, MetricUsageCacheRead: 20, MetricUsageCacheWrite: 30, MetricUsageReasoning: 5,
			MetricOperationInput: 60, MetricOperationOutput: 40,
		}},
		"parts of a cache write only": {Usage{10, Unknown, Unknown, 3, 4, Unknown, Unknown}, map[string]float64{
			MetricUsageInput: 17, MetricUsageCacheWrite: 7, MetricOperationInput: 17,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			tel, reader := bench(t)
			tel.Target(someTarget()).Attempt(t.Context(), Attempt{Reason: AttemptInitial, ErrorType: "500", Usage: c.usage})
			got := collect(t, reader)
			for _, m := range []string{
				MetricUsageInput, MetricUsageOutput, MetricUsageCacheRead, MetricUsageCacheWrite, MetricUsageReasoning,
				MetricOperationInput, MetricOperationOutput,
			} {
				want, wanted := c.want[m]
				if len(got[m]) > 0 != wanted {
					t.Errorf("%s has %d series, want some: %v", m, len(got[m]), wanted)
				}
				for _, p := range got[m] {
					if p.value != want {
						t.Errorf("%s = %v, want %v", m, p.value, want)
					}
				}
			}
		})
	}
}

func TestUsageAttributes(t *testing.T) {
	u := NoUsage()
	if got := u.Attributes(nil); len(got) != 0 {
		t.Errorf("unknown usage gives %v", got)
	}
	u.Input, u.CacheRead, u.Output = 0, 7, 0
	got := attribute.NewSet(u.Attributes(nil)...)
	want := attribute.NewSet(attribute.Int64(AttrUsageInput, 7), attribute.Int64(AttrUsageCacheRead, 7), attribute.Int64(AttrUsageOutput, 0))
	if !got.Equals(&want) {
		t.Errorf("got %v, want %v", got.ToSlice(), want.ToSlice())
	}
}

func TestZeroIsSeenAndSmall(t *testing.T) {
	tel, reader := bench(t)
	tel.Model("opus", "openai-chat").Zero(t.Context())
	tel.Target(someTarget()).Zero(t.Context())
	tel.Upstream("a").Zero(t.Context())
	got := collect(t, reader)
	for m, want := range map[string]int{
		MetricRequests: 10, MetricAttempts: 9, MetricFailovers: 5, MetricCoolings: 10, MetricActive: 1, MetricReloads: 2,
		MetricAffinityDecisions: 3, MetricCost: 1, MetricSavings: 1, MetricOffPeak: 1,
	} {
		if len(got[m]) != want {
			t.Errorf("%s has %d series, want %d", m, len(got[m]), want)
		}
		for _, p := range got[m] {
			if p.value != 0 {
				t.Errorf("%s starts at %v", m, p.value)
			}
		}
	}
	if len(got) != 10 {
		t.Errorf("%d metrics have data, want 10: zeros belong on counters only", len(got))
	}
}

func TestClosedTypes(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "429": "429", "529": "529", "099": Other, "600": Other, "4x9": Other, "-12": Other, "timeout": ErrorTimeout, "EOF": Other,
	} {
		if got := closeType(in); got != want {
			t.Errorf("closeType(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestObserve(t *testing.T) {
	tel, reader := bench(t)
	now := []UpstreamState{
		{Upstream: "a", Account: Rest{Manual: true}, Quotas: []QuotaState{{QuotaUnified5h, 0.25}}, Targets: []TargetState{
			{Model: "m", State: StateCooling, Cooling: Rest{Remaining: 90 * time.Second}},
		}},
		{Upstream: "b", Account: Rest{Remaining: -time.Second}, Targets: []TargetState{{Model: "m", State: StateHealthy}}},
	}
	stop, err := tel.Observe(func() []UpstreamState { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, reader)
	if n := len(got[MetricTargetState]); n != 10 {
		t.Errorf("%d states, want 10", n)
	}
	for _, state := range states {
		for upstream, is := range map[string]string{"a": StateCooling, "b": StateHealthy} {
			want := 0.0
			if state == is {
				want = 1
			}
			p, ok := got[MetricTargetState][key(AttrUpstream, upstream, AttrRequestModel, "m", AttrState, state)]
			if !ok || p.value != want {
				t.Errorf("%s %s = %v, %v, want %v", upstream, state, p.value, ok, want)
			}
		}
	}
	for k, want := range map[attribute.Distinct]float64{
		key(AttrUpstream, "a", AttrRequestModel, "", AttrScope, ScopeAccount): -1,
		key(AttrUpstream, "a", AttrRequestModel, "m", AttrScope, ScopeTarget): 90,
		key(AttrUpstream, "b", AttrRequestModel, "", AttrScope, ScopeAccount): 0,
		key(AttrUpstream, "b", AttrRequestModel, "m", AttrScope, ScopeTarget): 0,
	} {
		if p, ok := got[MetricCoolingRemaining][k]; !ok || p.value != want {
			t.Errorf("remaining = %v, %v, want %v", p.value, ok, want)
		}
	}
	if p := got[MetricQuota][key(AttrUpstream, "a", AttrKind, QuotaUnified5h)]; p.value != 0.25 || len(got[MetricQuota]) != 1 {
		t.Errorf("quota = %v, %d series", p.value, len(got[MetricQuota]))
	}
	now = now[1:]
	if n := len(collect(t, reader)[MetricTargetState]); n != 5 {
		t.Errorf("%d states after a reload that took an upstream away, want 5", n)
	}
	stop()
	if n := len(collect(t, reader)[MetricTargetState]); n != 0 {
		t.Errorf("%d states after unregistering", n)
	}
}

func TestObserverKeepsItsSets(t *testing.T) {
	tel, _ := bench(t)
	w := newWatcher(tel)
	state := UpstreamState{Upstream: "a", Quotas: []QuotaState{{QuotaTokens, 1}}, Targets: []TargetState{{Model: "m", State: StateHealthy}}}
	if n := testing.AllocsPerRun(100, func() { w.observe(ignore{}, state); w.observeEntries(ignore{}, Entries{1, 2, 3}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	tel, _ := bench(b)
	r, ctx := tel.Model("opus", "openai-chat"), sampled()
	b.ReportAllocs()
	for b.Loop() {
		r.Request(ctx, Request{Outcome: OutcomeSuccess, Duration: time.Second, FirstChunk: time.Second, Overhead: time.Millisecond, Attempts: 1})
	}
}

func BenchmarkAttempt(b *testing.B) {
	tel, _ := bench(b)
	r, ctx := tel.Target(someTarget()), sampled()
	b.ReportAllocs()
	for b.Loop() {
		r.Attempt(ctx, Attempt{Reason: AttemptInitial, Duration: time.Second, FirstChunk: time.Second, Usage: Usage{10, 20, 30, 10, 20, 40, 5}})
	}
}

func BenchmarkChunk(b *testing.B) {
	tel, _ := bench(b)
	r, ctx := tel.Target(someTarget()), sampled()
	b.ReportAllocs()
	for b.Loop() {
		r.Chunk(ctx, time.Millisecond)
	}
}

// fullPrice is that of every hour.
func fullPrice(time.Time) float64 { return 1 }
