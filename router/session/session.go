// Package session finds the key that ties the requests of one conversation together; it knows nothing of targets, health
// or HTTP beyond the headers it is handed.
package session

import (
	"strings"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// Key ties the requests of one conversation together. The zero Key means that the request tells no conversation.
type Key struct {
	ID     string // as the client sent it, or derived; never a metric label
	Source string // the header or body field that gave it
	Agent  string // the sub-agent that speaks, beside the conversation's own key; empty for the main thread
}

// Request is what a source may look at.
type Request struct {
	Header func(name string) string // first value of a request header, "" if absent
	Src    []byte                   // the request body
	Body   *peek.Object             // its top-level members
}

// Source is one place where a client may put its conversation's key.
type Source struct {
	Name string
	Find func(r Request) string
}

// Sources are asked in this order, and the first that answers wins. Ids that are new on every request (x-request-id,
// x-client-request-id, idempotency-key) are never among them.
var Sources = []Source{
	header("x-claude-code-session-id"),
	header("session-id"),
	header("session_id"),
	{"x-parent-session-id", parent},
	header("x-session-id"),
	header("x-session-affinity"),
	header("x-conversation-id"),
	header("x-sticky-key"),
	{"x-codex-turn-metadata", codexThread},
	{"metadata.user_id", userID},
	field("prompt_cache_key"),
	{"conversation", conversation},
	field("session_id"),
	field("sessionId"),
	field("user"),
}

// Find returns the key of a request.
func Find(r Request) Key {
	for _, s := range Sources {
		if id := s.Find(r); id != "" {
			return Key{ID: id, Source: s.Name, Agent: agent(r)}
		}
	}
	return Key{}
}

func header(name string) Source {
	return Source{name, func(r Request) string { return r.Header(name) }}
}

func field(name string) Source {
	return Source{name, func(r Request) string { return text(r.Body.Value(name)) }}
}

// parent is the conversation that a sub-agent of opencode belongs to: its own id is in x-session-id then.
func parent(r Request) string {
	if r.Header("x-session-id") == "" {
		return ""
	}
	return r.Header("x-parent-session-id")
}

// agent names the sub-agent of a request; Claude Code, Codex and opencode each tell theirs in another way.
func agent(r Request) string {
	if id := r.Header("x-claude-code-agent-id"); id != "" {
		return id
	}
	if thread := r.Header("thread-id"); thread != "" && thread != r.Header("session-id") {
		return thread
	}
	if r.Header("x-parent-session-id") != "" {
		return r.Header("x-session-id")
	}
	return ""
}

func codexThread(r Request) string {
	return member([]byte(r.Header("x-codex-turn-metadata")), "thread_id")
}

// userID reads the session inside metadata.user_id: JSON in a string (Claude Code since 2.1), or the older form that
// ends in _session_ and the id. A plain user id names a person and not a conversation.
func userID(r Request) string {
	id := member(r.Body.Value("metadata"), "user_id")
	if strings.HasPrefix(id, "{") {
		return member([]byte(id), "session_id")
	}
	if _, after, ok := strings.Cut(id, "_session_"); ok {
		return after
	}
	return ""
}

// conversation is an id or an object with one (OpenAI Responses).
func conversation(r Request) string {
	v := r.Body.Value("conversation")
	if id := text(v); id != "" {
		return id
	}
	return member(v, "id")
}

// member returns the string member of an object, "" if there is no such thing.
func member(object []byte, name string) string {
	if len(object) == 0 {
		return ""
	}
	var o peek.Object
	if o.Scan(object) != nil {
		return ""
	}
	return text(o.Value(name))
}

func text(raw []byte) string {
	s, _ := peek.String(raw)
	return s
}
