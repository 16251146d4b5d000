package telemetry

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"pgregory.net/rapid"
)

func TestCost(t *testing.T) {
	full := &Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	for name, c := range map[string]struct {
		price *Price
		usage Usage
		want  Cost
	}{
		"all kinds of tokens": {full, Usage{1e6, 2e6, 1e6, Unknown, Unknown, 1e6, 5e5}, Cost{true, 3 + 0.6 + 3.75 + 15, 5.4}},
		"nothing reported":    {full, NoUsage(), Cost{}},
		"zeros":               {full, Usage{}, Cost{true, 0, 0}},
		"input only":          {full, Usage{1e6, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}, Cost{true, 3, 0}},
		"parts of a write":    {full, Usage{Unknown, Unknown, Unknown, 1e6, 1e6, Unknown, Unknown}, Cost{true, 7.5, 0}},
		"no price":            {nil, Usage{1e6, 0, 0, 0, 0, 0, 0}, Cost{}},
		"no cache price":      {&Price{Input: 3}, Usage{0, 1e6, 1e6, 0, 0, 0, 0}, Cost{true, 6, 0}},
		"a dear cache":        {&Price{Input: 1, CacheRead: 2}, Usage{0, 1e6, 0, 0, 0, 0, 0}, Cost{true, 2, 0}},
		"no number":           {&Price{Input: math.NaN()}, Usage{1, 0, 0, 0, 0, 0, 0}, Cost{}},
		"too large a number":  {&Price{Input: math.MaxFloat64}, Usage{1e7, 0, 0, 0, 0, 0, 0}, Cost{}},
	} {
		got := c.price.Cost(c.usage)
		if near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }; got.Known != c.want.Known || !near(got.USD, c.want.USD) || !near(got.Savings, c.want.Savings) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// What is saved and what is paid is what everything would have cost without a cache.
func TestSavingsMakeUpForTheCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(Unknown, 1e9)
		p := Price{Input: rapid.Float64Range(0.01, 100).Draw(t, "input"), Output: rapid.Float64Range(0, 100).Draw(t, "output")}
		p.CacheRead = p.Input * rapid.Float64Range(0.01, 1).Draw(t, "read")
		u := Usage{n.Draw(t, "uncached"), n.Draw(t, "cached"), Unknown, Unknown, Unknown, n.Draw(t, "out"), Unknown}
		dear := p
		dear.CacheRead = 0
		got, want := p.Cost(u), dear.Cost(u)
		if got.Known != want.Known || got.USD < 0 || got.Savings < 0 || math.Abs(got.USD+got.Savings-want.USD) > 1e-9*(1+want.USD) {
			t.Errorf("%+v with the cache's price, %+v without", got, want)
		}
	})
}

func TestCostIsCounted(t *testing.T) {
	tel, reader := bench(t)
	priced := tel.Target(someTarget())
	unpriced := someTarget()
	unpriced.Upstream, unpriced.Price = "b", nil
	free := tel.Target(unpriced)
	u := Usage{1e6, 1e6, 0, 0, 0, 0, 0}
	for _, r := range []*TargetRecorder{priced, priced, free} {
		r.Attempt(t.Context(), Attempt{Usage: u, Cost: r.Cost(u)})
	}
	priced.Attempt(t.Context(), Attempt{Usage: NoUsage(), Cost: priced.Cost(NoUsage())})
	free.Zero(t.Context())
	got := collect(t, reader)
	labels := []string{AttrUpstream, "a", AttrModel, "opus"}
	for metric, want := range map[string]map[attribute.Distinct]point{
		MetricCost:    {key(append(labels, AttrSource, CostCalculated)...): {value: 6.6}},
		MetricSavings: {key(labels...): {value: 5.4}},
	} {
		if diff := cmp.Diff(want, got[metric], cmp.AllowUnexported(point{})); diff != "" {
			t.Errorf("%s:\n%s", metric, diff)
		}
	}
}
