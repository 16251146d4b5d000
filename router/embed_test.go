package router_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/affinity"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// pins is an affinity store of an embedding program: it has a look at every pin.
type pins struct {
	*affinity.Memory
	mu sync.Mutex
	at map[affinity.Key]affinity.Target
}

func (p *pins) Bind(now time.Time, k affinity.Key, t affinity.Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[k] = t
	p.Memory.Bind(now, k, t)
}

var _ affinity.Store = (*pins)(nil)

// TestEmbedding drives what only an embedding program can: its own session keys, its own pins, its own callers.
func TestEmbedding(t *testing.T) {
	a := routertest.NewUpstream(routertest.Fail(http.StatusInternalServerError, "down"), routertest.Good("a", routertest.Usage{}))
	b := routertest.NewUpstream(routertest.Good("b", routertest.Usage{}))
	defer a.Close()
	defer b.Close()
	cfg := settings.Defaults()
	for name, url := range map[string]string{"a": a.URL, "b": b.URL} {
		u := settings.DefaultUpstream()
		u.Name, u.BaseURL, u.Wires = name, url, []string{"openai-chat"}
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	m := settings.DefaultModel()
	m.ID = "m"
	for _, name := range []string{"a", "b"} {
		target := settings.DefaultTarget()
		target.Upstream = name
		m.Targets = append(m.Targets, target)
	}
	cfg.Models = []settings.Model{m}
	key := settings.DefaultKey()
	key.Name, key.Secret = "agents", settings.NewSecret("right", "test")
	cfg.Auth.Keys = []settings.Key{key}

	store := &pins{Memory: affinity.NewMemory(affinity.Policy{}), at: map[affinity.Key]affinity.Target{}}
	clock := routertest.NewClock(time.Unix(1_800_000_000, 0))
	engine, err := router.New(cfg, router.WithAffinityStore(store), router.WithClock(clock.Now),
		router.WithSession(func(r *http.Request) string { return r.Header.Get("X-Mine") }))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	var calls []string
	engine.OnEvent(func(e *router.Event) {
		if e.Phase == router.PhaseCompleted {
			calls = append(calls, e.Call)
		}
	})
	front := routertest.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := router.RouteContext{Key: "tenant", RequestID: "call-1"}
		engine.Handler().ServeHTTP(w, r.WithContext(router.WithRoute(r.Context(), rc)))
	}))
	defer front.Close()

	req := routertest.NewRequest(string(wire.Chat), "m", false).With("X-Mine", "s1")
	for i := range 2 { // the first fails over to b, where the session then stays though a is well again
		clock.Advance(time.Duration(i) * time.Hour)
		got := front.Send(context.Background(), req)
		if got.Status != http.StatusOK || got.Header.Get("X-Router-Upstream") != "b" {
			t.Fatalf("request %d: status %d from %q: %s", i, got.Status, got.Header.Get("X-Router-Upstream"), got.Body)
		}
	}
	if want := (affinity.Target{Upstream: "b", Model: "m"}); store.at[affinity.Key{Credential: "tenant", Session: "s1", Model: "m"}] != want {
		t.Errorf("pins are %v", store.at)
	}
	if len(a.Calls()) != 1 || len(calls) != 2 || calls[0] != "call-1" {
		t.Errorf("%d calls to a, completions %v", len(a.Calls()), calls)
	}
}
