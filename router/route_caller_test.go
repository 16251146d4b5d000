package router_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// teams give the key "agents" a group of b and c, and leave "ops" free.
func teams(cfg *settings.Config) {
	cfg.Auth.Keys = keys()
	cfg.Auth.Keys[0].Group = "team"
	cfg.Groups = []settings.Group{{Name: "team", Upstreams: []string{"b", "c"}}, {Name: "other", Upstreams: []string{"a"}}}
}

func TestGroupsRestrictCallers(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		teams(cfg)
		cfg.Models = append(cfg.Models, modelNamed("only-a", "a"))
	})
	agents, ops := turn("").With("X-Api-Key", "key-of-agents"), turn("").With("X-Api-Key", "key-of-ops")
	w.goes(ops, "a")
	w.goes(agents, "b")
	w.ups[1].Script(routertest.Fail(429, "slow"))
	w.ups[2].Script(routertest.Fail(500, "down"))
	w.goes(agents, "500 server_error") // and not a
	calls := len(w.ups[0].Calls())
	for _, wire := range routertest.Wires {
		got := w.Send(t.Context(), routertest.NewRequest(wire, "only-a", false).With("X-Api-Key", "key-of-agents"))
		refused(t, wire, got, 403, "no target of this model is open")
		if _, kind := refusal(wire, got.Body); kind != "not_allowed" {
			t.Errorf("%s: it is called %q", wire, kind)
		}
	}
	if n := len(w.ups[0].Calls()); n != calls {
		t.Errorf("%d requests went outside the group", n-calls)
	}
}

// A group that an embedding program names counts as well, and one that does not exist has nobody.
func TestGroupsOfEmbedders(t *testing.T) {
	t.Parallel()
	w := build(t, three(), teams)
	front := routertest.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rc := router.RouteContext{Key: "tenant", Group: r.Header.Get("X-Group")}
		w.engine.Handler().ServeHTTP(rw, r.WithContext(router.WithRoute(r.Context(), rc)))
	}))
	defer front.Close()
	w.Close()
	w.Front = front
	w.goes(turn("").With("X-Group", "team"), "b")
	w.goes(turn("").With("X-Group", "other"), "a")
	w.goes(turn("").With("X-Group", "nobody"), "403 not_allowed")
	w.goes(turn(""), "a")
}

func TestClientTypes(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		cfg.Clients = []settings.Client{
			{Name: "claude", UserAgent: "claude-cli/*"}, {Name: "late", UserAgent: "claude-cli/9*"}, {Name: "codex", UserAgent: "codex_*"},
		}
		cfg.Upstreams[0].Clients = []string{"claude"}
		cfg.Upstreams[1].Clients = []string{"claude", "codex"}
		cfg.Upstreams[2].Clients = []string{"late"}
	})
	for agent, want := range map[string]string{
		"claude-cli/2.1 (external)": "a", "claude-cli/9": "a", "codex_cli_rs/0.1": "b", "xclaude-cli/1": "403 not_allowed", "": "403 not_allowed",
	} {
		if at := w.to(turn("").With("User-Agent", agent)); at != want {
			t.Errorf("%q went to %s, want %s", agent, at, want)
		}
	}
	if n := len(w.ups[2].Calls()); n != 0 {
		t.Errorf("the second rule that matches counted %d times", n)
	}
}

// A client type says how often its target is asked again before another, also that it is not.
func TestClientTypesSayHowOftenToRetry(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Fail(503, "busy"), good), func(cfg *settings.Config) {
		cfg.Failover.SameTargetFirst = 1
		cfg.Models[0].Retry.Base = 0
		cfg.Clients = []settings.Client{{Name: "patient", UserAgent: "patient", Retries: 3}, {Name: "hasty", UserAgent: "hasty"}}
	})
	for agent, want := range map[string]int{"patient": 4, "hasty": 1, "other": 2} {
		w.engine.ResetHealth()
		before := len(w.ups[0].Calls())
		w.goes(turn("").With("User-Agent", agent), "b")
		if n := len(w.ups[0].Calls()) - before; n != want {
			t.Errorf("%s: a was asked %d times, want %d", agent, n, want)
		}
	}
}

func below(prefix string, r routertest.Request) routertest.Request {
	r.Path = prefix + r.Path
	return r
}

func TestPathsPinUpstreams(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		w := build(t, three(), func(cfg *settings.Config) {
			cfg.Upstreams[2].Name, cfg.Models[0].Targets[2].Upstream = "c:d", "c:d"
		})
		r := routertest.NewRequest(wire, "m", stream)
		for prefix, want := range map[string]string{
			"/backends/b": "b", "/upstreams/b": "b", "/backends/0": "a", "/backends/1": "b", "/backends/2": "c:d", "/upstreams/c%3Ad": "c:d",
		} {
			n := map[string]int{"a": 0, "b": 1, "c:d": 2}[want]
			before := len(w.ups[n].Calls())
			if got := w.to(below(prefix, r)); got != want {
				t.Errorf("%s went to %s", prefix, got)
				continue
			}
			call := w.ups[n].Await(before)
			if path, _, _ := strings.Cut(r.Path, "?"); call.Path != path {
				t.Errorf("%s: the upstream was asked for %s", prefix, call.Path)
			}
		}
		for _, prefix := range []string{"/backends/x", "/backends/3", "/backends/-1", "/upstreams/B", "/backends/%20"} {
			refused(t, wire, w.Send(t.Context(), below(prefix, r)), 404, "unknown backend")
		}
	})
}

func TestRouterIsNotFoundBelowAPinnedPath(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), nil)
	for _, path := range []string{"/backends/a/_router/status", "/backends/a/v1/models", "/backends/a/healthz", "/backends/a/", "/backends/a", "/backends/"} {
		if got := w.do(http.MethodGet, path, nil, nil); got.Status != 404 {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if n := len(w.ups[0].Calls()); n != 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

func TestPinnedPathNeverFailsOver(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"auto", "soonest", "clear", "reject"} {
		w := build(t, three(), func(cfg *settings.Config) {
			cfg.Cooling.NoneEligible = mode
			cfg.Models = append(cfg.Models, modelNamed("only-a", "a"))
		})
		pinned := below("/backends/b", turn("s"))
		w.ups[1].Script(routertest.Fail(500, "down"))
		w.goes(pinned, "500 server_error")
		w.ups[1].Script(good)
		got := w.Send(t.Context(), pinned)
		refused(t, routertest.Chat, got, 503, `pinned backend \"b\" is unhealthy`)
		if got.Header.Get("Retry-After") != "30" {
			t.Errorf("%s: %v", mode, got.Header)
		}
		w.clock.Advance(time.Minute)
		w.goes(pinned, "b")
		w.goes(below("/backends/b", asking("only-a", "")), "404 unknown_model")
		w.goes(below("/backends/b", asking("nothing", "")), "404 unknown_model")
		_ = w.engine.Cool("b", "", 0)
		w.goes(pinned, "503 router_unavailable")
		_, _ = w.engine.Uncool("b", "")
		w.ups[1].Close()
		w.goes(pinned, "502 upstream_error", "503 router_unavailable")
		if a, c := len(w.ups[0].Calls()), len(w.ups[2].Calls()); a+c != 0 {
			t.Errorf("%s: %d calls to a, %d to c", mode, a, c)
		}
	}
}

// Who names an upstream means this one request: the session stays where it lives, and a new one is not bound.
func TestPinnedPathLeavesTheSessionAlone(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(spentCache, spentCache, spentCache), nil)
	w.goes(turn("s"), "a")
	w.goes(below("/backends/b", turn("s")), "b", "b")
	w.goes(turn("s"), "a")
	w.goes(below("/backends/c", turn("new")), "c")
	w.goes(turn("new"), "a")
}

// The path is no way around the rules for keys and agents.
func TestPinnedPathKeepsToGroupsAndClients(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		teams(cfg)
		cfg.Clients = []settings.Client{{Name: "codex", UserAgent: "codex*"}}
		cfg.Upstreams[2].Clients = []string{"codex"}
	})
	agents := turn("").With("X-Api-Key", "key-of-agents")
	w.goes(below("/backends/a", agents), "404 unknown_upstream")
	w.goes(below("/backends/0", agents), "404 unknown_upstream")
	w.goes(below("/backends/b", agents), "b")
	w.goes(below("/backends/c", agents.With("User-Agent", "codex")), "c")
	if got := w.to(below("/backends/c", agents)); got == "c" || got[0] != '4' {
		t.Errorf("an upstream for another agent: %s", got)
	}
	w.goes(below("/backends/a", turn("")), "401 unauthorized")
}

// Where an upstream has several targets of a model, the first that may be tried is the one.
func TestPinnedPathWithSeveralTargets(t *testing.T) {
	t.Parallel()
	w := build(t, three(), presets([]settings.Model{modelNamed("m", "a/x", "b/y", "b/z")}))
	models := func() (all []string) {
		for _, c := range w.ups[1].Calls() {
			all = append(all, c.Model)
		}
		return all
	}
	pinned := below("/upstreams/b", turn(""))
	w.goes(pinned, "b")
	w.ups[1].Script(routertest.Fail(429, "slow"), good)
	w.goes(pinned, "429 rate_limit_exceeded", "b")
	if diff := cmp.Diff([]string{"y", "y", "z"}, models()); diff != "" {
		t.Error(diff)
	}
	if got := w.plan(pinned); !slices.Equal(got, []string{"b/z"}) {
		t.Errorf("the plan is %v", got)
	}
}
