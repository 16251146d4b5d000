// Package live shows people what happens to requests: lines, a footer below them, and both from another machine. It must
// not know how a request is routed, or what a prompt or a key is.
package live

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// Widths of the columns. What is wider moves the rest of its line, since nothing is cut but what may be of any length.
const (
	pathWidth     = 25 // /v1/messages/count_tokens
	kindWidth     = 11
	upstreamWidth = 14
	modelWidth    = 20
	tokensWidth   = 17
	costWidth     = 9
	maxText       = 80
)

// Style is how lines look.
type Style struct {
	Colours bool
	Zone    *time.Location // of the times; nil is the machine's own
}

// The colours say what became of a request and nothing else.
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	normal = "\x1b[0m"
)

// Line is a frame on one line, without a line break.
func (s Style) Line(f *control.Frame) string {
	if f.Type == control.FrameGap {
		return "-- gap: some requests are not shown --"
	}
	zone := s.Zone
	if zone == nil {
		zone = time.Local
	}
	var b strings.Builder
	b.WriteString(f.At.In(zone).Format(time.TimeOnly) + " " + s.badge(f) + " ")
	status, seconds := "", ""
	if f.Type == control.FrameEnd && f.Status > 0 {
		status = strconv.Itoa(f.Status)
	}
	if f.Type == control.FrameEnd && f.DurationMS != nil {
		seconds = fmt.Sprintf("%.3f", *f.DurationMS/1000)
	}
	fmt.Fprintf(&b, "%s %s %s %3s %8s %s %*s %*s %s", pad(f.Path, pathWidth), pad(f.Kind, kindWidth), pad(account(f), upstreamWidth),
		status, seconds, pad(f.Model, modelWidth), tokensWidth, tokens(f), costWidth, cost(f), clean(f.Call))
	if f.Type == control.FrameEnd && f.ErrorClass != "" {
		b.WriteString(" " + clean(f.ErrorClass))
	}
	return b.String()
}

// badge says what became of a request.
func (s Style) badge(f *control.Frame) string {
	text, colour := "[....]", yellow
	if f.Type == control.FrameEnd {
		switch f.Outcome {
		case telemetry.OutcomeSuccess:
			text, colour = "[ OK ]", green
		case telemetry.OutcomeSuccessAfterFailover:
			text = "[ OK ]"
		case telemetry.OutcomeCancelled:
			text, colour = "[GONE]", ""
		default:
			text, colour = "[FAIL]", red
		}
	}
	if !s.Colours || colour == "" {
		return text
	}
	return colour + text + normal
}

// account is the upstream and its place in the configuration.
func account(f *control.Frame) string {
	if f.Index == nil {
		return "--"
	}
	number := "#" + strconv.Itoa(*f.Index)
	if f.Upstream == "" {
		return number
	}
	return number + "/" + f.Upstream
}

// tokens are those that went in, how many of them were read from a cache, and those that came out.
func tokens(f *control.Frame) string {
	if f.InputTokens == nil && f.CacheReadTokens == nil && f.OutputTokens == nil {
		return ""
	}
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return strconv.FormatInt(*n, 10)
	}
	return number(f.InputTokens) + "/" + number(f.CacheReadTokens) + "/" + number(f.OutputTokens)
}

// cost has the digits that tell something of a small request, too.
func cost(f *control.Frame) string {
	switch {
	case f.CostUSD == nil:
		return ""
	case *f.CostUSD != 0 && *f.CostUSD < 0.1:
		return fmt.Sprintf("$%.6f", *f.CostUSD)
	}
	return fmt.Sprintf("$%.4f", *f.CostUSD)
}

// pad makes a text from outside fit to be shown, and as wide as a column.
func pad(s string, width int) string {
	s = clean(s)
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// clean makes a name from outside fit to be shown, and cuts what no honest one is as long as.
func clean(s string) string {
	s = Printable(s)
	if utf8.RuneCountInString(s) > maxText {
		s = string([]rune(s)[:maxText-1]) + "…"
	}
	return s
}

// Printable takes out what a terminal would obey, and what would turn the direction of reading.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
