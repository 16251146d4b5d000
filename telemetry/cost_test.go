package telemetry

import (
	"math"
	"testing"
	"time"

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
		"all kinds of tokens": {full, Usage{1e6, 2e6, 1e6, Unknown, Unknown, 1e6, 5e5}, Cost{Known: true, USD: 3 + 0.6 + 3.75 + 15, Savings: 5.4}},
		"nothing reported":    {full, NoUsage(), Cost{}},
		"zeros":               {full, Usage{}, Cost{Known: true, USD: 0, Savings: 0}},
		"input only":          {full, Usage{1e6, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}, Cost{Known: true, USD: 3, Savings: 0}},
		"parts of a write":    {full, Usage{Unknown, Unknown, Unknown, 1e6, 1e6, Unknown, Unknown}, Cost{Known: true, USD: 7.5, Savings: 0}},
		"no price":            {nil, Usage{1e6, 0, 0, 0, 0, 0, 0}, Cost{}},
		"no cache price":      {&Price{Input: 3}, Usage{0, 1e6, 1e6, 0, 0, 0, 0}, Cost{Known: true, USD: 6, Savings: 0}},
		"a dear cache":        {&Price{Input: 1, CacheRead: 2}, Usage{0, 1e6, 0, 0, 0, 0, 0}, Cost{Known: true, USD: 2, Savings: 0}},
		"no number":           {&Price{Input: math.NaN()}, Usage{1, 0, 0, 0, 0, 0, 0}, Cost{}},
		"too large a number":  {&Price{Input: math.MaxFloat64}, Usage{1e7, 0, 0, 0, 0, 0, 0}, Cost{}},
	} {
		got := c.price.Cost(c.usage, 0, time.Time{})
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
		got, want := p.Cost(u, 0, time.Time{}), dear.Cost(u, 0, time.Time{})
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
		r.Attempt(t.Context(), Attempt{Usage: u, Cost: r.Cost(u, 0, time.Time{})})
	}
	priced.Attempt(t.Context(), Attempt{Usage: NoUsage(), Cost: priced.Cost(NoUsage(), 0, time.Time{})})
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

func TestReportedCostCounts(t *testing.T) {
	cheap := &Price{Input: 2, CacheRead: 1, CacheWrite: 4, CacheWrite1h: 8, Factor: func(now time.Time) float64 { return float64(now.Hour()) / 10 }}
	at := func(hour int) time.Time { return time.Date(2030, 1, 2, hour, 0, 0, 0, time.UTC) }
	u := Usage{1e6, 1e6, 3e6, 1e6, 2e6, 0, 0}
	for name, c := range map[string]struct {
		got, want Cost
	}{
		"reported without a price": {(*Price)(nil).Cost(NoUsage(), 0.5, at(0)), Cost{Known: true, Source: CostReported, USD: 0.5}},
		"reported beats the price": {cheap.Cost(u, 0.5, at(5)), Cost{Known: true, Source: CostReported, USD: 0.5, Savings: 1}},
		"cheap hours":              {cheap.Cost(u, 0, at(5)), Cost{Known: true, Source: CostCalculated, USD: 11.5, Savings: 1, OffPeak: 11.5}},
		"dear hours":               {cheap.Cost(u, 0, at(20)), Cost{Known: true, Source: CostCalculated, USD: 46, Savings: 1, OffPeak: -23}},
		"no sensible report":       {(*Price)(nil).Cost(NoUsage(), math.Inf(1), at(0)), Cost{}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
