package chatmessages

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/signalbox-llm/signalbox/translate/model"
)

// The longest names and ids that the dialects accept, in bytes.
const (
	chatLimit     = 64
	messagesLimit = 128
	idLimit       = 64
)

// digestLen is how many hex digits tell names apart that were made legal; with 40 bits no request has two alike.
const digestLen = 10

// legal turns a name into one of at most limit characters of [A-Za-z0-9_-]. It depends on nothing but the name, so that the
// same request always looks the same to a prompt cache, and different names stay different.
func legal(name string, limit int) (string, bool) {
	if isLegal(name, limit) {
		return name, false
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:])[:digestLen]
	b := []byte(name)
	b = b[:min(len(b), limit-len(tail))]
	for i, c := range b {
		if !allowed(c) {
			b[i] = '_'
		}
	}
	return string(b) + tail, true
}

func isLegal[T string | []byte](name T, limit int) bool {
	if len(name) == 0 || len(name) > limit {
		return false
	}
	for i := range len(name) {
		if !allowed(name[i]) {
			return false
		}
	}
	return true
}

func allowed(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

// names makes the tool names of a request legal and turns those of the answer back.
type names struct {
	limit   int
	back    map[string]string
	offered map[string]bool // As the upstream knows them.
}

// offer notes the name of a tool on offer, a JSON string.
func (n *names) offer(raw []byte) {
	if n.offered == nil {
		n.offered = map[string]bool{}
	}
	n.offered[model.Text(raw)] = true
}

// append appends the legal form of a name, a JSON string, and notes what it was.
func (n *names) append(b, raw []byte, report *model.Report) []byte {
	if isLegal(model.Inner(raw), n.limit) {
		return append(b, raw...)
	}
	name := model.Text(raw)
	short, changed := legal(name, n.limit)
	if changed {
		if n.back == nil {
			n.back = map[string]string{}
		}
		n.back[short] = name
		report.Change("tools.name")
	}
	return model.Quote(b, short)
}

// original is the name that the client knows.
func (n *names) original(name string) string {
	if was, ok := n.back[name]; ok {
		return was
	}
	return name
}

// appendID appends a tool call's id in a form that both dialects take. A client keeps it and sends it back to whatever
// upstream is next, so it has to be legal for all.
func appendID(b, raw []byte, report *model.Report) []byte {
	if isLegal(model.Inner(raw), idLimit) {
		return append(b, raw...)
	}
	id, _ := legal(model.Text(raw), idLimit)
	report.Change("tool_calls.id")
	return model.Quote(b, id)
}

// madeID is an id for what the upstream gave none, made of the answer's own id: the same for the same answer, and another
// one for each call.
func madeID(prefix, answer string, n int) string {
	sum := sha256.Sum256(append([]byte(answer), byte(n>>8), byte(n)))
	return prefix + hex.EncodeToString(sum[:12])
}
