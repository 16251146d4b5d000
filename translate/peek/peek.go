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
	list := o.Members[:0]
	body, err := members(src[:at.End], at.Start, func(m Member) {
		if cap(list) == 0 {
			list = make([]Member, 0, usualMembers)
		}
		list = append(list, m)
	})
	if err != nil {
		list = list[:0]
	}
	*o = Object{list, body, src}
	return err
}

// usualMembers is how many an object has room for at first: requests and answers have about as many.
const usualMembers = 8

// Members calls f with each member of the one JSON object that src is, which is checked as by Scan. The error, a
// *SyntaxError, may come when f has been called already.
func Members(src []byte, f func(Member)) error {
	_, err := members(src, 0, f)
	return err
}

// members calls f with each member and returns where the object stands.
func members(src []byte, i int, f func(Member)) (Span, error) {
	start := space(src, i)
	if start == len(src) || src[start] != '{' {
		return Span{}, fail(start, "not an object")
	}
	i = space(src, start+1)
	if i < len(src) && src[i] == '}' {
		return enclosed(src, start, i)
	}
	for n := 0; ; n++ {
		m, err := member(src, i)
		if err != nil {
			return Span{}, err
		}
		if n == maxMembers {
			return Span{}, fail(i, "too many members")
		}
		f(m)
		i = space(src, m.Value.End)
		switch {
		case i == len(src):
			return Span{}, fail(i, "object does not end")
		case src[i] == '}':
			return enclosed(src, start, i)
		case src[i] != ',':
			return Span{}, fail(i, "no comma between members")
		}
		i = space(src, i+1)
	}
}

// enclosed is the object between two braces, behind which there must be nothing.
func enclosed(src []byte, start, end int) (Span, error) {
	if err := trailing(src, end+1, "text after the object"); err != nil {
		return Span{}, err
	}
	return Span{start, end + 1}, nil
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
	for i := range o.Members {
		if m := &o.Members[i]; Equal(o.src[m.Key.Start:m.Key.End], name) {
			return *m, true
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
