package translate

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

type object = map[string]any

const code = "\tif err := json.NewDecoder(r.Body).Decode(&req); err != nil {\n\t\treturn fmt.Errorf(\"decode %q: größer %w\", r.URL.Path, err)\n\t}\n"

// longRequest is a request of about size bytes of the kind that coding agents send: tools, then turns full of code.
func longRequest(client wire.Name, size int) []byte {
	properties := object{"path": object{"type": "string"}, "old": object{"type": "string"}, "new": object{"type": "string"}}
	schema := object{"type": "object", "required": []string{"path", "old", "new"}, "properties": properties}
	description := strings.Repeat("Edits a file. ", 60)
	input := object{"path": "internal/pkg/file.go", "old": strings.Repeat(code, 3), "new": strings.Repeat(code, 3)}
	arguments, _ := json.Marshal(input)
	system, prose, result := strings.Repeat("Be terse. ", 800), strings.Repeat("The retry path never resets. ", 10), strings.Repeat(code, 16)
	var tools, messages []any
	for i := range 20 {
		tool := object{"name": fmt.Sprintf("tool_%02d", i), "description": description}
		if client == wire.Chat {
			tool["parameters"] = schema
			tool = object{"type": "function", "function": tool}
		} else {
			tool["input_schema"] = schema
		}
		tools = append(tools, tool)
	}
	body := object{"model": "m", "max_tokens": 1024, "stream": true, "tools": tools}
	if client == wire.Chat {
		messages = append(messages, object{"role": "system", "content": system})
	} else {
		body["system"] = system
	}
	for n := 40_000; n < size; n += 4200 {
		id := fmt.Sprintf("toolu_%08d", n)
		if client == wire.Chat {
			call := object{"id": id, "type": "function", "function": object{"name": "tool_03", "arguments": string(arguments)}}
			messages = append(messages, object{"role": "assistant", "content": prose, "tool_calls": []any{call}}, object{"role": "tool", "tool_call_id": id, "content": result})
			continue
		}
		messages = append(messages,
			object{"role": "assistant", "content": []any{object{"type": "text", "text": prose}, object{"type": "tool_use", "id": id, "name": "tool_03", "input": input}}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": result}}})
	}
	body["messages"] = messages
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return b
}

// cpu reports the processor time of a benchmark, which a busy machine does not change as much as the time on the clock.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

func BenchmarkRequest(b *testing.B) {
	for _, p := range Pairs() {
		src := longRequest(p.Client, 200<<10)
		b.Run(fmt.Sprintf("%s/%dKB", p.Client, len(src)>>10), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(src)))
			defer cpu(b)()
			for b.Loop() {
				if _, err := p.New(Options{Alias: "m"}).Request(src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEvent(b *testing.B) {
	for name, data := range map[wire.Name][2]string{
		wire.Messages: {
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"f","choices":[{"index":0,"delta":{"content":" and then the next few words"},"logprobs":null,"finish_reason":null}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"f","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":\"more and more"}}]},"logprobs":null,"finish_reason":null}]}`,
		},
		wire.Chat: {
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" and then the next few words"}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"f","input":{}}}`,
		},
	} {
		for i, kind := range []string{"text", "tool"} {
			b.Run(fmt.Sprintf("%s/%s", name, kind), func(b *testing.B) {
				up := wire.Chat
				if name == wire.Chat {
					up = wire.Messages
				}
				tr := Lookup(name, up).New(Options{Alias: "m"})
				ev := sse.Event{Data: []byte(data[i])}
				dst := tr.Event(nil, &ev)
				if name == wire.Chat && i == 1 {
					ev.Data = []byte(`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"more and more\""}}`)
				}
				if name == wire.Messages && i == 1 {
					ev.Data = []byte(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"f","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" and more"}}]},"logprobs":null,"finish_reason":null}]}`)
				}
				b.ReportAllocs()
				defer cpu(b)()
				for b.Loop() {
					dst = tr.Event(dst[:0], &ev)
				}
			})
		}
	}
}
