package wire

import (
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

func TestGeminiStreams(t *testing.T) {
	usage := func(extra string) string {
		return `"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":80` + extra + `},"modelVersion":"g1","responseId":"i1"`
	}
	part := `"content":{"role":"model","parts":[{"text":"a"}]}`
	runStreams(t, Gemini, []streamCase{
		{
			name: "usual",
			text: data(`{"candidates":[{`+part+`}],`+usage(``)+`}`, `{"candidates":[{`+part+`}],`+usage(`,"thoughtsTokenCount":30`)+`}`,
				`{"candidates":[{`+part+`,"finishReason":"STOP"}],`+usage(`,"candidatesTokenCount":20`)+`}`),
			classes: "OOT", told: " output terminal [STOP]", usage: " in=20 read=80 out=50 think=30",
		},
		{name: "tools add to the prompt", text: data(`{"candidates":[],` + usage(`,"toolUsePromptTokenCount":7,"candidatesTokenCount":1`) + `}`), classes: "P", usage: " in=27 read=80 out=1"},
		{name: "usage alone", text: data(`{` + usage(``) + `}`), classes: "P", usage: " in=20 read=80"},
		{name: "empty end", text: data(`{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP"}]}`), classes: "T", told: " terminal [STOP]"},
		{name: "call", text: data(`{"candidates":[{"content":{"parts":[{"text":""},{"functionCall":{"name":"f"}}]}}]}`), classes: "O", told: " output"},
		{name: "not finished", text: data(`{"candidates":[{` + part + `,"finishReason":"FINISH_REASON_UNSPECIFIED"}]}`), classes: "O", told: " output"},
		{name: "held for safety", text: data(`{"candidates":[{"finishReason":"SAFETY"}]}`), classes: "T", told: " output terminal [SAFETY]"},
		{name: "gone wrong", text: data(`{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`), classes: "T", told: " terminal [MALFORMED_FUNCTION_CALL]"},
		{name: "prompt blocked", text: data(`{"promptFeedback":{"blockReason":"OTHER"},` + usage(``) + `}`), classes: "T", told: " output terminal [OTHER]", usage: " in=20 read=80"},
		{name: "error", text: data(`{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}`), classes: "F", told: " failed", failure: Failure{Type: "UNAVAILABLE", Message: "overloaded", Status: 503}},
		{name: "error in a list", text: data(`[{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}]`), classes: "F", told: " failed", failure: Failure{Type: "RESOURCE_EXHAUSTED", Message: "m", Status: 429}},
		{name: "unknown", text: data(`{"x":1}`, `[]`, `7`), classes: "OOO", told: " output"},
	})
}

func TestGeminiCut(t *testing.T) {
	tail := strings.Repeat("QUJD", 9000) + `"}}]},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":4,"candidatesTokenCount":1290}}`
	f := &Facts{}
	if c := ByName(Gemini).Event(&sse.Event{Data: []byte(tail), Cut: true}, f); c != Terminal {
		t.Errorf("class %d", c)
	}
	check(t, f, " output terminal [STOP]", " in=4 out=1290", Failure{})
}

func TestGeminiBodies(t *testing.T) {
	answer := `{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`
	runBodies(t, Gemini, []bodyCase{
		{name: "usual", body: answer, class: Output, told: " output terminal [STOP]", usage: " in=1 out=1"},
		{name: "array of chunks", body: "[{\"candidates\":[]}\n,\n" + answer + "]\n", class: Output, told: " output terminal [STOP]", usage: " in=1 out=1"},
		{name: "thoughts only", body: `{"candidates":[{"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":1,"thoughtsTokenCount":8}}`, class: Output, told: " terminal [MAX_TOKENS]", usage: " in=1 out=8 think=8"},
		{name: "empty", body: `{"candidates":[]}`, class: Nothing},
		{name: "something else", body: `{"x":1}`, class: Nothing},
		{name: "error", body: `{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}`, class: Failed, told: " failed", failure: Failure{Type: "INVALID_ARGUMENT", Message: "m", Status: 400}},
		{name: "array with an error", body: `[{"error":{"code":500,"message":"m"}}]`, class: Failed, told: " failed", failure: Failure{Message: "m", Status: 500}},
		{name: "broken array", body: `[{"candidates":[]}`, class: Nothing},
	})
}
