package router_test

import (
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// shortPins are gone before any prompt cache is.
func shortPins(cfg *settings.Config) { cfg.Affinity.PinTTL = time.Minute }

// moveToB has a session served by b, and a well again.
func (w *world) moveToB(r routertest.Request) {
	w.t.Helper()
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "30"), plain)
	w.goes(r, "b")
	w.clock.Advance(time.Minute)
}

func TestWarmCacheIsPreferredWhenThePinIsGone(t *testing.T) {
	t.Parallel()
	wrote := routertest.Good(words, routertest.Usage{Input: 11, CacheWrite: 7, Output: 5})
	for _, c := range []struct {
		name   string
		reply  routertest.Reply
		change func(*settings.Config)
		after  time.Duration // since b answered
		want   string
	}{
		{"read", spentCache, nil, 2 * time.Minute, "b"},
		{"written", wrote, nil, 2 * time.Minute, "b"},
		{"nothing cached", plain, nil, 2 * time.Minute, "a"},
		{"just within the time", spentCache, nil, 5*time.Minute - 1, "b"},
		{"too old", spentCache, nil, 5 * time.Minute, "a"},
		{"a longer time for all", spentCache, func(cfg *settings.Config) { cfg.Affinity.CacheTTL = time.Hour }, 59 * time.Minute, "b"},
		{"a longer time for one", spentCache, func(cfg *settings.Config) { cfg.Upstreams[1].CacheTTL = time.Hour }, 59 * time.Minute, "b"},
		{"for another one", spentCache, func(cfg *settings.Config) { cfg.Upstreams[0].CacheTTL = time.Hour }, 59 * time.Minute, "a"},
		{"a shorter time for one", spentCache, func(cfg *settings.Config) { cfg.Upstreams[1].CacheTTL = time.Minute }, time.Minute, "a"},
		{"switched off", spentCache, func(cfg *settings.Config) { cfg.Affinity.Cache = false }, 2 * time.Minute, "a"},
		{"pins off", spentCache, func(cfg *settings.Config) { cfg.Affinity.Mode = "off" }, 2 * time.Minute, "b"},
		{"in use but for failover only", spentCache, func(cfg *settings.Config) { cfg.Models[0].Targets[1].Weight = 0 }, 2 * time.Minute, "a"},
		{"nobody has a weight", spentCache, by("failover", 0, 0), 2 * time.Minute, "b"},
	} {
		w := build(t, upstreams(plain, c.reply), func(cfg *settings.Config) {
			shortPins(cfg)
			if c.change != nil {
				c.change(cfg)
			}
		})
		w.moveToB(turn("s"))
		w.clock.Advance(c.after - time.Minute)
		if at := w.to(turn("t")); at != "a" {
			t.Errorf("%s: another session went to %s", c.name, at)
		}
		if at := w.to(turn("s")); at != c.want {
			t.Errorf("%s: went to %s, want %s", c.name, at, c.want)
		}
	}
}

// A cache that is out is no reason to wait for it, and a pin beats a cache.
func TestWarmCacheYields(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, spentCache, plain), shortPins)
	w.moveToB(turn("s"))
	w.ups[1].Script(routertest.Fail(429, "slow").With("Retry-After", "30"), spentCache)
	w.goes(turn("t"), "a")
	w.goes(turn("s"), "a")
	w.clock.Advance(31 * time.Second) // b rests no more, and is warm still
	w.goes(turn("s"), "a")
	if n := len(w.ups[1].Calls()); n != 2 {
		t.Errorf("b was asked %d times", n)
	}
}

func responses(session, more string) routertest.Request {
	r := routertest.NewRequest(routertest.Responses, "m", false).With("Session-Id", session)
	if more != "" {
		r.Body = strings.TrimSuffix(r.Body, "}") + "," + more + "}"
	}
	return r
}

// issued has b, and only b, issue an answer and gives the field that refers to it.
func (w *world) issued() string {
	w.t.Helper()
	w.ups[1].Script(plain)
	if err := w.engine.Cool("a", "", time.Minute); err != nil {
		w.t.Fatal(err)
	}
	for range 3 { // ids are numbered at each upstream: this one's is b's alone
		w.goes(responses("first", ""), "b")
	}
	w.clock.Advance(2 * time.Minute)
	w.engine.ResetHealth() // and pins: what follows does not go by the session
	return `"previous_response_id":"resp_2"`
}

func TestResponseIsContinuedWhereItWasIssued(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"prefer", "off"} {
		w := build(t, upstreams(plain, plain), func(cfg *settings.Config) { cfg.Affinity.Mode = mode })
		previous := w.issued()
		w.goes(responses("", previous), "b")
		w.goes(responses("another", previous), "b")
		w.goes(responses("new", ""), "a")
		w.goes(responses("unknown", `"previous_response_id":"resp_77"`), "a")
		w.goes(responses("none", `"previous_response_id":null`), "a")
		w.goes(turn("chat").Field("previous_response_id", `"resp_2"`), "a") // means nothing there
	}
}

// A session that goes on from a response elsewhere lives there from then on.
func TestContinuedResponseTakesTheSessionAlong(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), nil)
	previous := w.issued()
	w.goes(responses("s", ""), "a")
	w.goes(responses("s", previous), "b")
	w.goes(responses("s", ""), "b")
}

func TestResponseIsNotContinuedElsewhere(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), nil)
	previous := w.issued()
	calls := len(w.ups[0].Calls())
	w.ups[1].Script(routertest.Fail(429, "slow").With("Retry-After", "20"), plain)
	first := w.Send(t.Context(), responses("s", previous))
	if first.Status != 429 || first.Header.Get("Retry-After") != "20" {
		t.Errorf("the issuer's own refusal came as %d %v", first.Status, first.Header)
	}
	w.clock.Advance(5 * time.Second)
	dispatched := len(w.ups[1].Calls())
	got := w.Send(t.Context(), responses("s", previous))
	refused(t, routertest.Responses, got, 429, "over its limit")
	if got.Header.Get("Retry-After") != "15" || len(w.ups[1].Calls()) != dispatched {
		t.Errorf("while the issuer rests: %v, %d calls", got.Header, len(w.ups[1].Calls())-dispatched)
	}
	if err := w.engine.Cool("b", "", 0); err != nil {
		t.Fatal(err)
	}
	got = w.Send(t.Context(), responses("s", previous))
	refused(t, routertest.Responses, got, 503, "uncool")
	if n := len(w.ups[0].Calls()); n != calls {
		t.Errorf("%d requests went where the response is not known", n-calls)
	}
	_, _ = w.engine.Uncool("b", "")
	w.goes(responses("s", previous), "b")
}

// The router's own caution keeps no one from the only upstream that can go on: it is asked all the same.
func TestIssuerThatBrokeIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), nil)
	previous := w.issued()
	w.ups[1].Script(routertest.Fail(500, "down"), plain)
	w.goes(responses("s", previous), "500 server_error", "b")
}

// Responses are known by who asked for them: another caller's id means nothing.
func TestIssuersAreKeptApartByKey(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), func(cfg *settings.Config) { cfg.Auth.Keys = keys() })
	if err := w.engine.Cool("a", "", time.Minute); err != nil {
		t.Fatal(err)
	}
	w.goes(responses("s", "").With("X-Api-Key", "key-of-agents"), "b")
	w.clock.Advance(2 * time.Minute)
	previous := `"previous_response_id":"resp_0"`
	w.goes(responses("t", previous).With("X-Api-Key", "key-of-ops"), "a")
	w.goes(responses("t", previous).With("X-Api-Key", "key-of-agents"), "b")
}

// What an account has encrypted can only be read there, so that its owner is preferred even where pins are off, and left
// when it is out.
func TestEncryptedReasoningPrefersItsOwner(t *testing.T) {
	t.Parallel()
	reasoning := `"input2":[{"type":"reasoning","encrypted_content":"xyz"}]`
	w := build(t, upstreams(plain, plain, plain), func(cfg *settings.Config) { cfg.Affinity.Mode = "off" })
	w.moveToB(responses("s", ""))
	w.goes(responses("s", ""), "a") // without it there is no pin
	w.moveToB(responses("s", ""))
	w.goes(responses("s", reasoning), "b")
	w.goes(responses("s", ""), "a")
	w.goes(responses("s", reasoning), "a") // who made the newest one
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "30"), plain)
	w.goes(responses("s", reasoning), "b", "b")
	w.clock.Advance(time.Minute)
	w.goes(responses("s", reasoning), "b")
	// Other wires have no such thing.
	w.moveToB(turn("c"))
	w.goes(turn("c").Field("note", `"encrypted_content"`), "a")
}

// A child of Codex forwards its root's key, under which the caches of both would push each other out.
func TestCodexChildGetsItsOwnCacheKey(t *testing.T) {
	t.Parallel()
	body := `{ "model" : "m", "prompt_cache_key":"root-1" ,"input":"Say \u0068ello.","odd":[1, 2.50,{"a":null}],  "stream":false }`
	child := strings.Replace(body, `"root-1"`, `"child-7"`, 1)
	send := func(w *world, session, thread, body string) string {
		r := routertest.NewRequest(routertest.Responses, "m", false).With("Session-Id", session).With("Thread-Id", thread)
		r.Body = body
		n := len(w.ups[0].Calls())
		w.goes(r, "a")
		return string(w.ups[0].Await(n).Body)
	}
	w := build(t, upstreams(plain), nil)
	for _, c := range []struct{ name, session, thread, body, want string }{
		{"the root itself", "root-1", "root-1", body, body},
		{"a child", "root-1", "child-7", body, child},
		{"a child with a key of its own", "root-1", "child-7", child, child},
		{"another's key", "root-2", "child-7", body, body},
	} {
		if got := send(w, c.session, c.thread, c.body); got != c.want {
			t.Errorf("%s: the upstream got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	// What the configuration forces has the last word.
	forced := build(t, upstreams(plain), func(cfg *settings.Config) {
		cfg.Upstreams[0].Set = settings.Fields{"prompt_cache_key": []byte(`"mine"`)}
	})
	if got, want := send(forced, "root-1", "child-7", body), strings.Replace(body, `"root-1"`, `"mine"`, 1); got != want {
		t.Errorf("the upstream got %s, want %s", got, want)
	}
}

// Root and child have pins of their own.
func TestCodexChildHasItsOwnPin(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain), nil, router.WithRandom(func() float64 { return 0 }))
	root := responses("root-1", "").With("Thread-Id", "root-1")
	child := responses("root-1", "").With("Thread-Id", "child-7")
	w.moveToB(child)
	w.goes(child, "b")
	w.goes(root, "a", "a")
	w.goes(child, "b")
}
