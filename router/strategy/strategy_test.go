package strategy_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/strategy"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func build(tb testing.TB, name string, o strategy.Options) strategy.Strategy {
	tb.Helper()
	k, ok := strategy.Lookup(name)
	if !ok {
		tb.Fatalf("there is no %s", name)
	}
	return k.New(o)
}

// seeded is a request whose chance is the same in every run.
func seeded(seed uint64) *strategy.Request {
	return &strategy.Request{Now: noon, Random: rand.New(rand.NewPCG(seed, 1)).Float64}
}

func anyCandidate(t *rapid.T) strategy.Candidate {
	return strategy.Candidate{
		Name:     rapid.StringN(1, 3, -1).Draw(t, "name"),
		Weight:   rapid.IntRange(0, 4).Draw(t, "weight"),
		Out:      rapid.Bool().Draw(t, "out"),
		InFlight: rapid.IntRange(0, 3).Draw(t, "in flight"),
		Price:    rapid.SampledFrom([]float64{-1, 0, 0.5, 1, 3}).Draw(t, "price"),
		Stats:    anyStats(t),
	}
}

func anyStats(t *rapid.T) *strategy.Stats {
	if rapid.Bool().Draw(t, "no stats") {
		return nil
	}
	s := strategy.NewStats(time.Minute)
	for range rapid.IntRange(0, 3).Draw(t, "samples") {
		s.Record(noon, strategy.Sample{
			OK:           rapid.Bool().Draw(t, "ok"),
			FirstToken:   time.Duration(rapid.IntRange(0, 2).Draw(t, "first token")) * time.Second,
			OutputTokens: rapid.Int64Range(0, 100).Draw(t, "tokens"),
			Generation:   time.Duration(rapid.IntRange(0, 2).Draw(t, "generation")) * time.Second,
		})
	}
	return s
}

func anyCandidates(t *rapid.T) []strategy.Candidate {
	return rapid.SliceOfN(rapid.Custom(anyCandidate), 0, 70).Draw(t, "candidates")
}

func anyRequest(t *rapid.T) *strategy.Request {
	r := seeded(rapid.Uint64().Draw(t, "seed"))
	r.Key = rapid.StringN(0, 40, -1).Draw(t, "key")
	r.Stream = rapid.Bool().Draw(t, "stream")
	return r
}

func anyOptions(t *rapid.T) strategy.Options {
	return strategy.Options{Pool: rapid.IntRange(0, 5).Draw(t, "pool")}
}

func sameCandidate(a, b strategy.Candidate) bool { return a == b }

func TestEveryOrderIsAPermutation(t *testing.T) {
	for _, k := range strategy.Kinds {
		t.Run(k.Name, rapid.MakeCheck(func(t *rapid.T) {
			cs := anyCandidates(t)
			before := slices.Clone(cs)
			had := rapid.SliceOfN(rapid.Int(), 0, 3).Draw(t, "had")
			order := k.New(anyOptions(t)).Order(slices.Clone(had), cs, anyRequest(t))
			if !slices.EqualFunc(before, cs, sameCandidate) {
				t.Fatal("the candidates were changed")
			}
			if !slices.Equal(order[:len(had)], had) {
				t.Fatalf("dst held %v, and now %v", had, order)
			}
			order = order[len(had):]
			sorted := slices.Sorted(slices.Values(order))
			for i, v := range sorted {
				if i != v {
					t.Fatalf("not a permutation: %v", order)
				}
			}
			if len(order) != len(cs) {
				t.Fatalf("%d of %d candidates", len(order), len(cs))
			}
		}))
	}
}

func TestAKeyKeepsItsOrderWhoeverIsBusyOrOut(t *testing.T) {
	for _, k := range strategy.Kinds {
		if !k.Keyed {
			continue
		}
		t.Run(k.Name, rapid.MakeCheck(func(t *rapid.T) {
			s, cs, r := k.New(anyOptions(t)), anyCandidates(t), anyRequest(t)
			r.Key += "k"
			want := s.Order(nil, cs, r)
			for i := range cs {
				other := anyCandidate(t)
				cs[i].Out, cs[i].InFlight, cs[i].Price, cs[i].Stats = other.Out, other.InFlight, other.Price, other.Stats
			}
			again := anyRequest(t)
			again.Key = r.Key
			if diff := cmp.Diff(want, s.Order(nil, cs, again)); diff != "" {
				t.Fatal(diff)
			}
		}))
	}
}

func TestWeightZeroIsNeverFirstWhileAnotherMayBeTried(t *testing.T) {
	for _, name := range []string{"weighted", "rendezvous", "least_busy", "scored"} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			cs, r := anyCandidates(t), anyRequest(t)
			if !slices.ContainsFunc(cs, func(c strategy.Candidate) bool { return c.Weight > 0 && !c.Out }) {
				return
			}
			k, _ := strategy.Lookup(name)
			order := k.New(strategy.Options{}).Order(nil, cs, r)
			if cs[order[0]].Weight == 0 {
				t.Fatalf("%v", order)
			}
			if name == "rendezvous" && r.Key != "" {
				return // the owner keeps its place while it is out
			}
			if cs[order[0]].Out {
				t.Fatalf("one who is out was drawn: %v", order)
			}
		}))
	}
}

func TestOrderIntoASliceWithRoomAllocatesNothing(t *testing.T) {
	for _, k := range strategy.Kinds {
		for _, n := range []int{10, 64} {
			t.Run(k.Name+"/"+strconv.Itoa(n), func(t *testing.T) {
				s, cs, r, dst := k.New(strategy.Options{Pool: 3}), field(n), busyRequest(), make([]int, 0, n)
				for _, r.Key = range []string{"", r.Key} {
					if n := testing.AllocsPerRun(100, func() { dst = s.Order(dst[:0], cs, r) }); n != 0 {
						t.Errorf("%v allocations with key %q", n, r.Key)
					}
				}
			})
		}
	}
}

func BenchmarkOrder(b *testing.B) {
	for _, k := range strategy.Kinds {
		b.Run(k.Name, func(b *testing.B) {
			s, cs, r, dst := k.New(strategy.Options{Pool: 3}), field(10), busyRequest(), make([]int, 0, 10)
			b.ReportAllocs()
			for b.Loop() {
				dst = s.Order(dst[:0], cs, r)
			}
		})
	}
}

// busyRequest has a key that is longer than what a compiler would copy to the stack.
func busyRequest() *strategy.Request {
	r := seeded(1)
	r.Key, r.Stream = "0f8fad5b-d9cb-469f-a165-70867728950e/7c9e6679-7425-40de-944b-e07fc1f90ae7", true
	return r
}

// field is n candidates that differ in everything.
func field(n int) []strategy.Candidate {
	cs := make([]strategy.Candidate, n)
	for i := range cs {
		cs[i] = strategy.Candidate{
			Name: "upstream-" + strconv.Itoa(i), Weight: i % 4, Out: i%5 == 0, InFlight: i * 7 % 5, Price: float64(i%3) + 0.5,
			Stats: strategy.NewStats(time.Minute),
		}
		for k := range 10 {
			cs[i].Stats.Record(noon.Add(time.Duration(k-9)*6*time.Second), strategy.Sample{
				OK: (i+k)%9 != 0, FirstToken: time.Duration(i+1) * 100 * time.Millisecond, OutputTokens: 500, Generation: 10 * time.Second,
			})
		}
	}
	return cs
}

func TestKinds(t *testing.T) {
	want := []string{"failover", "weighted", "affinity", "rendezvous", "least_busy", "scored"}
	if diff := cmp.Diff(want, strategy.Names()); diff != "" {
		t.Error(diff)
	}
	for _, name := range want {
		k, ok := strategy.Lookup(name)
		if !ok || k.Name != name || k.New(strategy.Options{}) == nil {
			t.Errorf("%s: %v %+v", name, ok, k)
		}
		keyed := name == "failover" || name == "affinity" || name == "rendezvous"
		counts := name == "least_busy" || name == "rendezvous"
		if k.Keyed != keyed || k.Pooled != (name == "affinity") || k.Counts != counts {
			t.Errorf("%s: keyed %v, pooled %v, counts %v", name, k.Keyed, k.Pooled, k.Counts)
		}
	}
	if k, ok := strategy.Lookup("nonsense"); ok || k.New != nil {
		t.Errorf("an unknown name gave %+v", k)
	}
}
