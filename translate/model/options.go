package model

import (
	"slices"
	"strings"
	"time"
)

// Options are what a translation has to know of the exchange.
type Options struct {
	Alias           string    // The model that the client asked for: answers name it.
	ReplayReasoning bool      // Thinking of earlier turns is sent along where the upstream's dialect has a place for it.
	MaxTokens       int64     // Put where a dialect demands a limit and the client gave none; 0 means 4096.
	Now             time.Time // When the answer began, for dialects whose answers are dated.
}

// Report names what a translation could not carry over. Names are paths without indexes, such as tools.strict; there are no
// values in it.
type Report struct {
	Dropped []string // Left out: the other dialect has no place for it. Sorted, each once.
	Changed []string // Carried over, but not as it was. Sorted, each once.
}

const (
	maxNames = 100 // A client makes up as many unknown members as it likes.
	maxName  = 100 // Bytes of a name that are kept.
)

// Drop notes what was left out.
func (r *Report) Drop(name string) { r.Dropped = note(r.Dropped, name) }

// Change notes what was altered.
func (r *Report) Change(name string) { r.Changed = note(r.Changed, name) }

// DropExtra notes the members that nobody knows.
func (r *Report) DropExtra(path string, e Extra) {
	for name := range e {
		r.Drop(path + name)
	}
}

// Clone returns a report of its own, so that what is noted later does not change it.
func (r *Report) Clone() Report {
	return Report{Dropped: slices.Clone(r.Dropped), Changed: slices.Clone(r.Changed)}
}

func note(names []string, name string) []string {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	i, seen := slices.BinarySearch(names, name)
	if seen || len(names) == maxNames && i == maxNames {
		return names
	}
	names = slices.Insert(names, i, name)
	return names[:min(len(names), maxNames)]
}
