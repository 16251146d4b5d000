package translate

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// seeds adds a section of all cases of a pair.
func seeds(f *testing.F, p *Pair, section string) {
	files, _ := filepath.Glob(filepath.Join("testdata", string(p.Client)+"_"+string(p.Upstream), "*.txtar"))
	for _, file := range files {
		if text, ok := readCase(f, file).section(section); ok {
			f.Add([]byte(text))
		}
	}
}

func FuzzChatRequest(f *testing.F)     { fuzzRequest(f, Lookup(wire.Chat, wire.Messages)) }
func FuzzMessagesRequest(f *testing.F) { fuzzRequest(f, Lookup(wire.Messages, wire.Chat)) }

// fuzzRequest: what comes out is JSON, is the same each time, and can be read as the other dialect and turned back.
func fuzzRequest(f *testing.F, p *Pair) {
	seeds(f, p, "request")
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, replay := range []bool{false, true} {
			o := Options{Alias: "m", ReplayReasoning: replay}
			tr := p.New(o)
			out, err := tr.Request(body)
			if err != nil {
				if out != nil || err.Error() == "" {
					t.Fatalf("both an error and a body, or neither: %v %s", err, out)
				}
				continue
			}
			if !json.Valid(out) {
				t.Fatalf("not JSON: %s", out)
			}
			if again, _ := p.New(o).Request(body); string(again) != string(out) {
				t.Fatalf("differs:\n%s\n%s", out, again)
			}
			back, err := Lookup(p.Upstream, p.Client).New(o).Request(out)
			if err != nil || !json.Valid(back) {
				t.Fatalf("cannot be turned back: %v\n%s\n%s", err, out, back)
			}
		}
	})
}

func FuzzChatStream(f *testing.F)     { fuzzStream(f, Lookup(wire.Chat, wire.Messages), messagesPool) }
func FuzzMessagesStream(f *testing.F) { fuzzStream(f, Lookup(wire.Messages, wire.Chat), chatPool) }

// fuzzStream: whatever the upstream sends, the client's stream keeps to its grammar, and does not grow beyond measure. Each
// byte of picks is an event of the pool; raw text follows.
func fuzzStream(f *testing.F, p *Pair, pool []string) {
	files, _ := filepath.Glob(filepath.Join("testdata", string(p.Client)+"_"+string(p.Upstream), "*.txtar"))
	for _, file := range files {
		if text, ok := readCase(f, file).section("stream"); ok {
			f.Add([]byte{}, []byte(text))
		}
	}
	for i := range pool {
		f.Add([]byte{0, byte(i), byte(i + 1), byte(i), byte(i + 7), byte(len(pool) - 1)}, []byte(nil))
	}
	f.Fuzz(func(t *testing.T, picks, raw []byte) {
		var b strings.Builder
		for _, n := range picks {
			b.WriteString(pool[int(n)%len(pool)])
		}
		b.Write(raw)
		for _, clean := range []bool{true, false} {
			tr := p.New(Options{Alias: "m"})
			out := run(tr, p.Upstream, &wire.Facts{}, b.String(), max(1, b.Len()), clean)
			if _, err := read(p.Client, out); err != nil {
				t.Fatalf("%v\n%s\nfrom\n%s", err, out, b.String())
			}
			// A piece of a call takes the fewest bytes for the most.
			if limit := 1<<12 + 40*b.Len(); len(out) > limit {
				t.Fatalf("%d bytes became %d", b.Len(), len(out))
			}
			tr.Report()
		}
	})
}

// chatPool are chunks of all kinds of servers; the first begins an answer, the last ends one.
var chatPool = func() (pool []string) {
	for _, delta := range []string{
		`{"role":"assistant","content":""}`, `{"content":"a"}`, `{"content":[{"type":"text","text":"b"},{"type":"thinking","thinking":[{"type":"text","text":"c"}]}]}`,
		`{"reasoning_content":"d"}`, `{"reasoning":"e","reasoning_details":[{"text":"e"}]}`, `{"refusal":"no"}`, `{"content":null}`, `null`, `{}`, `[]`,
		`{"tool_calls":[{"index":0,"id":"x","type":"function","function":{"name":"f","arguments":""}}]}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"{\"k\":"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]}`,
		`{"tool_calls":[{"index":1,"id":"y","function":{"name":"g","arguments":"{}"}},{"index":0,"function":{"arguments":" "}}]}`,
		`{"tool_calls":[{"index":1,"function":{"arguments":"{\"z\":[\"}\"]}"}}]}`, `{"tool_calls":[{"id":"z","function":{"name":"h"}}]}`,
		`{"tool_calls":[{"function":{"arguments":"{\"q\":2}"}}]}`, `{"tool_calls":[{"function":{"name":"h","arguments":"{\"q\":2}"}}]}`,
		`{"tool_calls":[{"index":0,"id":"w","function":{"name":"f","arguments":{"o":1}}}]}`, `{"tool_calls":[{"index":7,"id":"bad id!"}]}`,
		`{"tool_calls":[{"index":7,"function":{"name":"late"}}]}`, `{"tool_calls":[{"index":7,"function":{"arguments":"\"{\\\"s\\\":1}\""}}]}`,
		`{"tool_calls":[{"index":7,"function":{"arguments":"null"}}]}`, `{"function_call":{"name":"old","arguments":"{"}}`, `{"function_call":{"arguments":"}"}}`,
		`{"tool_calls":[{}]}`, `{"tool_calls":{}}`, `{"content":7}`,
	} {
		pool = append(pool, `data: {"id":"c","choices":[{"index":0,"delta":`+delta+`,"finish_reason":null}]}`+"\n\n")
	}
	for _, text := range []string{
		`{"choices":[{"message":{"content":"whole"},"finish_reason":"stop"}]}`, `{"choices":[]}`, `{"id":"","choices":[],"prompt_filter_results":[]}`, `{"choices":[{"index":0,"finish_reason":null}]}`, `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}`,
		`{"choices":[{"index":1,"delta":{"content":"other"}}]}`, `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`,
		`{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, `{"choices":[{"delta":{},"finish_reason":"new"}]}`,
		`{"error":{"message":"m"}}`, `{"choices":[{"delta":{},"finish_reason":"error"}]}`, `{"x_groq":{"error":"e"}}`, `{broken`, `{"choices":[3]}`, `<html>`, `ok`, `{}`, `[DONE]`,
	} {
		pool = append(pool, "data: "+text+"\n\n")
	}
	return append(pool, ": comment\n\n", "event: error\ndata: oh\n\n", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}()

// messagesPool are events of all kinds; the first begins a message, the last ends one.
var messagesPool = func() (pool []string) {
	for _, text := range []string{
		`{"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`,
		`{"type":"content_block_stop","index":0}`, `{"type":"content_block_start","index":1,"content_block":{"type":"thinking","thinking":"b"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"thinking_delta","thinking":"c"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"signature_delta","signature":"s"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"k\":"}}`, `{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"1}"}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"bad id","name":"g","input":{"w":1}}}`, `{"type":"content_block_stop","index":2}`, `{"type":"content_block_stop","index":3}`,
		`{"type":"content_block_start","index":4,"content_block":{"type":"server_tool_use","id":"s","name":"web"}}`, `{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{"}}`,
		`{"type":"content_block_start","content_block":{"type":"tool_use"}}`, `{"type":"content_block_delta","delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"content_block_stop"}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`, `{"type":"message_delta","delta":{"stop_reason":null}}`, `{"type":"message_delta","delta":{"stop_reason":"new"}}`,
		`{"type":"ping"}`, `{"type":"error","error":{"type":"overloaded_error","message":"o"}}`, `{"type":"error"}`, `{"type":"unheard_of"}`, `{}`, `{"type":"content_block_start","index":0}`,
		`{"type":"content_block_start","index":0,"content_block":[]}`, `{broken`, `ok`, `[DONE]`, `{"type":"message_stop"}`,
	} {
		pool = append(pool, "data: "+text+"\n\n")
	}
	return append(pool, ": comment\n\n", "event: message_delta\ndata: {\"delta\":{\"stop_reason\":\"tool_use\"}}\n\nevent: message_stop\ndata: {}\n\n")
}()

func FuzzChatAnswer(f *testing.F)     { fuzzAnswer(f, Lookup(wire.Chat, wire.Messages)) }
func FuzzMessagesAnswer(f *testing.F) { fuzzAnswer(f, Lookup(wire.Messages, wire.Chat)) }

// fuzzAnswer: an answer and an error's body become JSON, or the answer is refused.
func fuzzAnswer(f *testing.F, p *Pair) {
	seeds(f, p, "answer")
	for _, status := range []string{"400", "429", "500", "502", "503"} {
		seeds(f, p, "error "+status)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		tr := p.New(Options{Alias: "m"})
		if out, err := tr.Response(body); err == nil && !json.Valid(out) {
			t.Fatalf("not JSON: %s", out)
		}
		if out := tr.Error(500, body); !json.Valid(out) || wire.ByName(p.Client).ErrorOf(out).Message == "" {
			t.Fatalf("no error: %s", out)
		}
	})
}
