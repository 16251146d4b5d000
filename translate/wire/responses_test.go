package wire

import (
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

const (
	created   = `{"type":"response.created","sequence_number":0,"response":{"id":"r1","model":"m1","status":"in_progress","error":null,"output":[],"usage":null}}`
	textDelta = `{"type":"response.output_text.delta","delta":"hi"}`
)

func TestResponsesStreams(t *testing.T) {
	completed := `{"type":"response.completed","response":{"id":"r1","status":"completed","error":null,"output":[{"type":"message"}],"usage":{"input_tokens":90,"input_tokens_details":{"cached_tokens":80},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":96}}}`
	failed := `{"type":"response.failed","response":{"id":"r1","status":"failed","error":{"code":"server_error","message":"oops"},"usage":{"input_tokens":5,"output_tokens":2}}}`
	runStreams(t, Responses, []streamCase{
		{
			name:    "usual",
			text:    named("response.created", created, "response.in_progress", created, "response.output_item.added", `{}`, "response.output_text.delta", textDelta, "response.completed", completed),
			classes: "PPOOT", told: " output terminal [completed]", usage: " in=10 read=80 out=6 think=4",
		},
		{name: "no names", text: data(created, textDelta, completed), classes: "POT", told: " output terminal [completed]", usage: " in=10 read=80 out=6 think=4"},
		{name: "one name for all", text: named("message", created, "message", textDelta), classes: "PO", told: " output"},
		{name: "type not first", text: data(`{"response":{"id":"r"},"type":"response.queued"}`), classes: "P"},
		{name: "rate limits and keepalive ahead", text: named("codex.rate_limits", `{}`, "keepalive", `{"type":"keepalive"}`), classes: "Pn"},
		{name: "completed alone", text: named("response.completed", `{"type":"response.completed","response":{"id":"r","status":"completed","usage":{"input_tokens":5,"output_tokens":2}}}`), classes: "T", told: " terminal [completed]", usage: " in=5 out=2"},
		{name: "completed without usage", text: named("response.completed", `{"response":{"id":"r","status":"completed"}}`), classes: "T", told: " terminal [completed]"},
		{
			name:    "incomplete",
			text:    named("response.output_text.delta", textDelta, "response.incomplete", `{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"usage":{"input_tokens":5,"output_tokens":2}}}`),
			classes: "OT", told: " output terminal [max_output_tokens]", usage: " in=5 out=2",
		},
		{
			name: "failed after output", text: named("response.output_text.delta", textDelta, "response.failed", failed),
			classes: "OF", told: " output terminal failed [failed]", usage: " in=5 out=2",
			failure: Failure{Code: "server_error", Message: "oops"},
		},
		{name: "failed in the end", text: data(strings.Replace(failed, "response.failed", "response.completed", 1)), classes: "F", told: " terminal failed [failed]", usage: " in=5 out=2", failure: Failure{Code: "server_error", Message: "oops"}},
		{
			name:    "error, then failed",
			text:    named("error", `{"type":"error","code":"insufficient_quota","message":"spent","param":null}`, "response.failed", failed),
			classes: "FF", told: " terminal failed [failed]", usage: " in=5 out=2",
			failure: Failure{Code: "insufficient_quota", Message: "spent"},
		},
		{name: "nested error", text: data(`{"type":"error","status":429,"error":{"type":"usage_limit_reached","message":"wait"}}`), classes: "F", told: " failed", failure: Failure{Type: "usage_limit_reached", Message: "wait", Status: 429}},
		{name: "error without type", text: data(`{"error":{"message":"down"}}`), classes: "F", told: " failed", failure: Failure{Message: "down"}},
		{name: "unknown", text: data(`{"a":1}`, `{"type":"a"}`, `{"type":1}`, `[]`), classes: "OOOO", told: " output"},
	})
}

func TestResponsesCut(t *testing.T) {
	tail := []byte(strings.Repeat("QUJD", 9000) + `"}],"usage":{"input_tokens":7,"output_tokens":40},"user":null,"metadata":{}}}`)
	for _, c := range []struct {
		name  string
		class Class
		told  string
		usage string
	}{
		{"response.completed", Terminal, " output terminal", " in=7 out=40"},
		{"", Terminal, " output terminal", " in=7 out=40"},
		{"response.failed", Failed, " terminal failed", " in=7 out=40"},
		{"response.created", Preamble, "", ""},
		{"response.image_generation_call.partial_image", Output, " output", ""},
	} {
		f := &Facts{}
		if got := ByName(Responses).Event(&sse.Event{Name: []byte(c.name), Data: tail, Cut: true}, f); got != c.class {
			t.Errorf("%s: class %d, want %d", c.name, got, c.class)
		}
		check(t, f, c.told, c.usage, Failure{})
	}
}

func TestResponsesBodies(t *testing.T) {
	runBodies(t, Responses, []bodyCase{
		{name: "usual", body: `{"id":"r","status":"completed","error":null,"output":[{"type":"message"}],"usage":{"input_tokens":5,"output_tokens":2}}`, class: Output, told: " output [completed]", usage: " in=5 out=2"},
		{name: "tokens only", body: `{"id":"r","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":1}}`, class: Output, told: " [completed]", usage: " in=3 out=1"},
		{name: "failed", body: `{"id":"r","status":"failed","output":[],"error":{"code":"server_error","message":"m"},"usage":{"input_tokens":3}}`, class: Failed, told: " failed", usage: " in=3", failure: Failure{Code: "server_error", Message: "m"}},
		{name: "in the background", body: `{"id":"r","status":"queued","output":[],"error":null,"usage":null}`, class: Output, told: " output"},
		{name: "error", body: `{"error":{"type":"t","message":"m"}}`, class: Failed, told: " failed", failure: Failure{Type: "t", Message: "m"}},
		{name: "empty", body: `{"id":"r","status":"completed","output":[]}`, class: Nothing, told: " [completed]"},
	})
}
