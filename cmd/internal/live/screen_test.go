package live

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// terminal is what a person would see: rows of a width, and a cursor. It knows the codes that a Screen may use.
type terminal struct {
	mu     sync.Mutex
	width  int
	rows   []string
	column int
	writes int
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writes++
	for text := string(p); text != ""; {
		if rest, ok := strings.CutPrefix(text, eraseRight); ok {
			last := t.last()
			*last = string([]rune(*last)[:min(t.column, len([]rune(*last)))])
			text = rest
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		t.put(r)
	}
	return len(p), nil
}

func (t *terminal) put(r rune) {
	switch {
	case r == '\n':
		t.last()
		t.rows, t.column = append(t.rows, ""), 0
		return
	case r == '\r':
		t.column = 0
		return
	case t.column == t.width:
		t.rows, t.column = append(t.rows, ""), 0
	}
	last := t.last()
	row := []rune(*last)
	if t.column < len(row) {
		row[t.column] = r
	} else {
		row = append(row, r)
	}
	*last = string(row)
	t.column++
}

func (t *terminal) last() *string {
	if len(t.rows) == 0 {
		t.rows = []string{""}
	}
	return &t.rows[len(t.rows)-1]
}

func (t *terminal) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.rows, "\n")
}

func (t *terminal) columns() int { return t.width }

// Whatever is written above it and however it changes, the footer stands once, at the end, and nothing of it stays behind.
func TestFooterStaysAtTheBottom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		term := &terminal{width: rapid.IntRange(3, 30).Draw(t, "width")}
		s := NewScreen(term, term.columns)
		var printed, footer string
		text := rapid.StringMatching(`[a-zé ]{0,40}`)
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			before := term.writes
			switch rapid.IntRange(0, 2).Draw(t, "change") {
			case 0:
				line := text.Draw(t, "log")
				printed += line + "\n"
				fmt.Fprintln(s, line)
			case 1:
				lines := rapid.SliceOfN(text, 0, 3).Draw(t, "lines")
				for _, l := range lines {
					printed += l + "\n"
				}
				footer = text.Draw(t, "footer")
				s.Show(lines, footer)
			case 2:
				s.Show(nil, footer)
			}
			if term.writes > before+1 {
				t.Fatalf("%d writes for one change", term.writes-before)
			}
		}
		want := &terminal{width: term.width}
		fmt.Fprint(want, printed+s.fit(footer))
		if diff := cmp.Diff(want.String(), term.String()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		s.Show(nil, "")
		want = &terminal{width: term.width}
		fmt.Fprint(want, printed)
		if diff := cmp.Diff(want.String(), term.String()); diff != "" {
			t.Fatalf("wiped (-want +got):\n%s", diff)
		}
	})
}

func TestFooterFits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		width        int
		footer, want string
	}{{10, "123456789", "123456789"}, {10, "1234567890", "12345678…"}, {1, "12", "…"}, {0, "12", "12"}} {
		term := &terminal{width: c.width}
		if got := NewScreen(term, term.columns).fit(c.footer); got != c.want {
			t.Errorf("%q in %d columns: %q", c.footer, c.width, got)
		}
	}
	var out strings.Builder
	s := NewScreen(&out, nil)
	s.Show([]string{"a"}, "footer")
	fmt.Fprintln(s, "b")
	s.Show(nil, "")
	if out.String() != "a\nb\n" {
		t.Errorf("without a terminal: %q", out.String())
	}
}
