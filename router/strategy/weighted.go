package strategy

var weightedKind = Kind{Name: "weighted", New: func(Options) Strategy { return weighted{} }}

// weighted draws the first by weight among those that may be tried now. The rest stand by weight, the heaviest first, so
// that without anybody to draw the one in front is still the best spare.
type weighted struct{}

// Order implements Strategy.
func (weighted) Order(dst []int, cs []Candidate, r *Request) []int {
	var room [roomFor]float64
	weights := room[:0]
	for i := range cs {
		weights = append(weights, float64(max(0, cs[i].Weight)))
	}
	had := len(dst)
	dst = byScore(dst, cs, weights)
	draw(dst[had:], r.Random, func(i int) float64 {
		if cs[i].Out {
			return 0
		}
		return weights[i]
	})
	return dst
}

var _ Strategy = weighted{}
