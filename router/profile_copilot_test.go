package router_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

const copilot = "copilot-api-router"

// owned is a request of a session that belongs to the first of so many upstreams.
func owned(t *testing.T, n int) routertest.Request {
	t.Helper()
	w := profiled(t, copilot, upstreams(make([]routertest.Reply, n)...), nil)
	for _, u := range w.ups {
		u.Script(good)
	}
	for i := range 1000 {
		r := affine(fmt.Sprint("key ", i))
		if got := w.send(r); got.Header.Get("X-Router-Upstream") == "a" {
			return r
		}
	}
	t.Fatal("no session belongs to a")
	return routertest.Request{}
}

// Every key has one owner among all that are configured, whoever is busy.
func TestCopilotGivesSessionsAnOwner(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, upstreams(good, good, good), nil)
	counts := map[string]int{}
	for i := range 60 {
		r := affine(fmt.Sprint("key ", i))
		owner := w.send(r).Header.Get("X-Router-Upstream")
		counts[owner]++
		w.expect("again", r, 200, owner)
	}
	if len(counts) != 3 {
		t.Errorf("the keys belong to %v", counts)
	}
	r := owned(t, 3)
	w.meanwhile(0, r, good, func() { w.expect("the owner is busy", r, 200, "a") })
}

func TestCopilotHasTheSameOwnerAfterARestartAndForEveryModel(t *testing.T) {
	t.Parallel()
	r := owned(t, 3)
	w := profiled(t, copilot, upstreams(good, good, good), func(cfg *settings.Config) {
		addModel(cfg, "n", at("c", ""), at("b", ""), at("a", ""))
	})
	w.expect("a restart", r, 200, "a")
	w.expect("declared otherwise", forModel("n", r), 200, "a")
}

func TestCopilotIsStrict(t *testing.T) {
	t.Parallel()
	r := owned(t, 3)
	w := profiled(t, copilot, upstreams(failing["reset"], good, good), nil)
	for range 3 {
		w.expect("the owner refuses", r, http.StatusBadGateway, "")
	}
	asked := len(w.ups[0].Calls())
	got := w.expect("the owner rests", r, http.StatusServiceUnavailable, "")
	told(t, "the owner rests", routertest.Chat, got, 503, "router_unavailable")
	if got.Header.Get("Retry-After") != "30" || len(w.ups[0].Calls()) != asked {
		t.Errorf("Retry-After %q, %d calls", got.Header.Get("Retry-After"), len(w.ups[0].Calls())-asked)
	}
	w.clock.Advance(30 * time.Second)
	w.tell(0, good)
	w.expect("the owner is back", r, 200, "a")
	w.cool("a", 0)
	w.expect("the owner is held by hand", r, http.StatusServiceUnavailable, "")
	if n := len(w.ups[1].Calls()) + len(w.ups[2].Calls()); n != 0 {
		t.Errorf("moved %d times", n)
	}
}

func TestCopilotOwnerWhoseHostIsDown(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, []*routertest.Upstream{refusing(), routertest.NewUpstream(good)}, nil)
	w.expect("refused", owned(t, 2), http.StatusBadGateway, "")
}

func TestCopilotPassesStatusesOn(t *testing.T) {
	t.Parallel()
	r := owned(t, 2)
	for name, reply := range failing {
		if name == "cut" || name == "reset" {
			continue
		}
		w := profiled(t, copilot, upstreams(reply, good), nil)
		for range 5 {
			got := w.send(r)
			if n := len(w.ups[0].Calls()); got.Body != w.ups[0].Calls()[n-1].Sent() {
				t.Errorf("%s: got %d %s", name, got.Status, got.Body)
			}
		}
		w.calls(name+" is nobody's failure", 5, 0)
	}
}

func TestCopilotMovesOnFromConnectionsOnly(t *testing.T) {
	t.Parallel()
	movesOn(t, copilot, "cut", "reset")
	w := profiled(t, copilot, []*routertest.Upstream{refusing(), routertest.NewUpstream(good)}, nil)
	w.expect("without a key", plainly(), 200, "b")
	w = profiled(t, copilot, []*routertest.Upstream{refusing(), refusing()}, nil)
	w.expect("all refuse", plainly(), http.StatusBadGateway, "")
}

func TestCopilotSpreadsWhatHasNoKey(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, upstreams(good, good, good), nil)
	w.meanwhile(0, plainly(), good, func() {
		w.meanwhile(1, plainly(), good, func() {
			w.expect("the least busy", plainly(), 200, "c")
		})
	})
	w.calls("one each", 1, 1, 1)
}

func TestCopilotSessionKeys(t *testing.T) {
	t.Parallel()
	claude := routertest.NewRequest(routertest.Messages, "m", false).With("X-Claude-Code-Session-Id", "s")
	marked := routertest.NewRequest(routertest.Messages, "m", false)
	marker := `<system-reminder>__SUBAGENT_MARKER__{\"session_id\":\"s\",\"agent_id\":\"x\",\"agent_type\":\"y\"}</system-reminder>`
	marked.Body = strings.Replace(marked.Body, "Say hello.", marker, 1)
	sessions(t, copilot, affine("s"), map[string]routertest.Request{
		"Claude Code": claude, "opencode": affine("s"), "cache key": plainly().Field("prompt_cache_key", `"s"`),
		"codex": routertest.NewRequest(routertest.Responses, "m", false).With("X-Codex-Turn-Metadata", `{"session_id":"s","thread_id":"s"}`),
	}, map[string]routertest.Request{
		"nothing": plainly(), "user": plainly().Field("user", `"s"`), "id header": plainly().With("X-Session-Id", "s"),
		"a sub-agent of Claude Code": marked,
		"a sub-agent of codex":       routertest.NewRequest(routertest.Responses, "m", false).With("X-Codex-Turn-Metadata", `{"session_id":"s","thread_id":"child"}`),
	})
}

func TestCopilotRewritesTheCacheKeyOfAChild(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, upstreams(good), nil)
	const secret = `[{"type":"reasoning","encrypted_content":"gAAAA=="}]`
	r := routertest.NewRequest(routertest.Responses, "m", false).With("X-Codex-Turn-Metadata", `{"session_id":"root","thread_id":"child"}`)
	w.send(r.Field("prompt_cache_key", `"root"`).Field("extra", secret))
	if want := r.Field("prompt_cache_key", `"child"`).Field("extra", secret).Body; string(w.ups[0].Await(0).Body) != want {
		t.Errorf("sent on %s, want %s", w.ups[0].Calls()[0].Body, want)
	}
}

func TestCopilotBreaker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		row  []string
		out  bool
	}{
		{"three in a row", []string{"reset", "cut", "reset"}, true},
		{"two", []string{"reset", "reset"}, false},
		{"an answer between", []string{"reset", "reset", "500", "reset", "reset"}, false},
		{"statuses", []string{"500", "429", "401", "503"}, false},
		{"limits neither count nor break the row", []string{"429", "429", "429"}, false},
	} {
		w := profiled(t, copilot, upstreams(good), func(cfg *settings.Config) { addModel(cfg, "n", at("a", "other")) })
		for _, name := range c.row {
			w.tell(0, failing[name])
			w.send(plainly())
		}
		w.tell(0, good)
		if got := w.send(forModel("n", plainly())); (got.Status == 503) != c.out {
			t.Errorf("%s: the account gives %d, want it to rest: %v", c.name, got.Status, c.out)
		}
		w.clock.Advance(29*time.Second + 999*time.Millisecond)
		if got := w.send(plainly()); (got.Status == 503) != c.out {
			t.Errorf("%s: then %d", c.name, got.Status)
		}
		w.clock.Advance(time.Millisecond)
		w.expect(c.name+": after 30 s", plainly(), 200, "a")
	}
}

// A stream whose first byte has come was an answer, however it ends.
func TestCopilotStreamThatBreaksIsNoFailure(t *testing.T) {
	t.Parallel()
	part := routertest.Stream(routertest.Chat, words, spent).Events(1).Ending(routertest.Cut)
	w := profiled(t, copilot, upstreams(part, good), noStreamUsage)
	r := owned(t, 2)
	r.Body = routertest.NewRequest(routertest.Chat, "m", true).Body
	for n := range 4 {
		got := w.send(r)
		if got.Err == nil || got.Body != w.ups[0].Await(n).Sent() || got.Status != 200 {
			t.Errorf("got %d %v %q", got.Status, got.Err, got.Body)
		}
	}
	w.calls("neither moved nor resting", 4, 0)
}

// Three failed checks eject, one that succeeds restores. They carry the key in both slots.
func TestCopilotHealthChecks(t *testing.T) {
	t.Parallel()
	r := owned(t, 2)
	w := profiled(t, copilot, upstreams(failing["500"], good), func(cfg *settings.Config) {
		from, _ := settings.Profile(copilot)
		if hc := *from.Upstream.HealthCheck; hc != (settings.HealthCheck{Path: "/v1/models", Interval: 20 * time.Second, Failures: 3}) {
			t.Errorf("%+v", hc)
		}
		cfg.Upstreams[0].HealthCheck = from.Upstream.HealthCheck
		cfg.Upstreams[0].HealthCheck.Interval = 5 * time.Millisecond
	})
	c := w.ups[0].Await(3) // the third is told before the fourth is asked
	if c == nil || c.Method != http.MethodGet || c.Path != "/v1/models" || c.Header.Get("Authorization") != "Bearer sk-of-a" || c.Header.Get("X-Api-Key") != "sk-of-a" {
		t.Errorf("check %+v", c)
	}
	w.expect("ejected", r, http.StatusServiceUnavailable, "")
	w.expect("others go elsewhere", plainly(), 200, "b")
	w.tell(0, good)
	w.ups[0].Await(len(w.ups[0].Calls()) + 1)
	w.expect("restored", r, 200, "a")
}

func TestCopilotPins(t *testing.T) {
	t.Parallel()
	r := owned(t, 2)
	below := func(prefix string) routertest.Request { p := r; p.Path = prefix + r.Path; return p }
	w := profiled(t, copilot, upstreams(good, good), nil)
	w.expect("by name, before affinity", below("/backends/b"), 200, "b")
	w.expect("by index", below("/backends/1"), 200, "b")
	if c := w.ups[1].Await(1); c.Path != "/v1/chat/completions" {
		t.Errorf("asked for %s", c.Path)
	}
	got := w.expect("unknown", below("/backends/x"), http.StatusNotFound, "")
	if !strings.Contains(got.Body, `unknown backend \"x\"`) {
		t.Errorf("%s", got.Body)
	}
	if got := w.do(http.MethodGet, "/backends/b/_router/status", nil, nil); got.Status != http.StatusNotFound {
		t.Errorf("the router's own below a pin: %d", got.Status)
	}
	w.tell(1, failing["reset"])
	for range 3 {
		w.expect("refused, not failed over", below("/backends/b"), http.StatusBadGateway, "")
	}
	got = w.expect("rests", below("/backends/b"), http.StatusServiceUnavailable, "")
	if !strings.Contains(got.Body, `pinned backend \"b\" is unhealthy`) {
		t.Errorf("%s", got.Body)
	}
	w.expect("its session is still a's", r, 200, "a")
}

func TestCopilotQueues(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, upstreams(good), func(cfg *settings.Config) {
		if s := cfg.Server; s.MaxConcurrentRequests != 64 || s.MaxQueueDepth != 256 {
			t.Errorf("%+v", s)
		}
		cfg.Server.MaxConcurrentRequests, cfg.Server.MaxQueueDepth = 1, 1
	})
	second := make(chan routertest.Result, 1)
	w.meanwhile(0, plainly(), good, func() {
		go func() { second <- w.Send(t.Context(), plainly()) }()
		for late := time.Now().Add(routertest.Patience); w.engine.Status().Queued == 0 && time.Now().Before(late); {
			runtime.Gosched()
		}
		w.calls("the second waits", 1)
		w.expect("the third does not fit", plainly(), http.StatusServiceUnavailable, "")
	})
	if got := <-second; got.Status != 200 {
		t.Errorf("the second: %d %s", got.Status, got.Body)
	}
}

func TestCopilotCeilingIsNeverFailedOver(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, upstreams(routertest.Nothing(routertest.Stall), good), func(cfg *settings.Config) {
		if cfg.Server.RequestTimeout != 15*time.Minute {
			t.Errorf("%v", cfg.Server.RequestTimeout)
		}
		cfg.Server.RequestTimeout = 40 * time.Millisecond
	})
	w.expect("over", plainly(), http.StatusGatewayTimeout, "")
	w.calls("not failed over", 1, 0)
}

func TestCopilotRefusesLargeBodies(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, upstreams(good), nil)
	r := plainly()
	r.Body += strings.Repeat(" ", 8<<20-len(r.Body))
	w.expect("8 MiB", r, 200, "a")
	r.Body += " "
	told(t, "one more", routertest.Chat, w.send(r), http.StatusRequestEntityTooLarge, "body_too_large")
	w.calls("one more", 1)
}

func TestCopilotPassesBytes(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		w := profiled(t, copilot, upstreams(good), func(cfg *settings.Config) { cfg.Models[0].Targets[0].Model = "m" })
		r := routertest.NewRequest(wire, "m", stream)
		got, call := w.send(r), w.ups[0].Await(0)
		if string(call.Body) != r.Body || got.Body != call.Sent() {
			t.Errorf("sent on %s; got %s, want %s", call.Body, got.Body, call.Sent())
		}
		if call.Header.Get("Authorization") != "Bearer sk-of-a" || call.Header.Get("X-Api-Key") != "sk-of-a" {
			t.Errorf("%v", call.Header)
		}
	})
}

// Chance only decides where nothing else does.
func TestCopilotDrawsAmongTheLeastBusy(t *testing.T) {
	t.Parallel()
	w := profiled(t, copilot, upstreams(good, good), nil, router.WithRandom(func() float64 { return 0.9 }))
	w.expect("drawn", plainly(), 200, "b")
}
