package router_test

import (
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func keyedAndPriced(cfg *settings.Config) {
	cfg.Auth.Keys = keys()
	cfg.Models[0].Price = &settings.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
}

// What a request cost is counted once, all attempts together, for who sent it.
func TestCostIsToldByCaller(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		o := observe(t, upstreams(routertest.Fail(429, "slow"), good), func(cfg *settings.Config) {
			keyedAndPriced(cfg)
			cfg.Clients = []settings.Client{{Name: "nightly", UserAgent: "batch/*"}}
			cfg.Models = append(cfg.Models, modelNamed("free", "b"))
		})
		for _, c := range []struct{ model, key, agent string }{
			{"m", "key-of-agents", "claude-cli/2.1 (external, cli)"},
			{"m", "key-of-agents", "claude-cli/2.2 (external, cli)"},
			{"m", "key-of-ops", "batch/1"},
			{"m", "key-of-ops", "curl/8"},
			{"free", "key-of-ops", "batch/1"},
			{"m", "key-of-nobody", "batch/1"},
		} {
			o.Send(t.Context(), routertest.NewRequest(wire, c.model, stream).With("X-Api-Key", c.key).With("User-Agent", c.agent))
		}
		o.Send(t.Context(), routertest.NewCount("m").With("X-Api-Key", "key-of-ops"))
		o.close()
		const cost = (11*3 + 7*0.3 + 5*15) / 1e6
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
		series := func(label, client, key string) string {
			return "signalbox.client.type=" + client + ",signalbox.key=" + key + "," + label
		}
		if diff := cmp.Diff(map[string]float64{
			series("signalbox.model=m", "claude-code", "agents"): 2 * cost,
			series("signalbox.model=m", "nightly", "ops"):        cost,
			series("signalbox.model=m", "_unknown", "ops"):       cost,
		}, o.sums("signalbox.request.cost"), near); diff != "" {
			t.Errorf("cost:\n%s", diff)
		}
		want := map[string]float64{}
		for _, c := range []struct {
			client, key string
			n           float64
		}{{"claude-code", "agents", 2}, {"nightly", "ops", 2}, {"_unknown", "ops", 1}} {
			for kind, n := range map[string]float64{"uncached_input": 11, "cached_input": 7, "output": 5} {
				want[series("signalbox.token.type="+kind, c.client, c.key)] = c.n * n
			}
		}
		if diff := cmp.Diff(want, o.sums("signalbox.request.tokens")); diff != "" {
			t.Errorf("tokens:\n%s", diff)
		}
		types := map[string]int{}
		for _, s := range o.find("route m") {
			types[s["signalbox.client.type"].AsString()]++
		}
		if diff := cmp.Diff(map[string]int{"claude-code": 2, "nightly": 1, "": 2}, types); diff != "" {
			t.Errorf("spans:\n%s", diff)
		}
	})
}

// A well-known agent is told by its type, but is nobody that a rule could mean.
func TestKnownAgentsMatchNoRule(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(good, good), func(cfg *settings.Config) {
		cfg.Clients = []settings.Client{{Name: "codex", UserAgent: "batch/*"}}
		cfg.Upstreams[0].Clients = []string{"codex"}
	})
	o.Send(t.Context(), routertest.NewRequest(routertest.Responses, "m", false).With("User-Agent", "codex_exec/0.171.0"))
	o.close()
	route := o.find("route m")[0]
	if kind, upstream := route["signalbox.client.type"].AsString(), route["signalbox.upstream"].AsString(); kind != "codex" || upstream != "b" {
		t.Errorf("%s was served by %s", kind, upstream)
	}
}

// What attempts cost together is what requests cost together.
func TestCostsOfBothGrainsAgree(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		o := observe(t, upstreams(good, good), keyedAndPriced)
		for range 3 {
			// Anthropic tells its input before the first word: an attempt that breaks there has cost something.
			o.ups[0].Script(routertest.Stream(wire, words, spent).Events(1).Ending(routertest.Cut), good,
				routertest.Stream(wire, words, spent).Events(7).Ending(routertest.Cut))
			for range 3 {
				o.engine.ResetHealth()
				o.Send(t.Context(), routertest.NewRequest(wire, "m", true).With("X-Api-Key", "key-of-agents"))
			}
		}
		o.close()
		total := func(name string) (sum float64) {
			for _, v := range o.sums(name) {
				sum += v
			}
			return sum
		}
		if attempts, requests := total("signalbox.cost"), total("signalbox.request.cost"); attempts <= 0 || math.Abs(attempts-requests) > 1e-12 {
			t.Errorf("%s: attempts cost %v, requests %v", wire, attempts, requests)
		}
		tokens := total("gen_ai.client.inference.usage.input_tokens") + total("gen_ai.client.inference.usage.output_tokens")
		if got := total("signalbox.request.tokens"); got != tokens || got == 0 {
			t.Errorf("%s: attempts used %v tokens, requests %v", wire, tokens, got)
		}
	}
}

// Whatever clients call themselves, and whatever an embedding program calls its keys, adds no series.
func TestUnknownCallersAreOneSeries(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(good), keyedAndPriced)
	count := func() map[string]int {
		n := map[string]int{}
		for _, m := range o.metrics() {
			n[m.Name] = len(setsOf(m))
		}
		return n
	}
	var before map[string]int
	h, callers := o.engine.Handler(), 10_000
	if router.RaceEnabled {
		callers = 2_500 // more than an instrument has room for, and a minute less
	}
	for i := range callers {
		req := routertest.NewRequest(routertest.Wires[i%2], "m", false)
		in := httptest.NewRequest("POST", req.Path, strings.NewReader(req.Body))
		in.Header.Set("User-Agent", fmt.Sprintf("strange-%d/1", i))
		in = in.WithContext(router.WithRoute(in.Context(), router.RouteContext{Key: fmt.Sprintf("strange-key-%d", i)}))
		h.ServeHTTP(httptest.NewRecorder(), in)
		o.completed()
		if i == 1 { // one of each wire
			before = count()
		}
	}
	if before["signalbox.request.cost"] != 1 || before["signalbox.request.tokens"] != 3 {
		t.Errorf("series of the first two: %v", before)
	}
	if diff := cmp.Diff(before, count()); diff != "" {
		t.Errorf("unknown callers add series (-before +after):\n%s", diff)
	}
	for _, m := range o.metrics() {
		for _, s := range setsOf(m) {
			if text := s.Encoded(attribute.DefaultEncoder()); strings.Contains(text, "strange") {
				t.Errorf("%s: %s", m.Name, text)
			}
		}
	}
}
