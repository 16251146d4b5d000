package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// agentBody is a request of about size bytes as Claude Code sends it: members in its order, a small first message, then
// turns full of code.
func agentBody(t testing.TB, size int) []byte {
	t.Helper()
	code := "\tif err := json.NewDecoder(r.Body).Decode(&req); err != nil {\n\t\treturn fmt.Errorf(\"decode %q: größer __init__ self._next_retry %w\", r.URL.Path, err)\n\t}\n"
	messages := []any{userSays("SCRIPT:toolloop please", strings.Repeat("<system-reminder>keep snake_case names</system-reminder>\n", 20))}
	for n := 40_000; n < size; n += 4500 {
		id := fmt.Sprintf("toolu_%08d", n)
		messages = append(messages,
			object{"role": "assistant", "content": []any{
				object{"type": "text", "text": strings.Repeat("The retry path never resets. ", 10)},
				object{"type": "tool_use", "id": id, "name": "edit_file", "input": object{"path": "internal/pkg/some_file.go", "old": strings.Repeat(code, 3), "new": strings.Repeat(code, 3)}},
			}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": strings.Repeat(code, 16)}}})
	}
	var tools []any
	for i := range 20 {
		tools = append(tools, object{"name": fmt.Sprintf("tool_%02d", i), "description": strings.Repeat("Edits a file. ", 60), "input_schema": object{"type": "object"}})
	}
	system := []any{object{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1;"}, object{"type": "text", "text": strings.Repeat("Be terse.\nUse the tools that you have.\n", 500)}}
	return encode(t, []string{"model", "messages", "system", "tools", "metadata", "max_tokens", "stream"}, object{
		"model": "claude-opus-5-5", "messages": messages, "system": system, "tools": tools,
		"metadata":   object{"user_id": `{"device_id":"d","account_uuid":"","session_id":"s"}`},
		"max_tokens": 32000, "stream": true,
	})
}

type object = map[string]any

func userSays(texts ...string) object {
	parts := make([]any, len(texts))
	for i, s := range texts {
		parts[i] = object{"type": "text", "text": s}
	}
	return object{"role": "user", "content": parts}
}

// encode writes the members of o in that order.
func encode(t testing.TB, order []string, o object) []byte {
	t.Helper()
	var b strings.Builder
	for i, name := range order {
		v, err := json.Marshal(o[name])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%c%q:%s", "{,"[min(i, 1)], name, v)
	}
	return []byte(b.String() + "}")
}

func BenchmarkFind(b *testing.B) {
	body := agentBody(b, 200<<10)
	main := map[string]string{"x-claude-code-session-id": "s", "user-agent": "claude-cli/2.1.332 (external, cli)"}
	sub := map[string]string{"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a", "user-agent": "claude-cli/2.1.332 (external, cli)"}
	for name, r := range map[string]Request{
		"claude":     request(b, "anthropic-messages", body, main),
		"claude-sub": request(b, "anthropic-messages", body, sub),
		"body":       request(b, "anthropic-messages", body, nil),
		"prefix": func() Request {
			r := request(b, "anthropic-messages", body, nil)
			r.Only, r.Prefix = []string{}, true
			return r
		}(),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if Find(r).ID == "" {
					b.Fatal("no key")
				}
			}
		})
	}
	for _, c := range captures(b) {
		if c.Expect.Subagent != "" && strings.HasPrefix(c.Name, "codex") {
			r := c.request(b)
			b.Run("codex-sub", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Find(r)
				}
			})
			break
		}
	}
}
