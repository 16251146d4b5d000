package strategy

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"
)

var rendezvousKind = Kind{Name: "rendezvous", New: func(Options) Strategy { return rendezvous{} }, Owns: true, Keyed: true, Counts: true}

// rendezvous gives every key an order of its own out of hashes of key and name, so that each candidate has a share of the
// keys that follows its weight, and one that comes or goes moves only keys of its own. All candidates take part, out or
// not: a key returns to its owner when that recovers. Two of one name stand side by side, the heavier first.
// Requests without a key go where the fewest are.
type rendezvous struct{}

// Order implements Strategy.
func (rendezvous) Order(dst []int, cs []Candidate, r *Request) []int {
	if r.Key == "" {
		return leastBusy{}.Order(dst, cs, r)
	}
	var room [roomFor]float64
	scores, key := room[:0], xxhash.Sum64String(r.Key)
	for i := range cs {
		scores = append(scores, float64(max(1, cs[i].Weight))/-math.Log(fraction(key, cs[i].Name)))
	}
	return byScore(dst, cs, scores)
}

// fraction is a number in (0, 1) that only this key and this name have. Its logarithm is spread exponentially, which is
// what makes the highest weight/-log fall to each in proportion to its weight.
func fraction(key uint64, name string) float64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], key^xxhash.Sum64String(name)) // hashed again: an exclusive or alone mixes nothing
	return (float64(xxhash.Sum64(b[:])>>12) + 0.5) / (1 << 52)
}

var _ Strategy = rendezvous{}
