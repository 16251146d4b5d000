package session

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// prefix derives a key from what stays the same in every turn of a conversation: model, system text, first user message.
// What clients change from turn to turn does not count: cache_control, text as a string or as blocks, the order of
// members, how characters are escaped. It is "" if there is neither a system nor a user text.
func (f *finder) prefix() string {
	d, _ := digests.Get().(*digest)
	defer digests.Put(d)
	d.hash.Reset()
	d.n, d.said = 0, false
	d.say(f.Model)
	d.one(0)
	f.system(func(content []byte) bool { return texts(content, d.part) })
	f.messages(func(who role, content []byte) bool {
		switch who {
		case user:
			d.one(0)
			texts(content, d.part)
		case system:
			texts(content, d.part)
		}
		return who != user
	})
	if !d.said {
		return ""
	}
	var id [32]byte
	hex.Encode(id[:], d.sum()[:16])
	return string(id[:])
}

// unbilled is what a text says below its first line, if that is the billing header which Claude Code puts before its
// system text; ok is false for other texts. The header changes with the client's version.
func unbilled(raw []byte) (rest string, ok bool) {
	if len(raw) < 2 || raw[1] != 'x' && raw[1] != '\\' { // saves decoding nearly every text
		return "", false
	}
	s := text(raw)
	_, rest, _ = strings.Cut(s, "\n")
	return rest, strings.HasPrefix(s, "x-anthropic-billing-header")
}

// digest hashes texts as they are meant and everything else in one fixed form.
type digest struct {
	hash hash.Hash
	buf  [1024]byte // strings with escapes come in pieces of a few bytes
	n    int
	said bool // there was something to hash beside the model
}

var digests = sync.Pool{New: func() any { return &digest{hash: sha256.New()} }}

func (d *digest) say(s string) {
	for len(s) > 0 {
		if d.n == len(d.buf) {
			d.flush()
		}
		n := copy(d.buf[d.n:], s)
		d.n, s = d.n+n, s[n:]
	}
}

func (d *digest) put(p []byte) {
	if len(p) > len(d.buf)-d.n {
		d.flush()
	}
	if len(p) > len(d.buf) {
		d.hash.Write(p)
		return
	}
	d.n += copy(d.buf[d.n:], p)
}

func (d *digest) one(c byte) {
	if d.n == len(d.buf) {
		d.flush()
	}
	d.buf[d.n] = c
	d.n++
}

func (d *digest) flush() {
	d.hash.Write(d.buf[:d.n])
	d.n = 0
}

// sum is valid until more is said.
func (d *digest) sum() []byte {
	d.flush()
	return d.hash.Sum(d.buf[:0])
}

// part hashes one part of a content.
func (d *digest) part(text, part []byte) bool {
	if text == nil {
		d.said = true
		d.one(0)
		d.value(part, maxDepth)
		d.one(0)
		return true
	}
	if rest, ok := unbilled(text); ok {
		d.said = d.said || rest != ""
		d.say(rest)
		return true
	}
	d.said = d.said || len(text) > 2
	d.text(text)
	return true
}

// maxText is how much of a text, in bytes as it stands, is hashed as a whole. Of a longer one, such as an image, it is
// the length and the two ends: each turn brings it again, and megabytes would take longer to hash than all the rest.
const maxText = 64 << 10

// text hashes what a raw JSON string says, without a copy of it.
func (d *digest) text(raw []byte) {
	s := raw[1 : len(raw)-1]
	if len(s) > maxText {
		d.put(strconv.AppendInt(nil, int64(len(s)), 10))
		d.letters(s[:maxText/2])
		s = s[len(s)-maxText/2:]
	}
	d.letters(s)
}

func (d *digest) letters(s []byte) {
	for len(s) > 0 {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			n = len(s)
		}
		d.put(s[:n])
		if s = s[n:]; len(s) > 0 {
			s = s[d.escape(s):]
		}
	}
}

// escape hashes what the escape at the start of s stands for, and returns its length.
func (d *digest) escape(s []byte) int {
	n := min(2, len(s))
	if n == 2 && s[1] == 'n' { // nearly all of them
		d.one('\n')
		return n
	}
	if n == 2 && s[1] == 'u' {
		n = min(6, len(s))
		if len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && surrogate(s[2:6]) {
			n = 12
		}
	}
	var room [14]byte
	said, ok := peek.String(append(append(append(room[:0], '"'), s[:n]...), '"'))
	if !ok {
		said = string(s[:n])
	}
	for i := range len(said) {
		d.one(said[i])
	}
	return n
}

// surrogate tells whether four hexadecimal digits are the first half of a pair of UTF-16.
func surrogate(digits []byte) bool {
	var b [2]byte
	_, err := hex.Decode(b[:], digits)
	return err == nil && utf16.IsSurrogate(rune(b[0])<<8|rune(b[1])) && b[0] < 0xdc
}

// maxDepth is how deep the form of a part is fixed; below that it counts as it stands. Parts are about three deep.
const maxDepth = 16

// value hashes any JSON value so that the order of members, white space and cache_control do not matter.
func (d *digest) value(raw []byte, depth int) {
	kind := peek.Kind(raw)
	switch {
	case kind == 's':
		d.put(raw[:1])
		d.text(raw)
		d.one(0)
	case kind == 'o' && depth > 0:
		d.object(raw, depth-1)
	case kind == 'a' && depth > 0:
		d.put(raw[:1])
		_ = peek.Elements(raw, peek.Span{End: len(raw)}, func(at peek.Span) bool {
			d.value(raw[at.Start:at.End], depth-1)
			d.one(',')
			return true
		})
		d.one(']')
	default:
		d.put(raw)
	}
}

func (d *digest) object(raw []byte, depth int) {
	type named struct {
		name  string
		value []byte
	}
	var o peek.Object
	if o.Scan(raw) != nil {
		d.put(raw)
		return
	}
	var members []named
	for _, m := range o.Members {
		if name := text(raw[m.Key.Start:m.Key.End]); name != "cache_control" {
			members = append(members, named{name, raw[m.Value.Start:m.Value.End]})
		}
	}
	slices.SortStableFunc(members, func(a, b named) int { return strings.Compare(a.name, b.name) })
	d.one('{')
	for _, m := range members {
		d.say(m.name)
		d.one(0)
		d.value(m.value, depth)
	}
	d.one('}')
}
