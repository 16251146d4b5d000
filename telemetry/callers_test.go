package telemetry

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"pgregory.net/rapid"
)

func TestCallersAreCounted(t *testing.T) {
	tel, reader := bench(t)
	r := tel.Callers(CallerNames{Keys: []string{"ci", "ann"}, Clients: []string{"nightly"}, Models: []string{"opus"}})
	none := NoUsage()
	used := Usage{Input: 5, CacheRead: 7, CacheWrite: Unknown, CacheWrite5m: 2, CacheWrite1h: 1, Output: 3, Reasoning: 1}
	for _, c := range []struct {
		Caller
		usd  float64
		used Usage
	}{
		{Caller{"ci", "codex", "opus"}, 0.5, used},
		{Caller{"ci", "codex", "opus"}, 0.25, none},
		{Caller{"ann", "nightly", "opus"}, 0, used},
		{Caller{"", "", "opus"}, 1, none},
		{Caller{"eve", "curl/8", "gpt"}, 2, none},
		{Caller{"ann", "codex", "opus"}, 0, none},
		{Caller{"ann", "codex", "opus"}, -1, Usage{}},
	} {
		r.Request(t.Context(), c.Caller, c.usd, c.used)
	}
	got := collect(t, reader)
	cost := func(key, client, model string) []string {
		return []string{AttrKey, key, AttrClientType, client, AttrModel, model}
	}
	tokens := func(key, client, kind string) []string {
		return []string{AttrKey, key, AttrClientType, client, AttrTokenType, kind}
	}
	for metric, want := range map[string]map[attribute.Distinct]point{
		MetricRequestCost: {
			key(cost("ci", "codex", "opus")...):     {value: 0.75},
			key(cost(KeyNone, Unnamed, "opus")...):  {value: 1},
			key(cost(Unnamed, Unnamed, Unnamed)...): {value: 2},
		},
		MetricRequestTokens: {
			key(tokens("ci", "codex", TokensUncached)...): {value: 8}, key(tokens("ci", "codex", TokensCached)...): {value: 7},
			key(tokens("ci", "codex", TokensOutput)...): {value: 3}, key(tokens("ann", "nightly", TokensUncached)...): {value: 8},
			key(tokens("ann", "nightly", TokensCached)...): {value: 7}, key(tokens("ann", "nightly", TokensOutput)...): {value: 3},
		},
	} {
		if diff := cmp.Diff(want, got[metric], cmp.AllowUnexported(point{})); diff != "" {
			t.Errorf("%s:\n%s", metric, diff)
		}
	}
}

// Adding up attempts loses nothing of what any of them reported.
func TestUsageAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(Unknown, 1e12)
		usage := func(name string) Usage {
			draw := func(part string) int64 { return n.Draw(t, name+" "+part) }
			return Usage{draw("in"), draw("read"), draw("write"), draw("5m"), draw("1h"), draw("out"), draw("reason")}
		}
		u, v := usage("u"), usage("v")
		got := u.Plus(v)
		if got != v.Plus(u) || NoUsage().Plus(NoUsage()) != NoUsage() {
			t.Error("the order matters, or nothing and nothing is something")
		}
		for _, c := range [][3]int64{
			{u.TotalInput(), v.TotalInput(), got.TotalInput()},
			{u.TotalCacheWrite(), v.TotalCacheWrite(), got.TotalCacheWrite()},
			{u.Output, v.Output, got.Output},
		} {
			if c[2] != sum(c[0], c[1]) {
				t.Errorf("%v and %v are %v: %v", u, v, got, c)
			}
		}
	})
}

// What the captured agents call themselves.
func TestClientTypeOfCapturedRequests(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../router/session/testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no captured requests", err)
	}
	seen := map[string]bool{}
	for _, name := range files {
		for agent := range userAgents(t, name) {
			kind := ClientType(agent)
			seen[kind] = true
			if kind != "" && !strings.HasPrefix(filepath.Base(name), kind) && filepath.Base(name) != "sdk.jsonl" {
				t.Errorf("%s: %q is taken for %s", name, agent, kind)
			}
		}
	}
	want := []string{"ai-sdk", "anthropic-sdk", "claude-code", "codex", "google-genai-sdk", "openai-sdk", "opencode"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(seen))); diff != "" {
		t.Error(diff)
	}
	for agent, want := range map[string]string{
		"GeminiCLI/0.61.0/gemini-2.5-pro (linux; x64)": "gemini-cli", "QwenCode/0.24.4 (linux; x64)": "qwen-code", "kilo/7.7.9": "kilo",
		"pi/1.6.0 (linux; node/v24.22.3; x64)": "pi", "AsyncOpenAI/Python 2.1": "openai-sdk", "AsyncAnthropic/Python 1": "anthropic-sdk",
		"": "", "curl/8.16": "", "pip/24": "", "aider/1": "", "Mozilla/5.0 codex": "",
	} {
		if got := ClientType(agent); got != want {
			t.Errorf("%q is taken for %q, want %q", agent, got, want)
		}
	}
}

// userAgents are those of the requests in a file.
func userAgents(t *testing.T, name string) map[string]bool {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, lines := map[string]bool{}, bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct {
			Request struct{ Headers map[string]string }
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for header, v := range c.Request.Headers {
			if strings.EqualFold(header, "User-Agent") {
				all[v] = true
			}
		}
	}
	if lines.Err() != nil {
		t.Fatal(lines.Err())
	}
	return all
}

func BenchmarkCaller(b *testing.B) {
	tel, _ := bench(b)
	ctx, used := sampled(), Usage{10, 20, 30, 10, 20, 40, 5}
	names := CallerNames{Models: []string{"opus"}}
	for i := range 50 {
		names.Keys = append(names.Keys, fmt.Sprint("key-", i))
	}
	for name, c := range map[string]Caller{"named": {"key-49", "codex", "opus"}, "no key": {"", "codex", "opus"}} {
		r := tel.Callers(names)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r.Request(ctx, c, 0.01, used)
			}
		})
	}
}
