package peek

import (
	"bytes"
	"slices"
)

// Overlay collects changes of the members of one object, each seeing those before it, and turns them into edits of the
// text. A name that several members have is first its first member: Set and Rename drop the others. The zero value
// needs a Reset. It keeps its memory for the next Reset; edits handed out stay valid beyond that.
type Overlay struct {
	src    []byte
	o      *Object
	items  []item // one for each member of o, then those that were added
	nested []Edit // sorted, not overlapping, each inside the value of a member that keeps its value
	text   []byte // unused rest of a block for the text of edits
}

// item is what becomes of one member.
type item struct {
	name    string // if named
	raw     []byte // the new value, nil if it stays
	named   bool   // added or renamed: name counts, not the key in the text
	dropped bool
}

// Reset starts over with o, which must have been scanned from src. Neither may change while the overlay is in use.
func (v *Overlay) Reset(src []byte, o *Object) {
	v.src, v.o = src, o
	v.items = slices.Grow(v.items[:0], len(o.Members))[:len(o.Members)]
	clear(v.items)
	v.nested = v.nested[:0]
}

// Clear forgets everything but its memory, of which no list is kept that has room for more than most elements.
func (v *Overlay) Clear(most int) {
	fresh := Overlay{text: v.text}
	if items := v.items; cap(items) <= most {
		clear(items)
		fresh.items = items[:0]
	}
	if nested := v.nested[:cap(v.nested)]; len(nested) <= most {
		clear(nested)
		fresh.nested = nested[:0]
	}
	*v = fresh
}

// Has tells whether there is a member of that name now.
func (v *Overlay) Has(name string) bool { return v.find(name, 0) >= 0 }

// Get returns the value that the member of that name has now, nil if there is none. Only a value with edits inside
// (SetAt) is copied.
func (v *Overlay) Get(name string) []byte {
	i := v.find(name, 0)
	if i < 0 {
		return nil
	}
	if v.items[i].raw != nil {
		return v.items[i].raw
	}
	at := v.o.Members[i].Value
	var out []byte
	pos := at.Start
	for _, e := range v.inside(at) {
		out = append(append(out, v.src[pos:e.Start]...), e.New...)
		pos = e.End
	}
	if out == nil {
		return v.src[at.Start:at.End:at.End]
	}
	return append(out, v.src[pos:at.End]...)
}

// Set gives the member of that name a value, in its place, or adds one after all others. raw is a JSON value and must
// not change afterwards; without one (empty) the member is dropped.
func (v *Overlay) Set(name string, raw []byte) {
	if len(raw) == 0 {
		v.Drop(name)
		return
	}
	i := v.find(name, 0)
	if i < 0 {
		v.items = append(v.items, item{name: name, named: true, raw: raw})
		return
	}
	v.dropFrom(name, i+1)
	if i < len(v.o.Members) {
		at := v.o.Members[i].Value
		v.forget(at)
		if bytes.Equal(v.src[at.Start:at.End], raw) {
			raw = nil
		}
	}
	v.items[i].raw = raw
}

// Drop takes all members of that name out.
func (v *Overlay) Drop(name string) { v.dropFrom(name, 0) }

// Rename gives the member `from` another name, in its place; a member that already has it is dropped. Without a member
// `from` nothing happens.
func (v *Overlay) Rename(from, to string) {
	i := v.find(from, 0)
	if i < 0 || from == to {
		return
	}
	v.dropFrom(from, i+1)
	v.dropFrom(to, 0)
	v.items[i].name, v.items[i].named = to, true
}

// SetAt replaces a span of the text that lies inside the value of a member; an empty span inserts, behind what was
// inserted there before. It does nothing if that value was replaced or dropped, or if a part of the span was replaced as
// part of a larger one.
func (v *Overlay) SetAt(at Span, raw []byte) {
	if !v.keeps(at) {
		return
	}
	for _, e := range v.nested {
		if overlap(e.Span, at) && (e.Start < at.Start || e.End > at.End) {
			return
		}
	}
	v.nested = slices.DeleteFunc(v.nested, func(e Edit) bool { return overlap(e.Span, at) })
	if bytes.Equal(v.src[at.Start:at.End], raw) {
		return
	}
	i := 0
	for i < len(v.nested) && before(v.nested[i].Span, at) {
		i++
	}
	v.nested = slices.Insert(v.nested, i, Edit{at, raw})
}

// Edits appends to dst the changes as edits of the text, sorted and not overlapping; none if nothing changed.
func (v *Overlay) Edits(dst []Edit) []Edit {
	members := v.o.Members
	last := len(members) - 1 // member that stays
	for last >= 0 && v.items[last].dropped {
		last--
	}
	for i := 0; i <= last; i++ {
		from := members[i].Key.Start
		for v.items[i].dropped {
			i++
		}
		if to := members[i].Key.Start; from < to {
			dst = append(dst, Edit{Span: Span{from, to}})
		}
		dst = v.change(dst, i)
	}
	end := v.o.Body.Start + 1 // where members are added
	if n := len(members); n > 0 {
		end = members[n-1].Value.End
		from := members[0].Key.Start
		if last >= 0 {
			from = members[last].Value.End
		}
		if last < n-1 {
			dst = append(dst, Edit{Span: Span{from, end}})
		}
	}
	comma := last >= 0
	for _, it := range v.items[len(members):] {
		if it.dropped {
			continue
		}
		dst = append(dst, Edit{Span{end, end}, v.key(comma, it.name, ":")}, Edit{Span{end, end}, it.raw})
		comma = true
	}
	return dst
}

// change appends the edits of one member that stays.
func (v *Overlay) change(dst []Edit, i int) []Edit {
	it, m := &v.items[i], v.o.Members[i]
	if it.named && !Equal(v.src[m.Key.Start:m.Key.End], it.name) {
		dst = append(dst, Edit{m.Key, v.key(false, it.name, "")})
	}
	if it.raw != nil {
		return append(dst, Edit{m.Value, it.raw})
	}
	return append(dst, v.inside(m.Value)...)
}

// key returns the text of a key between a comma and what follows. Text is never written over, not even after a Reset:
// an earlier attempt may still be sending it.
func (v *Overlay) key(comma bool, name, after string) []byte {
	const block = 1024
	if most := 6*len(name) + 4; cap(v.text) < most {
		v.text = make([]byte, 0, max(block, most))
	}
	b := v.text
	if comma {
		b = append(b, ',')
	}
	b = append(appendQuoted(b, name), after...)
	v.text = b[len(b):]
	return slices.Clip(b)
}

func appendQuoted(b []byte, s string) []byte {
	const digits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// find returns the index of the first item from i on that has the name now, -1 if there is none.
func (v *Overlay) find(name string, i int) int {
	for ; i < len(v.items); i++ {
		it := &v.items[i]
		switch {
		case it.dropped:
		case it.named:
			if it.name == name {
				return i
			}
		default:
			if key := v.o.Members[i].Key; Equal(v.src[key.Start:key.End], name) {
				return i
			}
		}
	}
	return -1
}

func (v *Overlay) dropFrom(name string, i int) {
	for i = v.find(name, i); i >= 0; i = v.find(name, i+1) {
		v.items[i].dropped = true
		if i < len(v.o.Members) {
			v.forget(v.o.Members[i].Value)
		}
	}
}

// keeps tells whether the span lies inside a value that is neither replaced nor dropped.
func (v *Overlay) keeps(at Span) bool {
	for i, m := range v.o.Members {
		if m.Value.Start <= at.Start && at.End <= m.Value.End {
			return !v.items[i].dropped && v.items[i].raw == nil
		}
	}
	return false
}

// inside returns the nested edits of a value.
func (v *Overlay) inside(at Span) []Edit {
	from := 0
	for from < len(v.nested) && v.nested[from].Start < at.Start {
		from++
	}
	to := from
	for to < len(v.nested) && v.nested[to].End <= at.End {
		to++
	}
	return v.nested[from:to]
}

// forget drops the nested edits of a value.
func (v *Overlay) forget(at Span) {
	v.nested = slices.DeleteFunc(v.nested, func(e Edit) bool { return at.Start <= e.Start && e.End <= at.End })
}

func overlap(a, b Span) bool { return a.Start < b.End && b.Start < a.End }

// before tells whether an edit of a goes in front of a later one of b.
func before(a, b Span) bool { return a.Start < b.Start || a.Start == b.Start && a.End <= b.End }
