package router

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router/affinity"
	"github.com/signalbox-llm/signalbox/router/session"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

const (
	decisionUpstreams = 10
	decisionSessions  = 10_000
)

// decider is an engine with pinned sessions, and a request of each of them on its way to a plan.
type decider struct {
	r     *Router
	route wire.Route
	keys  []session.Key
	body  *body
}

func newDecider(tb testing.TB, strategy string) *decider {
	tb.Helper()
	cfg := settings.Defaults()
	m := settings.DefaultModel()
	m.ID, m.Strategy = "m", strategy
	for i := range decisionUpstreams {
		u, t := settings.DefaultUpstream(), settings.DefaultTarget()
		u.Name, u.BaseURL, u.Wires = fmt.Sprintf("upstream-%d", i), "http://127.0.0.1:1", []string{string(wire.Messages)}
		t.Upstream = u.Name
		cfg.Upstreams, m.Targets = append(cfg.Upstreams, u), append(m.Targets, t)
	}
	cfg.Models = []settings.Model{m}
	cfg.Affinity.MaxSessions = 2 * decisionSessions
	r, err := New(cfg, WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	d := &decider{r: r, body: &body{bytes: []byte(`{"model":"m","messages":[]}`)}}
	d.route, _ = wire.Match("/v1/messages")
	now := time.Now()
	for i := range decisionSessions {
		k := session.Key{ID: fmt.Sprintf("0f8fad5b-d9cb-469f-a165-7086772%05d", i), Source: "session-id", Kind: session.Main}
		d.keys = append(d.keys, k)
		target := affinity.Target{Upstream: fmt.Sprintf("upstream-%d", i%decisionUpstreams), Model: "m"}
		r.opts.pins.Bind(now, affinity.Key{Session: k.ID, Model: "m"}, target)
		r.opts.pins.Warmed(now, affinity.Key{Session: k.ID, Model: "m"}, target)
	}
	return d
}

// exchange is a request of a session that has been identified.
func (d *decider) exchange(i int) exchange {
	return exchange{
		r: d.r, route: d.route, ctx: context.Background(), span: trace.SpanFromContext(context.Background()), snap: d.r.snap.Load(),
		body: d.body, asked: "m", streaming: true, session: d.keys[i%decisionSessions],
	}
}

// decide makes the plan and reports whether the session's own upstream stands first.
func (d *decider) decide(x *exchange, i int) bool {
	if x.findModel() != nil || x.makePlan() != nil {
		return false
	}
	return len(x.plan) == decisionUpstreams && x.plan[0].index == i%decisionUpstreams
}

var decisionStrategies = []string{"failover", "weighted", "rendezvous", "scored"}

// BenchmarkDecision is what it takes to put ten upstreams in order for one of ten thousand pinned sessions.
func BenchmarkDecision(b *testing.B) {
	for _, strategy := range decisionStrategies {
		b.Run(strategy, func(b *testing.B) {
			d := newDecider(b, strategy)
			x := new(exchange)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				*x = d.exchange(i)
				if !d.decide(x, i) {
					b.Fatal("the session left its upstream")
				}
				i++
			}
		})
	}
}

// A decision stays within ten allocations, with whatever strategy.
func TestDecisionAllocations(t *testing.T) {
	if RaceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, strategy := range decisionStrategies {
		d := newDecider(t, strategy)
		x, i := new(exchange), 0
		n := testing.AllocsPerRun(1000, func() {
			*x = d.exchange(i)
			if !d.decide(x, i) {
				t.Fatal("the session left its upstream")
			}
			i++
		})
		if n > 10 {
			t.Errorf("%s: a decision takes %v allocations", strategy, n)
		}
	}
}

// Buffered is how many bytes of request bodies an engine holds.
func Buffered(r *Router) int64 { return r.buffered.Load() }
