package catalog

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"claude-sonnet-4-5":                   "claude-sonnet-4-5",
		"anthropic/claude-sonnet-4.5":         "claude-sonnet-4-5",
		"anthropic/claude-sonnet-4.5:nitro":   "claude-sonnet-4-5",
		"~anthropic/claude-sonnet-4.5:floor":  "claude-sonnet-4-5",
		"~GPT-5.1":                            "gpt-5-1",
		"accounts/x/models/Qwen3-Coder:a/b:c": "b",
		"MiniMax-M2.5":                        "minimax-m2-5",
		"":                                    "",
		"a/":                                  "",
		":x":                                  "",
	} {
		if got := Normalise(id); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestNormaliseIsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		once := Normalise(rapid.StringMatching(`[~a-zA-Z0-9./:_-]{0,40}`).Draw(t, "id"))
		if twice := Normalise(once); strings.TrimPrefix(once, "~") != twice {
			t.Errorf("%q becomes %q", once, twice)
		}
	})
}

func TestLookup(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{ // of one price
		"claude-sonnet-4-5":                      "claude-sonnet-4-5",
		"claude-sonnet-4-5-20250929":             "claude-sonnet-4-5",
		"claude-sonnet-4-5@20250929":             "claude-sonnet-4-5",
		"anthropic/claude-sonnet-4.5:nitro":      "claude-sonnet-4-5",
		"gpt-4o-2024-08-06":                      "gpt-4o",
		"openai/GPT-4o-2024-08-06":               "gpt-4o",
		"gpt-4o-2024-05-13":                      "gpt-4o-2024-05-13", // dearer than its successors
		"claude-sonnet-4-5-2025092":              "",
		"claude-sonnet-4-5-2025-0929":            "",
		"claude-sonnet-4-5x20250929":             "",
		"-20250929":                              "",
		"20250929":                               "",
		"claude-sonnet":                          "",
		"m":                                      "",
		"":                                       "",
		strings.Repeat("x", 500) + "/gpt-5.1":    "gpt-5-1",
		strings.Repeat("x", 500) + "-2024-08-06": "",
	} {
		got, ok := Lookup(id)
		if ok != (want != "") {
			t.Errorf("%q: found %v", id, ok)
		}
		var wanted Entry
		if want != "" {
			wanted = table[want].read()
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%q is not %q (-want +got):\n%s", id, want, diff)
		}
	}
}

// A variant that costs nothing has no list price of the model it is one of.
func TestFreeVariantsAreFree(t *testing.T) {
	t.Parallel()
	e, ok := Lookup("qwen/qwen3-coder-plus:free")
	if !ok || e.Price == nil || *e.Price != (Price{}) {
		t.Errorf("%v %v", e.Price, ok)
	}
	if e, _ := Lookup("qwen/qwen3-coder-plus"); *e.Price == (Price{}) {
		t.Error("the model itself is free now")
	}
}

func TestLookupAllocatesNothing(t *testing.T) {
	for _, id := range []string{"anthropic/claude-sonnet-4.5:nitro", "claude-sonnet-4-5-20250929", "unknown"} {
		if n := testing.AllocsPerRun(100, func() { Lookup(id) }); n != 0 {
			t.Errorf("%s: %v allocations", id, n)
		}
	}
}

// The table is read by people who renew it: one model a line, sorted, under the id that is looked up.
func TestTableIsTidy(t *testing.T) {
	t.Parallel()
	if _, err := time.Parse(time.DateOnly, Version()); err != nil {
		t.Errorf("version: %v", err)
	}
	var ids []string
	for _, m := range regexp.MustCompile(`(?m)^    "([^"]+)": \{.*\},?$`).FindAllStringSubmatch(source, -1) {
		ids = append(ids, m[1])
	}
	if len(ids) != len(table) || strings.Count(source, "\n") != len(ids)+5 {
		t.Errorf("%d lines of models, %d models", len(ids), len(table))
	}
	if !slices.IsSorted(ids) {
		t.Error("the lines are not sorted")
	}
	for _, id := range ids {
		if Normalise(id) != id {
			t.Errorf("%s is not normalised", id)
		}
	}
	if len(source) > 60<<10 {
		t.Errorf("%d bytes", len(source))
	}
	d := json.NewDecoder(strings.NewReader(source))
	d.DisallowUnknownFields()
	var file struct {
		Version string `json:"version"`
		Models  map[string]struct {
			Maker, Flags, Efforts  string
			Context, Input, Output int
			Price                  *Price
		} `json:"models"`
	}
	if err := d.Decode(&file); err != nil {
		t.Error(err)
	}
}

func TestTableIsPlausible(t *testing.T) {
	t.Parallel()
	flags := []string{
		AdaptiveThinking, ThinkingAlwaysOn, LegacyThinking, OutputConfig, PromptCaching, StructuredOutput, Vision, FunctionCalling,
		Reasoning, FastMode,
	}
	efforts := []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	for id, m := range table {
		e := m.read()
		if e.Maker == "" || e.Context < 4096 || e.Context > 10_000_000 || e.MaxInput <= 0 || e.MaxInput > e.Context ||
			e.MaxOutput < 0 || e.MaxOutput > e.Context {
			t.Errorf("%s: %+v", id, e)
		}
		if e.Price == nil && e.Has(PromptCaching) || e.Price != nil && e.MaxOutput == 0 {
			t.Errorf("%s: price, caching and output do not go together: %+v", id, e)
		}
		if p := e.Price; p != nil && (!(p.Input > 0) || p.Output < p.Input || p.Output > 1000 || p.CacheRead < 0 || p.CacheRead > p.Input ||
			p.CacheWrite < 0 || p.CacheWrite > 2*p.Input || p.CacheWrite1h < 0 || p.CacheWrite1h > 4*p.Input || p.CacheWrite1h > 0 && p.CacheWrite1h < p.CacheWrite || e.Has(PromptCaching) != (p.CacheRead > 0)) {
			t.Errorf("%s: %+v", id, *p)
		}
		for _, f := range e.Flags {
			if !slices.Contains(flags, f) {
				t.Errorf("%s: flag %q", id, f)
			}
		}
		rank := -1
		for _, f := range e.Efforts {
			if i := slices.Index(efforts, f); i <= rank {
				t.Errorf("%s: effort %q", id, f)
			} else {
				rank = i
			}
		}
		claude := e.Maker == "anthropic"
		if claude != strings.HasPrefix(id, "claude-") || claude && e.Has(OutputConfig) != (len(e.Efforts) > 0) {
			t.Errorf("%s: %+v", id, e)
		}
		if thinks := e.Has(AdaptiveThinking) || e.Has(LegacyThinking); thinks != (claude && e.Has(Reasoning)) ||
			e.Has(ThinkingAlwaysOn) && (e.Has(LegacyThinking) || !e.Has(AdaptiveThinking)) {
			t.Errorf("%s: thinking %v", id, e.Flags)
		}
		if len(e.Efforts) > 0 && !e.Has(Reasoning) {
			t.Errorf("%s: efforts without reasoning", id)
		}
	}
}

func BenchmarkLookup(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Lookup("anthropic/claude-sonnet-4.5")
	}
}
