// Package strategy puts what could serve a request into the order in which it is tried, one file a strategy. It must not
// know health, sessions or HTTP: the caller says who is out, busy or slow, and skips those that may not be tried.
package strategy

import "time"

// Candidate is one target, or for a preset one model, that could serve the request.
type Candidate struct {
	Name     string  // stable: the upstream's, or the model's for a preset
	Weight   int     // 0 = only when all others are out
	Out      bool    // may not be tried now: it keeps its place, but is not drawn while another may be
	InFlight int     // requests at its upstream now
	Price    float64 // relative; higher = less preferred; 0 or less counts as 1
	Stats    *Stats  // what its upstream did with this model lately; nil = nothing known
}

// Request is what an order may depend on. Now and Random are always set.
type Request struct {
	Key    string // ties a conversation together, sub-agents apart; "" = none
	Now    time.Time
	Stream bool
	Random func() float64 // in [0, 1)
}

// Strategy orders candidates. It is safe for concurrent use.
type Strategy interface {
	// Order appends every index of cs to dst, each once, the one to try first in front. It does not change cs, and
	// allocates nothing while dst has room and the candidates are not more than 64.
	Order(dst []int, cs []Candidate, r *Request) []int
}

// Scorer is a Strategy that can explain its order.
type Scorer interface {
	// Scores appends the score of every candidate to dst, in the order of cs; the best possible is 1.
	Scores(dst []float64, cs []Candidate, r *Request) []float64
}

// Options are what a configuration may say about a strategy.
type Options struct {
	Pool int // affinity_pool: how many candidates, from the first, share the keys; 0 = 1
}

// Kind is one strategy that a configuration can name.
type Kind struct {
	Name   string
	New    func(Options) Strategy
	Owns   bool // a key belongs to its first candidate for good, also before anything is known of it
	Keyed  bool // the same key always gives the same order, whoever is busy or out
	Pooled bool // Options.Pool means something
	Counts bool // Candidate.InFlight means something
}

// Kinds lists them in the order of the documentation; the first is the default.
var Kinds = []Kind{failoverKind, weightedKind, affinityKind, rendezvousKind, leastBusyKind, scoredKind}

// Lookup returns the kind with a name.
func Lookup(name string) (Kind, bool) {
	for _, k := range Kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// Names lists the names of Kinds.
func Names() []string {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = k.Name
	}
	return names
}
