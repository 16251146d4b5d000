package strategy

var failoverKind = Kind{Name: "failover", New: func(Options) Strategy { return failover{} }, Keyed: true}

// failover tries candidates in the order in which the configuration declares them.
type failover struct{}

// Order implements Strategy.
func (failover) Order(dst []int, cs []Candidate, _ *Request) []int {
	return declared(dst, len(cs))
}

var _ Strategy = failover{}
