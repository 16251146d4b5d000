package strategy

// failover tries targets in the order in which the configuration declares them.
type failover struct{}

// Order implements Strategy.
func (failover) Order(dst []int, cs []Candidate) []int {
	for i := range cs {
		dst = append(dst, i)
	}
	return dst
}

var _ Strategy = failover{}
