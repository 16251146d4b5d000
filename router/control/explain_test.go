package control_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/control"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	d := open(t)
	want := map[string]any{
		"model": "org/m", "wire": "openai-chat", "strategy": "failover", "decision": "strategy",
		"session": map[string]any{"source": "x-session-id", "hash": "1a47e90b", "kind": "main"},
		"plan":    []any{map[string]any{"upstream": "a", "model": "up/m", "eligible": true, "reason": "strategy", "retry_in_ms": 0.0}},
	}
	ask := func() map[string]any {
		t.Helper()
		code, got := d.ask("ops", "POST", "/_router/explain", `{"path":"/v1/chat/completions","headers":{"X-Session-Id":"abc"},"body":{"model":"org/m","messages":[]}}`)
		if code != 200 {
			t.Fatalf("%d %v", code, got)
		}
		return got
	}
	if diff := cmp.Diff(want, ask()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.ask("ops", "POST", "/admin/backend", `{"id":"a","action":"cool","forMs":60000}`)
	want["plan"] = []any{map[string]any{"upstream": "a", "model": "up/m", "eligible": false, "reason": "operator", "retry_in_ms": 60000.0}}
	if diff := cmp.Diff(want, ask()); diff != "" {
		t.Errorf("cooled (-want +got):\n%s", diff)
	}
	if n := len(d.up.Calls()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	if s := d.engine.Status(); len(s.Recent) != 0 || s.Upstreams[0].ProbeInFlight {
		t.Errorf("it left traces: %+v", s)
	}
}

func TestExplainReads(t *testing.T) {
	t.Parallel()
	d := open(t)
	long := strings.Repeat("x", 300<<10)
	const chat, m = `"path":"/v1/chat/completions"`, `{"model":"org/m"}`
	for _, c := range []struct {
		body string
		code int
		want string // a part of the answer, as JSON
	}{
		{`{` + chat + `,"body":` + m + `}`, 200, `"model":"org/m"`},
		{`{` + chat + `,"headers":{},"body":"{\"model\":\"org/m\"}"}`, 200, `"model":"org/m"`},
		{`{` + chat + `,"headers":{"x-session-id":["one","two"]},"body":` + m + `}`, 200, `"source":"x-session-id"`},
		{`{` + chat + `,"body":{"model":"org/m","messages":[{"role":"user","content":"` + long + `"}]}}`, 200, `"source":"prefix"`},
		{`{"path":"/backends/a/v1/messages?beta=true","body":` + m + `}`, 200, `"decision":"pinned"`},
		{``, 400, `\"path\" is missing`},
		{`{` + chat + `}`, 400, `\"body\" is missing`},
		{`{` + chat + `,"body":""}`, 400, `\"body\" is missing`},
		{`{` + chat + `,"body":7}`, 400, `invalid_body`},
		{`{` + chat + `,"body":"no JSON"}`, 400, `invalid_body`},
		{`{` + chat + `,"body":{"model":"org/m","model":"m-1"}}`, 400, `\"model\" twice`},
		{`{` + chat + `,"headers":{"x":1},"body":` + m + `}`, 400, `a header is a string`},
		{`{` + chat + `,"header":{},"body":` + m + `}`, 400, `bad_request`},
		{`[]`, 400, `bad_request`},
		{`{"path":"/v1/embeddings","body":` + m + `}`, 404, `unsupported_endpoint`},
		{`{"path":"/backends/b/v1/messages","body":` + m + `}`, 404, `unknown_upstream`},
		{`{` + chat + `,"body":{"model":"nope"}}`, 404, `unknown_model`},
		{`{"path":"/v1/responses","body":` + m + `}`, 400, `protocol_mismatch`},
		{`{` + chat + `,"body":"` + strings.Repeat("x", 2<<20) + `"}`, 413, `body_too_large`},
	} {
		code, got := d.ask("ops", "POST", "/_router/explain", c.body)
		text, err := json.Marshal(got)
		if err != nil || code != c.code || !strings.Contains(string(text), c.want) {
			t.Errorf("%.200s: %d %s, want %d %s", c.body, code, text, c.code, c.want)
		}
	}
	if code, got := d.ask("ops", "POST", "/admin/backend", fmt.Sprintf("{\"id\":%q}", long)); code != 413 {
		t.Errorf("a long order: %d %v", code, got)
	}
}

// What is explained is what would be sent, to the byte.
func TestQuestionKeepsBytes(t *testing.T) {
	t.Parallel()
	const body = "{ \"model\" : \"m\",\n\t\"a\":1.50, \"b\":\"\\u003c<\", \"a\":2 }"
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, sent := range []string{body, string(text)} {
		q, err := control.ParseQuestion([]byte(`{"path":"/v1/messages","headers":{"x-a":["1","2"],"User-Agent":"u"},"body": ` + sent + ` }`))
		if err != nil {
			t.Fatal(err)
		}
		if string(q.Body) != body {
			t.Errorf("%q", q.Body)
		}
		if diff := cmp.Diff(map[string][]string{"X-A": {"1", "2"}, "User-Agent": {"u"}}, map[string][]string(q.Header)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
