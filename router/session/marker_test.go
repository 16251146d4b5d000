package session

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A marker counts where the user or the system says it, and nowhere else.
func TestMarkerCountsWhereUserOrSystemSaysIt(t *testing.T) {
	t.Parallel()
	const mark = `<system-reminder>\n__SUBAGENT_MARKER__{\"session_id\":\"s\",\"agent_id\":\"a\",\"agent_type\":\"general-purpose\"}\n</system-reminder>`
	for _, c := range []struct {
		name, wire, body string
		found            bool
	}{
		{"user text", "anthropic-messages", `{"messages":[{"role":"user","content":"@"}]}`, true},
		{"user block", "anthropic-messages", `{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"cache_control":{},"text":"@","type":"text"}]}]}`, true},
		{"system message", "anthropic-messages", `{"messages":[{"role":"user","content":"x"},{"content":[{"type":"text","text":"@"}],"output_config":{},"role":"system"}]}`, true},
		{"system string", "anthropic-messages", `{"system":"@"}`, true},
		{"system block", "anthropic-messages", `{"messages":[],"system":[{"type":"text","text":"@"}]}`, true},
		{"chat", "openai-chat", `{"messages":[{"role":"developer","content":"@"}]}`, true},
		{"instructions", "openai-responses", `{"instructions":"@"}`, true},
		{"input", "openai-responses", `{"input":"@"}`, true},
		{"input item", "openai-responses", `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"@"}]}]}`, true},
		{"gemini", "gemini", `{"contents":[{"parts":[{"text":"@"}]}]}`, true},
		{"gemini system", "gemini", `{"system_instruction":{"parts":[{"text":"@"}]}}`, true},
		{"after a broken one", "anthropic-messages", `{"system":"__SUBAGENT_MARKER__ is what __SUBAGENT_MARKER__{x} says","messages":[{"role":"user","content":"__SUBAGENT_MARKER__{\"agent_id\":7} __SUBAGENT_MARKER__ @"}]}`, true},

		{"assistant", "anthropic-messages", `{"messages":[{"role":"assistant","content":"@"}]}`, false},
		{"assistant block", "anthropic-messages", `{"messages":[{"role":"assistant","content":[{"type":"text","text":"@"}]}]}`, false},
		{"tool result", "anthropic-messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"@"},{"type":"tool_result","content":[{"type":"text","text":"@"}]}]}]}`, false},
		{"tool of chat", "openai-chat", `{"messages":[{"role":"tool","content":"@"}]}`, false},
		{"output item", "openai-responses", `{"input":[{"type":"function_call_output","output":"@"}]}`, false},
		{"model of gemini", "gemini", `{"contents":[{"role":"model","parts":[{"text":"@"}]}]}`, false},
		{"description of a tool", "anthropic-messages", `{"tools":[{"name":"x","description":"@"}]}`, false},
		{"another list", "anthropic-messages", `{"input":"@"}`, false},
		{"name of a member", "anthropic-messages", `{"messages":[{"role":"user","content":"x"}],"@":1}`, false},
		{"no agent", "anthropic-messages", `{"system":"__SUBAGENT_MARKER__{\"session_id\":\"s\"}"}`, false},
		{"not closed", "anthropic-messages", `{"system":"__SUBAGENT_MARKER__{\"session_id\":\"s\",\"agent_id\":\"a\""}`, false},
		{"the name alone", "anthropic-messages", `{"system":"__SUBAGENT_MARKER__"}`, false},
	} {
		want := Key{Kind: Main}
		if c.found {
			want = Key{ID: "s", Source: "subagent-marker", Agent: "a", Kind: Subagent}
		}
		got := Find(request(t, c.wire, []byte(strings.ReplaceAll(c.body, "@", mark)), nil))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// What headers say beats the marker.
func TestHeadersBeatTheMarker(t *testing.T) {
	t.Parallel()
	const body = `{"system":"__SUBAGENT_MARKER__{\"session_id\":\"s\",\"agent_id\":\"a\"}","metadata":{"user_id":"{\"session_id\":\"m\"}"}}`
	for _, c := range []struct {
		headers map[string]string
		want    Key
	}{
		{nil, Key{ID: "s", Source: "subagent-marker", Agent: "a", Kind: Subagent}},
		{map[string]string{"x-claude-code-session-id": "h"}, Key{ID: "h", Source: "x-claude-code-session-id", Agent: "a", Kind: Subagent}},
		{map[string]string{"x-claude-code-session-id": "h", "x-claude-code-agent-id": "b"}, Key{ID: "h", Source: "x-claude-code-session-id", Agent: "b", Kind: Subagent}},
		{map[string]string{"session-id": "h", "thread-id": "h"}, Key{ID: "h", Source: "session-id", Kind: Main}},
	} {
		if diff := cmp.Diff(c.want, Find(request(t, "anthropic-messages", []byte(body), c.headers))); diff != "" {
			t.Errorf("%v: %s", c.headers, diff)
		}
	}
}

// A body made of nothing but markers is read once; were it once for each of them, this would take minutes.
func TestManyMarkersCostNoMoreThanTheirBytes(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{`__SUBAGENT_MARKER__{`, `__SUBAGENT_MARKER__{}`, `KER__{`, `__SUBAGENT_MARKER__{\"`} {
		body := `{"messages":[{"role":"user","content":"` + strings.Repeat(unit, 8<<20/len(unit)) + `"}]}`
		if k := Find(request(t, "anthropic-messages", []byte(body), nil)); k.Agent != "" {
			t.Errorf("%s: %+v", unit, k)
		}
	}
}
