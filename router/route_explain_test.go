package router_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// explain asks where a request would go.
func (w *world) explain(r routertest.Request) *router.Explanation {
	w.t.Helper()
	e, err := w.engine.Explain(w.t.Context(), router.Question{Path: r.Path, Header: r.Header, Body: []byte(r.Body)})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

func step(upstream, reason string, in time.Duration) router.ExplainedStep {
	return router.ExplainedStep{Upstream: upstream, Model: "m", Eligible: in < 0, Reason: reason, RetryInMS: max(0, in.Milliseconds())}
}

// now marks a step that may be tried.
const now = time.Duration(-1)

func TestExplainTellsOrderAndReasons(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, plain, plain, plain, plain, plain, plain), func(cfg *settings.Config) {
		cfg.Upstreams[4].Enabled = false
		cfg.Clients = []settings.Client{{Name: "codex", UserAgent: "codex*"}}
		cfg.Upstreams[5].Clients = []string{"codex"}
		cfg.Upstreams[6].Wires = []string{routertest.Gemini}
	})
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "20"))
	w.ups[1].Script(routertest.Fail(500, "down"))
	w.goes(turn("s"), "c")
	_ = w.engine.Cool("d", "", 0)
	w.clock.Advance(1500 * time.Microsecond)
	got := w.explain(turn("s").With("User-Agent", "claude-cli/2"))
	want := &router.Explanation{
		Model: "m", Wire: routertest.Chat, Decision: "sticky", Strategy: "failover",
		Session: router.ExplainedKey{Source: "session-id", Hash: got.Session.Hash, Kind: "main"},
		Plan: []router.ExplainedStep{
			step("c", "session", now), step("a", "rate_limit", 19999*time.Millisecond), step("b", "server_error", 29999*time.Millisecond),
			step("d", "operator", 0), step("e", "disabled", 0), step("f", "client", 0), step("g", "wire", 0),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got.Session.Hash) != 8 {
		t.Errorf("hash %q:\n%s", got.Session.Hash, diff)
	}
	w.goes(turn("s"), "c")
	if e := w.explain(turn("")); e.Decision != "strategy" || e.Session != (router.ExplainedKey{Kind: "main"}) || e.Plan[2] != step("c", "strategy", now) {
		t.Errorf("without a session: %+v", e)
	}
	pinned := w.explain(below("/backends/c", turn("s").With("User-Agent", "codex/1").With("X-Claude-Code-Agent-Id", "7")))
	if pinned.Decision != "pinned" || pinned.Client != "codex" || pinned.Session.Agent != "7" || pinned.Session.Kind != "subagent" ||
		pinned.Plan[0] != step("c", "pinned", now) || pinned.Plan[1] != step("a", "upstream", 0) {
		t.Errorf("a pinned path: %+v", pinned)
	}
}

func TestExplainTellsCachesAndIssuers(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(plain, spentCache), shortPins)
	w.moveToB(responses("s", ""))
	e := w.explain(responses("s", ""))
	if diff := cmp.Diff([]router.ExplainedStep{step("b", "cache", now), step("a", "strategy", now)}, e.Plan); diff != "" || e.Decision != "cache" {
		t.Errorf("decision %s:\n%s", e.Decision, diff)
	}
	e = w.explain(responses("t", `"previous_response_id":"resp_0"`))
	if diff := cmp.Diff([]router.ExplainedStep{step("b", "issued_state", now), step("a", "owner", 0)}, e.Plan); diff != "" || e.Decision != "sticky" {
		t.Errorf("decision %s:\n%s", e.Decision, diff)
	}
}

func TestExplainTellsScores(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		by("scored")(cfg)
		cfg.Upstreams[1].PriceWeight, cfg.Upstreams[2].PriceWeight = 2, 4
	})
	got := map[string]float64{}
	for _, s := range w.explain(turn("")).Plan {
		if s.Score == nil {
			t.Fatalf("%s has no score", s.Upstream)
		}
		got[s.Upstream] = *s.Score
	}
	if got["a"] != 1 || got["b"] >= got["a"] || got["c"] >= got["b"] || got["c"] <= 0 {
		t.Errorf("scores %v", got)
	}
	if s := build(t, three(), nil).explain(turn("")).Plan[0]; s.Score != nil {
		t.Errorf("failover has a score of %v", *s.Score)
	}
}

func TestExplainRefusesAsRequestsAreRefused(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), nil)
	for kind, r := range map[string]routertest.Request{
		"unknown_model":        asking("nothing", ""),
		"unknown_upstream":     below("/backends/x", turn("")),
		"unsupported_endpoint": {Path: "/v1/embeddings", Body: `{"model":"m"}`},
		"bad_request":          {Path: "%", Body: `{"model":"m"}`},
		"invalid_body":         {Path: "/v1/messages", Body: `{"model":`},
	} {
		e, err := w.engine.Explain(t.Context(), router.Question{Path: r.Path, Header: r.Header, Body: []byte(r.Body)})
		if err == nil || err.Kind != kind {
			t.Errorf("%s: %+v, %v", kind, e, err)
		}
	}
}

// logged counts what reaches the log provider.
type logged struct{ n int }

func (l *logged) Export(_ context.Context, r []sdklog.Record) error { l.n += len(r); return nil }
func (*logged) Shutdown(context.Context) error                      { return nil }
func (*logged) ForceFlush(context.Context) error                    { return nil }

// A look binds nothing, takes no probe lease, counts for nothing and is not told as if a request had passed.
func TestExplainLearnsNothing(t *testing.T) {
	t.Parallel()
	records := &logged{}
	w := build(t, upstreams(plain, plain), func(cfg *settings.Config) { cfg.Server.MaxConcurrentRequests = 1 },
		router.WithTelemetry(nil, nil, sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(records)))))
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "20"), plain)
	w.goes(turn("first"), "b")
	w.clock.Advance(10 * time.Second)
	status, told := asJSON(t, w.engine.Status()), records.n
	if e := w.explain(turn("s")); e.Plan[0].Reason != "rate_limit" {
		t.Errorf("a's place is %+v", e.Plan[0])
	}
	if records.n != told {
		t.Errorf("a look left %d log records", records.n-told)
	}
	w.clock.Advance(10 * time.Second) // the next request at a finds out
	for range 3 {
		if e := w.explain(turn("s")); !e.Plan[0].Eligible || e.Plan[0].Upstream != "a" || e.Plan[0].Reason != "strategy" {
			t.Errorf("a's place is %+v", e.Plan[0])
		}
	}
	w.clock.Advance(-10 * time.Second)
	if diff := cmp.Diff(status, asJSON(t, w.engine.Status())); diff != "" {
		t.Errorf("the engine has changed:\n%s", diff)
	}
	w.clock.Advance(10 * time.Second)
	_ = w.engine.Cool("b", "", time.Minute) // a look that had taken a's probe lease would leave nobody
	w.goes(turn("s"), "a")
	w.completed()
	if n := len(w.ended); n != 1 { // that of the first request was taken
		t.Errorf("%d more requests were completed", n)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// With a key that is not known the request would be refused, and so is the question. Without one it is an operator's.
func TestExplainRefusesUnknownKeys(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		key := settings.DefaultKey()
		key.Name, key.Secret = "agents", settings.NewSecret("right", "test")
		cfg.Auth.Keys = []settings.Key{key}
	})
	for given, want := range map[string]int{"wrong": http.StatusUnauthorized, "right": 0, "": 0} {
		q := router.Question{Path: "/v1/chat/completions", Header: http.Header{}, Body: []byte(`{"model":"m"}`)}
		if given != "" {
			q.Header.Set("X-Api-Key", given)
		}
		status := 0
		if _, err := w.engine.Explain(t.Context(), q); err != nil {
			status = err.Status
		}
		if status != want {
			t.Errorf("key %q: %d, want %d", given, status, want)
		}
	}
}
