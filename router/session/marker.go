package session

import "bytes"

// marker is what plug-ins of Claude Code write into the first texts that a sub-agent reads:
// __SUBAGENT_MARKER__{"session_id":...,"agent_id":...,"agent_type":...}.
type marker struct{ session, agent string }

var markerName = []byte("__SUBAGENT_MARKER__")

// maxMarker bounds, in bytes, what may follow the marker's name.
const maxMarker = 512

func marked(f *finder) string { return f.mark.session }

// findMarker looks for a marker in what the user or the system says. Assistants and tools may well repeat one that is
// another conversation's.
func (f *finder) findMarker() (m marker) {
	if !contains(f.Src, markerName, len("__SUBAGENT_MAR")) {
		return m
	}
	look := func(text, _ []byte) bool {
		m = markerIn(text)
		return m.agent == ""
	}
	f.system(func(content []byte) bool { return texts(content, look) })
	if m.agent != "" {
		return m
	}
	f.messages(func(who role, content []byte) bool {
		return who == other || texts(content, look)
	})
	return m
}

// markerIn reads the first sound marker of a raw JSON string.
func markerIn(raw []byte) marker {
	for {
		_, after, ok := bytes.Cut(raw, markerName)
		if !ok {
			return marker{}
		}
		raw = after
		end := bytes.IndexByte(after[:min(len(after), maxMarker)], '}') + 1
		if end == 0 || after[0] != '{' {
			continue
		}
		// No other marker begins inside, so every byte is read once.
		raw = after[end:]
		inner := []byte(text(quote(after[:end])))
		if agent := text(member(inner, "agent_id")); agent != "" {
			return marker{text(member(inner, "session_id")), agent}
		}
	}
}

// quote makes a JSON string of its inside.
func quote(inside []byte) []byte {
	return append(append([]byte{'"'}, inside...), '"')
}

// contains is bytes.Contains for words whose byte at rare is a seldom one. Where the first byte of the words is a frequent
// one, such as a quote or an underscore, that is ten times as fast.
func contains(b, words []byte, rare int) bool {
	for i := 0; ; i++ {
		at := bytes.Index(b[i:], words[rare:])
		if at < 0 {
			return false
		}
		if i += at; bytes.HasSuffix(b[:i], words[:rare]) {
			return true
		}
	}
}
