package session

import (
	"testing"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// What real agents send with requests of their main thread and of their sub-agents: a sub-agent shares its parent's key
// and has one of its own beside it.
func TestSubAgentsShareTheConversation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers map[string]string
		want    Key
	}{
		"nobody":             {nil, Key{}},
		"claude":             {map[string]string{"x-claude-code-session-id": "s"}, Key{ID: "s", Source: "x-claude-code-session-id"}},
		"claude, sub":        {map[string]string{"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, Key{ID: "s", Source: "x-claude-code-session-id", Agent: "a"}},
		"codex":              {map[string]string{"session-id": "s", "thread-id": "s"}, Key{ID: "s", Source: "session-id"}},
		"codex, sub":         {map[string]string{"session-id": "s", "thread-id": "a"}, Key{ID: "s", Source: "session-id", Agent: "a"}},
		"opencode":           {map[string]string{"x-session-id": "s"}, Key{ID: "s", Source: "x-session-id"}},
		"opencode, sub":      {map[string]string{"x-session-id": "a", "x-parent-session-id": "s"}, Key{ID: "s", Source: "x-parent-session-id", Agent: "a"}},
		"a parent of no one": {map[string]string{"x-parent-session-id": "s"}, Key{}},
	} {
		got := Find(Request{Header: func(name string) string { return c.headers[name] }, Body: new(peek.Object)})
		if got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
