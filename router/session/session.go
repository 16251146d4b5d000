// Package session finds the key that ties the requests of one conversation together and tells which of them are the
// conversation itself; it knows nothing of targets, health or HTTP beyond the headers it is handed.
package session

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// Key ties the requests of one conversation together. A Key without ID means that the request tells no conversation.
type Key struct {
	ID     string // as the client sent it, or derived, also where that is too long; never a metric label
	Source string // the header or body field that gave it, "prefix" for a derived one
	Agent  string // the sub-agent that speaks, beside the conversation's own key; empty for the main thread
	Kind   Kind   // what the request is to the conversation

	// CacheKey is what prompt_cache_key has to become, because a child of Codex sends its root's; "" leaves it alone.
	CacheKey string
}

// String is the key as one text, for hashing: a sub-agent differs from its conversation and from its siblings.
func (k Key) String() string {
	if k.Agent == "" {
		return k.ID
	}
	return k.ID + "\x00" + k.Agent
}

// Request is what a source may look at.
type Request struct {
	Header map[string][]string // of the request, by canonical names
	Src    []byte              // the request body
	Body   *peek.Object        // its top-level members
	Wire   string              // openai-chat, openai-responses, anthropic-messages, gemini
	Model  string              // id the client asked for; part of a derived key
	Count  bool                // counts tokens only
	Given  string              // key that an embedding program gives; beats every source
	Only   []string            // names of the sources to ask, in this order; nil asks all
	Prefix bool                // derive a key from the first texts if no source has one
}

// Source is one place where a client may put its conversation's key. Header and body field of one name are two sources
// of that name.
type Source struct {
	Name string
	find func(*finder) string
}

// Sources are asked in this order, and the first that answers wins. Ids that are new on every request (x-request-id,
// x-client-request-id, idempotency-key) are never among them.
var Sources = []Source{
	header("X-Claude-Code-Session-Id"),
	header("Session-Id"),
	header("Session_id"),
	{"x-parent-session-id", parent},
	header("X-Session-Id"),
	header("X-Session-Affinity"),
	header("X-Conversation-Id"),
	header("X-Sticky-Key"),
	header("X-Omp-Session"),
	{"x-codex-turn-metadata", codexThread},
	{"subagent-marker", marked},
	{"metadata.user_id", userID},
	field("prompt_cache_key"),
	{"conversation", conversation},
	field("session_id"),
	field("sessionId"),
	field("user"),
}

// Names are the names of all sources, each once.
func Names() []string {
	var names []string
	for _, s := range Sources {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// Sources of keys that no place in the request gave.
const (
	Given  = "context" // an embedding program
	Prefix = "prefix"  // the first texts
)

// finder is one request on its way to its key.
type finder struct {
	Request
	turn turn   // what Codex says beside the body
	mark marker // what a plug-in says inside it
}

// header is the first value of a header, "" if there is none. The name is canonical.
func (f *finder) header(name string) string {
	if v := f.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// Find returns the key and the kind of a request.
func Find(r Request) Key {
	if r.Body == nil {
		r.Body = new(peek.Object)
	}
	f := &finder{Request: r}
	f.turn = readTurn(f.header("X-Codex-Turn-Metadata"))
	k := Key{Agent: f.agent(), CacheKey: f.cacheKey()}
	k.Kind = f.kind(k.Agent)
	if k.ID, k.Source = f.id(); k.ID == "" {
		k.Agent = ""
	}
	k.ID, k.Agent = bounded(k.ID), bounded(k.Agent)
	return k
}

// maxID bounds, in bytes, an id that is kept as the client sent it. Ids are remembered by the thousand, and a body field
// may be as large as the body.
const maxID = 256

// bounded stands for a longer id by its digest.
func bounded(id string) string {
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])
}

func (f *finder) id() (id, source string) {
	if f.Given != "" {
		return f.Given, Given
	}
	if f.Only == nil {
		id, source = f.ask("")
	}
	for _, name := range f.Only {
		if id, source = f.ask(name); id != "" {
			break
		}
	}
	if id == "" && f.Prefix {
		if id = f.prefix(); id != "" {
			source = Prefix
		}
	}
	return id, source
}

// ask asks the sources of a name, "" for all.
func (f *finder) ask(name string) (id, source string) {
	for i := range Sources {
		if s := &Sources[i]; name == "" || s.Name == name {
			if id := s.find(f); id != "" {
				return id, s.Name
			}
		}
	}
	return "", ""
}

// agent names the sub-agent that speaks. What a header says beats the marker, and Codex, which names its threads in
// headers, uses none.
func (f *finder) agent() string {
	if id := f.header("X-Claude-Code-Agent-Id"); id != "" {
		return id
	}
	if root, thread := f.codex(); root != "" && thread != "" {
		if root == thread {
			return ""
		}
		return thread
	}
	if f.header("X-Parent-Session-Id") != "" {
		if id := f.header("X-Session-Id"); id != "" {
			return id
		}
	}
	f.mark = f.findMarker()
	return f.mark.agent
}
