package chat

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"unicode"
)

// view shows answers while they come, each from a goroutine of its own.
type view interface {
	show(i int, p piece)
	end(i int, a *Answer)
}

// view has columns for several models where the terminal has the room, else one answer after the other.
func (c *Chat) view(models []string) view {
	if n := len(models); n > 1 && c.o.Terminal {
		if width := (c.o.Width - (n-1)*len(gutter)) / n; width >= narrowest {
			return newColumns(c, models, width)
		}
	}
	q := &queue{c: c, models: models, held: make([][]piece, len(models)), ended: make([]*Answer, len(models))}
	q.head()
	return q
}

// queue shows the first answer as it comes and keeps the others until it is their turn.
type queue struct {
	c      *Chat
	models []string

	mu     sync.Mutex
	live   int       // whose turn it is
	held   [][]piece // of the others
	ended  []*Answer
	last   piece // what was shown last of the live one
	begun  bool
	broken bool // the last line is not ended
}

func (q *queue) show(i int, p piece) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i != q.live {
		q.held[i] = append(q.held[i], p)
		return
	}
	q.print(p)
}

func (q *queue) end(i int, a *Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.ended[i] = a; q.live < len(q.ended) && q.ended[q.live] != nil; {
		q.close(q.ended[q.live])
		if q.live++; q.live == len(q.ended) {
			return
		}
		q.head()
		for _, p := range q.held[q.live] {
			q.print(p)
		}
		q.held[q.live] = nil
	}
}

// head names the model whose answer follows, if there are several.
func (q *queue) head() {
	if q.begun, q.broken = false, false; len(q.models) > 1 {
		fmt.Fprintf(q.c.o.Notes, "%s\n", q.c.paint(bold, "── "+q.models[q.live]))
	}
}

// print shows a piece. Thoughts are dim, or between marks where there are no colours.
func (q *queue) print(p piece) {
	o, text := &q.c.o, p.text
	if o.Terminal {
		text = clean(text)
	}
	switch first := !q.begun; {
	case p.thought && !o.Colours && (first || !q.last.thought):
		q.newline()
		fmt.Fprintln(o.Notes, "thinking")
	case !first && p.thought != q.last.thought:
		q.newline()
		mark := ""
		if !o.Colours {
			mark = "answer"
		}
		fmt.Fprintln(o.Notes, mark)
	}
	if p.thought {
		fmt.Fprint(o.Notes, q.c.paint(dim, text))
	} else {
		fmt.Fprint(o.Out, text)
	}
	q.begun, q.last, q.broken = true, p, !strings.HasSuffix(text, "\n")
}

// newline ends a line where it was begun, which may be a file.
func (q *queue) newline() {
	if !q.broken {
		return
	}
	w := q.c.o.Out
	if q.last.thought {
		w = q.c.o.Notes
	}
	fmt.Fprintln(w)
	q.broken = false
}

// close ends an answer with what is to be said about it. What goes wrong with a single answer its caller tells.
func (q *queue) close(a *Answer) {
	q.newline()
	q.c.about(a, len(q.models) > 1)
}

// about says in one line who answered, how fast, and what it used.
func (c *Chat) about(a *Answer, trouble bool) {
	if a.err != nil && trouble {
		fmt.Fprintf(c.o.Notes, "%s\n", c.paint(red, a.Error))
	}
	if said := a.facts(); len(said) > 0 {
		fmt.Fprintf(c.o.Notes, "%s\n", c.paint(dim, "── "+strings.Join(said, " · ")))
	}
}

// facts are what is known of an answer beside its text.
func (a *Answer) facts() (said []string) {
	if a.Status == 0 {
		return nil
	}
	add := func(ok bool, format string, args ...any) {
		if ok {
			said = append(said, fmt.Sprintf(format, args...))
		}
	}
	by := clean(a.Upstream)
	if m := clean(a.UpstreamModel); m != "" && m != a.Model {
		by += " as " + m
	}
	add(by != "", "%s", by)
	add(a.Attempts == 1, "1 attempt")
	add(a.Attempts > 1, "%d attempts", a.Attempts)
	add(a.TTFTMS > 0, "first token %s", seconds(a.TTFTMS))
	add(true, "%s", seconds(a.DurationMS))
	used := a.Usage.words()
	add(used != "", "%s", used)
	add(a.CostUSD != nil, "%s", a.cost())
	add(a.Call != "", "call %s", clean(a.Call))
	return said
}

// words tell what is known of the numbers.
func (u *Tokens) words() string {
	if u == nil {
		return ""
	}
	var said []string
	add := func(n *int64, format string) {
		if n != nil {
			said = append(said, fmt.Sprintf(format, *n))
		}
	}
	add(u.Input, "%d in")
	add(u.CacheRead, "(%d cached)")
	add(u.Output, "%d out")
	if u.Reasoning != nil && *u.Reasoning > 0 {
		add(u.Reasoning, "(%d thinking)")
	}
	return strings.Join(said, " ")
}

// atOnce is how many milliseconds an answer has to go on for before its speed says anything of its model.
const atOnce = 50

// rate is how many tokens came in a second; empty where that cannot be told.
func (a *Answer) rate() string {
	d := a.DurationMS - a.TTFTMS
	if a.Usage == nil || a.Usage.Output == nil || *a.Usage.Output == 0 || a.TTFTMS == 0 || d < atOnce {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(*a.Usage.Output)/d*1000)
}

// compare is the table below the answers of several models.
func (c *Chat) compare(answers []*Answer) {
	fmt.Fprintln(c.o.Notes)
	t := tabwriter.NewWriter(c.o.Notes, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tUPSTREAM\tTTFT\tTIME\tTOK/S\tIN\tCACHED\tOUT\tCOST\tSTATUS")
	for _, a := range answers {
		u, first := Tokens{}, "-"
		if a.Usage != nil {
			u = *a.Usage
		}
		if a.TTFTMS > 0 {
			first = seconds(a.TTFTMS)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Model, dash(clean(a.Upstream)), first, seconds(a.DurationMS), dash(a.rate()),
			number(u.Input), number(u.CacheRead), number(u.Output), dash(a.cost()), a.state())
	}
	_ = t.Flush() // who has closed standard error does not want to know
}

// state is how it ended, in a word or two.
func (a *Answer) state() string {
	switch {
	case a.err == nil:
		return "ok"
	case a.Error == "cancelled":
		return a.Error
	case a.Status == 0:
		return "no answer"
	case a.Status == 200:
		return "broken"
	}
	return fmt.Sprintf("refused %d", a.Status)
}

// cost is what the answer cost; ~ where it was worked out from a price.
func (a *Answer) cost() string {
	switch {
	case a.CostUSD == nil:
		return ""
	case a.CostFrom == "price":
		return fmt.Sprintf("~$%.6f", *a.CostUSD)
	}
	return fmt.Sprintf("$%.6f", *a.CostUSD)
}

// number is how many, or a dash where nobody told.
func number(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func seconds(ms float64) string {
	if ms < 1000 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.2f s", ms/1000)
}

// The renditions of a terminal that are used here.
const (
	bold = 1
	dim  = 2
	red  = 31
)

func (c *Chat) paint(rendition int, s string) string {
	if !c.o.Colours || s == "" {
		return s
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", rendition, s)
}

// clean takes out what would command a terminal: texts of models and servers are nobody's orders.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

var _ view = (*queue)(nil)
