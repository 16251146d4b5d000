package wire

import (
	"bytes"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

const (
	maxShape  = 2 << 10 // bytes of a chunk that is noted
	maxHoles  = 6
	maxMisses = 16 // shapes in a row that no other chunk had
)

// shape is what nearly all chunks of a stream have in common: the text around the holes, which are values that may be
// anything. The zero value is no chunk's shape.
type shape struct {
	text  []byte
	ends  [maxHoles]int // offsets in text of the holes
	holes int
	tries int // shapes noted since a chunk had one
}

// fits reports whether a chunk differs from the one that was noted in its holes only.
func (s *shape) fits(chunk []byte) bool {
	if len(s.text) == 0 {
		return false
	}
	at, from := 0, 0
	for _, end := range s.ends[:s.holes] {
		if !bytes.HasPrefix(chunk[at:], s.text[from:end]) {
			return false
		}
		past, err := peek.Past(chunk, at+end-from)
		if err != nil {
			return false
		}
		at, from = past, end
	}
	if !bytes.Equal(chunk[at:], s.text[from:]) {
		return false
	}
	s.tries = 0
	return true
}

// noteShape notes a chunk that has told nothing that a later one could not tell again. Its holes are what its choice says,
// since more output is no news, and words and numbers at the top that nobody looks at: each chunk may have a time of its own.
func (f *Facts) noteShape(o *peek.Object, chunk []byte) {
	s := &f.shape
	if s.tries == maxMisses || len(chunk) > maxShape {
		return
	}
	s.tries++
	s.text, s.holes = s.text[:0], 0
	from, said := 0, false
	for _, m := range o.Members {
		hole := m.Value
		switch name := chunk[m.Key.Start:m.Key.End]; {
		case !said && peek.Equal(name, "choices"):
			if hole, said = f.onlyDelta(chunk, hole); !said {
				s.text = s.text[:0]
				return
			}
		case telling(name), !loose(chunk[hole.Start:hole.End]), s.holes == maxHoles-1 && !said, s.holes == maxHoles:
			continue
		}
		s.text = append(s.text, chunk[from:hole.Start]...)
		s.ends[s.holes] = len(s.text)
		s.holes++
		from = hole.End
	}
	if s.text = append(s.text, chunk[from:]...); !said {
		s.text = s.text[:0]
	}
}

// telling reports whether chatEvent looks at a member of that name.
func telling(name []byte) bool {
	for _, n := range []string{"id", "model", "object", "choices", "usage", "error", "x_groq"} {
		if peek.Equal(name, n) {
			return true
		}
	}
	return false
}

func loose(value []byte) bool {
	kind := peek.Kind(value)
	return kind == 's' || kind == 'n'
}

// onlyDelta finds what the one choice of a chunk says; false if there are more, or it has a usage of its own.
func (f *Facts) onlyDelta(chunk []byte, choices peek.Span) (delta peek.Span, ok bool) {
	var only peek.Span
	n := 0
	err := peek.Elements(chunk, choices, func(at peek.Span) bool {
		only = at
		n++
		return true
	})
	o := &f.scratch[middle]
	if err != nil || n != 1 || o.ScanAt(chunk, only) != nil {
		return delta, false
	}
	m, ok := o.Find("delta")
	return m.Value, ok && peek.Kind(o.Value("usage")) != 'o'
}
