package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/catalog"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// sketchOf is what init writes where the environment has a key of its own in each of names.
func sketchOf(names ...string) *sketch {
	return newSketch(findAccounts(names, func(name string) string { return "sk-of-" + name }))
}

// checkSketch reads what init would write as check does, and asks for what it tells knownAgents to ask for.
func checkSketch(t interface {
	Fatalf(format string, args ...any)
}, s *sketch,
) {
	text := s.text()
	if strings.Contains(text, "sk-of-") {
		t.Fatalf("a key is in it:\n%s", text)
	}
	file, diags := config.Parse([]byte(text), "init.hcl", func(name string) (string, bool) {
		return "sk-of-" + name, slices.ContainsFunc(s.accounts, func(a account) bool { return a.key == name })
	})
	for _, d := range diags {
		t.Fatalf("%v\n%s", d, text)
	}
	for _, u := range file.Config.Upstreams {
		if !strings.HasPrefix(u.APIKey.Origin(), "env ") {
			t.Fatalf("upstream %s has its key from %q", u.Name, u.APIKey.Origin())
		}
	}
	told := 0
	for _, a := range knownAgents {
		model := s.modelFor(a.wires)
		if model == "" {
			continue
		}
		told++
		if !slices.ContainsFunc(file.Config.Models, func(m settings.Model) bool { return matches(m.ID, model) }) {
			t.Fatalf("%s would ask for %q, which is not there:\n%s", a.name, model, text)
		}
	}
	if told == 0 {
		t.Fatalf("no agent can use\n%s", text)
	}
}

// matches is for patterns with one star at most, but for that of everything with a slash.
func matches(pattern, id string) bool {
	ok, _ := filepath.Match(pattern, id)
	return ok
}

func TestInitForEachProvider(t *testing.T) {
	for _, name := range keyNames() {
		s := sketchOf(name)
		checkSketch(t, s)
		if len(s.accounts) != 1 || s.accounts[0].key != name {
			t.Errorf("%s gives %v", name, s.accounts)
		}
	}
}

// TestInitForAny: whatever keys there are, what init writes is accepted without a warning.
func TestInitForAny(t *testing.T) {
	var all []string
	for _, name := range keyNames() {
		all = append(all, name, name+"_2", name+"_WORK", name+"_MESSAGES")
	}
	checkSketch(t, sketchOf(all...))
	rapid.Check(t, func(t *rapid.T) {
		checkSketch(t, sketchOf(rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID).Draw(t, "names")...))
	})
}

func TestFindAccounts(t *testing.T) {
	keys := map[string]string{
		"OPENAI_API_KEY_2": "two", "OPENAI_API_KEY": "one", "OPENAI_API_KEY_EMPTY": "", "OPENAI_API_KEY_FILE": "/key", "OPENAI_API_KEYS": "x",
		"OPENAI_API_KEY_": "x", "OPENAI_API_KEY_COPY": "two", "MY_OPENAI_API_KEY": "x", "OPENAI_API_KEY_my": "x",
		"GEMINI_API_KEY": "three", "GOOGLE_API_KEY": "four", "GOOGLE_API_KEY_TEAM": "three", "ANTHROPIC_API_KEY_BIG_TEAM": "five",
	}
	var names []string
	for name := range keys {
		names = append(names, name)
	}
	got := map[string]string{}
	for _, a := range findAccounts(names, func(name string) string { return keys[name] }) {
		got[a.upstream] = a.key
	}
	want := map[string]string{
		"openai": "OPENAI_API_KEY", "openai-2": "OPENAI_API_KEY_2", "gemini": "GEMINI_API_KEY", "gemini-google": "GOOGLE_API_KEY",
		"anthropic-big-team": "ANTHROPIC_API_KEY_BIG_TEAM",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestInitModelsExist: names that init proposes get out of date, which the catalogue tells.
func TestInitModelsExist(t *testing.T) {
	var names []string
	for _, p := range providers {
		names = append(names, p.ask, p.standIn)
	}
	for _, m := range sketchOf("OPENROUTER_API_KEY").models {
		for _, target := range m.targets {
			names = append(names, target[1])
		}
	}
	for _, name := range names {
		if _, known := catalog.Lookup(name); name != "" && !known {
			t.Errorf("the catalogue has no %s", name)
		}
	}
}

// TestInitNativeWires: nothing is translated where a provider speaks an agent's wire itself.
func TestInitNativeWires(t *testing.T) {
	s := sketchOf("DEEPSEEK_API_KEY")
	file, _ := config.Parse([]byte(s.text()), "init.hcl", func(string) (string, bool) { return "k", true })
	wires := map[string][]string{}
	for _, u := range file.Config.Upstreams {
		wires[u.Name] = u.Wires
	}
	got := map[string][]string{}
	for _, m := range file.Config.Models {
		for _, target := range m.Targets {
			got[m.ID] = append(got[m.ID], wires[target.Upstream]...)
		}
	}
	want := map[string][]string{"claude-*": {messagesWire}, "deepseek-*": {chatWire}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
