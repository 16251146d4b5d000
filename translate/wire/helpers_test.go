package wire

import (
	"fmt"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

// play feeds frames to a dialect and returns the class of each event with data, and all facts.
func play(t *testing.T, n Name, text string) ([]Class, *Facts) {
	t.Helper()
	f := &Facts{}
	return feed(ByName(n), text, f), f
}

func feed(w *Wire, text string, f *Facts) (classes []Class) {
	var s sse.Scanner
	var ev sse.Event
	s.Feed([]byte(text))
	for s.Next(&ev) {
		classes = append(classes, w.Event(&ev, f))
	}
	if s.Finish(&ev) {
		classes = append(classes, w.Event(&ev, f))
	}
	return classes
}

// data frames each chunk as the chat and gemini dialects do.
func data(chunks ...string) (text string) {
	for _, c := range chunks {
		text += "data: " + c + "\n\n"
	}
	return text
}

// named frames pairs of an event's name and its data.
func named(pairs ...string) (text string) {
	for i := 0; i < len(pairs); i += 2 {
		text += "event: " + pairs[i] + "\ndata: " + pairs[i+1] + "\n\n"
	}
	return text
}

// show writes a usage so that tests can state it in a line; unknown numbers are left out.
func show(u Usage) (text string) {
	for _, c := range []struct {
		name string
		Count
	}{
		{"in", u.Input},
		{"read", u.CacheRead},
		{"write", u.CacheWrite},
		{"5m", u.CacheWrite5m},
		{"1h", u.CacheWrite1h},
		{"out", u.Output},
		{"think", u.Reasoning},
	} {
		if c.Known {
			text += fmt.Sprintf(" %s=%d", c.name, c.N)
		}
	}
	return text
}

// told writes the rest of what the facts say in a line.
func told(f *Facts) (text string) {
	for _, flag := range []struct {
		name string
		set  bool
	}{{"output", f.Output}, {"terminal", f.Terminal}, {"failed", f.Failed}, {"usage-only", f.UsageOnly}} {
		if flag.set {
			text += " " + flag.name
		}
	}
	if len(f.Finish) > 0 {
		text += fmt.Sprint(" ", f.Finish)
	}
	return text
}

func classNames(classes []Class) (text string) {
	for _, c := range classes {
		text += string("nPOTF"[c])
	}
	return text
}

// streamCase is a stream and what must come of it: the class of each event (n nothing, P preamble, O output, T terminal,
// F failed), the facts and the usage.
type streamCase struct {
	name, text, classes, told, usage string
	failure                          Failure
}

func runStreams(t *testing.T, n Name, cases []streamCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			classes, f := play(t, n, c.text)
			if got := classNames(classes); got != c.classes {
				t.Errorf("classes %s, want %s", got, c.classes)
			}
			check(t, f, c.told, c.usage, c.failure)
		})
	}
}

func check(t *testing.T, f *Facts, wantTold, wantUsage string, failure Failure) {
	t.Helper()
	if got := told(f); got != wantTold {
		t.Errorf("told%s, want%s", got, wantTold)
	}
	if got := show(f.Usage); got != wantUsage {
		t.Errorf("usage%s, want%s", got, wantUsage)
	}
	if f.Failure != failure {
		t.Errorf("failure %+v, want %+v", f.Failure, failure)
	}
}

type bodyCase struct {
	name, body  string
	class       Class
	told, usage string
	failure     Failure
}

func runBodies(t *testing.T, n Name, cases []bodyCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := &Facts{}
			if got := ByName(n).Body([]byte(c.body), Generate, f); got != c.class {
				t.Errorf("class %d, want %d", got, c.class)
			}
			check(t, f, c.told, c.usage, c.failure)
		})
	}
}
