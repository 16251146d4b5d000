package router_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

const llmRouter = "llm-router"

// cached is an answer that reports cache reads.
var cached = routertest.Good(words, spent)

// uncached is one that reports none.
var uncached = routertest.Good(words, routertest.Usage{Input: 9, Output: 3})

func ofSession(key string) routertest.Request { return plainly().With("X-Session-Id", key) }

func TestLLMRouterDrawsTheFirstByWeight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		draw float64
		want string
	}{{0, "b"}, {0.74, "b"}, {0.76, "a"}, {0.99, "a"}} { // the heaviest stands first, with 3 of 4
		w := profiled(t, llmRouter, upstreams(uncached, uncached, uncached), weights(1, 3, 0), router.WithRandom(func() float64 { return c.draw }))
		w.expect("drawn", plainly(), 200, c.want)
	}
}

func TestLLMRouterTriesTheRestAsDeclared(t *testing.T) {
	t.Parallel()
	w := profiled(t, llmRouter, upstreams(failing["500"], uncached, failing["500"]), nil, router.WithRandom(func() float64 { return 0.9 }))
	w.expect("c is drawn, then a, then b", plainly(), 200, "b")
	w.calls("each once", 1, 1, 1)
}

func TestLLMRouterKeepsWeightZeroForFailover(t *testing.T) {
	t.Parallel()
	w := profiled(t, llmRouter, upstreams(uncached, uncached), weights(0, 1))
	w.expect("a weighted one is there", plainly(), 200, "b")
	w.tell(1, failing["429"])
	w.expect("it fails", plainly(), 200, "a")
	w.expect("it rests", plainly(), 200, "a")
	w.calls("parked", 2, 2)
}

// Warmth never promotes a target that is for failover only.
func TestLLMRouterWarmthDoesNotPromoteWeightZero(t *testing.T) {
	t.Parallel()
	w := profiled(t, llmRouter, upstreams(cached, failing["429"]), weights(0, 1))
	w.expect("b fails", ofSession("s"), 200, "a")
	w.tell(1, uncached)
	w.clock.Advance(21 * time.Second)
	w.expect("a is warm, b weighted", ofSession("s"), 200, "b")
}

func TestLLMRouterFirstPick(t *testing.T) {
	t.Parallel()
	draw := 0.9
	w := profiled(t, llmRouter, upstreams(cached, uncached, uncached), nil, router.WithRandom(func() float64 { return draw }))
	w.expect("drawn", ofSession("s"), 200, "c")
	draw = 0
	w.expect("the pin comes before the draw", ofSession("s"), 200, "c")
	w.expect("another session is drawn for", ofSession("t"), 200, "a")
	w.expect("a session on the other hand", plainly(), 200, "a")
}

func TestLLMRouterPinOutlivesItsUseByNothing(t *testing.T) {
	t.Parallel()
	draw := 0.9
	w := profiled(t, llmRouter, upstreams(uncached, uncached), nil, router.WithRandom(func() float64 { return draw }))
	w.expect("bound", ofSession("s"), 200, "b")
	draw = 0
	w.clock.Advance(time.Hour + 59*time.Minute)
	w.expect("within two hours", ofSession("s"), 200, "b")
	w.clock.Advance(2 * time.Minute)
	w.expect("two hours from the binding, though used since", ofSession("s"), 200, "a")
}

func TestLLMRouterRebindsThePinOfATargetThatIsOut(t *testing.T) {
	t.Parallel()
	w := profiled(t, llmRouter, upstreams(uncached, uncached), nil)
	w.expect("bound", ofSession("s"), 200, "a")
	w.tell(0, failing["429"], uncached)
	w.expect("a is parked", ofSession("s"), 200, "b")
	w.clock.Advance(21 * time.Second)
	w.expect("a is back", plainly(), 200, "a")
	w.expect("and the session stays", ofSession("s"), 200, "b")
}

// When the pinned target is out, who holds the prompt cache is asked before any draw, for as long as it is believed to.
func TestLLMRouterAsksTheWarmOneWhenThePinIsOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after time.Duration
		warm  bool
		want  string
	}{
		{"warm", 4 * time.Minute, true, "c"},
		{"no longer warm", 6 * time.Minute, true, "b"},
		{"cache affinity is off", 0, false, "b"},
	} {
		draw := 0.9
		w := profiled(t, llmRouter, upstreams(uncached, uncached, cached), func(cfg *settings.Config) { cfg.Affinity.Cache = c.warm },
			router.WithRandom(func() float64 { return draw }))
		w.expect(c.name+": c is bound and warm", ofSession("s"), 200, "c")
		draw = 0
		w.tell(2, failing["429"].With("Retry-After", "1"), cached)
		w.expect(c.name+": c is parked, a bound", ofSession("s"), 200, "a")
		w.clock.Advance(2*time.Second + c.after)
		w.tell(0, failing["429"], uncached)
		w.send(routertest.NewRequest(routertest.Messages, "m", false).With("X-Session-Id", "other")) // parks a
		w.clock.Advance(time.Second)
		w.expect(c.name+": a is out", ofSession("s"), 200, c.want)
	}
}

func TestLLMRouterSessionKeys(t *testing.T) {
	t.Parallel()
	known, unknown := map[string]routertest.Request{}, map[string]routertest.Request{}
	for _, h := range []string{"X-OMP-Session", "X-Session-Id", "X-Conversation-Id", "X-Sticky-Key"} {
		known[h] = plainly().With(h, "s")
	}
	known["the first counts"] = plainly().With("X-OMP-Session", "s").With("X-Session-Id", "t").With("X-Sticky-Key", "u")
	for _, h := range []string{"X-Session-Affinity", "Session_id", "X-Claude-Code-Session-Id"} {
		unknown[h] = plainly().With(h, "s")
	}
	unknown["user"] = plainly().Field("user", `"s"`)
	sessions(t, llmRouter, ofSession("s"), known, unknown)
}

// Without a header the first texts are the key, and the model is part of it. The next turn has the same.
func TestLLMRouterDigest(t *testing.T) {
	t.Parallel()
	draw := 0.9
	w := profiled(t, llmRouter, upstreams(uncached, uncached), func(cfg *settings.Config) { cfg.Affinity.PrefixKey = true },
		router.WithRandom(func() float64 { return draw }))
	first := routertest.NewRequest(routertest.Messages, "m", false).Field("system", `"Be brief."`)
	next := first
	next.Body = strings.Replace(first.Body, `"Say hello."}`, `"Say hello."},{"role":"assistant","content":"hello"},{"role":"user","content":"Again."}`, 1)
	other := first
	other.Body = strings.Replace(first.Body, "Say hello.", "Say goodbye.", 1)
	w.expect("first turn", first, 200, "b")
	draw = 0
	w.expect("next turn", next, 200, "b")
	w.expect("another conversation", other, 200, "a")
}

func TestLLMRouterMovesOnByStatus(t *testing.T) {
	t.Parallel()
	movesOn(t, llmRouter, "401", "402", "403", "403 region", "429", "500", "503", "529", "cut", "reset")
}

func TestLLMRouterCountsDispatches(t *testing.T) {
	t.Parallel()
	bad := failing["500"]
	w := profiled(t, llmRouter, upstreams(bad, bad, bad, good), nil)
	w.expect("three attempts", plainly(), http.StatusBadGateway, "")
	w.calls("three attempts", 1, 1, 1, 0)

	w = profiled(t, llmRouter, upstreams(good, bad, bad, good), func(cfg *settings.Config) { cfg.Upstreams[0].MaxConcurrent = 1 })
	w.meanwhile(0, plainly(), uncached, func() {
		w.expect("one that is full is no attempt", plainly(), 200, "d")
	})
	w.calls("one that is full is no attempt", 1, 1, 1, 1)
}

func TestLLMRouterSkipsFullTargetsAndNeverQueues(t *testing.T) {
	t.Parallel()
	w := breaker(t, func(cfg *settings.Config) {
		cfg.Upstreams[0].MaxConcurrent, cfg.Upstreams[1].MaxConcurrent = 1, 1
	})
	w.meanwhile(0, plainly(), uncached, func() {
		w.meanwhile(1, plainly(), uncached, func() {
			told(t, "all are full", routertest.Chat, w.expect("all are full", plainly(), 503, ""), 503, "targets_busy")
		})
	})
	w.calls("never queued", 1, 1)
	if n := profileConfig(t, llmRouter, w.ups).Upstreams[0].MaxConcurrent; n != 8 {
		t.Errorf("%d requests at a time by default, want 8", n)
	}
}

func TestLLMRouterAlwaysTriesSomething(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"500": 4, "401": 4, "429": 1} {
		w := profiled(t, llmRouter, upstreams(failing[name]), nil)
		for range n {
			w.send(plainly())
		}
		w.tell(0, uncached)
		w.expect("a is known to be out after "+name, plainly(), 200, "a")
	}
}

func TestLLMRouterTellsWhenAllFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, last string }{{"500", "503", "503"}, {"503", "429", "429"}, {"500", "cut", "connection"}} {
		w := profiled(t, llmRouter, upstreams(failing[c.a], failing[c.b]), nil)
		got := w.send(plainly())
		told(t, c.a+" and "+c.b, routertest.Chat, got, http.StatusBadGateway, "all_targets_failed")
		if !strings.Contains(got.Body, c.last) {
			t.Errorf("the last error is not told: %s", got.Body)
		}
	}
}

// After the status line a broken stream is left as it is.
func TestLLMRouterLeavesABrokenStreamCut(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		w := breaker(t, noStreamUsage)
		w.tell(0, routertest.Stream(wire, words, spent).Events(1).Ending(routertest.Cut))
		got := w.send(routertest.NewRequest(wire, "m", true))
		if sent := w.ups[0].Await(0).Sent(); got.Err == nil || got.Body != sent || got.Status != 200 {
			t.Errorf("%s: got %d %v %q, want a cut %q", wire, got.Status, got.Err, got.Body, sent)
		}
		w.calls(wire, 1, 0)
	}
}
