package router_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// Whatever clients, operators and reloads do at the same time: in the end every place, probe and request is given back.
func TestEverythingIsGivenBack(t *testing.T) {
	t.Parallel()
	flaky := []routertest.Reply{good, down, good.Pace(time.Millisecond), routertest.Fail(http.StatusTooManyRequests, "slow down"), routertest.Nothing(routertest.Cut), good}
	var ups []*routertest.Upstream
	for range 3 {
		script := make([]routertest.Reply, 0, 500)
		for range 500 {
			script = append(script, flaky[rand.IntN(len(flaky))])
		}
		ups = append(ups, routertest.NewUpstream(append(script, good)...))
	}
	change := func(ceiling int) func(c *settings.Config) {
		return func(c *settings.Config) {
			c.Server.MaxConcurrentRequests, c.Server.MaxQueueDepth = ceiling, 64
			c.Server.RequestTimeout = time.Minute
			c.Cooling.NoneEligible = []string{"auto", "clear", "soonest", "reject"}[ceiling%4]
			c.Models[0].Strategy = []string{"weighted", "rendezvous", "least_busy", "scored"}[ceiling%4]
			c.Models[0].Retry.Max, c.Models[0].Retry.Base = 1, time.Microsecond
			for i := range c.Upstreams {
				c.Upstreams[i].MaxConcurrent = 3
				c.Upstreams[i].HealthCheck = &settings.HealthCheck{Path: "/v1/models", Interval: 3 * time.Millisecond, Failures: 1}
			}
		}
	}
	w := build(t, ups, change(4), router.WithClock(time.Now))
	w.engine.OnEvent(func(e *router.Event) {
		if rand.IntN(50) == 0 {
			panic("an observer")
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	var clients, others sync.WaitGroup
	for worker := range 24 {
		clients.Go(func() {
			for n := range 25 {
				one, cancel := context.WithCancel(t.Context())
				if rand.IntN(3) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
				}
				w.Send(one, routertest.NewRequest(routertest.Wires[n%len(routertest.Wires)], "m", n%2 == 0).With("X-Session-Id", fmt.Sprint(worker%7)))
				cancel()
			}
		})
	}
	for _, f := range []func(n int){
		func(n int) {
			if err := w.engine.Load(w.config(change(n % 6))); err != nil {
				t.Error(err)
			}
		},
		func(n int) { _ = w.engine.Cool("a", "", time.Millisecond) },
		func(n int) { _, _ = w.engine.Uncool("a", ""); w.engine.ResetHealth() },
		func(n int) {
			w.engine.Status()
			_, _ = w.engine.Explain(ctx, router.Question{Path: "/v1/messages", Header: http.Header{"X-Session-Id": {"1"}}, Body: []byte(`{"model":"m"}`)})
		},
	} {
		others.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				f(n)
				time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
			}
		})
	}
	clients.Wait()
	stop()
	others.Wait()
	gate := make(chan struct{})
	for _, u := range w.ups {
		u.Script(good.HoldStatus(gate))
	}
	if err := w.engine.Load(w.config(func(c *settings.Config) { c.Server.MaxConcurrentRequests = 1 })); err != nil {
		t.Fatal(err)
	}
	w.engine.ResetHealth()
	for end := time.Now().Add(routertest.Patience); w.engine.Status().InFlight > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	for range 2 {
		clients.Go(func() { w.ask(routertest.Chat, false) })
	}
	for end := time.Now().Add(routertest.Patience); w.engine.Status().Queued != 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s := w.engine.Status()
	if s.InFlight != 1 || s.Queued != 1 {
		t.Errorf("with a ceiling of 1 two requests are %d in flight, %d waiting", s.InFlight, s.Queued)
	}
	close(gate)
	clients.Wait()
	for end := time.Now().Add(routertest.Patience); w.engine.Status().InFlight > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	s = w.engine.Status()
	if s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("%d in flight, %d waiting", s.InFlight, s.Queued)
	}
	for _, u := range s.Upstreams {
		if u.InFlight != 0 || u.ProbeInFlight {
			t.Errorf("%s: %d in flight, probe %v", u.Name, u.InFlight, u.ProbeInFlight)
		}
		for _, target := range u.Targets {
			if target.ProbeInFlight {
				t.Errorf("%s %s: a probe was never given back", u.Name, target.Model)
			}
		}
	}
	w.once()
}
