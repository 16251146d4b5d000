package router_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// costOf is what the answer of the scripted upstreams costs: 11 tokens of input, 7 of cached input, 5 of output.
func costOf(input, cacheRead, output float64) float64 {
	return (11*input + 7*cacheRead + 5*output) / 1e6
}

// What the configuration does not price has the list price of what the upstream is asked for, as long as that is known.
func TestCatalogueFillsPrices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		model settings.Model
		asked string
		cost  float64 // below 0: none
	}{
		{"the target's model", modelNamed("m", "a/anthropic/claude-sonnet-4.5"), "m", costOf(3, 0.3, 15)},
		{"the model's id", modelNamed("claude-sonnet-4-5-20250929", "a"), "claude-sonnet-4-5-20250929", costOf(3, 0.3, 15)},
		{"what the client asks a glob for", modelNamed("gpt-*", "a"), "gpt-4o-2024-08-06", costOf(2.5, 1.25, 10)},
		{"a glob with a target's model", modelNamed("*", "a/claude-haiku-4-5"), "gpt-4o", costOf(1, 0.1, 5)},
		{"no such model", modelNamed("m", "a"), "m", -1},
		{"no such model by a glob", modelNamed("*", "a"), "unheard-of", -1},
		{"open weights", modelNamed("*", "a"), "gpt-oss-120b", -1},
		{"a price", priced(modelNamed("claude-sonnet-4-5", "a"), 1), "claude-sonnet-4-5", costOf(1, 1, 0)},
		{"a price of a glob", priced(modelNamed("claude-*", "a"), 1), "claude-sonnet-4-5", costOf(1, 1, 0)},
		{"for nothing", priced(modelNamed("claude-sonnet-4-5", "a"), 0), "claude-sonnet-4-5", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := observe(t, upstreams(good), func(cfg *settings.Config) { cfg.Models = []settings.Model{c.model} })
			for range 2 {
				o.Send(t.Context(), routertest.NewRequest(routertest.Chat, c.asked, false))
			}
			o.close()
			want := map[string]float64{}
			if c.cost >= 0 {
				want[fmt.Sprintf("signalbox.model=%s,signalbox.source=calculated,signalbox.upstream=a", c.model.ID)] = 2 * c.cost
			}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
			if diff := cmp.Diff(want, o.sums("signalbox.cost"), near); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A preset costs what its models do, each at its own price.
func TestPresetsHaveThePricesOfTheirModels(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(routertest.Fail(429, "slow"), good), presets(
		[]settings.Model{modelNamed("gpt-4o", "a"), modelNamed("claude-haiku-4-5", "b")}, presetNamed("p", "failover", "gpt-4o", "claude-haiku-4-5"),
	))
	o.Send(t.Context(), routertest.NewRequest(routertest.Chat, "p", false))
	o.close()
	got := o.sums("signalbox.cost")["signalbox.model=p,signalbox.source=calculated,signalbox.upstream=b"]
	if want := costOf(1, 0.1, 5); math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}

// One glob serves models of several prices, and its series is one.
func TestGlobPricesEachModel(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(good), func(cfg *settings.Config) { cfg.Models = []settings.Model{modelNamed("*", "a")} })
	for _, id := range []string{"gpt-4o", "x", "claude-haiku-4-5", "anthropic/claude-haiku-4.5", "gpt-4o"} {
		o.Send(t.Context(), routertest.NewRequest(routertest.Chat, id, true))
	}
	o.close()
	got, want := o.sums("signalbox.cost"), 2*costOf(2.5, 1.25, 10)+2*costOf(1, 0.1, 5)
	if v := got["signalbox.model=*,signalbox.source=calculated,signalbox.upstream=a"]; len(got) != 1 || math.Abs(v-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}

func priced(m settings.Model, input float64) settings.Model {
	m.Price = &settings.Price{Input: input}
	return m
}
