package strategy_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/strategy"
)

func candidates(t *rapid.T) []strategy.Candidate {
	return rapid.SliceOf(rapid.Custom(func(t *rapid.T) strategy.Candidate {
		return strategy.Candidate{
			Upstream: rapid.StringN(1, 8, -1).Draw(t, "upstream"),
			Model:    rapid.String().Draw(t, "model"),
			Weight:   rapid.IntRange(0, 5).Draw(t, "weight"),
		}
	})).Draw(t, "candidates")
}

func TestEveryOrderIsAPermutation(t *testing.T) {
	for _, k := range strategy.Kinds {
		if !k.Available {
			continue
		}
		t.Run(k.Name, rapid.MakeCheck(func(t *rapid.T) {
			cs := candidates(t)
			before := slices.Clone(cs)
			order := k.New().Order([]int{-1}, cs)
			if order[0] != -1 {
				t.Fatal("what dst held is gone")
			}
			order = slices.Clone(order[1:])
			slices.Sort(order)
			for i, v := range order {
				if i != v {
					t.Fatalf("not a permutation: %v", order)
				}
			}
			if len(order) != len(cs) || !slices.Equal(before, cs) {
				t.Fatalf("%d of %d candidates, or they were changed", len(order), len(cs))
			}
		}))
	}
}

func TestFailoverKeepsTheDeclaredOrder(t *testing.T) {
	cs := []strategy.Candidate{{Upstream: "b"}, {Upstream: "a", Weight: 9}, {Upstream: "c"}}
	if got := strategy.Lookup("failover").New().Order(nil, cs); !slices.Equal(got, []int{0, 1, 2}) {
		t.Fatalf("got %v", got)
	}
}

func TestOrderIntoASliceWithRoomAllocatesNothing(t *testing.T) {
	cs, dst, s := make([]strategy.Candidate, 8), make([]int, 0, 8), strategy.Lookup("failover").New()
	if n := testing.AllocsPerRun(100, func() { dst = s.Order(dst[:0], cs) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestKindsThatAreOnlyNamed(t *testing.T) {
	for _, k := range strategy.Kinds {
		if k.Available != (k.New != nil) {
			t.Errorf("%s: available %v, but New is nil: %v", k.Name, k.Available, k.New == nil)
		}
	}
	if k := strategy.Lookup("nonsense"); k.Name != "" || k.New != nil {
		t.Errorf("an unknown name gave %+v", k)
	}
}
