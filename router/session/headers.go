package session

import "strings"

// header is a source that is a header of its own, by its canonical name.
func header(name string) Source {
	return Source{strings.ToLower(name), func(f *finder) string { return f.header(name) }}
}

// parent is the conversation that a sub-agent of opencode belongs to: its own id is in x-session-id then. It is the
// direct parent, so a nested sub-agent belongs to the one above it.
func parent(f *finder) string {
	if f.header("X-Session-Id") == "" {
		return ""
	}
	return f.header("X-Parent-Session-Id")
}
