package control_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// known is a configuration whose models the catalogue knows, and a key that may use one upstream only.
func known(t *testing.T) *desk {
	t.Helper()
	d := open(t)
	cfg := settings.Defaults()
	for name, group := range map[string]string{"agents": "", "team": "some", "nowhere": "none"} {
		k := settings.DefaultKey()
		k.Name, k.Scope, k.Group, k.Secret = name, "inference", group, settings.NewSecret("key-of-"+name, "")
		cfg.Auth.Keys = append(cfg.Auth.Keys, k)
	}
	for _, name := range []string{"a", "b"} {
		u := settings.DefaultUpstream()
		u.Name, u.BaseURL, u.Wires, u.Provider = name, d.up.URL, []string{routertest.Chat}, "of-"+name
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	cfg.Groups = []settings.Group{{Name: "some", Upstreams: []string{"b"}}, {Name: "none"}}
	add := func(id string, targets ...[2]string) *settings.Model {
		m := settings.DefaultModel()
		m.ID = id
		for _, pair := range targets {
			target := settings.DefaultTarget()
			target.Upstream, target.Model = pair[0], pair[1]
			m.Targets = append(m.Targets, target)
		}
		cfg.Models = append(cfg.Models, m)
		return &cfg.Models[len(cfg.Models)-1]
	}
	add("claude", [2]string{"a", "claude-opus-4-8"}, [2]string{"b", "anthropic/claude-haiku-4.5"}, [2]string{"b", "unheard-of"})
	own := add("own", [2]string{"a", "gpt-5"})
	own.ContextWindow, own.Price = 1000, &settings.Price{Input: 1, Output: 2, CacheRead: 0.5}
	add("unheard-of", [2]string{"a", ""})
	p := settings.DefaultPreset()
	p.ID, p.Models = "both", []string{"own", "claude"}
	cfg.Presets = []settings.Preset{p}
	if err := d.engine.Load(cfg); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestModelGroups(t *testing.T) {
	t.Parallel()
	d := known(t)
	entry := func(id string, info map[string]any) any {
		all := map[string]any{
			"max_input_tokens": nil, "max_tokens": nil, "mode": "chat", "litellm_provider": "of-a", "input_cost_per_token": nil,
			"output_cost_per_token": nil, "cache_read_input_token_cost": nil, "cache_creation_input_token_cost": nil,
			"providers": []any{"a"}, "supports_vision": false, "supports_function_calling": false, "supports_reasoning": false,
			"supports_prompt_caching": false, "supports_adaptive_thinking": false, "supported_reasoning_efforts": []any{},
		}
		maps.Copy(all, info)
		return map[string]any{"model_name": id, "model_info": all}
	}
	able := func(info map[string]any) map[string]any {
		for _, f := range []string{"vision", "function_calling", "reasoning", "prompt_caching"} {
			info["supports_"+f] = true
		}
		return info
	}
	claude := entry("claude", able(map[string]any{ // the smallest limits of two, the price of the first, what both can do
		"max_input_tokens": 200000.0, "max_tokens": 64000.0, "providers": []any{"a", "b"}, "input_cost_per_token": 5e-6,
		"output_cost_per_token": 25e-6, "cache_read_input_token_cost": 0.5e-6, "cache_creation_input_token_cost": 6.25e-6,
	}))
	own := entry("own", able(map[string]any{ // the configuration counts
		"max_input_tokens": 1000.0, "max_tokens": 128000.0, "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6,
		"cache_read_input_token_cost": 0.5e-6, "cache_creation_input_token_cost": 1e-6,
		"supported_reasoning_efforts": []any{"minimal", "low", "medium", "high"},
	}))
	both := entry("both", able(map[string]any{"max_input_tokens": 1000.0, "max_tokens": 64000.0, "providers": []any{"a", "b"}}))
	want := map[string]any{"data": []any{both, claude, own, entry("unheard-of", nil)}}
	for _, path := range []string{"/model_group/info", "/v1/model_group/info", "/api/v1/model_group/info"} {
		code, got := d.ask("agents", "GET", path, "")
		if diff := cmp.Diff(want, got); code != 200 || diff != "" {
			t.Errorf("%s: %d (-want +got):\n%s", path, code, diff)
		}
	}
}

func TestCatalogueFillsCards(t *testing.T) {
	t.Parallel()
	d := known(t)
	for id, want := range map[string][4]any{ // context_length, max_model_len, and both limits
		"claude":     {200000.0, 200000.0, 200000.0, 64000.0},
		"own":        {1000.0, 1000.0, 1000.0, 128000.0},
		"both":       {1000.0, 1000.0, 1000.0, 64000.0},
		"unheard-of": {},
	} {
		_, card := d.ask("agents", "GET", "/v1/models/"+id, "")
		limits, _ := card["limits"].(map[string]any)
		if got := [4]any{card["context_length"], card["max_model_len"], limits["max_input_tokens"], limits["max_output_tokens"]}; got != want {
			t.Errorf("%s: %v, want %v", id, got, want)
		}
	}
}

// The key of a group sees what it may use, and of that only what the group's upstreams have.
func TestGroupsSeeTheirModels(t *testing.T) {
	t.Parallel()
	d := known(t)
	for key, want := range map[string][]any{
		"agents": {"both", "claude", "own", "unheard-of"}, "team": {"both", "claude"}, "nowhere": nil,
	} {
		for path, field := range map[string]string{"/v1/models": "id", "/model_group/info": "model_name"} {
			_, got := d.ask(key, "GET", path, "")
			var ids []any
			list, _ := got["data"].([]any)
			for _, entry := range list {
				ids = append(ids, entry.(map[string]any)[field])
			}
			if diff := cmp.Diff(want, ids); diff != "" {
				t.Errorf("%s with %s (-want +got):\n%s", path, key, diff)
			}
		}
	}
	_, got := d.ask("team", "GET", "/model_group/info", "")
	text := fmt.Sprint(got["data"].([]any)[1])
	for _, other := range []string{"of-a", "providers:[a"} {
		if strings.Contains(text, other) {
			t.Errorf("the group sees another's upstream: %s", text)
		}
	}
	if code, _ := d.ask("team", "GET", "/v1/models/own", ""); code != 404 {
		t.Errorf("a model of others: %d", code)
	}
}
