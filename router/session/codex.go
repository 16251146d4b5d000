package session

import (
	"cmp"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// turn is what the JSON header x-codex-turn-metadata says.
type turn struct {
	session, thread, parent string
	kind                    string // turn, prewarm, compaction
}

func readTurn(header string) turn {
	if header == "" {
		return turn{}
	}
	var room [32]peek.Member
	o := peek.Object{Members: room[:0]}
	if o.Scan([]byte(header)) != nil {
		return turn{}
	}
	return turn{
		session: text(o.Value("session_id")), thread: text(o.Value("thread_id")),
		parent: text(o.Value("parent_thread_id")), kind: text(o.Value("request_kind")),
	}
}

// codexThread is the conversation according to the metadata of a turn: all threads share their root's session. Without
// one it is the parent's thread, else the thread itself.
func codexThread(f *finder) string { return cmp.Or(f.turn.session, f.turn.parent, f.turn.thread) }

// codex returns the root session of Codex and the thread that speaks. They are the same in the main thread; a client
// that is not Codex has not both.
func (f *finder) codex() (root, thread string) {
	thread = cmp.Or(f.Header("Thread-Id"), f.turn.thread)
	if thread == "" {
		return "", ""
	}
	return cmp.Or(f.Header("Session-Id"), f.turn.session, f.turn.parent), thread
}

// cacheKey is the thread of a child that forwards its root's prompt_cache_key: under that one key the caches of parent
// and child would push each other out.
func (f *finder) cacheKey() string {
	root, thread := f.codex()
	if root == "" || root == thread || !peek.Equal(f.Body.Value("prompt_cache_key"), root) {
		return ""
	}
	return thread
}
