package session

import (
	"strings"
	"testing"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	claude := map[string]string{"x-claude-code-session-id": "s"}
	class := func(name string) map[string]string {
		return map[string]string{"x-claude-code-session-id": "s", "x-claude-code-request-class": name}
	}
	sub := func(name string) map[string]string {
		h := class(name)
		h["x-claude-code-agent-id"] = "a"
		return h
	}
	turn := func(kind string) map[string]string {
		return map[string]string{"session-id": "s", "thread-id": "s", "x-codex-turn-metadata": `{"request_kind":"` + kind + `"}`}
	}
	const schema = `"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}}`
	const compact = `{"role":"user","content":[{"type":"tool_result","content":"x"},{"type":"text","text":"CRITICAL: Respond with TEXT ONLY. Do not"}]}`
	const checkpoint = `{"type":"message","role":"user","content":[{"type":"input_text","text":"You are performing a CONTEXT CHECKPOINT COMPACTION. Write"}]}`
	gemini := map[string]string{"user-agent": "GeminiCLI/0.61.0/gemini-3.5-flash-lite (linux; x64)"}
	const title = `"Generate a title for this conversation:\n"`
	for _, c := range []struct {
		name, wire, body string
		headers          map[string]string
		want             Kind
	}{
		{"class main", "anthropic-messages", `{"tools":[],` + schema + `}`, class("main"), Main},
		{"class subagent", "anthropic-messages", `{}`, sub("subagent"), Subagent},
		{"class workflow", "anthropic-messages", `{}`, sub("workflow"), Subagent},
		{"class compaction", "anthropic-messages", `{}`, class("compaction"), Compaction},
		{"class compaction of a sub-agent", "anthropic-messages", `{}`, sub("compaction"), Compaction},
		{"class auxiliary", "anthropic-messages", `{}`, class("auxiliary"), Side},
		{"class auxiliary, a title", "anthropic-messages", `{"tools":[],` + schema + `}`, class("auxiliary"), Title},
		{"class side_reply", "anthropic-messages", `{}`, class("side_reply"), Side},
		{"unheard of class", "anthropic-messages", `{}`, class("new"), Main},
		{"turn", "openai-responses", `{"input":[` + checkpoint + `]}`, turn("turn"), Main},
		{"prewarm", "openai-responses", `{}`, turn("prewarm"), Warmup},
		{"codex compaction", "openai-responses", `{}`, turn("compaction"), Compaction},
		{"warm-up", "openai-responses", `{"generate":false,"input":[]}`, nil, Warmup},
		{"no warm-up", "openai-responses", `{"generate":true}`, nil, Main},

		{"title of claude", "anthropic-messages", `{"tools":[ ],` + schema + `}`, claude, Title},
		{"a schema with tools", "anthropic-messages", `{"tools":[{"name":"x"}],` + schema + `}`, claude, Main},
		{"a schema without the list", "anthropic-messages", `{` + schema + `}`, claude, Main},
		{"a schema of someone else", "anthropic-messages", `{"tools":[],` + schema + `}`, nil, Main},
		{"title on chat", "openai-chat", `{"messages":[{"role":"system","content":"s"},{"role":"user","content":` + title + `},{"role":"user","content":"x"}]}`, nil, Title},
		{"title with tools", "openai-chat", `{"tools":[{}],"messages":[{"role":"user","content":` + title + `}]}`, nil, Main},
		{"title later on", "openai-chat", `{"messages":[{"role":"user","content":"x"},{"role":"user","content":` + title + `}]}`, nil, Main},

		{"compaction of claude", "anthropic-messages", `{"tools":[{}],"messages":[{"role":"user","content":"x"},` + compact + `]}`, claude, Compaction},
		{"then a system message", "anthropic-messages", `{"messages":[` + compact + `,{"role":"system","content":"x"}]}`, claude, Compaction},
		{"compaction in the past", "anthropic-messages", `{"messages":[` + compact + `,{"role":"assistant","content":"x"},{"role":"user","content":"go on"}]}`, claude, Main},
		{"its words in the middle", "anthropic-messages", `{"messages":[{"role":"user","content":"he said \"CRITICAL: Respond with TEXT ONLY"}]}`, claude, Main},
		{"its words from a tool", "anthropic-messages", `{"messages":[{"role":"user","content":[{"type":"tool_result","content":"CRITICAL: Respond with TEXT ONLY"}]}]}`, claude, Main},
		{"compaction of codex", "openai-responses", `{"tools":[],"input":[{"role":"user","content":"x"},` + checkpoint + `]}`, nil, Compaction},
		{"checkpoint in the past", "openai-responses", `{"input":[` + checkpoint + `,{"type":"function_call","name":"x"}]}`, nil, Main},
		{"another wire's words", "openai-responses", `{"input":"CRITICAL: Respond with TEXT ONLY"}`, nil, Main},

		{"classifier", "gemini", `{"contents":[{"role":"user","parts":[{"text":"x"}]}],"generationConfig":{"responseMimeType":"application/json"}}`, gemini, Classifier},
		{"a turn of gemini-cli", "gemini", `{"tools":[{"functionDeclarations":[]}],"generationConfig":{"temperature":1}}`, gemini, Main},
		{"json for someone else", "gemini", `{"generationConfig":{"responseMimeType":"application/json"}}`, nil, Main},
		{"broken list", "openai-chat", `{"messages":{"role":"user"}}`, nil, Main},
	} {
		if k := Find(request(t, c.wire, []byte(c.body), c.headers)); k.Kind != c.want {
			t.Errorf("%s: %q, want %q", c.name, k.Kind, c.want)
		}
	}
	r := request(t, "anthropic-messages", []byte(`{"messages":[`+compact+`]}`), sub("subagent"))
	if r.Count = true; Find(r).Kind != Count {
		t.Error("a count is something else")
	}
}

// The order to compact is found behind a long conversation.
func TestCompactionAtTheEnd(t *testing.T) {
	t.Parallel()
	long := `{"role":"user","content":"` + strings.Repeat("NEXT ", 40_000) + `"}`
	body := `{"messages":[` + long + `,{"role":"user","content":"CRITICAL: Respond with TEXT ONLY. ` + strings.Repeat("Summarise. ", 1000) + `"}],"stream":true}`
	if k := Find(request(t, "anthropic-messages", []byte(body), nil)); k.Kind != Compaction {
		t.Errorf("%+v", k)
	}
}

func TestWhoSpeaks(t *testing.T) {
	t.Parallel()
	for k, want := range map[Kind]bool{"": true, Main: true, Subagent: true, Title: false, Count: false, Compaction: false, Warmup: false, Classifier: false, Side: false} {
		if k.Speaks() != want {
			t.Errorf("%q speaks: %v", k, !want)
		}
	}
}
