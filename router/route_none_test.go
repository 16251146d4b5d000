package router_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// cooled brings a and b into a state, one after the other, and says how the next request fares.
type cooled struct {
	name string
	a, b any // a reply that fails, or how long an operator holds the target
	want map[string]string
}

// What is done for a request while all its targets are out, by the setting none_eligible.
func TestNoneEligibleByMode(t *testing.T) {
	t.Parallel()
	limit := routertest.Fail(429, "slow").With("Retry-After", "60")
	down, overloaded := routertest.Fail(500, "down"), routertest.Fail(529, "overloaded")
	key, quota := routertest.Fail(401, "bad key"), routertest.Fail(429, "You have reached your usage limit")
	const refused, limited = "503 router_unavailable", "429 rate_limited"
	for _, c := range []cooled{
		{"both broke", down, down, map[string]string{"auto": "a", "reject": refused, "soonest": "a", "clear": "a"}},
		{"both are limited", limit, limit, map[string]string{"auto": limited, "reject": limited, "soonest": "a", "clear": "a"}},
		{"one broke, one is limited", limit, down, map[string]string{"auto": "b", "reject": refused, "soonest": "b", "clear": "a"}},
		{"overloaded without a hint", overloaded, limit, map[string]string{"auto": "a", "reject": refused, "soonest": "a", "clear": "a"}},
		{
			"overloaded with a hint", overloaded.With("Retry-After", "60"), limit,
			map[string]string{"auto": refused, "reject": refused, "soonest": "a", "clear": "a"},
		},
		{"a bad key", key, key, map[string]string{"auto": refused, "reject": refused, "soonest": "a", "clear": "a"}},
		{"a spent quota", quota, quota, map[string]string{"auto": limited, "reject": limited, "soonest": "a", "clear": "a"}},
		{"held by hand", time.Duration(0), time.Duration(0), map[string]string{"auto": refused, "reject": refused, "soonest": refused, "clear": refused}},
		{"held for a time", time.Hour, time.Hour, map[string]string{"auto": refused, "reject": refused, "soonest": refused, "clear": refused}},
		{"one held, one broke", time.Duration(0), down, map[string]string{"auto": "b", "reject": refused, "soonest": "b", "clear": "b"}},
		{"one held, one limited", time.Duration(0), limit, map[string]string{"auto": refused, "reject": refused, "soonest": "b", "clear": "b"}},
	} {
		for mode, want := range c.want {
			w := build(t, upstreams(good, good), func(cfg *settings.Config) { cfg.Cooling.NoneEligible = mode })
			for i, state := range []any{c.a, c.b} {
				name := string(rune('a' + i))
				switch s := state.(type) {
				case routertest.Reply:
					w.ups[i].Script(s)
					w.to(below("/backends/"+name, turn("")))
					w.ups[i].Script(good)
				case time.Duration:
					if err := w.engine.Cool(name, "m", s); err != nil {
						t.Fatal(err)
					}
				}
				w.clock.Advance(time.Second) // so that a recovers first
			}
			before := len(w.ups[0].Calls()) + len(w.ups[1].Calls())
			got := w.to(turn("s"))
			dispatched := len(w.ups[0].Calls()) + len(w.ups[1].Calls()) - before
			if got != want || (len(want) == 1) != (dispatched == 1) {
				t.Errorf("%s, %s: went to %s with %d dispatches, want %s", c.name, mode, got, dispatched, want)
			}
		}
	}
}

func TestNoneEligibleSaysWhen(t *testing.T) {
	t.Parallel()
	limit := func(s string) routertest.Reply { return routertest.Fail(429, "slow").With("Retry-After", s) }
	for _, c := range []struct {
		name    string
		a, b    routertest.Reply
		cap     time.Duration
		hold    bool
		seconds string
		at      string
		phrase  string
	}{
		{"the earliest", limit("20"), limit("9"), 30 * time.Second, false, "9", "2030-01-02T03:04:14Z", "2 target rate_limit"},
		{"capped", limit("200"), limit("90"), 30 * time.Second, false, "30", "2030-01-02T03:05:35Z", "2 target rate_limit"},
		{"the true one", limit("200"), limit("90"), 0, false, "90", "2030-01-02T03:05:35Z", "2 target rate_limit"},
		{"one held by hand", limit("200"), limit("20"), 30 * time.Second, true, "30", "2030-01-02T03:07:25Z", "1 target rate_limit, 1 account operator"},
	} {
		forms(t, func(t *testing.T, wire string, stream bool) {
			w := build(t, upstreams(c.a, c.b), func(cfg *settings.Config) { cfg.Failover.RetryAfterCap = c.cap })
			w.to(turn(""))
			if c.hold {
				_ = w.engine.Cool("b", "", 0)
			}
			status := 429
			if c.hold {
				status = 503
			}
			got := w.ask(wire, stream)
			refused(t, wire, got, status, c.phrase)
			if s, at := got.Header.Get("Retry-After"), got.Header.Get("X-Router-Retry-At"); s != c.seconds || at != c.at {
				t.Errorf("%s: Retry-After %q, at %q", c.name, s, at)
			}
		})
	}
	// What only a person can end has no time.
	w := build(t, upstreams(good), nil)
	_ = w.engine.Cool("a", "", 0)
	got := w.ask(routertest.Messages, false)
	refused(t, routertest.Messages, got, 503, "uncool to restore")
	if got.Header.Get("Retry-After") != "" || got.Header.Get("X-Router-Retry-At") != "" {
		t.Errorf("%v", got.Header)
	}
}

// While one request finds out whether a target is well, the others are told to come back in a second.
func TestNoneEligibleDuringAProbe(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Fail(429, "slow").With("Retry-After", "5")), nil)
	w.to(turn(""))
	w.clock.Advance(10 * time.Second)
	release := w.hold(0)
	defer release()
	probe := w.inBackground(turn(""))
	w.ups[0].Await(1)
	got := w.ask(routertest.Chat, false)
	refused(t, routertest.Chat, got, 429, "1 target probing")
	if got.Header.Get("Retry-After") != "1" || len(w.ups[0].Calls()) != 2 {
		t.Errorf("%v, %d calls", got.Header, len(w.ups[0].Calls()))
	}
	release()
	if at := <-probe; at != "a" {
		t.Errorf("the probe ended with %s", at)
	}
	w.goes(turn(""), "a")
}

// Strict owners stay strict whatever none_eligible says.
func TestStrictBeatsNoneEligible(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "reject", "soonest", "clear"} {
		w := build(t, upstreams(good, good), func(cfg *settings.Config) { cfg.Cooling.NoneEligible, cfg.Affinity.Mode = mode, "strict" })
		w.goes(turn("s"), "a")
		w.ups[0].Script(routertest.Fail(500, "down"), good)
		w.goes(turn("s"), "500 server_error", "503 router_unavailable")
		if n := len(w.ups[0].Calls()); n != 2 {
			t.Errorf("%s: the owner was asked %d times", mode, n)
		}
		if mode != "reject" {
			w.goes(turn(""), "b")
		}
	}
}

// Streaks outlive what clear lifts: who keeps failing rests for longer each time.
func TestClearKeepsStreaks(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Fail(500, "down"), routertest.Fail(500, "down")), func(cfg *settings.Config) { cfg.Cooling.NoneEligible = "clear" })
	for range 3 {
		w.goes(turn(""), "500 server_error")
	}
	for _, u := range w.engine.Status().Upstreams {
		if n := u.Targets[0].Failures; n < 3 {
			t.Errorf("%s has a streak of %d", u.Name, n)
		}
	}
}

// The next target may go out between the decision to try it and its turn. Then the failure before it is what the client
// gets and what the books say.
func TestLastTargetGoesOutJustBeforeItsTurn(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(routertest.Fail(500, "down"), good), nil)
	o.engine.OnEvent(func(e *router.Event) {
		if e.Phase == router.PhaseAttemptEnd {
			_ = o.engine.Cool("b", "", 0)
		}
	})
	o.goes(turn(""), "500 server_error")
	if e := o.completed(); e.Outcome != "failed" || e.ErrorClass != "provider_server_error" || e.Status != 500 || e.Attempts != 1 {
		t.Errorf("%+v", e)
	}
	o.close()
	if s := o.find("route m")[0]; s["error.type"].AsString() != "500" || s["signalbox.decision"].AsString() != "strategy" {
		t.Errorf("the span is %v", s)
	}
}

// checked has upstream a, and only it, asked for its health every ten seconds, in a bubble.
func checked(path string, failures int) func(*settings.Config) {
	return func(cfg *settings.Config) {
		cfg.Upstreams[0].HealthCheck = &settings.HealthCheck{Path: path, Interval: 10 * time.Second, Failures: failures}
	}
}

func TestChecksEjectAndRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := inBubble(t, []routertest.Reply{routertest.Body(200, "application/json", "{}"), good}, checked("/v1/models", 3))
		defer end()
		expect := func(seconds int, state string) {
			t.Helper()
			time.Sleep(time.Duration(seconds) * time.Second)
			synctest.Wait()
			if u := b.engine.Status().Upstreams[0]; u.State != state || (state == "ejected") != (u.Since != nil) {
				t.Errorf("a is %s since %v, want %s", u.State, u.Since, state)
			}
		}
		expect(1, "healthy")
		call := b.ups[0].Calls()[0]
		if call.Method != "GET" || call.Path != "/v1/models" || call.Header.Get("Authorization")+call.Header.Get("X-Api-Key") == "" {
			t.Errorf("the check is %s %s %v", call.Method, call.Path, call.Header)
		}
		down := routertest.Body(503, "application/json", "{}")
		b.ups[0].Script(down)
		expect(20, "healthy") // after two failures
		expect(10, "ejected")
		expect(10, "ejected")
		send := func(want string) {
			t.Helper()
			if got := gist(b.send(context.Background(), turn(""))); got != want {
				t.Errorf("a request went to %s, want %s", got, want)
			}
		}
		n := len(b.ups[0].Calls())
		send("b")
		b.ups[0].Script(good) // answers the check well, too
		expect(10, "healthy") // one success is enough
		send("a")
		b.ups[0].Script(down, down, good)
		expect(50, "healthy") // two failures in a row are none of three
		if m := len(b.ups[0].Calls()); m != n+7 {
			t.Errorf("%d checks and requests", m-n)
		}
		send("a")
	})
}

// An ejection alone never leaves a request without a target: the checks may ask in the wrong place.
func TestEjectedSoleUpstreamIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := inBubble(t, []routertest.Reply{routertest.Body(404, "text/plain", "no")}, checked("/nothing", 1))
		defer end()
		synctest.Wait()
		if u := b.engine.Status().Upstreams[0]; u.State != "ejected" {
			t.Errorf("a is %s", u.State)
		}
		b.ups[0].Script(good)
		if got := gist(b.send(context.Background(), turn(""))); got != "a" {
			t.Errorf("went to %s", got)
		}
	})
}

// A reload begins the checks anew with what it says, and Close ends them.
func TestLoadAndCloseEndChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := inBubble(t, []routertest.Reply{good, good}, checked("/old", 1))
		time.Sleep(15 * time.Second)
		if err := b.engine.Load(b.config(func(cfg *settings.Config) {
			cfg.Upstreams[1].HealthCheck = &settings.HealthCheck{Path: "/new", Interval: 10 * time.Second, Failures: 1}
		})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(65 * time.Second)
		old, fresh := len(b.ups[0].Calls()), len(b.ups[1].Calls())
		if old != 2 || fresh != 7 {
			t.Errorf("%d old checks and %d new ones", old, fresh)
		}
		b.engine.Close()
		time.Sleep(65 * time.Second)
		if n := len(b.ups[1].Calls()); n != fresh {
			t.Errorf("%d checks after Close", n-fresh)
		}
		end()
	})
}

// While another request finds out about b, what only concerns the operator of a is no answer for a client: b will be known
// in a moment.
func TestBadKeyIsNotToldWhileAnotherTargetIsProbed(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]routertest.Reply{
		"key": routertest.Fail(http.StatusUnauthorized, "invalid api key"), "bill": routertest.Fail(http.StatusPaymentRequired, "pay first"),
	} {
		w := build(t, upstreams(good, routertest.Fail(http.StatusInternalServerError, "down")), func(cfg *settings.Config) {
			cfg.Cooling.NoneEligible = "reject"
			slices.Reverse(cfg.Models[0].Targets)
		})
		w.goes(turn(""), "a")
		w.clock.Advance(31 * time.Second)
		release := w.hold(1)
		probe := w.inBackground(turn(""))
		eventually(t, "b is probed", func() bool { return len(w.ups[1].Calls()) == 2 })
		w.ups[0].Script(bad)
		got := w.Send(t.Context(), turn(""))
		refused(t, routertest.Chat, got, http.StatusServiceUnavailable, "probing")
		if got.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %v", name, got.Header)
		}
		release()
		if served := <-probe; served != "b" {
			t.Errorf("%s: the probe got %s", name, served)
		}
		w.once()
	}
}
