package chat

import (
	"fmt"
	"strings"
	"sync"
	"unicode"
)

// gutter stands between columns, which are not made narrower than narrowest.
const (
	gutter    = " | "
	narrowest = 30
)

// columns shows answers side by side. A row is written once when every column has its line or has ended, so that nothing
// is ever drawn again.
type columns struct {
	c     *Chat
	width int

	mu  sync.Mutex
	all []column
}

// column is one answer, as far as it is not written.
type column struct {
	lines   []line
	rest    []rune // the line that is not full
	thought bool   // of rest
	begun   bool
	ended   *Answer
}

type line struct {
	text      string
	rendition int // 0: plain
}

func newColumns(c *Chat, models []string, width int) *columns {
	v := &columns{c: c, width: width, all: make([]column, len(models))}
	for i, m := range models {
		col := &v.all[i]
		for _, r := range m {
			col.add(r, width)
		}
		col.flush()
		for j := range col.lines {
			col.lines[j].rendition = bold
		}
		col.lines = append(col.lines, line{strings.Repeat("-", width), dim})
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.write()
	return v
}

func (v *columns) show(i int, p piece) {
	v.mu.Lock()
	defer v.mu.Unlock()
	col := &v.all[i]
	if !col.begun || p.thought != col.thought {
		col.turn(p.thought, v.c.o.Colours)
	}
	for _, r := range clean(p.text) {
		col.add(r, v.width)
	}
	v.write()
}

func (v *columns) end(i int, a *Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	col := &v.all[i]
	col.flush()
	if a.err != nil {
		col.thought = false
		for _, r := range clean(a.Error) {
			col.add(r, v.width)
		}
		col.flush()
	}
	col.ended = a
	v.write()
	for _, col := range v.all {
		if col.ended == nil {
			return
		}
	}
	fmt.Fprintln(v.c.o.Out)
	for _, col := range v.all {
		v.c.about(col.ended, false)
	}
}

// turn begins thoughts or what follows them.
func (col *column) turn(thought, colours bool) {
	col.flush()
	if col.begun {
		col.lines = append(col.lines, line{})
	}
	if thought && !colours {
		col.lines = append(col.lines, line{text: "thinking"})
	} else if col.begun && !colours {
		col.lines = append(col.lines, line{text: "answer"})
	}
	col.begun, col.thought = true, thought
}

// add puts a rune on the line, and breaks it at its last space when it is full.
func (col *column) add(r rune, width int) {
	switch r {
	case '\n':
		if len(col.rest) == 0 {
			col.lines = append(col.lines, line{})
		}
		col.flush()
		return
	case '\t':
		r = ' '
	}
	if col.rest = append(col.rest, r); breadth(col.rest) <= width {
		return
	}
	at, next := len(col.rest)-1, len(col.rest)-1
	for i := at; i > 0; i-- {
		if col.rest[i] == ' ' {
			at, next = i, i+1
			break
		}
	}
	over := append([]rune(nil), col.rest[next:]...)
	col.rest = col.rest[:at]
	col.flush()
	col.rest = over
}

// flush ends the line that has begun.
func (col *column) flush() {
	if len(col.rest) == 0 {
		return
	}
	rendition := 0
	if col.thought {
		rendition = dim
	}
	col.lines = append(col.lines, line{string(col.rest), rendition})
	col.rest = nil
}

// write writes the rows that are complete.
func (v *columns) write() {
	for {
		some := false
		for i := range v.all {
			has := len(v.all[i].lines) > 0
			if some = some || has; !has && v.all[i].ended == nil {
				return
			}
		}
		if !some {
			return
		}
		var row strings.Builder
		for i := range v.all {
			l := line{}
			if col := &v.all[i]; len(col.lines) > 0 {
				l, col.lines = col.lines[0], col.lines[1:]
			}
			if i > 0 {
				row.WriteString(gutter)
			}
			text := l.text
			if l.rendition != 0 {
				text = v.c.paint(l.rendition, text)
			}
			row.WriteString(text + strings.Repeat(" ", max(0, v.width-breadth([]rune(l.text)))))
		}
		fmt.Fprintln(v.c.o.Out, strings.TrimRight(row.String(), " "))
	}
}

// breadth is how many columns runes take, as far as that can be told without knowing the terminal: marks that combine
// take none, the signs of East Asia and pictures two.
func breadth(text []rune) (n int) {
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
			r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
			r >= 0x20000 && r <= 0x3fffd:
			n += 2
		default:
			n++
		}
	}
	return n
}

var _ view = (*columns)(nil)
