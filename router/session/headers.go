package session

import "strings"

// header is a source that is a header of its own. The name is canonical, so that a look-up in http.Header allocates
// nothing.
func header(name string) Source {
	return Source{strings.ToLower(name), func(f *finder) string { return f.Header(name) }}
}

// parent is the conversation that a sub-agent of opencode belongs to: its own id is in x-session-id then. It is the
// direct parent, so a nested sub-agent belongs to the one above it.
func parent(f *finder) string {
	if f.Header("X-Session-Id") == "" {
		return ""
	}
	return f.Header("X-Parent-Session-Id")
}
