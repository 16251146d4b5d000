package strategy

import (
	"sync"
	"time"
)

// buckets is how many parts a window has. The oldest goes as a whole, so that between nine tenths of the window and all
// of it count.
const buckets = 10

// Stats is what one upstream did with one model in a sliding window of time. It is safe for concurrent use; a nil *Stats
// knows nothing and forgets what it is told.
type Stats struct {
	width time.Duration // of a bucket

	mu     sync.Mutex
	origin time.Time // of the first sample: distances from it follow the monotonic clock
	newest int64     // number of the newest bucket, counted from origin
	ring   [buckets]bucket
}

// Sample is one finished attempt.
type Sample struct {
	OK           bool
	FirstToken   time.Duration // from sending to the first output; 0 = unknown
	OutputTokens int64         // 0 = unknown
	Generation   time.Duration // in which OutputTokens were made; 0 = unknown
}

// Summary is what the samples of a window say together.
type Summary struct {
	Success    Measure // share of attempts, 0 to 1
	FirstToken Measure // mean, in seconds
	Speed      Measure // output tokens per second
}

// Measure is a number that may be unknown.
type Measure struct {
	Value float64
	Known bool
}

// bucket sums up samples in whole numbers, so that none is lost to rounding.
type bucket struct {
	number      int64
	tried, ok   int64
	firsts      int64
	firstTokens time.Duration
	tokens      int64
	generation  time.Duration
}

// NewStats returns statistics over the last window of time.
func NewStats(window time.Duration) *Stats {
	return &Stats{width: max(1, window/buckets)}
}

// Record adds an attempt that ended now. One that is older than the window is forgotten.
func (s *Stats) Record(now time.Time, sample Sample) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.origin.IsZero() {
		s.origin = now
	}
	n := s.number(now)
	s.newest = max(s.newest, n)
	if s.newest-n >= buckets {
		return
	}
	b := &s.ring[(n%buckets+buckets)%buckets]
	if b.number != n { // left over from a round before
		*b = bucket{number: n}
	}
	b.tried++
	if sample.OK {
		b.ok++
	}
	if sample.FirstToken > 0 {
		b.firsts++
		b.firstTokens += sample.FirstToken
	}
	if sample.OutputTokens > 0 && sample.Generation > 0 {
		b.tokens += sample.OutputTokens
		b.generation += sample.Generation
	}
}

// Read sums up the window that ends now.
func (s *Stats) Read(now time.Time) Summary {
	if s == nil {
		return Summary{}
	}
	sum := s.sum(now)
	return Summary{
		Success:    quotient(float64(sum.ok), float64(sum.tried)),
		FirstToken: quotient(sum.firstTokens.Seconds(), float64(sum.firsts)),
		Speed:      quotient(float64(sum.tokens), sum.generation.Seconds()),
	}
}

func (s *Stats) sum(now time.Time) (sum bucket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.number(now)
	for i := range s.ring {
		b := &s.ring[i]
		if n-b.number >= buckets {
			continue
		}
		sum.tried += b.tried
		sum.ok += b.ok
		sum.firsts += b.firsts
		sum.firstTokens += b.firstTokens
		sum.tokens += b.tokens
		sum.generation += b.generation
	}
	return sum
}

// number is that of the bucket that a moment belongs to, rounded down also before the origin.
func (s *Stats) number(now time.Time) int64 {
	d := now.Sub(s.origin)
	n := int64(d / s.width)
	if d%s.width < 0 {
		n--
	}
	return n
}

func quotient(value, by float64) Measure {
	if by <= 0 {
		return Measure{}
	}
	return Measure{Value: value / by, Known: true}
}
