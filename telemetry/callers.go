package telemetry

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
)

// CallerNames are the names that a configuration gives, and the only ones that become labels of callers.
type CallerNames struct {
	Keys    []string // of its auth keys
	Clients []string // of its client rules; those of ClientTypes need not be among them
	Models  []string // that clients ask for: ids and globs
}

// Caller tells who sent a request, and for which model.
type Caller struct {
	Key    string // name of the auth key; empty: KeyNone
	Client string // type of the agent; empty: Unnamed
	Model  string // as the configuration names it
}

// CallerRecorder records what requests used by who sent them. It is safe for concurrent use and allocates nothing once every
// caller has been seen.
type CallerRecorder struct {
	t       *Telemetry
	callers *sets[Caller, callerLabels]
}

// callerLabels belong to one caller. Tokens do not tell the model: attempts do, and a label less leaves room for more callers
// below the 2,000 sets of an instrument.
type callerLabels struct{ cost, uncached, cached, output labels }

// Callers makes the recorder of a configuration's callers. Whatever is not among the names counts as Unnamed.
func (t *Telemetry) Callers(names CallerNames) *CallerRecorder {
	clients := append(ClientTypes(), names.Clients...)
	known := func(list []string, name string) string {
		if slices.Contains(list, name) {
			return name
		}
		return Unnamed
	}
	return &CallerRecorder{t: t, callers: newSets(func(c Caller) Caller {
		c.Model, c.Client = known(names.Models, c.Model), known(clients, c.Client)
		if c.Key == "" {
			c.Key = KeyNone
		} else {
			c.Key = known(names.Keys, c.Key)
		}
		return c
	}, func(c Caller) callerLabels {
		key, client := attribute.String(AttrKey, c.Key), attribute.String(AttrClientType, c.Client)
		tokens := func(kind string) labels { return newLabels(key, client, attribute.String(AttrTokenType, kind)) }
		return callerLabels{
			newLabels(key, client, attribute.String(AttrModel, c.Model)),
			tokens(TokensUncached), tokens(TokensCached), tokens(TokensOutput),
		}
	})}
}

// Request records what a finished request cost, in USD, and the tokens it used: of all its attempts together. Zero, and what is
// Unknown, add nothing.
func (r *CallerRecorder) Request(ctx context.Context, c Caller, usd float64, u Usage) {
	uncached := max(u.Input, 0) + max(u.TotalCacheWrite(), 0)
	if usd <= 0 && uncached <= 0 && u.CacheRead <= 0 && u.Output <= 0 {
		return
	}
	s := r.callers.get(c)
	if usd > 0 {
		r.t.requestCost.Add(ctx, usd, s.cost.add...)
	}
	if uncached > 0 {
		r.t.requestTokens.Add(ctx, uncached, s.uncached.add...)
	}
	if u.CacheRead > 0 {
		r.t.requestTokens.Add(ctx, u.CacheRead, s.cached.add...)
	}
	if u.Output > 0 {
		r.t.requestTokens.Add(ctx, u.Output, s.output.add...)
	}
}
