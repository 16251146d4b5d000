package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/signalbox-llm/signalbox/cmd/internal/live"
)

// painter writes to people: aligned, and in colour where that is wanted.
type painter struct {
	w       io.Writer
	colours bool
}

// colour is the number of a terminal's rendition.
type colour int

const (
	plain  colour = 0
	bold   colour = 1
	dim    colour = 2
	red    colour = 31
	green  colour = 32
	yellow colour = 33
	cyan   colour = 36
)

func newPainter(w io.Writer) painter { return painter{w, colours(w)} }

func (p painter) colour(c colour, s string) string {
	if !p.colours || c == plain || s == "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", c, s)
}

func (p painter) line(c colour, format string, args ...any) {
	fmt.Fprintln(p.w, p.colour(c, fmt.Sprintf(format, args...)))
}

// head is the headline of a scene and what is to be seen in it.
func (p painter) head(title, text string) {
	p.line(plain, "")
	p.line(bold, "%s", title)
	const width = 118
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			p.line(plain, "%s", line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	p.line(plain, "%s\n", line)
}

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
	right  bool // aligned to the right
}

// table aligns rows in columns. The last cell of a row may be as long as it likes. What a terminal would obey is taken out:
// some names come from clients, by way of a glob.
func (p painter) table(rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			row[i].text = live.Printable(row[i].text)
		}
		for i, c := range row[:max(0, len(row)-1)] {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, c := range row {
			gap := ""
			if i < len(row)-1 {
				gap = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text))
			}
			if c.right {
				b.WriteString("  " + gap + p.colour(c.colour, c.text))
			} else {
				b.WriteString("  " + p.colour(c.colour, c.text) + gap)
			}
		}
		fmt.Fprintln(p.w, strings.TrimRight("  "+b.String(), " "))
	}
}

// duration is a time span with the digits that tell something.
func duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.3g s", d.Seconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
	}
	return fmt.Sprintf("%.2g ms", d.Seconds()*1000)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orNone(n *int64) string {
	if n == nil {
		return "-"
	}
	return grouped(*n)
}

// amount is a number of tokens, empty where nobody told.
func amount(n *int64) string {
	if n == nil {
		return ""
	}
	return grouped(*n)
}

// money is an amount, empty where there is none.
func money(f *float64) string {
	if f == nil || *f == 0 {
		return ""
	}
	return usd(f)
}

// counted is a number with what there is of it.
func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(n) + " " + many
}

// usd is an amount with the digits that tell something.
func usd(f *float64) string {
	switch {
	case f == nil:
		return "-"
	case *f != 0 && *f < 1 && *f > -1:
		return fmt.Sprintf("$%.4f", *f)
	}
	whole, cents, _ := strings.Cut(fmt.Sprintf("%.2f", *f), ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return "$" + whole + "." + cents
	}
	return "$" + grouped(n) + "." + cents
}

// grouped writes a number with a comma at every thousand.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(text) - 3; i > start; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
