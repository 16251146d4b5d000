package router

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRetrier(t *testing.T) {
	const s = time.Second
	always := func(hints ...time.Duration) []time.Duration { return append(hints, make([]time.Duration, 10)...) }
	for _, c := range []struct {
		name       string
		repeats    int
		base       time.Duration
		limit      time.Duration
		multiplier float64
		budget     time.Duration
		hints      []time.Duration // one of each retryable failure; -1 is a failure that is not
		want       []time.Duration
	}{
		{"none are allowed", 0, s, 8 * s, 2, 15 * s, always(), nil},
		{"the defaults stop at the budget", 10, s, 8 * s, 2, 15 * s, always(), []time.Duration{s, 2 * s, 4 * s, 8 * s}},
		{"the repeats are used up", 3, s, 8 * s, 2, 15 * s, always(), []time.Duration{s, 2 * s, 4 * s}},
		{"the limit holds", 6, s, 3 * s, 2, 0, always(), []time.Duration{s, 2 * s, 3 * s, 3 * s, 3 * s, 3 * s}},
		{"the limit holds from the first", 2, 5 * s, 3 * s, 2, 0, always(), []time.Duration{3 * s, 3 * s}},
		{"no limit", 5, s, 0, 10, 0, always(), []time.Duration{s, 10 * s, 100 * s, 1000 * s, 10_000 * s}},
		{"steady", 3, 2 * s, 8 * s, 1, 0, always(), []time.Duration{2 * s, 2 * s, 2 * s}},
		{"a fraction", 3, 2 * s, 8 * s, 1.5, 0, always(), []time.Duration{2 * s, 3 * s, 4500 * time.Millisecond}},
		{"no wait", 2, 0, 8 * s, 2, 15 * s, always(), []time.Duration{0, 0}},
		{"the budget to the last second", 10, s, 8 * s, 2, 7 * s, always(), []time.Duration{s, 2 * s, 4 * s}},
		{"a second short", 10, s, 8 * s, 2, 6 * s, always(), []time.Duration{s, 2 * s}},
		{"a failure that is not retryable", 10, s, 8 * s, 2, 15 * s, always(0, 0, -1), []time.Duration{s, 2 * s}},
		{"a longer hint counts", 10, s, 8 * s, 2, 15 * s, always(0, 9*s), []time.Duration{s, 9 * s, 4 * s}},
		{"a shorter hint does not", 2, 4 * s, 8 * s, 2, 15 * s, always(s), []time.Duration{4 * s, 8 * s}},
		{"a hint that does not fit ends it", 10, s, 8 * s, 2, 15 * s, always(0, 15*s), []time.Duration{s}},
		{"a hint without a budget", 1, s, 8 * s, 2, 0, always(time.Minute), []time.Duration{time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRetrier(c.repeats, c.base, c.limit, c.multiplier, c.budget)
			var got []time.Duration
			for _, hint := range c.hints {
				again, wait := r.next(hint >= 0, hint)
				if !again {
					if wait != 0 {
						t.Errorf("the end waits %v", wait)
					}
					break
				}
				got = append(got, wait)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever it is made from, a retrier ends in time and never asks before a hint.
func TestRetrierKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		span := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(time.Minute)), rapid.Int64Range(0, math.MaxInt64))
		draw := func(what string) time.Duration { return time.Duration(span.Draw(t, what)) }
		repeats, base, limit, budget := rapid.IntRange(0, 100).Draw(t, "repeats"), draw("base"), draw("limit"), draw("budget")
		r := newRetrier(repeats, base, limit, rapid.Float64Range(1, 1e9).Draw(t, "multiplier"), budget)
		left := budget
		for n := 0; ; n++ {
			hint := draw("hint")
			again, wait := r.next(true, hint)
			if !again {
				return
			}
			if n == repeats || wait < hint {
				t.Fatalf("repeat %d waits %v with a hint of %v", n+1, wait, hint)
			}
			if limit > 0 && wait > max(limit, hint) {
				t.Fatalf("a wait of %v is over the limit", wait)
			}
			if left -= wait; budget > 0 && left < 0 {
				t.Fatalf("the waits pass the budget by %v", -left)
			}
		}
	})
}
