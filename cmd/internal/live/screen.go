package live

import (
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// Screen writes lines above a footer that stays at the bottom of a terminal. Each change is one write, and a footer is
// written over and not erased first, so that it does not flicker.
type Screen struct {
	// Width is how many columns the terminal has, 0 if that is not known. Nil: there is no terminal, and never a footer.
	Width func() int

	mu     sync.Mutex
	w      io.Writer
	footer string // as it stands there
}

// NewScreen returns a screen on w.
func NewScreen(w io.Writer, width func() int) *Screen { return &Screen{Width: width, w: w} }

// Write implements io.Writer, for whole lines that belong above the footer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.draw(string(p), s.footer); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Show writes lines above the footer, and the footer as it is from now on; "" is none.
func (s *Screen) Show(lines []string, footer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	if len(lines) > 0 {
		text = strings.Join(lines, "\n") + "\n"
	}
	_ = s.draw(text, s.fit(footer)) // there is nobody to tell that a terminal is gone
}

// fit cuts a footer so that it never takes a second line, which would stay.
func (s *Screen) fit(footer string) string {
	if s.Width == nil {
		return ""
	}
	width := s.Width()
	if width <= 0 {
		width = 80
	}
	if utf8.RuneCountInString(footer) >= width {
		footer = string([]rune(footer)[:max(0, width-2)]) + "…"
	}
	return footer
}

// draw puts text where the footer was, and a footer behind it. The lock is held.
func (s *Screen) draw(text, footer string) error {
	if text == "" && footer == s.footer {
		return nil
	}
	var b strings.Builder
	switch {
	case text == "": // the old one is written over
		b.WriteString("\r" + footer + eraseRight)
	case s.footer != "":
		b.WriteString("\r" + eraseRight + text + footer)
	default:
		b.WriteString(text + footer)
	}
	s.footer = footer
	_, err := io.WriteString(s.w, b.String())
	return err
}

// eraseRight clears the line from the cursor on (ECMA-48, EL).
const eraseRight = "\x1b[K"

var _ io.Writer = (*Screen)(nil)
