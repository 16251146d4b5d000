package telemetry

import (
	"context"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// Price is what tokens of a model cost, in USD per million.
type Price struct {
	Input        float64 // uncached
	Output       float64
	CacheRead    float64                     // 0: as Input
	CacheWrite   float64                     // 0: as Input
	CacheWrite1h float64                     // of writes that last for an hour; 0: as CacheWrite
	Factor       func(now time.Time) float64 // multiplies them all at some hours of the day; nil: never
}

// Cost is what one attempt cost. The zero value is that nobody knows.
type Cost struct {
	Known   bool
	Source  string  // one of the Cost values; empty if nothing is known
	USD     float64 // at the time's price
	Savings float64 // USD that cached input would have cost more at the full price of uncached input; it is never below 0
	OffPeak float64 // USD that it would have cost more outside of cheap hours; below 0 in dear ones
}

const million = 1e6

// Cost works out what usage costs now: of an attempt that reported part of it the part, of one that reported nothing
// nothing. Without a price (nil) nothing is known. USD that the upstream itself has reported (above 0) count instead.
func (p *Price) Cost(u Usage, reported float64, now time.Time) Cost {
	c := p.calculate(u, now)
	if reported > 0 && reported <= math.MaxFloat64 {
		c.Known, c.Source, c.USD, c.OffPeak = true, CostReported, reported, 0
	}
	return c
}

func (p *Price) calculate(u Usage, now time.Time) Cost {
	if p == nil || u.TotalInput() < 0 && u.Output < 0 {
		return Cost{}
	}
	read, write := or(p.CacheRead, p.Input), or(p.CacheWrite, p.Input)
	long := or(p.CacheWrite1h, write)
	n := func(tokens int64) float64 { return float64(max(tokens, 0)) }
	written, forAnHour := n(u.TotalCacheWrite()), n(u.CacheWrite1h)
	full := (n(u.Input)*p.Input + n(u.CacheRead)*read + max(0, written-forAnHour)*write + min(written, forAnHour)*long + n(u.Output)*p.Output) / million
	factor := 1.0
	if p.Factor != nil {
		factor = p.Factor(now)
	}
	c := Cost{
		Known: true, Source: CostCalculated, USD: full * factor, Savings: max(0, n(u.CacheRead)*(p.Input-read)/million), OffPeak: full * (1 - factor),
	}
	if !(c.USD >= 0 && c.USD <= math.MaxFloat64) { // a price that is no number
		return Cost{}
	}
	return c
}

// or is the first price, or the second where there is none.
func or(price, other float64) float64 {
	if price == 0 {
		return other
	}
	return price
}

// costLabels are those of the metrics in USD.
type costLabels struct {
	cost    *sets[string, labels] // by source
	savings labels
}

func newCostLabels(model, upstream attribute.KeyValue) *costLabels {
	return &costLabels{
		cost: newSets(costs.close, func(source string) labels {
			return newLabels(upstream, model, attribute.String(AttrSource, source))
		}),
		savings: newLabels(upstream, model),
	}
}

// Cost is what an attempt with this usage costs at the target's price now, or as the upstream reported it in USD (0: it
// did not).
func (r *TargetRecorder) Cost(u Usage, reported float64, now time.Time) Cost {
	return r.price.Cost(u, reported, now)
}

func (r *TargetRecorder) addCost(ctx context.Context, c Cost) {
	if !c.Known {
		return
	}
	r.t.cost.Add(ctx, c.USD, r.costs.cost.get(c.Source).add...)
	if r.price == nil {
		return
	}
	r.t.savings.Add(ctx, c.Savings, r.costs.savings.add...)
	if r.price.Factor != nil {
		r.t.offPeak.Add(ctx, max(0, c.OffPeak), r.costs.savings.add...)
	}
}

// zeroCost makes the series of a priced target exist.
func (r *TargetRecorder) zeroCost(ctx context.Context) {
	if r.price != nil {
		r.addCost(ctx, Cost{Known: true, Source: CostCalculated})
	}
}
