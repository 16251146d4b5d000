package router_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// seeded is chance that is the same in every run.
func seeded() router.Option {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(7, 7))
	return router.WithRandom(func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Float64()
	})
}

func by(strategy string, weights ...int) func(*settings.Config) {
	return func(cfg *settings.Config) {
		cfg.Models[0].Strategy = strategy
		for i, w := range weights {
			cfg.Models[0].Targets[i].Weight = w
		}
	}
}

func nobody(int) routertest.Request { return turn("") }

func everybody(i int) routertest.Request { return turn(fmt.Sprint("s", i)) }

func TestWeightedSpreadsByWeight(t *testing.T) {
	t.Parallel()
	w := build(t, three(), by("weighted", 3, 1, 0), seeded())
	got := w.spread(200, nobody)
	if got["a"] < 130 || got["a"] > 170 || got["b"] < 30 || got["c"] != 0 {
		t.Errorf("weights 3, 1 and 0 gave %v", got)
	}
	// What has no weight is there when all others are out.
	w.ups[0].Script(routertest.Fail(429, "slow"))
	w.ups[1].Script(routertest.Fail(429, "slow"))
	w.goes(turn(""), "c", "c")
	// Who is out is not drawn, and so costs no attempt.
	before := len(w.ups[0].Calls()) + len(w.ups[1].Calls())
	w.goes(turn(""), "c")
	if after := len(w.ups[0].Calls()) + len(w.ups[1].Calls()); after != before {
		t.Errorf("%d requests went to who was out", after-before)
	}
}

func TestAffinitySharesKeysAmongItsPool(t *testing.T) {
	t.Parallel()
	for _, pool := range []int{1, 2, 3, 9} {
		change := func(cfg *settings.Config) {
			by("affinity")(cfg)
			cfg.Models[0].AffinityPool, cfg.Affinity.Mode = pool, "off"
		}
		w := build(t, three(), change)
		counts, homes := map[string]int{}, map[int]string{}
		for i := range 40 {
			homes[i] = w.to(everybody(i))
			counts[homes[i]]++
		}
		if len(counts) != min(pool, 3) {
			t.Errorf("a pool of %d gave %v", pool, counts)
		}
		for i := range 40 {
			if at := w.to(everybody(i)); at != homes[i] {
				t.Errorf("pool %d: s%d was at %s and is now at %s", pool, i, homes[i], at)
			}
		}
	}
}

// A session's upstream is out of a hash alone: an engine that remembers nothing finds it again, and one upstream less moves
// only its own sessions.
func TestRendezvousMovesOnlyWhoMust(t *testing.T) {
	t.Parallel()
	change := func(cfg *settings.Config) {
		by("rendezvous")(cfg)
		cfg.Affinity.Mode = "off"
	}
	w := build(t, three(), change)
	homes, counts := map[int]string{}, map[string]int{}
	for i := range 60 {
		homes[i] = w.to(everybody(i))
		counts[homes[i]]++
	}
	if len(counts) != 3 {
		t.Errorf("three upstreams share the sessions as %v", counts)
	}
	if err := w.engine.Cool("b", "", 0); err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		if at := w.to(everybody(i)); at == "b" || homes[i] != "b" && at != homes[i] {
			t.Errorf("s%d was at %s and went to %s while b was out", i, homes[i], at)
		}
	}
	again := build(t, w.ups, change)
	for i := range 60 {
		if at := again.to(everybody(i)); at != homes[i] {
			t.Errorf("s%d was at %s and is at %s with another engine", i, homes[i], at)
		}
	}
}

func TestLeastBusyGoesWhereTheFewestAre(t *testing.T) {
	t.Parallel()
	w := build(t, three(), by("least_busy"), seeded())
	releaseA, releaseB := w.hold(0), w.hold(1)
	defer releaseA()
	defer releaseB()
	var running []<-chan string
	for len(w.ups[0].Calls())+len(w.ups[1].Calls()) < 2 { // c may be drawn while all are idle
		n := len(w.ups[0].Calls()) + len(w.ups[1].Calls())
		c := w.inBackground(turn(""))
		eventually(t, "the request arrived", func() bool {
			return len(c) > 0 || len(w.ups[0].Calls())+len(w.ups[1].Calls()) > n
		})
		running = append(running, c)
	}
	if a, b := len(w.ups[0].Calls()), len(w.ups[1].Calls()); a != 1 || b != 1 {
		t.Fatalf("a has %d and b %d of two requests that take long", a, b)
	}
	w.goes(turn(""), "c", "c", "c", "c", "c", "c")
	releaseA()
	releaseB()
	for _, c := range running {
		<-c
	}
	if got := w.spread(40, nobody); len(got) != 3 {
		t.Errorf("idle upstreams share as %v", got)
	}
}

func TestScoredPrefersTheCheaper(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		by("scored")(cfg)
		cfg.Upstreams[0].PriceWeight, cfg.Upstreams[1].PriceWeight, cfg.Upstreams[2].PriceWeight = 4, 1, 2
	})
	if diff := cmp.Diff(map[string]int{"b": 20}, w.spread(20, nobody)); diff != "" {
		t.Error(diff)
	}
}

// slower moves the clock on while an upstream works, so that it takes that long.
func slower(w *world, at map[string]time.Duration) {
	w.engine.OnEvent(func(e *router.Event) {
		if e.Phase == router.PhaseAttemptStart {
			w.clock.Advance(at[e.Upstream])
		}
	})
}

func TestScoredLearnsWhoIsFast(t *testing.T) {
	t.Parallel()
	w := build(t, three(), by("scored"), seeded())
	slower(w, map[string]time.Duration{"a": 3 * time.Second, "b": 100 * time.Millisecond, "c": 3 * time.Second})
	stream := func(int) routertest.Request { return routertest.NewRequest(routertest.Chat, "m", true) }
	w.spread(30, stream)
	if got := w.spread(20, stream); got["b"] != 20 {
		t.Errorf("once the fastest is known the requests went to %v", got)
	}
}

func TestScoredLearnsWhoFails(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		by("scored")(cfg)
		cfg.Cooling.Server.After = 1000 // it never rests
	}, seeded())
	w.ups[0].Script(routertest.Fail(500, "down"))
	w.spread(20, nobody)
	before := len(w.ups[0].Calls())
	if before == 0 {
		t.Fatal("nothing went to a in all of the first requests")
	}
	got := w.spread(20, nobody)
	if after := len(w.ups[0].Calls()); after != before || got["b"] == 0 || got["c"] == 0 {
		t.Errorf("%d requests went to the one that fails, %v to the others", after-before, got)
	}
	// What is older than the window counts no more.
	w.ups[0].Script(good)
	w.clock.Advance(time.Hour)
	if got := w.spread(30, nobody); got["a"] == 0 {
		t.Errorf("an hour later %v", got)
	}
}
