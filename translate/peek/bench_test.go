package peek

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// body is a request of about size bytes of the kind that coding agents send: tools, then turns full of code.
func body(size int) []byte {
	type object = map[string]any
	code := "\tif err := json.NewDecoder(r.Body).Decode(&req); err != nil {\n\t\treturn fmt.Errorf(\"decode %q: größer %w\", r.URL.Path, err)\n\t}\n"
	var tools, messages []any
	for i := range min(20, size/8000) {
		tools = append(tools, object{"name": fmt.Sprintf("tool_%02d", i), "description": strings.Repeat("Edits a file. ", 36), "input_schema": object{
			"type": "object", "required": []string{"path", "old", "new"}, "additionalProperties": false, "properties": object{
				"path":  object{"type": "string", "description": strings.Repeat("path ", 24)},
				"old":   object{"type": "string", "description": strings.Repeat("old ", 30)},
				"new":   object{"type": "string", "description": strings.Repeat("new ", 30)},
				"count": object{"type": "integer", "minimum": 1, "maximum": 100},
				"mode":  object{"type": "string", "enum": []string{"first", "all", "regex"}},
			},
		}})
	}
	for n := 30_000 * len(tools) / 20; n < size; n += 4200 {
		id := fmt.Sprintf("toolu_%08d", n)
		messages = append(messages,
			object{"role": "assistant", "content": []any{
				object{"type": "text", "text": strings.Repeat("The retry path never resets. ", 10)},
				object{"type": "tool_use", "id": id, "name": "tool_03", "input": object{"path": "internal/pkg/file.go", "old": strings.Repeat(code, 3), "new": strings.Repeat(code, 3)}},
			}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": strings.Repeat(code, 16)}}})
	}
	b, err := json.Marshal(object{"model": "claude-sonnet-4-5", "max_tokens": 1024, "stream": true, "system": strings.Repeat("Be terse. ", 800), "tools": tools, "messages": messages})
	if err != nil {
		panic(err)
	}
	return b
}

func BenchmarkScan(b *testing.B) {
	for _, size := range []int{1 << 10, 200 << 10, 2 << 20} {
		src := body(size)
		b.Run(fmt.Sprintf("%dKB", len(src)>>10), func(b *testing.B) {
			var o Object
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if err := o.Scan(src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEdits(b *testing.B) {
	src := body(200 << 10)
	var o Object
	if err := o.Scan(src); err != nil {
		b.Fatal(err)
	}
	var (
		v        Overlay
		edits    []Edit
		segments [][]byte
	)
	model, options := []byte(`"gpt-5"`), []byte(`{"include_usage":true}`)
	b.ReportAllocs()
	for b.Loop() {
		v.Reset(src, &o)
		v.Set("model", model)
		v.Set("stream_options", options)
		v.Rename("max_tokens", "max_completion_tokens")
		v.Drop("metadata")
		edits = v.Edits(edits[:0])
		segments = Splice(segments[:0], src, edits)
	}
}

func TestAllocations(t *testing.T) {
	src := body(20 << 10)
	var (
		o, inner Object
		v        Overlay
		edits    []Edit
		segments [][]byte
	)
	model, options := []byte(`"gpt-5"`), []byte(`{"include_usage":true}`)
	n := testing.AllocsPerRun(200, func() {
		if o.Scan(src) != nil || o.Repeated("model", "stream") != "" || !Equal(o.Value("model"), "claude-sonnet-4-5") {
			t.Fatal("scan")
		}
		if n, ok := Int(o.Value("max_tokens")); n != 1024 || !ok {
			t.Fatal("int")
		}
		messages, _ := o.Find("messages")
		count := 0
		if Elements(src, messages.Value, func(at Span) bool {
			if inner.ScanAt(src, at) == nil && Equal(inner.Value("role"), "user") {
				count++
			}
			return true
		}) != nil || count == 0 {
			t.Fatal("elements")
		}
		v.Reset(src, &o)
		v.Set("model", model)
		v.Set("stream_options", options)
		v.Rename("max_tokens", "max_completion_tokens")
		v.Drop("tools")
		v.SetAt(Span{messages.Value.Start + 1, messages.Value.Start + 1}, options)
		edits = v.Edits(edits[:0])
		segments = Splice(segments[:0], src, edits)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(200, func() { _, _ = String(o.Value("system")) }); n != 1 {
		t.Errorf("String: %v allocations", n)
	}
	if n := testing.AllocsPerRun(200, func() { _, _ = String([]byte(`"a long enough string with \n in it, so that it isn't small"`)) }); n != 1 {
		t.Errorf("String with an escape: %v allocations", n)
	}
}
