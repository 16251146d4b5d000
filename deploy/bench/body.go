package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// nonceTag ends in the digits that make each request another one, so that no cache can answer it.
const (
	nonceDigits = 16
	nonceTag    = "nonce-0000000000000000"
)

// filler is text of the kind that coding agents send: code, escapes, some beyond ASCII.
func filler(n, seed int) string {
	lines := []string{
		"func (s *Server) handle(w http.ResponseWriter, r *http.Request) error {\n",
		"\tif err := json.NewDecoder(r.Body).Decode(&req); err != nil {\n",
		"\t\treturn fmt.Errorf(\"decode \\\"%s\\\": %w\", r.URL.Path, err)\n\t}\n",
		"  142  | const result = await fetch(`${base}/v1/items?limit=50`, { headers });\n",
		"-    old_value = cfg.get('timeout', 30)\n+    new_value = cfg.get('timeout', 45)  # größer — siehe Ticket\n",
		"The test fails because the retry path never resets the counter; see internal/retry/backoff.go:88.\n",
		"PASS: TestRouter/failover_429 (0.03s)\nok  \texample.com/x/router\t1.204s\n",
	}
	var b strings.Builder
	for i := seed; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%05d ", i*7919%100000)
		b.WriteString(lines[i%len(lines)])
	}
	return strings.ToValidUTF8(b.String()[:n], "")
}

type object = map[string]any

// smallBody is the size up to which a body is a plain question.
const smallBody = 4096

// makeBody builds a Chat Completions request of about size bytes: a question, or above smallBody a long conversation of a
// coding agent, with 20 tools, calls and results.
func makeBody(model string, stream bool, size int) []byte {
	body := object{"model": model}
	if stream {
		body["stream"] = true
	}
	question := object{"role": "user", "content": "Say " + okText + ". " + nonceTag}
	if size <= smallBody {
		question["content"] = filler(max(size-330, 0), 1) + "Say " + okText + ". " + nonceTag
		body["messages"] = []any{object{"role": "system", "content": "You are a terse assistant."}, question}
		return encode(body)
	}
	body["tools"] = tools(20)
	messages := []any{object{"role": "system", "content": filler(8000, 3)}}
	perTurn := 4000
	if size > 1<<20 {
		perTurn = 16000
	}
	n := len(encode(body)) + 8000
	for i := 0; n+perTurn < size; i++ {
		t := turn(i, perTurn)
		messages = append(messages, t...)
		n += len(encode(object{"messages": t}))
	}
	body["messages"] = append(messages, question)
	return encode(body)
}

// turn is one step of an agent: what it says and calls, and what came of it; every fifth begins with the user.
func turn(i, size int) (messages []any) {
	if i%5 == 0 {
		messages = append(messages, object{"role": "user", "content": filler(200, i)})
	}
	args := encode(object{"path": fmt.Sprintf("internal/pkg%02d/file.go", i), "old": filler(size/10, i+5), "new": filler(size/10, i+6)})
	id := fmt.Sprintf("call_%08d", i)
	return append(messages,
		object{"role": "assistant", "content": filler(300, i), "tool_calls": []any{
			object{"id": id, "type": "function", "function": object{"name": "tool_03_edit_file", "arguments": string(args)}},
		}},
		object{"role": "tool", "tool_call_id": id, "content": filler(size*6/10, i)})
}

func tools(n int) (all []any) {
	for i := range n {
		all = append(all, object{"type": "function", "function": object{
			"name": fmt.Sprintf("tool_%02d_edit_file", i), "description": filler(500, i),
			"parameters": object{"type": "object", "required": []string{"path", "old", "new"}, "properties": object{
				"path":  object{"type": "string", "description": filler(120, i+1)},
				"old":   object{"type": "string", "description": filler(120, i+2)},
				"new":   object{"type": "string", "description": filler(120, i+3)},
				"count": object{"type": "integer", "minimum": 1, "maximum": 100},
				"mode":  object{"type": "string", "enum": []string{"first", "all", "regex"}},
			}},
		}})
	}
	return all
}

// encode writes JSON as the vendors' SDKs do, with < and > as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // of text and numbers alone
	}
	return bytes.TrimSpace(b.Bytes())
}
