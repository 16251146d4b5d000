package wire

import (
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

func messageStarts(usage string) string {
	return `{"type":"message_start","message":{"id":"msg","type":"message","role":"assistant","model":"m1","content":[],"stop_reason":null,"usage":` + usage + `}}`
}

func messageEnds(reason, usage string) string {
	return `{"type":"message_delta","delta":{"stop_reason":` + reason + `,"stop_sequence":null},"usage":` + usage + `}`
}

const (
	blockStart = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	blockDelta = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`
	stop       = `{"type":"message_stop"}`
)

func TestMessagesStreams(t *testing.T) {
	start := messageStarts(`{"input_tokens":6,"cache_creation_input_tokens":500,"cache_read_input_tokens":40,"cache_creation":{"ephemeral_5m_input_tokens":400,"ephemeral_1h_input_tokens":100},"output_tokens":3}`)
	prompt := " in=6 read=40 write=500 5m=400 1h=100"
	runStreams(t, Messages, []streamCase{
		{
			name: "usual",
			text: named("message_start", start, "ping", `{"type":"ping"}`, "content_block_start", blockStart, "content_block_delta", blockDelta,
				"content_block_stop", `{}`, "message_delta", messageEnds(`"end_turn"`, `{"output_tokens":27}`), "message_stop", stop),
			classes: "PnOOOTT", told: " output terminal [end_turn]", usage: prompt + " out=27",
		},
		{
			name:    "no names",
			text:    data(start, blockStart, blockDelta, messageEnds(`"tool_use"`, `{"output_tokens":27}`), stop),
			classes: "POOTT", told: " output terminal [tool_use]", usage: prompt + " out=27",
		},
		{
			name:    "delta repeats the prompt",
			text:    named("message_start", start, "message_delta", messageEnds(`"end_turn"`, `{"input_tokens":6,"cache_creation_input_tokens":500,"cache_read_input_tokens":40,"output_tokens":27}`)),
			classes: "PT", told: " [end_turn]", usage: prompt + " out=27",
		},
		{
			name:    "delta has nulls and zeros",
			text:    named("message_start", start, "message_delta", messageEnds(`"end_turn"`, `{"input_tokens":0,"cache_creation_input_tokens":null,"cache_read_input_tokens":0,"output_tokens":27}`)),
			classes: "PT", told: " [end_turn]", usage: prompt + " out=27",
		},
		{
			name:    "delta knows the prompt better",
			text:    named("message_start", messageStarts(`{"input_tokens":0,"output_tokens":0}`), "message_delta", messageEnds(`"end_turn"`, `{"input_tokens":9,"cache_read_input_tokens":7,"output_tokens":2}`)),
			classes: "PT", told: " [end_turn]", usage: " in=9 read=7 out=2",
		},
		{name: "usage in passing", text: named("message_delta", messageEnds(`null`, `{"output_tokens":2}`)), classes: "P", usage: " out=2"},
		{name: "cut before the stop", text: named("content_block_delta", blockDelta, "message_delta", messageEnds(`"max_tokens"`, `null`)), classes: "OT", told: " output [max_tokens]"},
		{name: "nothing said", text: named("message_start", messageStarts(`{"input_tokens":1}`), "message_delta", messageEnds(`"end_turn"`, `{"output_tokens":0}`), "message_stop", stop), classes: "PTT", told: " terminal [end_turn]", usage: " in=1 out=0"},
		{name: "refusal", text: named("message_delta", messageEnds(`"refusal"`, `{"output_tokens":0}`), "message_stop", stop), classes: "TT", told: " output terminal [refusal]", usage: " out=0"},
		{name: "CRLF", text: strings.ReplaceAll(named("ping", `{}`, "content_block_delta", blockDelta), "\n", "\r\n"), classes: "nO", told: " output"},
		{name: "error first", text: named("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), classes: "F", told: " failed", failure: Failure{Type: "overloaded_error", Message: "Overloaded"}},
		{name: "error without a name", text: data(`{"error":{"message":"gone"}}`), classes: "F", told: " failed", failure: Failure{Message: "gone"}},
		{name: "unknown", text: named("content_block_thing", `{"type":"content_block_thing"}`, "x", `{`, "message_start", `x`, "message_delta", `[]`), classes: "OOOO", told: " output"},
		{name: "start without message", text: named("message_start", `{}`), classes: "P"},
	})
}

func TestMessagesCut(t *testing.T) {
	for name, want := range map[string]Class{"message_start": Preamble, "content_block_delta": Output, "": Output, "message_delta": Terminal, "error": Failed} {
		f := &Facts{}
		if got := ByName(Messages).Event(&sse.Event{Name: []byte(name), Data: []byte(`xx"}`), Cut: true}, f); got != want {
			t.Errorf("%q: class %d, want %d", name, got, want)
		}
	}
}

func TestMessagesBodies(t *testing.T) {
	runBodies(t, Messages, []bodyCase{
		{name: "usual", body: `{"id":"m","type":"message","model":"m1","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"cache_creation_input_tokens":120,"cache_read_input_tokens":0,"output_tokens":51}}`, class: Output, told: " output [end_turn]", usage: " in=3 read=0 write=120 out=51"},
		{name: "split only", body: `{"content":[{}],"usage":{"cache_creation":{"ephemeral_1h_input_tokens":7}}}`, class: Output, told: " output", usage: " write=7 1h=7"},
		{name: "silent turn", body: `{"content":[],"stop_reason":"end_turn","usage":{"output_tokens":2}}`, class: Output, told: " [end_turn]", usage: " out=2"},
		{name: "refusal", body: `{"content":[],"stop_reason":"refusal","usage":{"output_tokens":0}}`, class: Output, told: " output [refusal]", usage: " out=0"},
		{name: "empty", body: `{"content":[],"stop_reason":"end_turn"}`, class: Nothing, told: " [end_turn]"},
		{name: "error", body: `{"type":"error","error":{"type":"api_error","message":"m"},"request_id":"q"}`, class: Failed, told: " failed", failure: Failure{Type: "api_error", Message: "m"}},
	})
}

func TestTokenCounts(t *testing.T) {
	for body, want := range map[string]Class{
		`{"input_tokens":9}`:           Output,
		`{"input_tokens":"9"}`:         Nothing,
		`{"error":{"message":"nope"}}`: Failed,
		`<html>`:                       Nothing,
		`{"input_tokens":9,"x":[1,2]}`: Output,
	} {
		f := &Facts{}
		if got := ByName(Messages).Body([]byte(body), CountTokens, f); got != want {
			t.Errorf("%s: class %d, want %d", body, got, want)
		}
		if f.Usage.Known() {
			t.Errorf("%s: usage%s", body, show(f.Usage))
		}
	}
}

func TestTotalInput(t *testing.T) {
	u := Usage{Input: Count{6, true}, CacheRead: Count{40, true}, CacheWrite: Count{500, true}}
	if got := u.TotalInput(); got != (Count{546, true}) {
		t.Errorf("total %v", got)
	}
	if (Usage{CacheRead: Count{40, true}}).TotalInput().Known {
		t.Error("total known without input")
	}
}
