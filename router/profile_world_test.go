package router_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// profiled is build with the defaults of a profile. Three things of it are left to the tests that are about them: keys made
// from the first texts, since all requests of a test begin alike, health checks, since they are calls too, and the second
// between retries. Chance falls on the first of those that are drawn from, unless opts say otherwise.
func profiled(t *testing.T, name string, ups []*routertest.Upstream, change func(*settings.Config), opts ...router.Option) *world {
	t.Helper()
	first := router.WithRandom(func() float64 { return 0 })
	return build(t, ups, func(cfg *settings.Config) {
		*cfg = profileConfig(t, name, ups)
		if change != nil {
			change(cfg)
		}
	}, append([]router.Option{first}, opts...)...)
}

// profileConfig has a model m with a target at each upstream, named a, b, c, ...
func profileConfig(t *testing.T, name string, ups []*routertest.Upstream) settings.Config {
	t.Helper()
	from, ok := settings.Profile(name)
	if !ok {
		t.Fatalf("there is no profile %q", name)
	}
	cfg, m := from.Config, from.Model
	cfg.Affinity.PrefixKey = false
	m.ID, m.Retry.Base = "m", time.Millisecond
	for i, up := range ups {
		u, target := from.Upstream, from.Target
		u.Name, u.BaseURL, u.Wires = string(rune('a'+i)), up.URL, routertest.Wires
		u.APIKey, u.HealthCheck = settings.NewSecret("sk-of-"+u.Name, ""), nil
		target.Upstream = u.Name
		cfg.Upstreams, m.Targets = append(cfg.Upstreams, u), append(m.Targets, target)
	}
	cfg.Models = []settings.Model{m}
	return cfg
}

// weights gives the targets of model m theirs.
func weights(list ...int) func(*settings.Config) {
	return func(cfg *settings.Config) {
		for i, w := range list {
			cfg.Models[0].Targets[i].Weight = w
		}
	}
}

// addModel adds a model with targets "upstream" or "upstream/model"; it has the ways of model m.
func addModel(cfg *settings.Config, id string, targets ...settings.Target) {
	m := cfg.Models[0]
	m.ID, m.Targets = id, targets
	cfg.Models = append(cfg.Models, m)
}

// at is a target, of the same model that is asked for if model is empty.
func at(upstream, model string) settings.Target {
	t := settings.DefaultTarget()
	t.Upstream, t.Model = upstream, model
	return t
}

// addPreset adds a preset with the ways of a profile.
func addPreset(cfg *settings.Config, id string, models ...string) *settings.Preset {
	from, _ := settings.Profile(cfg.Profile)
	p := from.Preset
	p.ID, p.Models = id, models
	cfg.Presets = append(cfg.Presets, p)
	return &cfg.Presets[len(cfg.Presets)-1]
}

// plainly is a chat request for model m that is no stream.
func plainly() routertest.Request { return routertest.NewRequest(routertest.Chat, "m", false) }

// send sends a request and waits until its books are closed.
func (w *world) send(r routertest.Request) routertest.Result {
	w.t.Helper()
	got := w.Send(w.t.Context(), r)
	w.completed()
	return got
}

// expect fails unless a request gets an answer with this status from this upstream, "" for one of the router's own.
func (w *world) expect(what string, r routertest.Request, status int, from string) routertest.Result {
	w.t.Helper()
	got := w.send(r)
	if by := got.Header.Get("X-Router-Upstream"); got.Status != status || by != from {
		w.t.Errorf("%s: got %d from %q, want %d from %q: %s", what, got.Status, by, status, from, got.Body)
	}
	return got
}

// calls fails unless the upstreams have been asked so often since the start.
func (w *world) calls(what string, want ...int) {
	w.t.Helper()
	var got []int
	for _, u := range w.ups {
		got = append(got, len(u.Calls()))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: calls %v, want %v", what, got, want)
	}
}

// meanwhile sends a request that upstream number up gets, and calls f before that answers with reply. After it the
// upstream answers well.
func (w *world) meanwhile(up int, r routertest.Request, reply routertest.Reply, f func()) routertest.Result {
	w.t.Helper()
	gate, done := make(chan struct{}), make(chan routertest.Result, 1)
	n := len(w.ups[up].Calls())
	w.ups[up].Script(reply.HoldStatus(gate), good)
	go func() { done <- w.Send(w.t.Context(), r) }()
	if w.ups[up].Await(n) == nil {
		w.t.Error("the upstream was not asked")
	}
	f()
	close(gate)
	got := <-done
	w.completed()
	return got
}

// cool holds an account off by hand.
func (w *world) cool(name string, d time.Duration) {
	w.t.Helper()
	if err := w.engine.Cool(name, "", d); err != nil {
		w.t.Fatal(err)
	}
}

// uncool ends all that holds an account off.
func (w *world) uncool(name string) {
	w.t.Helper()
	if _, err := w.engine.Uncool(name, ""); err != nil {
		w.t.Fatal(err)
	}
}

// tell sets what an upstream answers from now on.
func (w *world) tell(up int, replies ...routertest.Reply) { w.ups[up].Script(replies...) }

// told fails unless an answer is the router's own error of a kind.
func told(t *testing.T, what, wire string, got routertest.Result, status int, kind string) {
	t.Helper()
	if word, k := refusal(wire, got.Body); got.Status != status || word == "" || k != kind {
		t.Errorf("%s: got %d %s, want %d %s", what, got.Status, got.Body, status, kind)
	}
}

// refusing is an upstream on whose port nobody listens.
func refusing() *routertest.Upstream {
	u := routertest.NewUpstream()
	u.Close()
	return u
}

// failing are answers of each kind by name; what a profile does with each is its business.
var failing = map[string]routertest.Reply{
	"401":           routertest.Fail(401, "bad key"),
	"402":           routertest.Fail(402, "pay"),
	"403":           routertest.Fail(403, "forbidden"),
	"403 region":    routertest.Fail(403, "unsupported country"),
	"404":           routertest.Body(404, "application/json", `{"error":{"message":"there is nothing here"}}`),
	"404 model":     routertest.Fail(404, "model not found"),
	"408":           routertest.Fail(408, "too slow"),
	"409":           routertest.Fail(409, "conflict"),
	"429":           routertest.Fail(429, "slow down"),
	"500":           routertest.Fail(500, "boom"),
	"503":           routertest.Fail(503, "boom"),
	"529":           routertest.Fail(529, "overloaded"),
	"400 explained": routertest.Fail(400, "messages: too few"),
	"400 billing":   routertest.Fail(400, "insufficient credits"),
	"400 opaque":    routertest.Body(400, "application/json", ""),
	"422 opaque":    routertest.Body(422, "application/json", `{"error":{}}`),
	"cut":           routertest.Nothing(routertest.Cut),
	"reset":         routertest.Nothing(routertest.Reset),
	"empty 200":     routertest.Body(200, "application/json", `{"choices":[]}`),
	"HTML 200":      routertest.Body(200, "text/html", "<html></html>"),
	"in band":       routertest.Body(200, "application/json", `{"error":{"message":"boom","type":"server_error"}}`),
}

// movesOn fails unless exactly these failures make a plain request of a profile go on to the next upstream.
func movesOn(t *testing.T, profile string, want ...string) {
	t.Helper()
	for name, reply := range failing {
		w := profiled(t, profile, upstreams(reply, good), func(cfg *settings.Config) {
			cfg.Models[0].Strategy, cfg.Failover.SameTargetFirst = "failover", 0
		})
		got := w.send(plainly())
		if moved := got.Header.Get("X-Router-Upstream") == "b"; moved != slices.Contains(want, name) {
			t.Errorf("%s: moved on is %v: %d %s", name, moved, got.Status, got.Body)
		}
		if sent := w.ups[0].Await(0).Sent(); len(w.ups[1].Calls()) == 0 && got.Err == nil && got.Body != sent && sent != "" {
			t.Errorf("%s: got %s, the upstream sent %s", name, got.Body, sent)
		}
	}
	for _, name := range want {
		if _, ok := failing[name]; !ok {
			t.Errorf("there is no failure %q", name)
		}
	}
}

// sessions fails unless these requests have the session key "s", and the others none: a pin of "s" at b is followed by
// those that do, since every other request goes to a.
func sessions(t *testing.T, profile string, keyed routertest.Request, known, unknown map[string]routertest.Request) {
	t.Helper()
	for _, same := range []bool{true, false} {
		list := known
		if !same {
			list = unknown
		}
		for name, r := range list {
			w := profiled(t, profile, upstreams(routertest.Fail(500, "boom"), good), func(cfg *settings.Config) {
				cfg.Models[0].Strategy, cfg.Affinity.Mode, cfg.Failover.SameTargetFirst, cfg.Failover.MoveOn = "failover", "prefer", 0, "auto"
			})
			w.expect(name+": first", keyed, http.StatusOK, "b")
			w.clock.Advance(time.Minute) // a may be tried again
			w.tell(0, good)
			got := w.send(r)
			if followed := got.Header.Get("X-Router-Upstream") == "b"; followed != same {
				t.Errorf("%s: follows the session's pin is %v, want %v", name, followed, same)
			}
		}
	}
}

// A wait is told as long as it is in every profile, and what is held by hand is tried in none.
func TestProfilesTellTheTrueWait(t *testing.T) {
	t.Parallel()
	for _, name := range []string{llmRouter, switchblade, optaris, copilot} {
		w := profiled(t, name, upstreams(good), nil)
		w.cool("a", time.Hour)
		got := w.expect(name, plainly(), http.StatusServiceUnavailable, "")
		if after := got.Header.Get("Retry-After"); after != "3600" || len(w.ups[0].Calls()) != 0 {
			t.Errorf("%s: Retry-After %q, %d calls", name, after, len(w.ups[0].Calls()))
		}
	}
}
