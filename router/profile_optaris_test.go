package router_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

const optaris = "optaris"

func inSession(id string) routertest.Request { return plainly().With("Session_id", id) }

// prices gives the upstreams theirs.
func prices(list ...float64) func(*settings.Config) {
	return func(cfg *settings.Config) {
		for i, p := range list {
			cfg.Upstreams[i].PriceWeight = p
		}
	}
}

func TestOptarisScoresByPrice(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(good, good, good), prices(2, 1, 3))
	w.expect("the cheapest", plainly(), 200, "b")
	if got := profileConfig(t, optaris, w.ups).Upstreams[0].PriceWeight; got != 1 {
		t.Errorf("without one it is %v, want 1", got)
	}
}

func TestOptarisDrawsAmongEquals(t *testing.T) {
	t.Parallel()
	for draw, want := range map[float64]string{0: "a", 0.4: "a", 0.6: "b", 0.99: "b"} { // c is behind by more than epsilon
		w := profiled(t, optaris, upstreams(good, good, good), prices(1, 1.05, 2), router.WithRandom(func() float64 { return draw }))
		w.expect("drawn", plainly(), 200, want)
	}
}

// Success counts for plain answers and streams, and is forgotten when the window has passed. A rest is over before that.
func TestOptarisScoresBySuccess(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(failing["500"], good), prices(1, 1.1))
	w.expect("a fails", plainly(), 200, "b")
	w.tell(0, good)
	w.clock.Advance(20 * time.Second)
	w.expect("a is dearer than its price now", plainly(), 200, "b")
	w.clock.Advance(10 * time.Minute)
	w.expect("forgotten", plainly(), 200, "a")
}

// The time to the first token counts for streams only.
func TestOptarisScoresStreamsByFirstToken(t *testing.T) {
	t.Parallel()
	stream := routertest.NewRequest(routertest.Chat, "m", true)
	w := profiled(t, optaris, upstreams(good, good), prices(1, 1.1))
	slow := func(up int, d time.Duration) { w.meanwhile(up, stream, good, func() { w.clock.Advance(d) }) }
	slow(0, 10*time.Second)
	w.cool("a", 0)
	slow(1, time.Second)
	w.uncool("a")
	w.expect("b is ten times faster", stream, 200, "b")
	w.expect("which a plain answer does not feel", plainly(), 200, "a")
}

func TestOptarisCandidates(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(good, good, good, good), func(cfg *settings.Config) {
		prices(1, 2, 3, 4)(cfg)
		cfg.Upstreams[0].Enabled = false
		cfg.Upstreams[1].Clients = []string{"codex"}
		cfg.Groups = []settings.Group{{Name: "grp_1", Upstreams: []string{"a", "b", "d"}}}
	})
	w.expect("enabled, for every client", plainly(), 200, "c")
	w.expect("for codex", plainly().With("User-Agent", "codex_cli_rs/0.50"), 200, "b")
	w.expect("the exact model", forModel("m-2", plainly()), 404, "")
}

func TestOptarisFollowsTheSessionFirst(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(failing["500"], good), prices(1, 5))
	w.expect("bound by success", inSession("s"), 200, "b")
	w.tell(0, good)
	w.clock.Advance(10*time.Minute - time.Second)
	w.expect("no session means scoring", plainly(), 200, "a")
	w.expect("bound, whatever the score", inSession("s"), 200, "b")
	w.clock.Advance(10*time.Minute - time.Second)
	w.expect("renewed by success", inSession("s"), 200, "b")
	w.clock.Advance(10*time.Minute + time.Second)
	w.expect("expired", inSession("s"), 200, "a")
}

func TestOptarisSessionKeys(t *testing.T) {
	t.Parallel()
	sessions(t, optaris, inSession("s"), map[string]routertest.Request{
		"session_id": inSession("s"), "session-id": plainly().With("Session-Id", "s"),
		"responses":        routertest.NewRequest(routertest.Responses, "m", false).With("Session-Id", "s"),
		"metadata.user_id": routertest.NewRequest(routertest.Messages, "m", false).Field("metadata", `{"user_id":"user_1_account_2_session_s"}`),
	}, map[string]routertest.Request{
		"nothing": plainly(), "user": plainly().Field("user", `"s"`), "cache key": plainly().Field("prompt_cache_key", `"s"`),
		"another header": plainly().With("X-Session-Id", "s"),
	})
}

func TestOptarisMovesOnAfterAnyFailure(t *testing.T) {
	t.Parallel()
	w := slices.DeleteFunc(slices.Sorted(maps.Keys(failing)), func(name string) bool { return name == "empty 200" })
	movesOn(t, optaris, w...) // an object without output is a valid body
}

func TestOptarisRestsTwentySeconds(t *testing.T) {
	t.Parallel()
	replies := maps.Clone(failing)
	delete(replies, "empty 200")
	replies["429 with a short hint"] = failing["429"].With("Retry-After", "5")
	replies["429 with a long hint"] = failing["429"].With("Retry-After", "500")
	replies["weekly"] = routertest.Fail(429, "Weekly usage limit reached. Resets in 3 days.")
	replies["529 with a hint"] = failing["529"].With("Retry-After", "5")
	for name, reply := range replies {
		w := profiled(t, optaris, upstreams(reply, good), func(cfg *settings.Config) {
			prices(1, 5)(cfg)
			cfg.Models[0].Strategy = "failover"
			addModel(cfg, "n", at("a", "other"), at("b", ""))
		})
		for range 2 { // and no longer after the second time
			w.tell(0, reply)
			w.expect(name+": fails", plainly(), 200, "b")
			w.tell(0, good)
			w.expect(name+": another model at the upstream", forModel("n", plainly()), 200, "a")
			w.expect(name+": rests", plainly(), 200, "b")
			w.clock.Advance(20*time.Second - time.Millisecond)
			w.expect(name+": still rests", plainly(), 200, "b")
			w.clock.Advance(time.Millisecond)
		}
		w.expect(name+": is back", plainly(), 200, "a")
	}
}

// Two models of an account that fail are two models that rest.
func TestOptarisKnowsNoOutage(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(failing["500"], good), func(cfg *settings.Config) {
		cfg.Models[0].Strategy = "failover"
		addModel(cfg, "n", at("a", "other"), at("b", ""))
		addModel(cfg, "third", at("a", "yet another"), at("b", ""))
	})
	w.send(plainly())
	w.send(forModel("n", plainly()))
	w.tell(0, good)
	w.expect("a third", forModel("third", plainly()), 200, "a")
}

func TestOptarisTriesTheSameTargetFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agent string
		want  int
	}{{"curl/8", 2}, {"claude-cli/2.0.1 (external, cli)", 1}, {"codex_cli_rs/0.50", 1}} {
		for _, name := range []string{"500", "429", "401", "400 explained", "cut"} {
			w := profiled(t, optaris, upstreams(failing[name], good), nil)
			w.expect(c.agent, plainly().With("User-Agent", c.agent), 200, "b")
			w.calls(c.agent+", "+name, c.want, 1)
		}
	}
	w := profiled(t, optaris, upstreams(good, good), func(cfg *settings.Config) {
		cfg.Clients = []settings.Client{{Name: "patient", UserAgent: "patient*", Retries: 3}}
	})
	w.tell(0, failing["500"], failing["500"], failing["500"], good)
	w.expect("as often as the client's type says", plainly().With("User-Agent", "patient/1"), 200, "a")
	w.expect("and does not rest", plainly(), 200, "a")
}

// A channel is never lost to rests alone: they are lifted, and it is tried again within the request. What has failed in
// the same request is not.
func TestOptarisLiftsRests(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(failing["500"]), func(cfg *settings.Config) { cfg.Failover.SameTargetFirst = 0 })
	w.send(plainly())
	w.tell(0, good)
	w.expect("the only one", plainly(), 200, "a")

	w = profiled(t, optaris, upstreams(failing["500"], good), func(cfg *settings.Config) {
		cfg.Failover.SameTargetFirst, cfg.Models[0].Strategy = 0, "failover"
	})
	w.expect("a rests from now on", plainly(), 200, "b")
	w.tell(0, good)
	w.tell(1, failing["500"], good)
	w.expect("b fails, and a is let in", plainly(), 200, "a")
	w.tell(0, failing["500"])
	w.expect("a fails, and b is let in", plainly(), 200, "b")
	w.tell(1, failing["500"])
	before := len(w.ups[0].Calls()) + len(w.ups[1].Calls())
	w.expect("all fail", plainly(), http.StatusBadGateway, "")
	if n := len(w.ups[0].Calls()) + len(w.ups[1].Calls()) - before; n != 2 {
		t.Errorf("%d attempts, want each once", n)
	}
}

func TestOptarisLiftsNothingThatIsHeldByHand(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(good), nil)
	w.cool("a", 0)
	w.expect("held", plainly(), 503, "")
}

// The budget is looked at before another target, and never cuts an attempt short.
func TestOptarisBudget(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(good, good), nil)
	got := w.meanwhile(0, plainly(), good, func() { w.clock.Advance(6 * time.Minute) })
	if got.Status != 200 {
		t.Errorf("an attempt was cut short: %d %s", got.Status, got.Body)
	}
	got = w.meanwhile(0, plainly().With("User-Agent", "codex"), failing["500"], func() { w.clock.Advance(5*time.Minute + time.Second) })
	told(t, "over", routertest.Chat, got, http.StatusBadGateway, "all_targets_failed")
	w.calls("b was not tried", 2, 0)
}

func TestOptarisTellsOneErrorWhenAllFailed(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		w := profiled(t, optaris, upstreams(failing["429"], failing["400 explained"]), nil)
		told(t, wire, wire, w.send(routertest.NewRequest(wire, "m", stream)), http.StatusBadGateway, "all_targets_failed")
		w.calls("twice each", 2, 2)
	})
}

func TestOptarisSendsWhatItGets(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		w := profiled(t, optaris, upstreams(good), nil)
		r := routertest.NewRequest(wire, "m", stream)
		if wire == routertest.Chat {
			r = r.Field("stream_options", `{"include_usage":true}`)
		}
		got, call := w.send(r), w.ups[0].Await(0)
		if string(call.Body) != r.Body || got.Body != call.Sent() {
			t.Errorf("sent on %s, want %s; got %s, want %s", call.Body, r.Body, got.Body, call.Sent())
		}
	})
}

// startEvents is how many chunks of a stream come until the one that commits it.
const startEvents = 1

func TestOptarisCommitsOnTheStartEvent(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		gate := make(chan struct{})
		w := profiled(t, optaris, upstreams(routertest.Stream(wire, words, spent).Hold(startEvents, gate), good), noStreamUsage)
		open := false
		got := w.Watch(t.Context(), routertest.NewRequest(wire, "m", true), func(r routertest.Result) bool {
			if !open && len(r.Events()) == startEvents { // it is the client's before anything else comes
				close(gate)
				open = true
			}
			return true
		})
		w.completed()
		if got.Err != nil || got.Text() != words || !open {
			t.Errorf("%s: %v %q", wire, got.Err, got.Text())
			if !open {
				close(gate)
			}
		}
	}
}

func TestOptarisHidesWhatFailsBeforeTheStartEvent(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		for name, reply := range map[string]routertest.Reply{
			"cut":             routertest.Stream(wire, words, spent).Events(0).Ending(routertest.Cut),
			"comments, cut":   routertest.Body(200, "text/event-stream", ": ping\n\n", ": ping\n\n").Ending(routertest.Cut),
			"comments, stall": routertest.Body(200, "text/event-stream", ": ping\n\n").Ending(routertest.Stall),
			"nothing":         routertest.Stream(wire, words, spent).Events(0),
			"an error":        inBand(wire, true),
		} {
			w := profiled(t, optaris, upstreams(reply, good), func(cfg *settings.Config) {
				cfg.Upstreams[0].Timeouts.FirstEvent = 40 * time.Millisecond
			})
			got := w.expect(wire+", "+name, routertest.NewRequest(wire, "m", true), 200, "b")
			if got.Text() != words || got.Err != nil {
				t.Errorf("%s, %s: %v %q", wire, name, got.Err, got.Text())
			}
		}
	}
}

func TestOptarisTellsWhatBreaksAfterTheStartEvent(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		begun := routertest.Stream(wire, words, spent).Events(startEvents)
		for name, c := range map[string]struct {
			reply        routertest.Reply
			idle, stream time.Duration
		}{
			"cut": {begun.Ending(routertest.Cut), 0, 0}, "idle": {begun.Ending(routertest.Stall), 40 * time.Millisecond, 0},
			"too long": {begun.Ending(routertest.Stall), 0, 40 * time.Millisecond},
		} {
			w := profiled(t, optaris, upstreams(c.reply, good), func(cfg *settings.Config) {
				noStreamUsage(cfg)
				cfg.Upstreams[0].Timeouts.Idle, cfg.Upstreams[0].Timeouts.Stream = c.idle, c.stream
			})
			got := w.Send(t.Context(), routertest.NewRequest(wire, "m", true))
			e := w.completed()
			rest := strings.TrimPrefix(got.Body, w.ups[0].Await(0).Sent())
			if got.Status != 200 || !tellsError(wire, rest) || e.Outcome != "failed" || e.Status != 200 {
				t.Errorf("%s, %s: got %d %q, %+v", wire, name, got.Status, got.Body, e)
			}
			w.calls(name, 1, 0)
			w.tell(0, good)
			w.expect(name+": it had been healthy", plainly(), 200, "a")
		}
	}
}

// A plain answer is read whole, and is good if it is one JSON object that is no error.
func TestOptarisReadsPlainAnswersWhole(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		for name, reply := range map[string]routertest.Reply{
			"cut": routertest.Answer(wire, words, spent).Bytes(40).Ending(routertest.Cut), "half": routertest.Answer(wire, words, spent).Bytes(40).With("Content-Length", "40"),
			"HTML": failing["HTML 200"], "an error": inBand(wire, false), "stalled": routertest.Answer(wire, words, spent).Bytes(40).Ending(routertest.Stall),
		} {
			w := profiled(t, optaris, upstreams(reply, good), func(cfg *settings.Config) {
				cfg.Upstreams[0].Timeouts.Response = 40 * time.Millisecond
			})
			w.expect(wire+", "+name, routertest.NewRequest(wire, "m", false), 200, "b")
		}
	}
}

// Usage is asked for, and the chunk that the client did not ask for is taken out again.
func TestOptarisStripsTheExtraUsageChunk(t *testing.T) {
	t.Parallel()
	w := profiled(t, optaris, upstreams(good), nil)
	got := w.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", true))
	if e := w.completed(); e.Usage.Output != 5 || got.Body != withoutUsage(w.ups[0].Await(0).Sent()) {
		t.Errorf("%+v %s", e.Usage, got.Body)
	}
}
