package strategy

import (
	"cmp"
	"slices"
)

// roomFor is the number of candidates whose scores fit on the stack.
const roomFor = 64

// declared appends 0 to n-1.
func declared(dst []int, n int) []int {
	for i := range n {
		dst = append(dst, i)
	}
	return dst
}

// byScore appends the indices of cs, the highest score first, but weight 0 behind all others; equals as declared.
func byScore(dst []int, cs []Candidate, scores []float64) []int {
	had := len(dst)
	dst = declared(dst, len(cs))
	slices.SortStableFunc(dst[had:], func(a, b int) int {
		if spare := cs[a].Weight <= 0; spare != (cs[b].Weight <= 0) {
			if spare {
				return 1
			}
			return -1
		}
		return cmp.Compare(scores[b], scores[a])
	})
	return dst
}

// draw moves one index to the front of order, by chance and in proportion to its share; none if nobody has a share.
func draw(order []int, random func() float64, share func(i int) float64) {
	total := 0.0
	for _, i := range order {
		total += share(i)
	}
	if total <= 0 {
		return
	}
	x, drawn := random()*total, 0
	for at, i := range order {
		s := share(i)
		if s <= 0 {
			continue
		}
		drawn = at // also when rounding leaves a rest behind the last one
		if x -= s; x < 0 {
			break
		}
	}
	i := order[drawn]
	copy(order[1:drawn+1], order[:drawn])
	order[0] = i
}

// drawBest moves to the front of order one of those whose score is within epsilon of the best, all with the same chance.
// Only the foremost tier takes part.
func drawBest(order []int, cs []Candidate, scores []float64, epsilon float64, random func() float64) {
	if len(order) == 0 {
		return
	}
	first := order[0]
	for _, i := range order { // the highest score stands first within its tier
		if tier(&cs[i]) < tier(&cs[first]) {
			first = i
		}
	}
	draw(order, random, func(i int) float64 {
		if tier(&cs[i]) == tier(&cs[first]) && scores[i] >= scores[first]-epsilon {
			return 1
		}
		return 0
	})
}

// tier is what comes before any score: who may be tried, then who has a weight. The lowest is the foremost.
func tier(c *Candidate) int {
	n := 0
	if c.Out {
		n += 2
	}
	if c.Weight <= 0 {
		n++
	}
	return n
}
