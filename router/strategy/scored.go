package strategy

import (
	"math"
	"time"
)

var scoredKind = Kind{Name: "scored", New: func(Options) Strategy { return scored{} }}

// epsilon is how far behind the best a score still counts as equal to it.
const epsilon = 0.05

// unknown stands for a measure without data.
const unknown = -1

// measures are price, success rate, time to first token and output speed, each turned so that more is better.
type measures [4]float64

// importance is what each measure weighs in a score. A plain answer is waited for as a whole, so that only the first
// plain ones count for it.
var importance = measures{0.4, 0.3, 0.2, 0.1}

const plain = 2

// scored prefers who is cheap, reliable and fast. Every measure is a share of the best among those that may be tried now,
// and 1 where nothing is known, so that who is new is tried; a score is their weighted mean. The first place is drawn
// among the best, the rest stand by score.
type scored struct{}

// Order implements Strategy.
func (s scored) Order(dst []int, cs []Candidate, r *Request) []int {
	var room [roomFor]float64
	scores := s.Scores(room[:0], cs, r)
	had := len(dst)
	dst = byScore(dst, cs, scores)
	drawBest(dst[had:], cs, scores, epsilon, r.Random)
	return dst
}

// Scores implements Scorer.
func (scored) Scores(dst []float64, cs []Candidate, r *Request) []float64 {
	var room [roomFor]measures
	all, best := room[:0], measures{}
	out := everybodyOut(cs)
	for i := range cs {
		m := measure(&cs[i], r.Now)
		all = append(all, m)
		for k := range m {
			if out || !cs[i].Out {
				best[k] = max(best[k], m[k])
			}
		}
	}
	used := len(importance)
	if !r.Stream {
		used = plain
	}
	for i := range all {
		sum, weights := 0.0, 0.0
		for k, w := range importance[:used] {
			sum += w * share(all[i][k], best[k])
			weights += w
		}
		dst = append(dst, sum/weights)
	}
	return dst
}

func everybodyOut(cs []Candidate) bool {
	for i := range cs {
		if !cs[i].Out {
			return false
		}
	}
	return true
}

func measure(c *Candidate, now time.Time) measures {
	m := measures{1, unknown, unknown, unknown}
	if c.Price > 0 {
		m[0] = min(1/c.Price, math.MaxFloat64) // infinities have no shares
	}
	s := c.Stats.Read(now)
	if s.Success.Known {
		m[1] = s.Success.Value
	}
	if s.FirstToken.Known {
		m[2] = 1 / s.FirstToken.Value
	}
	if s.Speed.Known {
		m[3] = s.Speed.Value
	}
	return m
}

// share is at most 1, also for one who is out and better than the best of the others.
func share(value, best float64) float64 {
	switch value {
	case unknown:
		return 1
	case 0: // nothing is not a share of the best, even if nobody has more
		return 0
	}
	return min(1, value/best)
}

var (
	_ Strategy = scored{}
	_ Scorer   = scored{}
)
