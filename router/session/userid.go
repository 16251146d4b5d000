package session

import "strings"

// userID reads the session inside metadata.user_id: JSON in a string (Claude Code since 2.1), or the older form that
// ends in _session_ and the id. A plain user id names a person and not a conversation.
func userID(f *finder) string {
	id := text(member(f.Body.Value("metadata"), "user_id"))
	if strings.HasPrefix(id, "{") {
		return text(member([]byte(id), "session_id"))
	}
	_, after, _ := strings.Cut(id, "_session_")
	return after
}
