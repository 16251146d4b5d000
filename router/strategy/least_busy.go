package strategy

var leastBusyKind = Kind{Name: "least_busy", New: func(Options) Strategy { return leastBusy{} }, Counts: true}

// leastBusy tries first where the fewest requests are in flight. Equals are drawn for the first place, so that an idle
// pool is used evenly and requests that arrive together do not all meet at one upstream; behind it they stand as declared.
type leastBusy struct{}

// Order implements Strategy.
func (leastBusy) Order(dst []int, cs []Candidate, r *Request) []int {
	var room [roomFor]float64
	scores := room[:0]
	for i := range cs {
		scores = append(scores, -float64(cs[i].InFlight))
	}
	had := len(dst)
	dst = byScore(dst, cs, scores)
	drawBest(dst[had:], cs, scores, 0, r.Random)
	return dst
}

var _ Strategy = leastBusy{}
