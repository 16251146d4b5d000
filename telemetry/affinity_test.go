package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
)

func decision(model, kind, result string) attribute.Distinct {
	return key(AttrModel, model, AttrKind, kind, AttrResult, result)
}

func TestAffinity(t *testing.T) {
	tel, reader := bench(t)
	ctx := t.Context()
	// Decisions carry no wire, so two wires of a model count together, and another model apart.
	r, other := tel.Model("opus", "openai-chat"), tel.Model("haiku", "openai-chat")
	r.Affinity(ctx, AffinitySession, ResultHit)
	tel.Model("opus", "anthropic-messages").Affinity(ctx, AffinitySession, ResultHit)
	r.Affinity(ctx, AffinitySession, ResultMoved)
	r.Affinity(ctx, AffinityCache, ResultNew)
	r.Affinity(ctx, AffinityResponse, ResultExpired)
	r.Affinity(ctx, AffinityNone, ResultNone)
	other.Affinity(ctx, AffinityCache, ResultHit)
	r.Affinity(ctx, "made up", ResultHit)
	r.Affinity(ctx, "made up, too", ResultHit)
	r.Affinity(ctx, AffinityCache, "made up")
	r.Affinity(ctx, "", "")
	want := map[attribute.Distinct]point{
		decision("opus", AffinitySession, ResultHit):      {value: 2},
		decision("opus", AffinitySession, ResultMoved):    {value: 1},
		decision("opus", AffinityCache, ResultNew):        {value: 1},
		decision("opus", AffinityResponse, ResultExpired): {value: 1},
		decision("opus", AffinityNone, ResultNone):        {value: 1},
		decision("haiku", AffinityCache, ResultHit):       {value: 1},
		decision("opus", Other, ResultHit):                {value: 2},
		decision("opus", AffinityCache, Other):            {value: 1},
		decision("opus", Other, Other):                    {value: 1},
	}
	if diff := cmp.Diff(want, collect(t, reader)[MetricAffinityDecisions], cmp.AllowUnexported(point{})); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

func TestAffinityZeros(t *testing.T) {
	tel, reader := bench(t)
	tel.Model("opus", "openai-chat").Zero(t.Context())
	tel.Model("opus", "anthropic-messages").Zero(t.Context())
	want := map[attribute.Distinct]point{
		decision("opus", AffinitySession, ResultHit):   {},
		decision("opus", AffinitySession, ResultMoved): {},
		decision("opus", AffinityCache, ResultHit):     {},
	}
	if diff := cmp.Diff(want, collect(t, reader)[MetricAffinityDecisions], cmp.AllowUnexported(point{})); diff != "" {
		t.Errorf("zeros of two wires (-want +got):\n%s", diff)
	}
}

func TestObserveEntries(t *testing.T) {
	tel, reader := bench(t)
	now := Entries{Sessions: 3, Caches: 2, Responses: 1}
	stop, err := tel.Observe(func() []UpstreamState { return nil }, func() Entries { return now })
	if err != nil {
		t.Fatal(err)
	}
	check := func(want map[attribute.Distinct]point) {
		t.Helper()
		if diff := cmp.Diff(want, collect(t, reader)[MetricAffinityEntries], cmp.AllowUnexported(point{})); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	}
	session, cache, response := key(AttrKind, AffinitySession), key(AttrKind, AffinityCache), key(AttrKind, AffinityResponse)
	check(map[attribute.Distinct]point{session: {value: 3}, cache: {value: 2}, response: {value: 1}})
	now = Entries{Sessions: 1}
	check(map[attribute.Distinct]point{session: {value: 1}, cache: {}, response: {}})
	stop()
	check(nil)
	if stop, err = tel.Observe(func() []UpstreamState { return nil }, nil); err != nil {
		t.Fatal(err)
	}
	defer stop()
	check(nil)
}
