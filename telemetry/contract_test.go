package telemetry

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"
)

var update = flag.Bool("update", false, "write testdata/contract.golden anew")

// render writes the table as text, one line a thing.
func render(c ContractTable) string {
	var b strings.Builder
	list := func(what string, values []string) {
		for _, v := range slices.Sorted(slices.Values(values)) {
			fmt.Fprintf(&b, "  %s %s\n", what, v)
		}
	}
	fmt.Fprintf(&b, "%s = %s\n", ContractKey, c.Version)
	for _, s := range c.Spans {
		words := s.Words
		if words == nil {
			words = []string{"{http.request.method}"}
		}
		fmt.Fprintf(&b, "\nspan %s %s\n", s.Kind, strings.TrimSpace(strings.Join(words, "|")+" "+s.Variable))
		list("attribute", s.Attributes)
		list("event", s.Events)
	}
	for _, e := range c.Events {
		fmt.Fprintf(&b, "\nevent %s\n", e.Name)
		list("attribute", e.Attributes)
	}
	for _, e := range c.Records {
		fmt.Fprintf(&b, "\nlog record %s\n", e.Name)
		list("attribute", e.Attributes)
	}
	for _, i := range c.Instruments {
		fmt.Fprintf(&b, "\nmetric %s: %s, %s\n", i.Name, i.Kind, i.Unit)
		list("attribute", i.Attributes)
		if i.Buckets != nil {
			fmt.Fprintf(&b, "  buckets %v\n", i.Buckets)
		}
	}
	for _, v := range []struct {
		name   string
		values []string
	}{
		{AttrOutcome, outcomes},
		{AttrErrorClass, classes},
		{AttrErrorType, errorTypes},
		{AttrAttemptReason, attemptReasons},
		{MetricWait + " " + AttrReason, waitReasons},
		{MetricCoolings + " " + AttrReason, coolReasons},
		{AttrScope, scopes},
		{AttrSource, sources},
		{MetricCost + " " + AttrSource, costs},
		{AttrState, states},
		{AttrTokenType, tokenTypes},
		{AttrClientType + " without a client rule", append(ClientTypes(), Unnamed)},
		{MetricQuota + " " + AttrKind, quotas},
		{MetricReloads + " " + AttrResult, reloads},
		{MetricAffinityDecisions + " " + AttrKind, affinityKinds},
		{MetricAffinityDecisions + " " + AttrResult, affinityResults},
		{AttrDecision, []string{
			DecisionPinned, DecisionSticky, DecisionCache, DecisionStrategy, DecisionFailover, DecisionPassthrough, DecisionNone,
		}},
		{AttrAttemptOutcome, []string{AttemptServed, AttemptFailedOver, AttemptFailed, AttemptCancelled}},
	} {
		fmt.Fprintf(&b, "\nvalues of %s\n", v.name)
		list("value", slices.DeleteFunc(slices.Clone(v.values), func(s string) bool { return s == "" }))
	}
	return b.String()
}

func TestContractIsGolden(t *testing.T) {
	file, got := filepath.Join("testdata", "contract.golden"), render(Contract())
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the contract has changed; dashboards, alerts and ContractVersion may have to follow (-want +got):\n%s", diff)
	}
}

// everything records each instrument once with all of its attributes.
func everything(t *testing.T, tel *Telemetry) {
	t.Helper()
	ctx := t.Context()
	m, a, u := tel.Model("opus", "openai-chat"), tel.Target(someTarget()), tel.Upstream("a")
	m.Request(ctx, Request{Outcome: OutcomeFailed, ErrorClass: ClassTimeout, Duration: 1, FirstChunk: 1, Overhead: 1, Attempts: 1})
	m.Wait(ctx, WaitRetry, time.Second)
	m.Affinity(ctx, AffinitySession, ResultHit)
	a.Attempt(ctx, Attempt{Reason: AttemptInitial, ErrorClass: ClassTimeout, ErrorType: ErrorTimeout, Duration: 1, FirstChunk: 1, Usage: Usage{1, 1, 1, 1, 1, 1, 1}, Cost: a.Cost(Usage{1, 1, 1, 1, 1, 1, 1}, 0, time.Time{})})
	a.Chunk(ctx, 1)
	a.Failover(ctx, ClassTimeout)
	a.Translated(ctx, 1)
	u.Active(ctx, 1)
	u.Cooling(ctx, ScopeTarget, ReasonQuota, SourceBody, time.Second)
	tel.Callers(CallerNames{Keys: []string{"k"}, Models: []string{"opus"}}).Request(ctx, Caller{"k", "codex", "opus"}, 1, Usage{Input: 1})
	tel.Reload(ctx, ReloadApplied)
	stop, err := tel.Observe(func() []UpstreamState {
		return []UpstreamState{{Upstream: "a", Quotas: []QuotaState{{QuotaTokens, 1}}, Targets: []TargetState{{Model: "m", State: StateHealthy}}}}
	}, func() Entries { return Entries{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

func TestInstrumentsKeepTheContract(t *testing.T) {
	tel, reader := bench(t)
	everything(t, tel)
	var got []InstrumentEntry
	for _, m := range collectRaw(t, reader) {
		got = append(got, entryOf(t, m))
	}
	want := Contract().Instruments
	for i := range want {
		slices.Sort(want[i].Attributes)
		// What is collected does not tell who asked for a value.
		want[i].Kind = strings.TrimPrefix(want[i].Kind, "observable ")
	}
	byName := func(a, b InstrumentEntry) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(got, byName)
	slices.SortFunc(want, byName)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instruments differ from the contract (-want +got):\n%s", diff)
	}
}

// entryOf tells from collected data what an instrument is.
func entryOf(t *testing.T, m metricdata.Metrics) InstrumentEntry {
	t.Helper()
	e := InstrumentEntry{Name: m.Name, Unit: m.Unit, Help: m.Description}
	keys := map[string]bool{}
	see := func(s attribute.Set) {
		for _, kv := range s.ToSlice() {
			keys[string(kv.Key)] = true
		}
	}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		e.Kind = kindUpDownCounter
		if d.IsMonotonic {
			e.Kind = kindCounter
		}
		for _, p := range d.DataPoints {
			see(p.Attributes)
		}
	case metricdata.Sum[float64]:
		if d.IsMonotonic {
			e.Kind = kindCounter
		}
		for _, p := range d.DataPoints {
			see(p.Attributes)
		}
	case metricdata.Gauge[float64]:
		e.Kind = "gauge"
		for _, p := range d.DataPoints {
			see(p.Attributes)
		}
	case metricdata.Histogram[float64]:
		e.Kind = kindHistogram
		for _, p := range d.DataPoints {
			see(p.Attributes)
			e.Buckets = p.Bounds
		}
	case metricdata.Histogram[int64]:
		e.Kind = kindHistogram
		for _, p := range d.DataPoints {
			see(p.Attributes)
			e.Buckets = p.Bounds
		}
	default:
		t.Errorf("%s is a %T", m.Name, m.Data)
	}
	for k := range keys {
		e.Attributes = append(e.Attributes, k)
	}
	slices.Sort(e.Attributes)
	return e
}

func TestContractFindsSpans(t *testing.T) {
	c := Contract()
	for _, s := range []struct {
		kind trace.SpanKind
		name string
		key  string // a key that only the right entry has; empty: no entry
	}{
		{trace.SpanKindServer, "POST /v1/messages", AttrHTTPRoute},
		{trace.SpanKindServer, "GET", AttrHTTPRoute},
		{trace.SpanKindClient, "POST /v1/messages", AttrURLFull},
		{trace.SpanKindClient, "chat claude", AttrUsageInput},
		{trace.SpanKindClient, "generate_content gemini", AttrUsageInput},
		{trace.SpanKindClient, "probe a", AttrUpstream},
		{trace.SpanKindInternal, "route", AttrDecision},
		{trace.SpanKindInternal, "route opus", AttrDecision},
		{trace.SpanKindInternal, "wait queue", AttrReason},
		{trace.SpanKindInternal, "config.reload", AttrResult},
		{trace.SpanKindClient, "route opus", ""},
		{trace.SpanKindInternal, "chat claude", ""},
	} {
		e, ok := c.Span(s.kind, s.name)
		if ok != (s.key != "") || ok && !slices.Contains(e.Attributes, s.key) {
			t.Errorf("%v %q: found %v, %v", s.kind, s.name, ok, e.Words)
		}
	}
}

func TestContractTablesAgree(t *testing.T) {
	c := Contract()
	for _, s := range c.Spans {
		for _, name := range s.Events {
			if _, ok := c.Event(name); !ok {
				t.Errorf("span %v has an event %s that is not in the table", s.Words, name)
			}
		}
	}
	if _, ok := c.Event("signalbox.nothing"); ok {
		t.Error("an unknown event is found")
	}
	for _, e := range c.Records {
		if found, ok := c.Record(e.Name); !ok || !found.Has(AttrCall) || !found.Has(e.Attributes[len(e.Attributes)-1]) || found.Has("http.request") {
			t.Errorf("record %s: %v", e.Name, found)
		}
	}
}
