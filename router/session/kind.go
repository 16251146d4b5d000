package session

import (
	"bytes"
	"cmp"
	"strings"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// Kind says what a request is to the conversation whose key it carries.
type Kind string

// The kinds. What is not known to be another one is Main, or Subagent if it names one.
const (
	Main       Kind = "main"
	Subagent   Kind = "subagent"
	Title      Kind = "title"      // asks for a name of the conversation
	Count      Kind = "count"      // counts tokens
	Compaction Kind = "compaction" // asks for a summary that will stand for the conversation
	Warmup     Kind = "warmup"     // generates nothing
	Classifier Kind = "classifier" // decides something for the client, such as the model to ask
	Side       Kind = "side"       // anything else that the client itself calls beside the conversation
)

// Speaks tells whether a request is the conversation itself; the zero Kind is. The others follow its pin, but never make
// or move one.
func (k Kind) Speaks() bool { return k == Main || k == Subagent || k == "" }

// classes are the values of x-claude-code-request-class, which Claude Code sends when it is asked for hints.
var classes = map[string]Kind{
	"main": Main, "subagent": Subagent, "workflow": Main, "compaction": Compaction, "auxiliary": Side, "side_reply": Side,
}

// turns are the kinds of requests that Codex names in the metadata of a turn.
var turns = map[string]Kind{"turn": Main, "prewarm": Warmup, "compaction": Compaction}

// kind asks what the client says of its request, then what the body shows. Agent is the sub-agent that speaks.
func (f *finder) kind(agent string) Kind {
	if f.Count {
		return Count
	}
	k := classes[f.header("X-Claude-Code-Request-Class")]
	if k == "" {
		k = turns[f.turn.kind]
	}
	if k == "" || k == Side {
		k = cmp.Or(f.shows(), k)
	}
	if agent != "" && k.Speaks() {
		return Subagent
	}
	return cmp.Or(k, Main)
}

// shows tells what the body alone gives away, "" if nothing.
func (f *finder) shows() Kind {
	if v, ok := peek.Bool(f.Body.Value("generate")); ok && !v {
		return Warmup
	}
	if f.toolless() && (f.titleOfClaude() || f.titleOfOpencode()) {
		return Title
	}
	if f.toolless() && f.classifies() {
		return Classifier
	}
	if f.compacts() {
		return Compaction
	}
	return ""
}

// toolless tells whether the request has no list of tools, as few turns of agents do: Codex may put it into its input.
func (f *finder) toolless() bool {
	tools := f.Body.Value("tools")
	if len(tools) < 2 {
		return true
	}
	return tools[0] == '[' && len(bytes.TrimSpace(tools[1:len(tools)-1])) == 0
}

// titleOfClaude knows the request by its answer's shape: a schema, and an empty list of tools. Other clients of Messages
// may well ask for both in the middle of their conversation.
func (f *finder) titleOfClaude() bool {
	if f.Wire != "anthropic-messages" || f.Body.Value("tools") == nil {
		return false
	}
	if f.header("X-Claude-Code-Session-Id") == "" && !strings.HasPrefix(f.header("User-Agent"), "claude-cli/") {
		return false
	}
	return peek.Equal(member(member(f.Body.Value("output_config"), "format"), "type"), "json_schema")
}

// titleOfOpencode knows the request by the words of its first message, on every wire. Forks of opencode say the same.
func (f *finder) titleOfOpencode() (yes bool) {
	f.messages(func(who role, content []byte) bool {
		if who == user {
			texts(content, func(text, _ []byte) bool {
				yes = bytes.HasPrefix(text, []byte(`"Generate a title for this conversation`))
				return false
			})
		}
		return who != user
	})
	return yes
}

// classifies knows the small questions of gemini-cli, which want JSON instead of a turn.
func (f *finder) classifies() bool {
	return f.Wire == "gemini" && strings.HasPrefix(f.header("User-Agent"), "GeminiCLI") &&
		peek.Equal(member(f.Body.Value("generationConfig"), "responseMimeType"), "application/json")
}

// compactions are the words with which the last user text of a compaction begins, by wire.
var compactions = map[string][]byte{
	"anthropic-messages": []byte(`"CRITICAL: Respond with TEXT ONLY`),        // Claude Code
	"openai-responses":   []byte(`"You are performing a CONTEXT CHECKPOINT`), // Codex
}

// maxCompaction is how much of the end of the messages, in bytes, can be the order to compact them.
const maxCompaction = 32 << 10

// compacts tells whether the last that the user says is an order to compact. Only if its words stand near the end are
// the messages read, so that other requests cost next to nothing.
func (f *finder) compacts() (yes bool) {
	words := compactions[f.Wire]
	list := f.Body.Value(wires[f.Wire].list)
	if words == nil || !contains(list[max(0, len(list)-maxCompaction):], words, bytes.IndexByte(words, 'X')) {
		return false
	}
	f.messages(func(who role, content []byte) bool {
		switch who {
		case user:
			yes = !texts(content, func(text, _ []byte) bool { return !bytes.HasPrefix(text, words) })
		case other: // It was answered, and is history.
			yes = false
		}
		return true
	})
	return yes
}
