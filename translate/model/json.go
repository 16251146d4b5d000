// Package model holds requests, answers and stream events of the dialects as structs of raw JSON values, and the few means
// to read and write such values; it must not know how one dialect is turned into another.
package model

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// Extra holds the members of an object that its struct does not know, by name.
type Extra map[string][]byte

// note takes a member that nobody knows, unless it says nothing.
func (e *Extra) note(name, value []byte) {
	switch string(value) {
	case "null", "[]", "{}", `""`:
		return
	}
	if *e == nil {
		*e = Extra{}
	}
	if _, seen := (*e)[string(name)]; !seen {
		(*e)[string(name)] = value
	}
}

// reader scans objects within objects; it keeps one scanner a level, so that it allocates nothing once these have grown.
type reader struct {
	levels []*peek.Object
	depth  int
}

// maxDepth is more than any dialect nests what is read here.
const maxDepth = 16

// object calls f with name and value of each member of an object.
func (d *reader) object(src []byte, f func(name, value []byte)) error {
	if d.depth == len(d.levels) {
		if d.depth == maxDepth {
			return errors.New("is nested too deeply")
		}
		d.levels = append(d.levels, &peek.Object{})
	}
	o := d.levels[d.depth]
	if o.Scan(src) != nil { // The text is valid, so that offsets would tell nothing.
		return errors.New("is not an object")
	}
	d.depth++
	for _, m := range o.Members {
		f(name(src[m.Key.Start:m.Key.End]), src[m.Value.Start:m.Value.End:m.Value.End])
	}
	d.depth--
	return nil
}

// array calls f with each element of an array; false ends it.
func (d *reader) array(src []byte, f func(i int, element []byte) bool) error {
	i := 0
	err := peek.Elements(src, peek.Span{End: len(src)}, func(at peek.Span) bool {
		i++
		return f(i-1, src[at.Start:at.End:at.End])
	})
	if err != nil {
		return errors.New("is not an array")
	}
	return nil
}

// list decodes each element of an array into a value of its own. Errors call the array name, and part its index from what
// decode says by sep.
func list[T any](d *reader, src []byte, name, sep string, decode func(to *T, element []byte) error) (all []T, failed error) {
	err := d.array(src, func(i int, element []byte) bool {
		all = append(all, *new(T))
		if err := decode(&all[i], element); err != nil {
			failed = fmt.Errorf("%s[%d]%s%w", name, i, sep, err)
		}
		return failed == nil
	})
	if err != nil {
		return all, fmt.Errorf("%s %w", name, err)
	}
	return all, failed
}

// name is what a key says.
func name(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key[1 : len(key)-1]
	}
	s, _ := peek.String(key)
	return []byte(s)
}

// set keeps the first value of a member that is not null: of repeated names the first one counts, as in peek.
func set(to *[]byte, value []byte) {
	if *to == nil && !peek.IsNull(value) {
		*to = value
	}
}

// Is reports whether raw is the JSON string s.
func Is(raw []byte, s string) bool { return peek.Equal(raw, s) }

// Text is what a JSON string says; "" if raw is none.
func Text(raw []byte) string {
	s, _ := peek.String(raw)
	return s
}

// Inner is what stands between the quotes of a JSON string, escapes as they are; nil if raw is none.
func Inner(raw []byte) []byte {
	if peek.Kind(raw) != 's' || len(raw) < 2 {
		return nil
	}
	return raw[1 : len(raw)-1]
}

// Blank reports whether raw is no JSON string or says nothing but white space.
func Blank(raw []byte) bool {
	const short = 256 // Longer ones of nothing but odd white space are nobody's.
	inner := TrimRight(Inner(raw))
	return len(inner) == 0 || len(inner) < short && strings.TrimSpace(Text(raw)) == ""
}

// TrimRight cuts white space off the end of what stands between a string's quotes.
func TrimRight(inner []byte) []byte {
	for {
		n := len(inner)
		switch {
		case n > 0 && inner[n-1] == ' ':
			inner = inner[:n-1]
		case n > 1 && bytes.IndexByte([]byte("nrt"), inner[n-1]) >= 0 && escapes(inner[:n-1]):
			inner = inner[:n-2]
		default:
			return inner
		}
	}
}

// escapes reports whether b ends in a backslash that is not itself escaped.
func escapes(b []byte) bool {
	n := len(b)
	for n > 0 && b[n-1] == '\\' {
		n--
	}
	return (len(b)-n)%2 == 1
}

// Key begins a member of the object that b ends in.
func Key(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// Elem begins an element of the array that b ends in.
func Elem(b []byte) []byte {
	if b[len(b)-1] != '[' {
		b = append(b, ',')
	}
	return b
}

// Field appends a member with a raw value; nothing if there is none.
func Field(b []byte, name string, raw []byte) []byte {
	if raw == nil {
		return b
	}
	return append(Key(b, name), raw...)
}

// Int appends a member that is a number.
func Int(b []byte, name string, n int64) []byte { return strconv.AppendInt(Key(b, name), n, 10) }

// Quote appends s as a JSON string. Bytes that are no UTF-8 stay as they are, and nothing is escaped that need not be.
func Quote[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	b = Escape(b, s)
	return append(b, '"')
}

// Escape appends s as it stands between the quotes of a JSON string.
func Escape[T string | []byte](b []byte, s T) []byte {
	const digits = "0123456789abcdef"
	start := 0
	for i := range len(s) {
		c := s[i]
		if !special[c] {
			continue
		}
		b = append(b, s[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case '\t':
			b = append(b, '\\', 't')
		default:
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(b, s[start:]...)
}

// special are the bytes that cannot stand for themselves in a JSON string.
var special = func() (t [256]bool) {
	for c := range byte(' ') {
		t[c] = true
	}
	t['"'], t['\\'] = true, true
	return t
}()
