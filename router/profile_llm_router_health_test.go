package router_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// breaker is a world whose first upstream is asked whenever it may be.
func breaker(t *testing.T, change func(*settings.Config)) *world {
	t.Helper()
	return profiled(t, llmRouter, upstreams(uncached, uncached), func(cfg *settings.Config) {
		weights(1, 0)(cfg)
		if change != nil {
			change(cfg)
		}
	})
}

// fail has upstream a fail in these ways, one after the other.
func (w *world) fail(names ...string) {
	w.t.Helper()
	for _, name := range names {
		w.tell(0, failing[name])
		w.expect(name, plainly(), 200, "b")
	}
	w.tell(0, uncached)
}

func TestLLMRouterBreakerOpensAfterFourFailuresInARow(t *testing.T) {
	t.Parallel()
	for _, row := range [][]string{
		{"500", "500", "500", "500"},
		{"401", "401", "401", "401"},
		{"402", "402", "402", "402"},
		{"403", "403", "403", "403"},
		{"cut", "cut", "cut", "cut"},
		{"401", "500", "402", "reset"},
		{"529", "403 region", "503", "401"},
	} {
		w := breaker(t, nil)
		w.fail(row[:3]...)
		w.expect("three are not enough", plainly(), 200, "a")
		w.fail(row...)
		w.expect("four are", plainly(), 200, "b")
		w.clock.Advance(29 * time.Second)
		w.expect("for 30 s", plainly(), 200, "b")
		w.clock.Advance(time.Second)
		w.expect("and no longer", plainly(), 200, "a")
		w.expect("a success closes it", plainly(), 200, "a")
	}
}

// It opens until the time that the upstream names, and no earlier than with the fourth failure.
func TestLLMRouterBreakerBelievesRetryAfter(t *testing.T) {
	t.Parallel()
	for _, status := range []int{500, 503, 529} {
		w := breaker(t, nil)
		for _, by := range []string{"b", "b", "b", "b"} {
			w.tell(0, routertest.Fail(status, "boom").With("Retry-After", "90"), uncached)
			w.expect("a failure", plainly(), 200, by)
		}
		w.calls("each was tried at a", 4, 4)
		w.clock.Advance(89 * time.Second)
		w.expect("until Retry-After", plainly(), 200, "b")
		w.clock.Advance(time.Second)
		w.expect("and no longer", plainly(), 200, "a")
	}
}

func TestLLMRouterBreakerIsTheAccounts(t *testing.T) {
	t.Parallel()
	w := breaker(t, func(cfg *settings.Config) { addModel(cfg, "n", at("a", "other"), at("b", "")) })
	w.fail("500", "500", "500", "500")
	w.expect("another model of the account", routertest.NewRequest(routertest.Chat, "n", false), 200, "b")
}

func TestLLMRouterParksALimitedAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		reply routertest.Reply
		rest  time.Duration
	}{
		{"without a hint", failing["429"], 20 * time.Second},
		{"until Retry-After", failing["429"].With("Retry-After", "7200"), 2 * time.Hour},
		{"until a date", failing["429"].With("Retry-After", epoch.Add(90*time.Second).Format(http.TimeFormat)), 90 * time.Second},
		{"whatever it says of credits", routertest.Fail(429, "insufficient credits"), 20 * time.Second},
		{"whatever it says of load", routertest.Fail(429, "overloaded"), 20 * time.Second},
		{"whatever it says of quotas", routertest.Fail(429, "monthly limit reached"), 20 * time.Second},
	} {
		w := breaker(t, func(cfg *settings.Config) { addModel(cfg, "n", at("a", "other"), at("b", "")) })
		w.tell(0, c.reply, uncached)
		w.expect(c.name, plainly(), 200, "b")
		w.expect(c.name+": all of the account", routertest.NewRequest(routertest.Chat, "n", false), 200, "b")
		w.clock.Advance(c.rest - time.Second)
		w.expect(c.name+": before the end", plainly(), 200, "b")
		w.clock.Advance(time.Second)
		w.expect(c.name+": after it", plainly(), 200, "a")
	}
}

func TestLLMRouterLimitIsNoFailure(t *testing.T) {
	t.Parallel()
	w := breaker(t, nil)
	for range 3 {
		w.fail("429")
		w.clock.Advance(20 * time.Second)
	}
	w.fail("500", "500", "500")
	w.expect("three failures, beside three limits", plainly(), 200, "a")
}

func TestLLMRouterAnyOtherAnswerIsASuccess(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"400 explained", "404", "404 model", "400 opaque", "400 billing", "empty 200", "HTML 200", "in band"} {
		w := breaker(t, nil)
		w.fail("500", "500", "500")
		w.tell(0, failing[name])
		w.send(plainly())
		w.fail("500", "500", "500")
		w.expect("after "+name+" the count began anew", plainly(), 200, "a")
	}
}

// A stream that was the client's already is no answer that another target is tried after, so it is a success.
func TestLLMRouterCutStreamIsASuccess(t *testing.T) {
	t.Parallel()
	w := breaker(t, nil)
	w.fail("500", "500", "500")
	w.tell(0, routertest.Stream(routertest.Chat, words, spent).Events(4).Ending(routertest.Cut))
	w.send(routertest.NewRequest(routertest.Chat, "m", true))
	w.fail("500", "500", "500")
	w.expect("the count began anew", plainly(), 200, "a")
}

func TestLLMRouterOneRequestProbes(t *testing.T) {
	t.Parallel()
	w := breaker(t, nil)
	w.fail("500", "500", "500", "500")
	w.clock.Advance(30 * time.Second)
	w.meanwhile(0, plainly(), failing["500"], func() {
		w.expect("meanwhile the others go elsewhere", plainly(), 200, "b")
	})
	w.expect("a failed probe opens it again", plainly(), 200, "b")
	w.clock.Advance(30 * time.Second)
	w.expect("the next probe", plainly(), 200, "a")
	w.meanwhile(0, plainly(), uncached, func() {
		w.expect("closed for all", plainly(), 200, "a")
	})
}

// A client that leaves before the headers is nobody's failure, and gives the probe back.
func TestLLMRouterHangUpBlamesNobody(t *testing.T) {
	t.Parallel()
	w := breaker(t, nil)
	w.fail("500", "500", "500", "500")
	w.clock.Advance(30 * time.Second)
	for n := range 5 {
		w.tell(0, routertest.Nothing(routertest.Stall))
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		asked := len(w.ups[0].Calls())
		go func() { w.Send(ctx, plainly()); close(done) }()
		if w.ups[0].Await(asked) == nil {
			t.Fatalf("hang-up %d: a was not asked", n)
		}
		leave()
		<-done
		w.completed()
	}
	w.tell(0, uncached)
	w.expect("a may be tried", plainly(), 200, "a")
}

func TestLLMRouterGivesTheProbeBackWhenTheSlotIsRefused(t *testing.T) {
	t.Parallel()
	w := breaker(t, func(cfg *settings.Config) { cfg.Upstreams[0].MaxConcurrent = 1 })
	w.meanwhile(0, plainly(), uncached, func() {
		w.expect("a is full", plainly(), 200, "b")
	})
	w.fail("500", "500", "500", "500")
	w.clock.Advance(30 * time.Second)
	w.expect("the probe is free", plainly(), 200, "a")
}

func TestLLMRouterBoundsTheWaitForHeaders(t *testing.T) {
	t.Parallel()
	w := breaker(t, func(cfg *settings.Config) { cfg.Upstreams[0].Timeouts.FirstByte = 30 * time.Millisecond })
	w.tell(0, routertest.Nothing(routertest.Stall))
	w.expect("a stream whose headers do not come", routertest.NewRequest(routertest.Chat, "m", true), 200, "b")
}
