// Package peek finds the members of a JSON object as offsets and replaces some of them without touching a byte of the
// rest; it never decodes a document, and knows nothing of what its members mean.
package peek

import "strconv"

// Span is a half-open byte range of the scanned text.
type Span struct{ Start, End int }

// Member is one member of an object. Key holds the quotes, Value no surrounding space.
type Member struct{ Key, Value Span }

// Object is the list of members of one JSON object, as offsets, in the order of the text and with repeated names. It is
// reusable: a scan resets it and allocates nothing once it has grown. It refers to the scanned text, which must not
// change while it is in use. After a failed scan it has no members.
type Object struct {
	Members []Member
	Body    Span // from { to just past }
	src     []byte
}

// SyntaxError says where the text stops being what was looked for.
type SyntaxError struct {
	Offset int // in bytes, of the scanned text
	Reason string
}

func (e *SyntaxError) Error() string {
	return e.Reason + " at offset " + strconv.Itoa(e.Offset)
}

// maxMembers bounds what a hostile object can cost: a member needs five bytes of text but 32 of memory here.
const maxMembers = 1 << 16

// Scan finds the members of the one JSON object that src is, white space around it allowed, a byte order mark not. Keys
// and the punctuation between members are checked; of values only that strings end and brackets match. The error is a
// *SyntaxError; more than 65,536 members are one too.
func (o *Object) Scan(src []byte) error {
	return o.ScanAt(src, Span{0, len(src)})
}

// ScanAt is Scan for an object that is a part of src. Offsets stay those of src.
func (o *Object) ScanAt(src []byte, at Span) error {
	o.src, o.Members, o.Body = src, o.Members[:0], Span{}
	body, err := o.scan(src[:at.End], at.Start)
	if err != nil {
		o.Members = o.Members[:0]
		return err
	}
	o.Body = body
	return nil
}

func (o *Object) scan(src []byte, i int) (Span, error) {
	start := space(src, i)
	if start == len(src) || src[start] != '{' {
		return Span{}, fail(start, "not an object")
	}
	i = space(src, start+1)
	if i == len(src) || src[i] != '}' {
		var err error
		if i, err = o.members(src, i); err != nil {
			return Span{}, err
		}
	}
	return Span{start, i + 1}, trailing(src, i+1, "text after the object")
}

// usualMembers is how many an object has room for at first: requests and answers have about as many.
const usualMembers = 8

// members reads the members from i on and returns the offset of the closing brace.
func (o *Object) members(src []byte, i int) (int, error) {
	for {
		m, err := member(src, i)
		if err != nil {
			return 0, err
		}
		if len(o.Members) == maxMembers {
			return 0, fail(i, "too many members")
		}
		if o.Members == nil {
			o.Members = make([]Member, 0, usualMembers)
		}
		o.Members = append(o.Members, m)
		i = space(src, m.Value.End)
		if i == len(src) {
			return 0, fail(i, "object does not end")
		}
		if src[i] == '}' {
			return i, nil
		}
		if src[i] != ',' {
			return 0, fail(i, "no comma between members")
		}
		i = space(src, i+1)
	}
}

func member(src []byte, i int) (m Member, err error) {
	if i == len(src) || src[i] != '"' {
		return m, fail(i, "no key")
	}
	end := stringEnd(src, i)
	if end < 0 {
		return m, fail(i, "string does not end")
	}
	if at := badChar(src[i+1 : end-1]); at >= 0 {
		return m, fail(i+1+at, "bad character in a key")
	}
	m.Key = Span{i, end}
	i = space(src, end)
	if i == len(src) || src[i] != ':' {
		return m, fail(i, "no colon after a key")
	}
	i = space(src, i+1)
	end, err = skip(src, i)
	m.Value = Span{i, end}
	return m, err
}

// Find returns the first member of that name. Escapes in keys are honoured: "mod\u0065l" is model.
func (o *Object) Find(name string) (Member, bool) {
	for _, m := range o.Members {
		if Equal(o.src[m.Key.Start:m.Key.End], name) {
			return m, true
		}
	}
	return Member{}, false
}

// Value returns the value of the first member of that name as it stands in the text, nil if there is none.
func (o *Object) Value(name string) []byte {
	m, ok := o.Find(name)
	if !ok {
		return nil
	}
	return o.src[m.Value.Start:m.Value.End:m.Value.End]
}

// Repeated returns the first of names that more than one member has, "" if there is none. Parsers disagree on which of
// two members counts, so what is routed by must not occur twice.
func (o *Object) Repeated(names ...string) string {
	for _, name := range names {
		n := 0
		for _, m := range o.Members {
			if Equal(o.src[m.Key.Start:m.Key.End], name) {
				n++
			}
		}
		if n > 1 {
			return name
		}
	}
	return ""
}

// Elements calls f with the span of each element of the array at `at` until f returns false. Offsets are those of src.
// The error is a *SyntaxError.
func Elements(src []byte, at Span, f func(Span) bool) error {
	src = src[:at.End]
	i := space(src, at.Start)
	if i == len(src) || src[i] != '[' {
		return fail(i, "not an array")
	}
	i = space(src, i+1)
	if i < len(src) && src[i] == ']' {
		return trailing(src, i+1, "text after the array")
	}
	for {
		end, err := skip(src, i)
		if err != nil {
			return err
		}
		if !f(Span{i, end}) {
			return nil
		}
		i = space(src, end)
		switch {
		case i == len(src):
			return fail(i, "array does not end")
		case src[i] == ']':
			return trailing(src, i+1, "text after the array")
		case src[i] != ',':
			return fail(i, "no comma between elements")
		}
		i = space(src, i+1)
	}
}

// Past returns the offset just past the value that begins at i, which is checked as little as those of Scan. The error is
// a *SyntaxError.
func Past(src []byte, i int) (int, error) { return skip(src, i) }
