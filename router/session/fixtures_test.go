package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// captured is a request as a real client sent it, long texts replaced by their size, and what it has to be taken for.
type captured struct {
	Name    string
	Request struct {
		Path    string
		Headers map[string]string
		Body    json.RawMessage
	}
	Expect expectation
}

type expectation struct {
	Session, Subagent, Kind string
	From                    string `json:"session_from"`
}

func (c *captured) request(t testing.TB) Request {
	t.Helper()
	return request(t, wireOf(c.Request.Path), c.Request.Body, c.Request.Headers)
}

// wireOf is the wire that a path is of.
func wireOf(path string) string {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return "openai-chat"
	case strings.HasSuffix(path, "/responses"):
		return "openai-responses"
	case strings.Contains(path, "/messages"):
		return "anthropic-messages"
	}
	return "gemini"
}

func request(t testing.TB, wire string, body []byte, headers map[string]string) Request {
	t.Helper()
	h := http.Header{}
	for k, v := range headers {
		h.Set(k, v)
	}
	o := new(peek.Object)
	if err := o.Scan(body); err != nil {
		t.Fatal(err)
	}
	model := text(o.Value("model"))
	return Request{Header: h, Src: body, Body: o, Wire: wire, Model: model}
}

func captures(t testing.TB) []captured {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captured requests: %v", err)
	}
	var all []captured
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(src))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var c captured
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			all = append(all, c)
		}
		if lines.Err() != nil {
			t.Fatal(lines.Err())
		}
	}
	return all
}

// What real agents send with the requests of their main thread, of their sub-agents and beside both.
func TestCapturedRequests(t *testing.T) {
	t.Parallel()
	for _, c := range captures(t) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r := c.request(t)
			r.Count = strings.HasSuffix(c.Request.Path, "/count_tokens")
			k := Find(r)
			_, from, _ := strings.Cut(c.Expect.From, " ") // "header x" or "body x"
			want := expectation{Session: c.Expect.Session, Subagent: c.Expect.Subagent, Kind: strings.TrimSuffix(c.Expect.Kind, "_tokens"), From: from}
			if diff := cmp.Diff(want, expectation{k.ID, k.Agent, string(k.Kind), k.Source}); diff != "" {
				t.Error(diff)
			}
			wantCache := ""
			if strings.HasPrefix(c.Name, "codex") {
				wantCache = c.Expect.Subagent
			}
			if k.CacheKey != wantCache {
				t.Errorf("cache key %q, want %q", k.CacheKey, wantCache)
			}
		})
	}
}

// The turns of a captured conversation have one derived key, apart from other agents' and from what is not the
// conversation.
func TestCapturedTurnsShareTheDerivedKey(t *testing.T) {
	t.Parallel()
	type thread struct{ scenario, agent string }
	seen := map[thread]string{}
	keys := map[string]thread{}
	for _, c := range captures(t) {
		if strings.HasPrefix(c.Name, "sdk") {
			continue
		}
		r := c.request(t)
		k := Find(r)
		if !k.Kind.Speaks() {
			continue
		}
		r.Only, r.Prefix = []string{}, true
		id := Find(r).ID
		th := thread{filepath.Dir(c.Name), k.Agent}
		if first, ok := seen[th]; ok && first != id || id == "" {
			t.Errorf("%s: %q after %q", c.Name, id, first)
		}
		seen[th] = id
		if o, ok := keys[id]; ok && o.scenario == th.scenario && o != th && !strings.HasPrefix(c.Name, "codex") {
			t.Errorf("%s: the key of agent %q", c.Name, o.agent)
		}
		keys[id] = th
	}
}
