package wire

import (
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

const (
	chatRole  = `{"id":"c1","object":"chat.completion.chunk","model":"m1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null}],"usage":null}`
	chatText  = `{"id":"c1","object":"chat.completion.chunk","model":"m1","choices":[{"index":0,"delta":{"content":"word"},"logprobs":null,"finish_reason":null}]}`
	chatStop  = `{"id":"c1","object":"chat.completion.chunk","model":"m1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	chatUsage = `{"id":"c1","model":"m1","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":5,"total_tokens":35}}`
)

func TestChatStreams(t *testing.T) {
	runStreams(t, Chat, []streamCase{
		{
			name: "usual", text: data(chatRole, chatText, chatStop, chatUsage, "[DONE]"),
			classes: "POTPn", told: " output terminal [stop]", usage: " in=30 out=5",
		},
		{name: "usage chunk is last", text: data(chatText, chatStop, chatUsage), classes: "OTP", told: " output terminal usage-only [stop]", usage: " in=30 out=5"},
		{name: "usage chunk without choices", text: data(`{"usage":{"prompt_tokens":1}}`), classes: "P", told: " usage-only", usage: " in=1"},
		{name: "comments", text: ": busy\n\nid: 4\n\ndata:\n\n" + data(chatText), classes: "nnnO", told: " output"},
		{name: "no finish reason", text: data(chatText, "[DONE]"), classes: "On", told: " output terminal"},
		{name: "done alone", text: data("[DONE]"), classes: "n"},
		{name: "cut short", text: data(chatRole, chatText), classes: "PO", told: " output"},
		{
			name: "filter results open and close an Azure stream",
			text: data(`{"id":"","model":"","choices":[],"prompt_filter_results":[{"prompt_index":0}]}`, chatText,
				`{"id":"","model":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"a":1}}]}`),
			classes: "POP", told: " output",
		},
		{name: "text beside the finish reason", text: data(`{"choices":[{"delta":{"content":"all"},"finish_reason":"length"}]}`), classes: "T", told: " output terminal [length]"},
		{name: "reasoning", text: data(`{"choices":[{"delta":{"role":"assistant","content":null,"reasoning_content":"hm"}}]}`), classes: "O", told: " output"},
		{name: "tool call", text: data(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"t"}]}}]}`), classes: "O", told: " output"},
		{name: "empty lists are nothing", text: data(`{"choices":[{"delta":{"role":"assistant","tool_calls":[],"audio":{}}}]}`), classes: "P"},
		{name: "completion of old", text: data(`{"choices":[{"text":"a"}]}`), classes: "O", told: " output"},
		{name: "filtered away", text: data(`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`), classes: "T", told: " output terminal [content_filter]"},
		{name: "two choices", text: data(`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"},{"index":1,"delta":{"content":"b"},"finish_reason":"length"}]}`), classes: "T", told: " output terminal [stop length]"},
		{name: "unknown event", text: data(`{"citations":["x"]}`), classes: "O", told: " output"},
		{name: "no JSON", text: data(`hello`), classes: "O", told: " output"},
		{name: "broken JSON", text: data(`{"choices":[{`), classes: "O", told: " output"},
		{name: "page of HTML", text: data(`<html>`), classes: "n"},
	})
}

func TestChatStreamErrors(t *testing.T) {
	runStreams(t, Chat, []streamCase{
		{
			name:    "after output",
			text:    data(chatText, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502,"message":"gone","metadata":{"error_type":"provider_gone"}},"usage":{"prompt_tokens":4,"completion_tokens":1}}`, "[DONE]"),
			classes: "OFn", told: " output failed", usage: " in=4 out=1",
			failure: Failure{Type: "provider_gone", Message: "gone", Status: 502},
		},
		{name: "first", text: data(`{"id":"x","choices":[],"error":{"code":429,"message":"slow"}}`), classes: "F", told: " failed", failure: Failure{Message: "slow", Status: 429}},
		{name: "mere reason", text: data(`{"choices":[{"delta":{},"finish_reason":"error"}]}`), classes: "F", told: " failed", failure: Failure{Type: "error"}},
		{name: "in the choice", text: data(`{"choices":[{"delta":{},"error":{"code":"503","message":"full"}}]}`), classes: "F", told: " failed", failure: Failure{Code: "503", Status: 503, Message: "full"}},
		{name: "named event", text: named("error", `busy`), classes: "F", told: " failed", failure: Failure{Message: "busy"}},
		{name: "string", text: data(`{"error":"too many"}`), classes: "F", told: " failed", failure: Failure{Message: "too many"}},
		{name: "error object of old", text: data(`{"object":"error","message":"bad","type":"BadRequestError","code":400}`), classes: "F", told: " failed", failure: Failure{Type: "BadRequestError", Message: "bad", Status: 400}},
		{name: "stopped early", text: data(`{"choices":[{"delta":{}}],"x_groq":{"error":"over capacity"}}`), classes: "F", told: " failed", failure: Failure{Message: "over capacity"}},
		{name: "null is none", text: data(`{"error":null,"choices":[{"delta":{"content":"a"}}]}`), classes: "O", told: " output"},
	})
}

func TestChatUsage(t *testing.T) {
	chunk := func(usage string) string {
		return `{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":` + usage + `}`
	}
	for _, c := range []struct{ name, text, usage string }{
		{"null and zeros first", data(chunk(`null`), chunk(`{"prompt_tokens":0,"completion_tokens":0}`), chunk(`{"prompt_tokens":500,"completion_tokens":70,"prompt_tokens_details":{"cached_tokens":400},"completion_tokens_details":{"reasoning_tokens":60}}`)), " in=100 read=400 out=70 think=60"},
		{"zeros and null last", data(chunk(`{"prompt_tokens":9,"completion_tokens":2}`), chunk(`{"prompt_tokens":0,"completion_tokens":0}`), chunk(`null`)), " in=9 out=2"},
		{"zeros only", data(chunk(`{"prompt_tokens":0,"completion_tokens":0}`)), " in=0 out=0"},
		{"running totals", data(chunk(`{"prompt_tokens":9,"completion_tokens":1}`), chunk(`{"prompt_tokens":9,"completion_tokens":2}`), chunk(`{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}`)), " in=1 read=8 out=3"},
		{"details only at first", data(chunk(`{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":8}}`), chunk(`{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":null}`)), " in=1 read=8 out=3"},
		{"groq", data(`{"choices":[],"x_groq":{"usage":{"prompt_tokens":7,"completion_tokens":6,"prompt_time":0.1}},"usage":null}`), " in=7 out=6"},
		{"kimi", data(`{"choices":[{"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":10,"completion_tokens":6,"cached_tokens":3}}]}`), " in=7 read=3 out=6"},
		{"deepseek", data(chunk(`{"prompt_tokens":10,"completion_tokens":6,"prompt_cache_hit_tokens":3,"prompt_cache_miss_tokens":7}`)), " in=7 read=3 out=6"},
		{"cache write", data(chunk(`{"prompt_tokens":10,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":3,"cache_write_tokens":5}}`)), " in=2 read=3 write=5 out=6"},
		{"cache creation", data(chunk(`{"prompt_tokens":10,"completion_tokens":6,"prompt_tokens_details":{"cache_creation_tokens":5}}`)), " in=5 write=5 out=6"},
		{"more cached than asked", data(chunk(`{"prompt_tokens":10,"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":99}}`)), " in=0 read=99 out=6"},
		{"reasoning beside the completion", data(chunk(`{"prompt_tokens":10,"completion_tokens":6,"total_tokens":56,"completion_tokens_details":{"reasoning_tokens":40}}`)), " in=10 out=46 think=40"},
		{"no numbers", data(chunk(`{"prompt_tokens":-1,"completion_tokens":1.5,"prompt_tokens_details":{"cached_tokens":"4"}}`)), ""},
		{"absurd numbers", data(chunk(`{"prompt_tokens":9e18,"completion_tokens":99999999999999999999}`)), ""},
		{"whole floats", data(chunk(`{"prompt_tokens":12.0,"completion_tokens":1e1}`)), " in=12 out=10"},
		{"placeholders of another dialect", data(chunk(`{"prompt_tokens":12,"completion_tokens":3,"input_tokens":0,"output_tokens":0}`)), " in=12 out=3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, f := play(t, Chat, c.text); show(f.Usage) != c.usage {
				t.Errorf("usage%s, want%s", show(f.Usage), c.usage)
			}
		})
	}
}

func TestChatCost(t *testing.T) {
	_, f := play(t, Chat, data(`{"choices":[],"usage":{"prompt_tokens":1,"cost":0.0125}}`, `{"choices":[],"usage":{"cost":{}}}`))
	if f.Cost != 0.0125 {
		t.Errorf("cost %v", f.Cost)
	}
}

func TestChatIdentity(t *testing.T) {
	_, f := play(t, Chat, data(`{"id":"","model":"","choices":[]}`, chatText, `{"id":"c2","model":"m2","choices":[]}`))
	if f.ID != "c1" || f.Model != "m1" || f.Events != 3 {
		t.Errorf("id %q model %q events %d", f.ID, f.Model, f.Events)
	}
	f.Reset()
	if f.ID != "" || f.Usage.Known() || f.Output || cap(f.scratch[top].Members) == 0 {
		t.Errorf("after reset: %+v", f)
	}
}

func TestChatDataOnTwoLines(t *testing.T) {
	f := &Facts{}
	if c := ByName(Chat).Event(&sse.Event{Data: []byte("{\"choices\":[],\n\"usage\":{\"prompt_tokens\":4}}")}, f); c != Preamble {
		t.Errorf("class %d", c)
	}
	check(t, f, " usage-only", " in=4", Failure{})
}

func TestChatCut(t *testing.T) {
	pad := strings.Repeat("QUJD", 5000)
	tail := pad + `"},"finish_reason":"stop"}],"usage": {"prompt_tokens":8,"completion_tokens":4,"note":"}{"},"metadata":{"usage":"x"}}`
	f := &Facts{}
	if c := ByName(Chat).Event(&sse.Event{Data: []byte(tail), Cut: true}, f); c != Terminal {
		t.Errorf("class %d", c)
	}
	check(t, f, " output terminal [stop]", " in=8 out=4", Failure{})
	f.Reset()
	if c := ByName(Chat).Event(&sse.Event{Data: []byte(pad + `\"usage\":{\"prompt_tokens\":5}"}}]}`), Cut: true}, f); c != Output {
		t.Errorf("class %d", c)
	}
	check(t, f, " output", "", Failure{})
}

func TestChatBodies(t *testing.T) {
	runBodies(t, Chat, []bodyCase{
		{name: "usual", body: ` {"id":"c","choices":[{"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":50,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":48}},"error":null}` + "\n", class: Output, told: " output terminal [stop]", usage: " in=2 read=48 out=2"},
		{name: "tool calls", body: `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t"}]},"finish_reason":"tool_calls"}]}`, class: Output, told: " output terminal [tool_calls]"},
		{name: "refusal", body: `{"choices":[{"message":{"content":null,"refusal":"no"}}]}`, class: Output, told: " output"},
		{name: "tokens but no text", body: `{"choices":[{"message":{"content":""},"finish_reason":"length"}],"usage":{"completion_tokens":9}}`, class: Output, told: " terminal [length]", usage: " out=9"},
		{name: "empty", body: `{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":0}}`, class: Nothing, told: " terminal [stop]", usage: " in=3 out=0"},
		{name: "error", body: `{"error":{"message":"worker limit","code":502}}`, class: Failed, told: " failed", failure: Failure{Message: "worker limit", Status: 502}},
		{name: "error in the choice", body: `{"choices":[{"message":{"content":"par"},"finish_reason":"error","error":{"message":"lost","code":502}}]}`, class: Failed, told: " failed", failure: Failure{Message: "lost", Status: 502}},
		{name: "error beside an answer", body: `{"error":{"message":"warning"},"choices":[{"message":{"content":"a"}}]}`, class: Output, told: " output"},
		{name: "something else", body: `{"ok":true}`, class: Nothing},
		{name: "HTML", body: `<!doctype html>`, class: Nothing},
		{name: "array", body: `[{"choices":[]}]`, class: Nothing},
		{name: "two objects", body: `{"choices":[{"message":{"content":"a"}}]}{}`, class: Nothing},
		{name: "nothing", body: ``, class: Nothing},
	})
}
