package strategy_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/strategy"
)

type candidates = []strategy.Candidate

func named(names string, weights ...int) candidates {
	cs := make(candidates, len(names))
	for i := range cs {
		cs[i].Name, cs[i].Weight = names[i:i+1], 1
		if i < len(weights) {
			cs[i].Weight = weights[i]
		}
	}
	return cs
}

// chance answers every question with the same number.
func chance(x float64) *strategy.Request {
	return &strategy.Request{Now: noon, Random: func() float64 { return x }}
}

func TestOrders(t *testing.T) {
	const last = 1 - 1.0/(1<<53)
	keyed := func(key string) *strategy.Request { r := chance(0); r.Key = key; return r }
	change := func(cs candidates, f func(candidates)) candidates { f(cs); return cs }
	for name, c := range map[string]struct {
		kind string
		pool int
		cs   candidates
		r    *strategy.Request
		want []int
	}{
		"failover keeps what is declared": {"failover", 0, named("bac", 1, 9, 0), chance(0), []int{0, 1, 2}},

		"weighted, low draw":               {"weighted", 0, named("abcd", 0, 1, 2, 1), chance(0), []int{2, 1, 3, 0}},
		"weighted, high draw":              {"weighted", 0, named("abcd", 0, 1, 2, 1), chance(last), []int{3, 2, 1, 0}},
		"weighted, zeros as declared":      {"weighted", 0, named("abcd", 0, 3, 0, 0), chance(0.5), []int{1, 0, 2, 3}},
		"weighted, only zeros":             {"weighted", 0, named("abc", 0, 0, 0), chance(last), []int{0, 1, 2}},
		"weighted, nobody at all":          {"weighted", 0, nil, chance(last), nil},
		"weighted, below zero counts as 0": {"weighted", 0, named("abc", -5, 1, 1), chance(0), []int{1, 2, 0}},
		"weighted does not draw who is out": {
			"weighted", 0, change(named("abc", 5, 1, 2), func(cs candidates) { cs[0].Out = true }), chance(last), []int{1, 0, 2},
		},
		"weighted, all with a weight out": {
			"weighted", 0, change(named("abc", 0, 1, 2), func(cs candidates) { cs[1].Out, cs[2].Out = true, true }), chance(last), []int{2, 1, 0},
		},

		// SHA-256("abc") begins with ba7816bf = 3128432319, which is 0 modulo 3, 4 modulo 5 and 5 modulo 7.
		"affinity, pool of 3":                   {"affinity", 3, named("abcdefg"), keyed("abc"), []int{0, 1, 2, 3, 4, 5, 6}},
		"affinity, pool of 5":                   {"affinity", 5, named("abcdefg"), keyed("abc"), []int{4, 0, 1, 2, 3, 5, 6}},
		"affinity, pool of all":                 {"affinity", 7, named("abcdefg"), keyed("abc"), []int{5, 0, 1, 2, 3, 4, 6}},
		"affinity, larger pool than candidates": {"affinity", 99, named("abcde"), keyed("abc"), []int{4, 0, 1, 2, 3}},
		"affinity without a pool is failover":   {"affinity", 0, named("abc"), keyed("abc"), []int{0, 1, 2}},
		"affinity, nobody at all":               {"affinity", 3, nil, keyed("abc"), nil},
		// SHA-256("no-session") begins with 0e062093 = 235282579, which is 1 modulo 3.
		"affinity without a key": {"affinity", 3, named("abc"), chance(0), []int{1, 0, 2}},

		"rendezvous, one name twice": {"rendezvous", 0, named("aaa"), keyed("k"), []int{0, 1, 2}},
		"rendezvous without a key is least busy": {
			"rendezvous", 0, change(named("abc"), func(cs candidates) { cs[0].InFlight, cs[1].InFlight = 2, 1 }), chance(0), []int{2, 1, 0},
		},

		"least busy": {
			"least_busy", 0, change(named("abc"), func(cs candidates) { cs[0].InFlight, cs[1].InFlight, cs[2].InFlight = 5, 1, 3 }),
			chance(0.9),
			[]int{1, 2, 0},
		},
		"least busy draws among equals": {
			"least_busy", 0, change(named("abcd"), func(cs candidates) { cs[0].InFlight = 1 }), chance(0.5), []int{2, 1, 3, 0},
		},
		"least busy, weight 0 last": {
			"least_busy", 0, change(named("abc", 0, 1, 7), func(cs candidates) { cs[1].InFlight, cs[2].InFlight = 9, 8 }), chance(0), []int{2, 1, 0},
		},
		"least busy, idle but out": {
			"least_busy", 0, change(named("abc"), func(cs candidates) { cs[0].Out, cs[1].InFlight, cs[2].InFlight = true, 2, 1 }),
			chance(0),
			[]int{2, 0, 1},
		},
		"least busy, only weight 0 is not out": {
			"least_busy", 0, change(named("abc", 1, 0, 0), func(cs candidates) { cs[0].Out = true }), chance(0), []int{1, 0, 2},
		},

		"scored by price": {
			"scored", 0, change(named("abc"), func(cs candidates) { cs[0].Price, cs[1].Price, cs[2].Price = 4, 1, 2 }), chance(last), []int{1, 2, 0},
		},
		"scored draws within epsilon": { // 1.08 times the price costs 0.4/0.7 * (1 - 1/1.08) = 0.042
			"scored", 0, change(named("abc"), func(cs candidates) { cs[1].Price, cs[2].Price = 1.08, 1.2 }), chance(last), []int{1, 0, 2},
		},
		"scored, weight 0 last": {
			"scored", 0, change(named("abc", 0, 1, 1), func(cs candidates) { cs[1].Price, cs[2].Price = 9, 3 }), chance(last), []int{2, 1, 0},
		},
		"scored does not draw who is out": {
			"scored", 0, change(named("abc"), func(cs candidates) { cs[0].Out, cs[2].Price = true, 2 }), chance(last), []int{1, 0, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := build(t, c.kind, strategy.Options{Pool: c.pool}).Order(nil, c.cs, c.r)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// shares counts how often each candidate comes first, as parts of 1.
func shares(s strategy.Strategy, cs candidates, rs func(i int) *strategy.Request) []float64 {
	const n = 20000
	got, dst := make([]float64, len(cs)), []int{}
	for i := range n {
		dst = s.Order(dst[:0], cs, rs(i))
		got[dst[0]] += 1.0 / n
	}
	return got
}

func TestShares(t *testing.T) {
	random := seeded(7)
	drawn := func(int) *strategy.Request { return random }
	keys := func(i int) *strategy.Request {
		return &strategy.Request{Now: noon, Key: "session-" + strconv.Itoa(i)}
	}
	for name, c := range map[string]struct {
		kind string
		cs   candidates
		rs   func(int) *strategy.Request
		want []float64
	}{
		"weighted":                {"weighted", named("abcde", 1, 2, 3, 4, 0), drawn, []float64{0.1, 0.2, 0.3, 0.4, 0}},
		"rendezvous":              {"rendezvous", named("abcde", 1, 2, 3, 4, 0), keys, []float64{0.1, 0.2, 0.3, 0.4, 0}},
		"rendezvous, only spares": {"rendezvous", named("abcd", 0, 0, 0, 0), keys, []float64{0.25, 0.25, 0.25, 0.25}},
		"least busy":              {"least_busy", named("abcd", 1, 2, 3, 0), drawn, []float64{0.333, 0.333, 0.333, 0}},
		"scored":                  {"scored", named("abcd", 1, 2, 3, 0), drawn, []float64{0.333, 0.333, 0.333, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			got := shares(build(t, c.kind, strategy.Options{}), c.cs, c.rs)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 0.02)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRendezvousMovesOnlyTheKeysOfWhoGoes(t *testing.T) {
	s := build(t, "rendezvous", strategy.Options{})
	rapid.Check(t, func(t *rapid.T) {
		cs := rapid.SliceOfNDistinct(rapid.Custom(anyCandidate), 2, 20, func(c strategy.Candidate) string { return c.Name }).Draw(t, "candidates")
		gone := rapid.IntRange(0, len(cs)-1).Draw(t, "gone")
		r := &strategy.Request{Key: rapid.StringN(1, 20, -1).Draw(t, "key")}
		var want, got []string
		for _, i := range s.Order(nil, cs, r) {
			if i != gone {
				want = append(want, cs[i].Name)
			}
		}
		left := slices.Delete(slices.Clone(cs), gone, gone+1)
		for _, i := range s.Order(nil, left, r) {
			got = append(got, left[i].Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// lately has one bucket with ok successes in ten attempts; the other figures come from the first of them.
func lately(ok int, first sample) *strategy.Stats {
	s := strategy.NewStats(time.Minute)
	for i := range 10 {
		first.OK = i < ok
		s.Record(noon, first)
		first = sample{}
	}
	return s
}

type sample = strategy.Sample

func TestScores(t *testing.T) {
	fast := sample{FirstToken: time.Second, OutputTokens: 100, Generation: time.Second}
	slow := sample{FirstToken: 4 * time.Second, OutputTokens: 25, Generation: time.Second}
	three := candidates{
		{Price: 2, Stats: lately(10, fast)},
		{Price: 1, Stats: lately(5, slow)},
		{Price: 4},
	}
	bestOut := slices.Clone(three)
	bestOut[0].Out = true
	allOut := slices.Clone(three)
	for i := range allOut {
		allOut[i].Out = true
	}
	for name, c := range map[string]struct {
		cs     candidates
		stream bool
		want   []float64
	}{
		// Shares: price 1/2, 1, 1/4; success 1, 1/2, unknown; first token 1, 1/4, unknown; speed 1, 1/4, unknown.
		"stream": {three, true, []float64{
			0.4*0.5 + 0.3 + 0.2 + 0.1,
			0.4 + 0.3*0.5 + 0.2*0.25 + 0.1*0.25,
			0.4*0.25 + 0.3 + 0.2 + 0.1,
		}},
		"plain": {three, false, []float64{(0.2 + 0.3) / 0.7, (0.4 + 0.15) / 0.7, (0.1 + 0.3) / 0.7}},
		// The second is the best of those left, and the first is no better than the best.
		"the best is out": {bestOut, true, []float64{0.8, 1, 0.7}},
		"all are out":     {allOut, true, []float64{0.8, 0.625, 0.7}},
		"nothing known":   {candidates{{}, {Price: -1}, {Price: 1}, {Price: 2}}, true, []float64{1, 1, 1, 0.8}},
		"nobody succeeds": {candidates{{Stats: lately(0, sample{})}, {}}, false, []float64{0.4 / 0.7, 1}},
		"nobody at all":   {nil, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := build(t, "scored", strategy.Options{}).(strategy.Scorer).Scores(nil, c.cs, &strategy.Request{Now: noon, Stream: c.stream})
			if diff := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestScoresStayBetweenZeroAndOne(t *testing.T) {
	s := build(t, "scored", strategy.Options{}).(strategy.Scorer)
	rapid.Check(t, func(t *rapid.T) {
		cs, had := anyCandidates(t), []float64{9}
		got := s.Scores(had, cs, anyRequest(t))
		if len(got) != 1+len(cs) || got[0] != 9 {
			t.Fatalf("%d candidates: %v", len(cs), got)
		}
		for _, x := range got[1:] {
			if math.IsNaN(x) || x <= 0 || x > 1+1e-12 {
				t.Fatalf("%v", got)
			}
		}
	})
}

// A price next to nothing must not make scores that are no numbers: they have no order, and no form in JSON.
func TestScoresAreNumbers(t *testing.T) {
	kind, _ := strategy.Lookup("scored")
	scorer, _ := kind.New(strategy.Options{}).(strategy.Scorer)
	cs := []strategy.Candidate{{Name: "a", Weight: 1, Price: math.SmallestNonzeroFloat64}, {Name: "b", Weight: 1, Price: math.Inf(1)}, {Name: "c", Weight: 1}}
	for i, s := range scorer.Scores(nil, cs, &strategy.Request{Now: time.Now()}) {
		if !(s >= 0 && s <= 1) {
			t.Errorf("%s has score %v", cs[i].Name, s)
		}
	}
}
