package router_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// caches is, by upstream, the turn (from 1) that a conversation's prompt cache there is from; 0 = it has none, or none that
// lives.
type caches [simCount]int

// bestHits is the most turns of a conversation that could have found their prompt in the cache of the upstream that serves
// them, had somebody known all troubles in advance: every turn goes to any upstream that would have served it, and finds
// its cache if the last turn there ended less than ttl before.
//
// A warm upstream is always taken if there is one, which loses nothing: take any plan that has a miss at v although u is
// warm, and send that turn to u. That is one hit more, u stays warm for longer, and at most one later turn, the first
// that is at v again, misses for it; after that both plans are alike. So only the turns without a warm upstream that can
// serve them, and those with several, have a choice. All choices are followed; plans that leave the same caches are one,
// and after a pause longer than ttl all of them are.
func bestHits(turns []simTurn, ttl time.Duration) int {
	plans := map[caches]int{{}: 0}
	for n := range turns {
		t := &turns[n]
		next := make(map[caches]int, len(plans))
		for c, hits := range plans {
			warm := false
			for i, last := range c {
				if last > 0 && t.from-turns[last-1].to >= ttl {
					c[i] = 0
				}
				warm = warm || c[i] > 0 && t.could[i]
			}
			for i := range c {
				if !t.could[i] || warm && c[i] == 0 {
					continue
				}
				after, found := c, hits
				if warm {
					found++
				}
				after[i] = n + 1
				if had, ok := next[after]; !ok || found > had {
					next[after] = found
				}
			}
		}
		plans = next
	}
	best := 0
	for _, hits := range plans {
		best = max(best, hits)
	}
	return best
}

// triedHits is bestHits by trying every plan there is.
func triedHits(turns []simTurn, n int, c caches, ttl time.Duration) int {
	if n == len(turns) {
		return 0
	}
	best := 0
	for i := range c {
		if !turns[n].could[i] {
			continue
		}
		after, hits := c, 0
		if last := c[i]; last > 0 && turns[n].from-turns[last-1].to < ttl {
			hits = 1
		}
		after[i] = n + 1
		best = max(best, hits+triedHits(turns, n+1, after, ttl))
	}
	return best
}

func TestSimulationBestIsBest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var turns []simTurn
		at := time.Duration(0)
		for range rapid.IntRange(1, 7).Draw(t, "turns") {
			at += time.Duration(rapid.IntRange(1, 4).Draw(t, "gap"))
			turn := simTurn{from: at, to: at}
			turn.could[rapid.IntRange(0, 2).Draw(t, "one")] = true
			for i := range 3 {
				turn.could[i] = turn.could[i] || rapid.Bool().Draw(t, "could")
			}
			turns = append(turns, turn)
		}
		const ttl = 6
		if got, want := bestHits(turns, ttl), triedHits(turns, 0, caches{}, ttl); got != want {
			t.Errorf("%v: got %d, want %d", turns, got, want)
		}
	})
}
