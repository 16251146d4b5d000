package telemetry

import (
	"context"
	"math"

	"go.opentelemetry.io/otel/attribute"
)

// Price is what tokens of a model cost, in USD per million.
type Price struct {
	Input      float64 // uncached
	Output     float64
	CacheRead  float64 // 0: as Input
	CacheWrite float64 // 0: as Input
}

// Cost is what one attempt cost. The zero value is that nobody knows.
type Cost struct {
	Known   bool
	USD     float64
	Savings float64 // USD that cached input would have cost more at the price of uncached input; it is never below 0
}

const million = 1e6

// Cost works out what usage costs: of an attempt that reported part of it the part, of one that reported nothing nothing.
// Without a price (nil) nothing is known.
func (p *Price) Cost(u Usage) Cost {
	if p == nil || u.TotalInput() < 0 && u.Output < 0 {
		return Cost{}
	}
	read, write := p.CacheRead, p.CacheWrite
	if read == 0 {
		read = p.Input
	}
	if write == 0 {
		write = p.Input
	}
	n := func(tokens int64) float64 { return float64(max(tokens, 0)) }
	c := Cost{
		Known:   true,
		USD:     (n(u.Input)*p.Input + n(u.CacheRead)*read + n(u.TotalCacheWrite())*write + n(u.Output)*p.Output) / million,
		Savings: max(0, n(u.CacheRead)*(p.Input-read)/million),
	}
	if !(c.USD >= 0 && c.USD <= math.MaxFloat64) { // a price that is no number
		return Cost{}
	}
	return c
}

// costLabels are those of the metrics in USD; nil for a target without a price.
type costLabels struct{ cost, savings labels }

func newCostLabels(model, upstream attribute.KeyValue) *costLabels {
	return &costLabels{
		cost:    newLabels(upstream, model, attribute.String(AttrSource, CostCalculated)),
		savings: newLabels(upstream, model),
	}
}

// Cost is what an attempt with this usage costs at the target's price.
func (r *TargetRecorder) Cost(u Usage) Cost { return r.price.Cost(u) }

func (r *TargetRecorder) addCost(ctx context.Context, c Cost) {
	if c.Known && r.costs != nil {
		r.t.cost.Add(ctx, c.USD, r.costs.cost.add...)
		r.t.savings.Add(ctx, c.Savings, r.costs.savings.add...)
	}
}
