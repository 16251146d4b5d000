package router_test

import (
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// simPolicies are the strategies that are put to the test.
var simPolicies = []string{"affinity", "rendezvous", "weighted", "least_busy"}

func simPolicy(strategy string) func(*settings.Config) {
	return func(cfg *settings.Config) {
		cfg.Models[0].Strategy = strategy
		if strategy != "affinity" {
			cfg.Models[0].AffinityPool = 1
		}
	}
}

// TestSimulation puts the whole engine before a day of ten upstreams, with fifty people at their agents: 429 storms, outages,
// flapping, a spent account, a bad key. The first policy has the whole day, the others its first six hours. Where time is
// short (-short, -race) the first has no more, and the others do not run.
//
//	go test -run Simulation -v ./router
func TestSimulation(t *testing.T) {
	short := testing.Short() || router.RaceEnabled
	results := make([]simResult, len(simPolicies))
	t.Run("policies", func(t *testing.T) {
		for i, name := range simPolicies {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				span := 6 * time.Hour
				switch {
				case short && i > 0:
					t.Skip("time is short")
				case !short && i == 0:
					span = 24 * time.Hour
				}
				results[i] = simulate(t, span, 1, simPolicy(name))
				results[i].check(t, name)
			})
		}
	})
	t.Log("\n" + simTable(results) + "\n" + simUpstreamTable(simPolicies[0], &results[0]))
}

// check asserts what the judge cannot see in a single event.
func (r *simResult) check(t *testing.T, policy string) {
	t.Helper()
	for i, f := range r.faults {
		if i == 20 {
			t.Errorf("and %d more", len(r.faults)-i)
			break
		}
		t.Error(f)
	}
	if r.requests != r.served+r.refused || r.served != r.turns || r.served == 0 {
		t.Errorf("%d requests, %d served, %d refused, %d turns", r.requests, r.served, r.refused, r.turns)
	}
	// With foresight nobody is sent to who will fail; without it, each conversation of an upstream that fails pays one
	// miss for its move, which is all that may lie between the two.
	if share, best := r.share(r.hits), r.share(r.best); share < best-0.02 || share > best {
		t.Errorf("%.4f of the turns found their cache, %.4f could have", share, best)
	}
	// A turn misses what it could have found only where its conversation has just moved: one miss each.
	if lost := r.best - r.hits; lost > r.moves {
		t.Errorf("%d turns missed what they could have found, with %d moves", lost, r.moves)
	}
	most, least := 0, r.served
	for _, u := range r.upstreams {
		most, least = max(most, u.served), min(least, u.served)
	}
	if even := r.served / simCount; least < even/5 || most > 3*even {
		t.Errorf("%s: between %d and %d turns at an upstream, an even share is %d", policy, least, most, even)
	}
}

func (r *simResult) share(n int) float64 { return float64(n) / float64(max(1, r.turns)) }

// Two runs are one as far as anybody can see.
func TestSimulationRepeats(t *testing.T) {
	t.Parallel()
	span := time.Hour
	policy := simPolicy("least_busy") // what is in flight counts there, and chance does
	a, b := simulate(t, span, 7, policy), simulate(t, span, 7, policy)
	if a.digest != b.digest || a.requests != b.requests {
		t.Errorf("%d requests and %x, then %d and %x", a.requests, a.digest, b.requests, b.digest)
	}
	if c := simulate(t, span, 8, policy); c.digest == a.digest {
		t.Error("another seed, and all is the same")
	}
}

func simTable(results []simResult) string {
	return aligned("policy\trequests\tserved\tfailed over\trefused\tmoves\tprobes\tfailed\tcache\tbest\tdigest\tseconds\t", func(row func(...any)) {
		for i := range results {
			r := &results[i]
			if r.requests == 0 {
				continue
			}
			row(simPolicies[i], r.requests, r.served, r.failedOver, r.refused, r.moves, r.probes, r.badProbes,
				percent(r.share(r.hits)), percent(r.share(r.best)), fmt.Sprintf("%016x", r.digest), fmt.Sprintf("%.1f", r.real.Seconds()))
		}
	})
}

func simUpstreamTable(policy string, r *simResult) string {
	return aligned(policy+"\tserved\t429\tother failures\tcoolings\ttime cooling\t", func(row func(...any)) {
		for i, u := range r.upstreams {
			row(string(rune('a'+i)), u.served, u.limited, u.failed, u.coolings, u.cooling.Round(time.Second))
		}
	})
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

// aligned sets rows under a head, numbers to the right.
func aligned(head string, rows func(row func(...any))) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, head)
	rows(func(cells ...any) {
		for _, c := range cells {
			_, _ = fmt.Fprint(w, c, "\t")
		}
		_, _ = fmt.Fprintln(w)
	})
	_ = w.Flush()
	return b.String()
}
