package main

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// hist is a histogram of durations for many writers: 128 buckets for each power of two, so that a quantile is within 0.8 %
// of the true value.
type hist struct {
	n, largest atomic.Int64
	bins       [buckets]atomic.Uint32
}

const (
	subBits    = 7
	subBuckets = 1 << subBits
	buckets    = (64 - subBits) * subBuckets
)

func bucket(v int64) int {
	if v < subBuckets {
		return int(max(v, 0))
	}
	e := bits.Len64(uint64(v)) - subBits - 1
	return e*subBuckets + int(v>>e)
}

// bucketValue is the middle of a bucket.
func bucketValue(i int) int64 {
	if i < 2*subBuckets {
		return int64(i)
	}
	e := i/subBuckets - 1
	return int64(i-e*subBuckets)<<e + int64(1)<<e/2
}

func (h *hist) add(d time.Duration) {
	v := int64(d)
	h.bins[bucket(v)].Add(1)
	h.n.Add(1)
	for old := h.largest.Load(); v > old && !h.largest.CompareAndSwap(old, v); old = h.largest.Load() {
	}
}

// quantile is 0 if nothing was added.
func (h *hist) quantile(p float64) time.Duration {
	rank := max(int64(p*float64(h.n.Load())+0.5), 1)
	var seen int64
	for i := range h.bins {
		if seen += int64(h.bins[i].Load()); seen >= rank {
			return time.Duration(min(bucketValue(i), h.largest.Load()))
		}
	}
	return time.Duration(h.largest.Load())
}
