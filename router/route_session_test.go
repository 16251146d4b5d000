package router_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// plain answers use no prompt cache, so that nothing but pins tells where a session lives.
var plain = routertest.Good(words, routertest.Usage{Input: 11, Output: 5})

// drawn is a model whose strategy draws, so that nothing but a pin can keep a session at one target.
func drawn(cfg *settings.Config) { cfg.Models[0].Strategy = "weighted" }

func TestPinsStay(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain, plain), drawn, seeded())
	homes, counts := map[int]string{}, map[string]int{}
	for i := range 12 {
		homes[i] = w.to(everybody(i))
		counts[homes[i]]++
	}
	if len(counts) != 3 {
		t.Fatalf("the sessions were not spread: %v", counts)
	}
	for range 3 {
		for i := range 12 {
			if at := w.to(everybody(i)); at != homes[i] {
				t.Errorf("s%d lives at %s and went to %s", i, homes[i], at)
			}
		}
	}
	if got := w.spread(60, nobody); len(got) != 3 {
		t.Errorf("requests without a session were kept to %v", got)
	}
}

func TestStandInIsKept(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain, plain), nil)
	w.goes(turn("s"), "a", "a")
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), plain)
	w.goes(turn("s"), "b", "b", "b")
	w.goes(turn("t"), "b")
	w.clock.Advance(2 * time.Minute)
	w.goes(turn("new"), "a") // a is well again,
	w.goes(turn("s"), "b", "b")
	w.goes(turn("t"), "b") // but who has moved stays
}

// While the owner is out every turn uses the same stand-in, also where the strategy draws.
func TestStandInIsTheSameForEveryTurn(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain, plain), drawn, seeded())
	owner := w.to(turn("s"))
	if err := w.engine.Cool(owner, "m", time.Hour); err != nil {
		t.Fatal(err)
	}
	w.goes(turn("s"), repeated(w.to(turn("s")), 20)...)
}

func repeated(s string, n int) (all []string) {
	for range n {
		all = append(all, s)
	}
	return all
}

func TestFullOwnerIsLeft(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"prefer": "b", "strict": "503 targets_busy"} {
		w := build(t, upstreams(plain, plain), func(cfg *settings.Config) {
			cfg.Affinity.Mode, cfg.Upstreams[0].MaxConcurrent = mode, 1
		})
		w.goes(turn("s"), "a")
		release := w.hold(0)
		running := w.inBackground(turn("t"))
		w.ups[0].Await(1)
		got := w.Send(t.Context(), turn("s"))
		if gist(got) != want || mode == "strict" && got.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: got %d %v %s", mode, got.Status, got.Header, got.Body)
		}
		release()
		if at := <-running; at != "a" {
			t.Errorf("%s: the other went to %s", mode, at)
		}
	}
}

func TestStrictNeverGoesElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		reply routertest.Reply
		first int    // what the failing turn itself gets
		then  string // and the one after it
	}{
		{"limited", routertest.Fail(429, "slow").With("Retry-After", "60"), 429, "503 router_unavailable"},
		{"down", routertest.Fail(500, "down"), 500, "503 router_unavailable"},
		{"reset", routertest.Nothing(routertest.Reset), 502, "503 router_unavailable"},
	} {
		for _, strategy := range []string{"failover", "weighted"} {
			w := build(t, upstreams(plain, plain), func(cfg *settings.Config) {
				cfg.Affinity.Mode, cfg.Models[0].Strategy = "strict", strategy
			}, router.WithRandom(func() float64 { return 0 }))
			w.goes(turn("s"), "a")
			w.ups[0].Script(c.reply)
			if got := w.Send(t.Context(), turn("s")); got.Status != c.first {
				t.Errorf("%s, %s: first %d, want %d", c.name, strategy, got.Status, c.first)
			}
			got := w.Send(t.Context(), turn("s"))
			if gist(got) != c.then || got.Header.Get("Retry-After") != "30" {
				t.Errorf("%s, %s: then %d %v %s, want %s", c.name, strategy, got.Status, got.Header, got.Body, c.then)
			}
			if n := len(w.ups[1].Calls()); n != 0 {
				t.Errorf("%s, %s: %d calls to another", c.name, strategy, n)
			}
			w.ups[0].Script(plain)
			w.clock.Advance(2 * time.Minute)
			w.goes(turn("s"), "a")
			w.goes(turn(""), "a")
		}
	}
}

// An address at which nobody listens is refused with 502, as the path of a pinned upstream is.
func TestStrictOwnerThatRefusesConnections(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), func(cfg *settings.Config) { cfg.Affinity.Mode = "strict" })
	w.goes(turn("s"), "a")
	w.ups[0].Close()
	w.goes(turn("s"), "502 upstream_error", "503 router_unavailable")
	if n := len(w.ups[1].Calls()); n != 0 {
		t.Errorf("%d calls to another", n)
	}
}

func TestAffinityOff(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), func(cfg *settings.Config) { cfg.Affinity.Mode = "off" })
	w.goes(turn("s"), "a")
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), plain)
	w.goes(turn("s"), "b", "b")
	w.clock.Advance(2 * time.Minute)
	w.goes(turn("s"), "a", "a")
	if n := w.engine.ResetHealth().Pins; n != 0 {
		t.Errorf("%d pins were made", n)
	}
}

func TestPinsExpire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ttl   time.Duration
		renew bool
		want  []string // turns an hour apart, the first of which is at the stand-in
	}{
		{"renewed by use", 90 * time.Minute, true, []string{"b", "b", "b", "b"}},
		{"counted from the binding", 90 * time.Minute, false, []string{"b", "b", "a", "a"}},
		{"too old between two turns", 50 * time.Minute, true, []string{"b", "a", "a", "a"}},
		{"at the very end", time.Hour, true, []string{"b", "a", "a", "a"}},
		{"never", 0, false, []string{"b", "b", "b", "b"}},
	} {
		w := build(t, upstreams(plain, plain), func(cfg *settings.Config) {
			cfg.Affinity.PinTTL, cfg.Affinity.Renew = c.ttl, c.renew
		})
		w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), plain)
		var got []string
		for range c.want {
			got = append(got, w.to(turn("s")))
			w.clock.Advance(time.Hour)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// What tells two conversations apart: the caller's key, the sub-agent, and the model that was asked for.
func TestPinsAreKeptApart(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), func(cfg *settings.Config) {
		cfg.Auth.Keys = keys()
		cfg.Models = append(cfg.Models, modelNamed("g-*", "a", "b"), modelNamed("n", "a", "b"))
	})
	agents := turn("s").With("X-Api-Key", "key-of-agents")
	glob := func(id string) routertest.Request {
		return routertest.NewRequest(routertest.Chat, id, false).With("Session-Id", "s").With("X-Api-Key", "key-of-agents")
	}
	moved := []routertest.Request{agents, glob("g-1")}
	others := map[string]routertest.Request{
		"another key":                        turn("s").With("X-Api-Key", "key-of-ops"),
		"another session":                    turn("t").With("X-Api-Key", "key-of-agents"),
		"a sub-agent":                        agents.With("X-Claude-Code-Agent-Id", "7"),
		"another model":                      glob("n"),
		"another model under the same glob":  glob("g-2"),
		"the same session without a session": turn("").With("X-Api-Key", "key-of-agents"),
	}
	if err := w.engine.Cool("a", "", time.Minute); err != nil { // forgets pins, so it comes first
		t.Fatal(err)
	}
	for _, r := range moved {
		w.goes(r, "b")
	}
	w.clock.Advance(2 * time.Minute)
	for _, r := range moved {
		w.goes(r, "b")
	}
	for name, r := range others {
		if at := w.to(r); at != "a" {
			t.Errorf("%s went to %s", name, at)
		}
	}
	// The sub-agent has made a pin of its own by now.
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), plain)
	w.goes(others["a sub-agent"], "b")
	w.clock.Advance(2 * time.Minute)
	w.goes(others["a sub-agent"], "b")
	w.goes(others["another model"], "a")
}

// beside are requests that carry a session's id without being the conversation.
func beside() map[string]routertest.Request {
	messages := func() routertest.Request {
		return routertest.NewRequest(routertest.Messages, "m", false).With("X-Claude-Code-Session-Id", "s")
	}
	warmup := messages()
	return map[string]routertest.Request{
		"title":      messages().Field("tools", "[]").Field("output_config", `{"format":{"type":"json_schema","schema":{}}}`),
		"count":      routertest.NewCount("m").With("X-Claude-Code-Session-Id", "s"),
		"compaction": messages().With("X-Claude-Code-Request-Class", "compaction"),
		"warm-up":    warmup.Field("generate", "false"),
		"side":       messages().With("X-Claude-Code-Request-Class", "auxiliary"),
	}
}

func TestWhatIsNotTheConversationFollowsItsPin(t *testing.T) {
	t.Parallel()
	for name, r := range beside() {
		main := routertest.NewRequest(routertest.Messages, "m", false).With("X-Claude-Code-Session-Id", "s")
		w := build(t, upstreams(plain, plain), nil)
		limit := routertest.Fail(429, "slow").With("Retry-After", "60")

		// It makes no pin: b serves it while a is out, and the conversation begins at a.
		w.ups[0].Script(limit, plain)
		w.goes(r, "b")
		w.clock.Advance(2 * time.Minute)
		w.goes(main, "a")

		// It moves none: a is still where the conversation lives.
		w.ups[0].Script(limit, plain)
		w.goes(r, "b")
		w.clock.Advance(2 * time.Minute)
		w.goes(main, "a")

		// It follows the one there is.
		w.ups[0].Script(limit, plain)
		w.goes(main, "b")
		w.clock.Advance(2 * time.Minute)
		if at := w.to(r); at != "b" {
			t.Errorf("%s went to %s", name, at)
		}
		w.goes(main, "b")
		if t.Failed() {
			t.Fatalf("with a %s", name)
		}
	}
}

// Who is there for failover only gets a session for as long as it must.
func TestSpareKeepsNoSession(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(spentCache, spentCache), func(cfg *settings.Config) { cfg.Models[0].Targets[1].Weight = 0 })
	w.goes(turn("s"), "a")
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), good)
	w.goes(turn("s"), "b", "b")
	w.goes(turn("t"), "b")
	w.clock.Advance(2 * time.Minute)
	w.goes(turn("s"), "a")
	w.goes(turn("t"), "a")
}

func TestOperatorsWordsForgetPins(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]func(w *world) (pins int){
		"cool and uncool": func(w *world) int {
			if w.engine.Cool("b", "", time.Hour) != nil {
				return -1
			}
			_, _ = w.engine.Uncool("b", "")
			return 1
		},
		"uncool":        func(w *world) int { _, _ = w.engine.Uncool("b", "m"); return 1 },
		"reset":         func(w *world) int { return w.engine.ResetHealth().Pins },
		"cool one of b": func(w *world) int { _ = w.engine.Cool("b", "m", time.Second); w.clock.Advance(time.Minute); return 1 },
	} {
		w := build(t, upstreams(plain, plain), nil)
		w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), plain)
		w.goes(turn("s"), "b")
		w.clock.Advance(2 * time.Minute)
		w.goes(turn("s"), "b")
		if n := act(w); n != 1 {
			t.Errorf("%s: %d pins", name, n)
		}
		if at := w.to(turn("s")); at != "a" {
			t.Errorf("%s: the session went to %s", name, at)
		}
	}
	// Another upstream's affairs are none of a session's.
	w := build(t, upstreams(plain, plain, plain), nil)
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), plain)
	w.goes(turn("s"), "b")
	w.clock.Advance(2 * time.Minute)
	_ = w.engine.Cool("c", "", time.Hour)
	_, _ = w.engine.Uncool("c", "")
	w.goes(turn("s"), "b")
}

// What an embedding program says of the session beats what the request says.
func TestEmbeddersNameSessions(t *testing.T) {
	t.Parallel()
	limit := routertest.Fail(429, "slow").With("Retry-After", "60")
	w := build(t, upstreams(plain, plain), nil, router.WithSession(func(r *http.Request) string { return r.Header.Get("X-Mine") }))
	front := routertest.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rc := router.RouteContext{Session: r.Header.Get("X-Context"), Key: r.Header.Get("X-Tenant")}
		w.engine.Handler().ServeHTTP(rw, r.WithContext(router.WithRoute(r.Context(), rc)))
	}))
	defer front.Close()
	w.Close()
	w.Front = front
	for i, moved := range []routertest.Request{
		turn("x").With("X-Mine", "f"),
		turn("y").With("X-Mine", "g").With("X-Context", "c"),
		turn("z").With("X-Context", "d").With("X-Tenant", "tenant"),
	} {
		w.ups[0].Script(limit, plain)
		w.goes(moved, "b")
		w.clock.Advance(2 * time.Minute)
		w.goes(moved, "b")
		w.goes(moved.With("Session-Id", fmt.Sprint("other", i)), "b") // the header does not count
	}
	w.goes(turn("x"), "a")
	w.goes(turn("f"), "b")                       // the same id, whoever named it
	w.goes(turn("").With("X-Mine", "g"), "a")    // the context had beaten it
	w.goes(turn("").With("X-Context", "d"), "a") // another tenant's
}

var spentCache = routertest.Good(words, routertest.Usage{Input: 11, CacheRead: 7, Output: 5})

// Strict holds a conversation to its owner; one that has none yet begins with whoever may be tried. Only where a hash owns
// it, it has an owner from the start.
func TestStrictBeginsWithWhoIsThere(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[string]string{"failover": "b", "weighted": "b", "affinity": "b", "rendezvous": "503 router_unavailable"} {
		w := build(t, upstreams(good, good), func(cfg *settings.Config) {
			cfg.Affinity.Mode = "strict"
			cfg.Models[0].Strategy = strategy
		})
		session := "s"
		for i := 0; strategy == "rendezvous" && w.to(turn(session)) != "a"; i++ { // one that a owns
			session = string(rune('A' + i))
		}
		if err := w.engine.Cool("a", "", 0); err != nil {
			t.Fatal(err)
		}
		if got := w.to(turn(session)); got != want {
			t.Errorf("%s: a new conversation got %s, want %s", strategy, got, want)
		}
		w.once()
	}
}
