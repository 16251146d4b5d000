package session

import (
	"cmp"
	"strings"

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
	v, _ := pick([]byte(strings.TrimSpace(header)), "session_id", "thread_id", "parent_thread_id", "request_kind")
	return turn{session: text(v[0]), thread: text(v[1]), parent: text(v[2]), kind: text(v[3])}
}

// codexThread is the conversation according to the metadata of a turn: all threads share their root's session. Without
// one it is the parent's thread, else the thread itself.
func codexThread(f *finder) string { return cmp.Or(f.turn.session, f.turn.parent, f.turn.thread) }

// codex returns the root session of Codex and the thread that speaks. They are the same in the main thread; a client
// that is not Codex has not both.
func (f *finder) codex() (root, thread string) {
	thread = cmp.Or(f.header("Thread-Id"), f.turn.thread)
	if thread == "" {
		return "", ""
	}
	return cmp.Or(f.header("Session-Id"), f.turn.session, f.turn.parent), thread
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
