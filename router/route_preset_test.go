package router_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func asking(id, session string) routertest.Request {
	r := routertest.NewRequest(routertest.Chat, id, false)
	if session != "" {
		r = r.With("Session-Id", session)
	}
	return r
}

// presets makes a configuration of models and presets over the upstreams of a test.
func presets(models []settings.Model, ps ...settings.Preset) func(*settings.Config) {
	return func(cfg *settings.Config) { cfg.Models, cfg.Presets = models, ps }
}

// plan lists where a request would go, as "upstream/model" in order, with the candidates only.
func (w *world) plan(r routertest.Request) (steps []string) {
	w.t.Helper()
	e, err := w.engine.Explain(w.t.Context(), router.Question{Path: r.Path, Header: r.Header, Body: []byte(r.Body)})
	if err != nil {
		return []string{err.Kind}
	}
	for _, s := range e.Plan {
		if s.Eligible {
			steps = append(steps, s.Upstream+"/"+s.Model)
		}
	}
	return steps
}

func TestPresetsExpandInPlace(t *testing.T) {
	t.Parallel()
	models := func() []settings.Model {
		return []settings.Model{
			modelNamed("one", "a/x", "b/x"), modelNamed("two", "b/y", "c/y"), modelNamed("three", "c/x", "a/x"), modelNamed("four", "a"),
		}
	}
	inner := presetNamed("inner", "failover", "two", "three")
	for _, c := range []struct {
		name    string
		presets []settings.Preset
		change  func(*settings.Config)
		want    []string // for preset "p"
	}{
		{"models in their order, each with its targets", []settings.Preset{presetNamed("p", "failover", "two", "one")}, nil, []string{"b/y", "c/y", "a/x", "b/x"}},
		{
			"nested, where it stands",
			[]settings.Preset{presetNamed("p", "failover", "four", "inner", "one"), inner},
			nil,
			[]string{"a/four", "b/y", "c/y", "c/x", "a/x", "b/x"},
		},
		{
			"twice the same model",
			[]settings.Preset{presetNamed("p", "failover", "three", "inner"), inner},
			nil,
			[]string{"c/x", "a/x", "b/y", "c/y"},
		},
		{
			"three deep",
			[]settings.Preset{presetNamed("p", "failover", "middle"), presetNamed("middle", "failover", "inner", "four"), inner},
			nil,
			[]string{"b/y", "c/y", "c/x", "a/x", "a/four"},
		},
		{
			"each upstream once",
			[]settings.Preset{presetNamed("p", "failover", "one", "two", "three")},
			func(cfg *settings.Config) { cfg.Failover.Distinct = "upstream" },
			[]string{"a/x", "b/x", "c/y"},
		},
		{
			"a strategy of the models' own",
			[]settings.Preset{presetNamed("p", "failover", "two", "one")},
			func(cfg *settings.Config) {
				cfg.Models[1].Strategy, cfg.Models[1].Targets[0].Weight, cfg.Models[1].Targets[1].Weight = "weighted", 0, 1
			},
			[]string{"c/y", "b/y", "a/x", "b/x"},
		},
		{
			"a model for failover only",
			[]settings.Preset{presetNamed("p", "weighted", "two", "four")},
			func(cfg *settings.Config) { cfg.Presets[0].Weights = map[string]int{"two": 0, "four": 1} },
			[]string{"a/four", "b/y", "c/y"},
		},
	} {
		w := build(t, three(), func(cfg *settings.Config) {
			presets(models(), c.presets...)(cfg)
			if c.change != nil {
				c.change(cfg)
			}
		})
		if diff := cmp.Diff(c.want, w.plan(asking("p", ""))); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// The plan is what requests do, and what the upstreams are asked for.
func TestPresetFailsOverAcrossItsModels(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Fail(500, "down"), routertest.Fail(500, "down"), good),
		presets([]settings.Model{modelNamed("one", "a/x", "b"), modelNamed("two", "b/y", "c/y")}, presetNamed("p", "failover", "one", "two")))
	w.goes(asking("p", "s"), "c")
	var asked []string
	for i, u := range w.ups {
		for _, c := range u.Calls() {
			asked = append(asked, fmt.Sprint(i, " ", c.Model))
		}
	}
	if diff := cmp.Diff([]string{"0 x", "1 one", "1 y", "2 y"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestPresetDrawsItsModelsByWeight(t *testing.T) {
	t.Parallel()
	p := presetNamed("p", "weighted", "one", "two", "three")
	p.Weights = map[string]int{"one": 3, "three": 0}
	w := build(t, three(), presets([]settings.Model{modelNamed("one", "a"), modelNamed("two", "b"), modelNamed("three", "c")}, p), seeded())
	got := w.spread(200, func(int) routertest.Request { return asking("p", "") })
	if got["a"] < 130 || got["a"] > 170 || got["b"] < 30 || got["c"] != 0 {
		t.Errorf("weights 3, 1 and 0 gave %v", got)
	}
	_ = w.engine.Cool("a", "", time.Hour)
	_ = w.engine.Cool("b", "", time.Hour)
	w.goes(asking("p", ""), "c", "c")
}

// A model whose targets are all out is not drawn.
func TestPresetPassesOverModelsThatAreOut(t *testing.T) {
	t.Parallel()
	p := presetNamed("p", "weighted", "one", "two")
	p.Weights = map[string]int{"one": 1000, "two": 1}
	w := build(t, three(), presets([]settings.Model{modelNamed("one", "a"), modelNamed("two", "b")}, p), seeded())
	w.goes(asking("p", ""), "a", "a")
	_ = w.engine.Cool("a", "one", time.Hour)
	if got := w.plan(asking("p", "")); got[0] != "b/two" {
		t.Errorf("the plan is %v", got)
	}
	w.goes(asking("p", ""), "b", "b")
}

// Where the order of models is drawn, a session stays at the model that served it, as it stays at its target.
func TestPresetKeepsASessionAtItsModel(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"weighted", "least_busy", "scored"} {
		for _, name := range []string{"p", "one"} { // one that lists its own id, too
			p := presetNamed(name, strategy, "one", "two")
			models := []settings.Model{modelNamed("one", "a/x", "b/x"), modelNamed("two", "b/y", "c/y")}
			models[0].Strategy, models[1].Strategy = "weighted", "weighted"
			w := build(t, upstreams(plain, plain, plain), presets(models, p), seeded())
			homes := map[string]string{}
			used := map[string]bool{}
			for i := range 12 {
				s := fmt.Sprint("s", i)
				got := w.Send(t.Context(), asking(name, s))
				homes[s] = got.Header.Get("X-Router-Upstream") + "/" + got.Header.Get("X-Router-Upstream-Model")
				used[got.Header.Get("X-Router-Upstream-Model")] = true
			}
			if len(used) != 2 {
				t.Errorf("%s %s: all sessions went to one model: %v", name, strategy, homes)
			}
			for range 3 {
				for s, home := range homes {
					got := w.Send(t.Context(), asking(name, s))
					if at := got.Header.Get("X-Router-Upstream") + "/" + got.Header.Get("X-Router-Upstream-Model"); at != home {
						t.Errorf("%s %s: %s lives at %s and went to %s", name, strategy, s, home, at)
					}
				}
			}
		}
	}
}

// A session whose model is out goes to another one, and stays there.
func TestPresetSessionMovesWithItsModel(t *testing.T) {
	t.Parallel()
	p := presetNamed("p", "weighted", "one", "two")
	p.Weights = map[string]int{"one": 1000, "two": 1}
	w := build(t, upstreams(plain, plain), presets([]settings.Model{modelNamed("one", "a"), modelNamed("two", "b")}, p), seeded())
	w.goes(asking("p", "s"), "a")
	w.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), plain)
	w.goes(asking("p", "s"), "b", "b")
	w.clock.Advance(2 * time.Minute)
	w.goes(asking("p", "t"), "a")
	w.goes(asking("p", "s"), "b", "b")
	w.goes(asking("one", "s"), "a") // the model itself is another matter
}

func TestPresetHidesAModelOfItsName(t *testing.T) {
	t.Parallel()
	w := build(t, three(), presets(
		[]settings.Model{modelNamed("m", "a/x"), modelNamed("n", "b"), modelNamed("*", "c")}, presetNamed("m", "failover", "n", "m"),
	))
	if diff := cmp.Diff([]string{"b/n", "a/x"}, w.plan(asking("m", ""))); diff != "" {
		t.Error(diff)
	}
	var ids []string
	for _, m := range w.engine.Models("") {
		ids = append(ids, m.ID)
	}
	if diff := cmp.Diff([]string{"m", "n", "*"}, ids); diff != "" {
		t.Error(diff)
	}
	w.goes(asking("m", ""), "b")
	w.goes(asking("else", ""), "c")
}

func TestPresetDefaultsAreTheHighestLayerBelowTheRequest(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		m, p := modelNamed("m", "a/x"), presetNamed("p", "failover", "m")
		m.Defaults = settings.Fields{"top_p": json.RawMessage("0.1"), "seed": json.RawMessage("1"), "n": json.RawMessage("1")}
		p.Defaults = settings.Fields{"top_p": json.RawMessage("0.2"), "seed": json.RawMessage("2"), "temperature": json.RawMessage("2")}
		presets([]settings.Model{m}, p)(cfg)
		cfg.Upstreams[0].Set = settings.Fields{"temperature": json.RawMessage("0")}
	})
	fields := func(r routertest.Request) map[string]any {
		n := len(w.ups[0].Calls())
		w.goes(r, "a")
		var all map[string]any
		if err := json.Unmarshal(w.ups[0].Await(n).Body, &all); err != nil {
			t.Fatal(err)
		}
		delete(all, "messages")
		return all
	}
	want := map[string]any{"model": "x", "top_p": 0.2, "seed": 9.0, "n": 1.0, "temperature": 0.0}
	if diff := cmp.Diff(want, fields(asking("p", "").Field("seed", "9"))); diff != "" {
		t.Error(diff)
	}
	want = map[string]any{"model": "x", "top_p": 0.1, "seed": 1.0, "n": 1.0, "temperature": 0.0}
	if diff := cmp.Diff(want, fields(asking("m", ""))); diff != "" {
		t.Error(diff)
	}
}

// Spans and metrics say what the client asked for and the configuration names: the preset.
func TestPresetIsTheModelOfTelemetry(t *testing.T) {
	t.Parallel()
	o := observe(t, three(), presets([]settings.Model{modelNamed("one", "a/x"), modelNamed("two", "b/y")}, presetNamed("p", "failover", "one", "two")))
	o.ups[0].Script(routertest.Fail(500, "down"))
	o.goes(asking("p", "s"), "b")
	o.completed()
	metrics := o.metrics()
	o.close()
	route := o.find("route p")
	if len(route) != 1 || route[0]["signalbox.model"].AsString() != "p" || route[0]["signalbox.strategy"].AsString() != "failover" {
		t.Fatalf("the route span is %v", route)
	}
	for _, name := range []string{"chat x", "chat y"} {
		if s := o.find(name); len(s) != 1 || s[0]["signalbox.model"].AsString() != "p" {
			t.Errorf("span %s is %v", name, s)
		}
	}
	seen := 0
	for _, m := range metrics {
		for _, set := range setsOf(m) {
			v, ok := set.Value("signalbox.model")
			if ok && !slices.Contains([]string{"p", "one", "two"}, v.AsString()) {
				t.Errorf("%s has model %s", m.Name, v.AsString())
			}
			if ok && v.AsString() == "p" {
				seen++
			}
		}
	}
	if seen == 0 {
		t.Error("no metric names the preset")
	}
}

// A preset by least_busy compares its models by what their targets are doing.
func TestPresetsBalanceTheirModels(t *testing.T) {
	t.Parallel()
	w := build(t, three(), func(cfg *settings.Config) {
		cfg.Models = []settings.Model{modelNamed("one", "a"), modelNamed("two", "b")}
		cfg.Presets = []settings.Preset{presetNamed("m", "least_busy", "one", "two")}
	}, router.WithRandom(func() float64 { return 0 }))
	release := w.hold(0)
	defer release()
	first := w.inBackground(turn("")) // the draw among equals falls on the first
	eventually(t, "a is asked", func() bool { return len(w.ups[0].Calls()) == 1 })
	w.goes(turn(""), "b", "b", "b", "b", "b")
	release()
	<-first
}
