package strategy

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
)

var affinityKind = Kind{
	Name: "affinity", New: func(o Options) Strategy { return affinity{pool: o.Pool} }, Keyed: true, Pooled: true,
}

// noSession is the key of all requests without one: they are as one conversation.
const noSession = "no-session"

// affinity gives every key a first candidate out of the first few; the rest stand as declared. A pool of one is failover.
type affinity struct{ pool int }

// Order implements Strategy.
func (a affinity) Order(dst []int, cs []Candidate, r *Request) []int {
	pool := min(a.pool, len(cs))
	if pool <= 1 {
		return declared(dst, len(cs))
	}
	var room [512]byte // longer than the keys of any agent; a conversion would allocate
	sum := sha256.Sum256(append(room[:0], cmp.Or(r.Key, noSession)...))
	first := int(binary.BigEndian.Uint32(sum[:]) % uint32(pool))
	dst = append(dst, first)
	for i := range cs {
		if i != first {
			dst = append(dst, i)
		}
	}
	return dst
}

var _ Strategy = affinity{}
