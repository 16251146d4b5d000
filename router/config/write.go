package config

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// note is what a diagnostic's Extra holds here.
type note struct {
	ours   bool // its text is from this package or router, neither of which repeats values
	hidden bool // its source must not be shown
}

// discreet makes diagnostics fit to be shown: no values of expressions, no source where a secret may stand, and where it
// may, no text that repeats what stands there.
func discreet(diags hcl.Diagnostics, src []byte) {
	if len(diags) == 0 {
		return
	}
	hidden := hiddenLines(src)
	for _, d := range diags {
		n, ok := d.Extra.(*note)
		if !ok {
			n = &note{}
		}
		d.Expression, d.EvalContext, d.Context, d.Extra = nil, nil, nil, n
		named := d.Summary == "Unsupported argument" || d.Summary == "Unsupported block type" // Their subject is a name.
		last := d.Subject.End.Line
		if d.Subject.End.Column == 1 && last > d.Subject.Start.Line {
			last--
		}
		for line := d.Subject.Start.Line; line <= last && line <= len(hidden); line++ {
			n.hidden = n.hidden || hidden[line-1] && !named
		}
		if n.hidden && !n.ours && d.Summary != "Attribute redefined" && d.Summary != "Error in function call" {
			d.Detail = "More cannot be told without showing what may be a secret. Is something missing, such as a quote?"
		}
	}
}

// words tell secrets from other settings.
type words struct {
	public     map[string]bool // names of settings
	secretWord *regexp.Regexp
	leadName   *regexp.Regexp // and that in a block on one line
	riskyValue *regexp.Regexp // keys are put there by mistake
}

// wording is what tells secrets from other settings in the text of a file. It is made when there is something to say about
// one, which at most starts there is not.
var wording = sync.OnceValue(func() (w words) {
	public, secret := settingNames(reflect.TypeFor[settings.Config](), map[string]bool{}, map[string]bool{"locals": true})
	w.public = public
	w.secretWord = regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(secret)), "|") + `)\b`)
	w.leadName = regexp.MustCompile(`^\s*([\pL_][\pL\pN_-]*)(?:[^={]*\{\s*([^\s{}=]+))?`)
	w.riskyValue = regexp.MustCompile(`\bauth\s*=|[@?]|//[^/]*:[A-Za-z]`)
	return w
})

// settingNames sorts the names of all blocks and attributes into those with secrets and the others.
func settingNames(t reflect.Type, public, secret map[string]bool) (map[string]bool, map[string]bool) {
	for f := range t.Fields() {
		name, kind, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		switch {
		case kind == "label":
			continue
		case f.Type == reflect.TypeFor[settings.Secret](), f.Type == reflect.TypeFor[map[string]settings.Secret]():
			secret[name] = true
			continue
		case kind == "block" || kind == "squash":
			inner := f.Type
			for inner.Kind() != reflect.Struct {
				inner = inner.Elem()
			}
			settingNames(inner, public, secret)
		}
		public[name] = true
	}
	return public, secret
}

// hiddenLines tells for each line of a file whether it may hold a secret. It looks at the text alone, because a file with
// a mistake in its syntax has no structure, and shows a line only if it knows better: one that does not begin with the
// name of a harmless setting is as secret as the line before it.
func hiddenLines(src []byte) []bool {
	var list []bool
	hidden, inside, w := false, false, wording()
	for line := range bytes.Lines(src) {
		text := bytes.TrimSpace(line)
		closes := bytes.HasPrefix(text, []byte("}")) || bytes.HasPrefix(text, []byte("]"))
		name := w.leadName.FindSubmatch(line)
		switch {
		case inside:
			inside = !closes
		case w.secretWord.Match(line):
			hidden = true
			inside = bytes.Count(line, []byte("{")) > bytes.Count(line, []byte("}"))
		case name != nil:
			inner := string(name[2])
			hidden = !w.public[string(name[1])] || inner != "" && inner[0] != '#' && !w.public[inner] || w.riskyValue.Match(line)
		case closes:
			hidden = false
		}
		list = append(list, hidden)
	}
	return list
}

// Write prints diagnostics for people, each with its place and, unless that may hold a secret, the line of f.Source it
// speaks of.
func Write(w io.Writer, diags hcl.Diagnostics, f *File, color bool) error {
	var out strings.Builder
	for _, d := range diags {
		word, paint, plain := "error", "\x1b[1;31m", "\x1b[0m"
		if d.Severity == hcl.DiagWarning {
			word, paint = "warning", "\x1b[1;33m"
		}
		if !color {
			paint, plain = "", ""
		}
		s := d.Subject
		fmt.Fprintf(&out, "%s:%d:%d: %s%s%s: %s\n", s.Filename, s.Start.Line, s.Start.Column, paint, word, plain, d.Summary)
		if n, ok := d.Extra.(*note); ok && !n.hidden {
			snippet(&out, f.Source, s)
		}
		fmt.Fprintf(&out, "  %s\n\n", strings.ReplaceAll(d.Detail, "\n", "\n  "))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// snippet prints the line that a range begins on as far as the range goes, with marks below it.
func snippet(out *strings.Builder, src []byte, at *hcl.Range) {
	if at.Start.Byte >= len(src) || at.Empty() {
		return
	}
	begin := bytes.LastIndexByte(src[:at.Start.Byte], '\n') + 1
	line, _, _ := bytes.Cut(src[begin:], []byte("\n"))
	line = bytes.TrimRight(line, "\r")
	from := min(at.Start.Byte-begin, len(line))
	to, rest := min(at.End.Byte-begin, len(line)), " …"
	if after := string(line[to:]); after == "" || after == " {" {
		rest = after
	}
	space := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(line[:from]))
	number := fmt.Sprintf("%4d", at.Start.Line)
	fmt.Fprintf(out, "%s | %s%s\n", number, line[:to], rest)
	fmt.Fprintf(out, "%*s | %s%s\n", len(number), "", space, strings.Repeat("^", max(1, len([]rune(string(line[from:to]))))))
}

// Diagnostics are what is wrong or doubtful in a file, so that programs need not import hcl to name them.
type Diagnostics = hcl.Diagnostics

// Line is one diagnostic in one line, for logs: where it stands, what is wrong, and what to do.
type Line struct {
	Place, Problem, Detail string
	Warning                bool
}

// Lines are diagnostics for logs. They hold no source.
func Lines(diags Diagnostics) []Line {
	var lines []Line
	for _, d := range diags {
		lines = append(lines, Line{
			Place:   fmt.Sprintf("%s:%d:%d", d.Subject.Filename, d.Subject.Start.Line, d.Subject.Start.Column),
			Problem: d.Summary, Detail: d.Detail, Warning: d.Severity == hcl.DiagWarning,
		})
	}
	return lines
}
