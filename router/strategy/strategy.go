// Package strategy puts a model's targets into the order in which one request tries them, one file a strategy. It must
// not know health, sessions or HTTP: who may not be tried is left out or skipped by the caller.
package strategy

// Candidate is one target that could serve the request.
type Candidate struct {
	Upstream, Model string
	Weight          int // 0 = only when all others are out
}

// Strategy orders candidates. It is safe for concurrent use.
type Strategy interface {
	// Order appends every index of cs to dst, each once, the one to try first in front.
	Order(dst []int, cs []Candidate) []int
}

// Kind is one strategy that a configuration can name.
type Kind struct {
	Name      string
	Available bool            // false: named in the configuration language, and refused until it is built
	New       func() Strategy // nil while not Available
}

// Kinds lists them in the order of the documentation; the first is the default.
var Kinds = []Kind{
	{Name: "failover", Available: true, New: func() Strategy { return failover{} }},
	{Name: "weighted"},
	{Name: "affinity"},
	{Name: "rendezvous"},
	{Name: "least_busy"},
	{Name: "scored"},
}

// Lookup returns the kind with a name; its New is nil if there is none or it is not available.
func Lookup(name string) Kind {
	for _, k := range Kinds {
		if k.Name == name {
			return k
		}
	}
	return Kind{}
}
