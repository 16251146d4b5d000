package router_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	nolog "go.opentelemetry.io/otel/log/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	notrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

var down = routertest.Fail(http.StatusInternalServerError, "out of order")

// What "clear" lifts while an attempt has failed already is tried too, not only what stands behind that attempt.
func TestClearTriesWhatItLifted(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(down, good), func(c *settings.Config) { c.Cooling.NoneEligible = "clear" })
	if got := w.ask(routertest.Chat, false); got.Status != http.StatusOK {
		t.Fatalf("the first request: %d", got.Status)
	}
	w.ups[0].Script(good)
	w.ups[1].Script(down)
	if got := w.ask(routertest.Chat, false); got.Status != http.StatusOK {
		t.Errorf("a was lifted and is well, but the answer is %d %s", got.Status, got.Body)
	}
	if n := len(w.ups[1].Calls()); n != 2 {
		t.Errorf("b was asked %d times", n)
	}
}

// With "clear" and nobody well, every target is tried once and then it is over.
func TestClearEnds(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(down, down, down), func(c *settings.Config) { c.Cooling.NoneEligible = "clear" })
	for n := 1; n < 4; n++ {
		w.ask(routertest.Chat, true)
		for i, u := range w.ups {
			if len(u.Calls()) > n {
				t.Fatalf("after %d requests upstream %d was asked %d times", n, i, len(u.Calls()))
			}
		}
	}
}

// A ceiling that is raised or taken away lets those in who wait, and not only when the next request ends, which may be
// a long stream.
func TestRaisedCeilingLetsWaitersIn(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{2, 0} {
		gate := make(chan struct{})
		w := build(t, upstreams(good.HoldStatus(gate)), func(c *settings.Config) { c.Server.MaxConcurrentRequests = 1 })
		var asked sync.WaitGroup
		asked.Go(func() { w.ask(routertest.Chat, false) })
		w.ups[0].Await(0)
		asked.Go(func() { w.ask(routertest.Chat, false) })
		for w.engine.Status().Queued == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := w.engine.Load(w.config(func(c *settings.Config) { c.Server.MaxConcurrentRequests = limit })); err != nil {
			t.Fatal(err)
		}
		if w.ups[0].Await(1) == nil {
			t.Errorf("ceiling %d: the second request still waits for the first", limit)
		}
		close(gate)
		asked.Wait()
	}
}

// single is a configuration of one upstream that only a dialer knows.
func single() settings.Config {
	cfg := settings.Defaults()
	u, m, target := settings.DefaultUpstream(), settings.DefaultModel(), settings.DefaultTarget()
	u.Name, u.BaseURL, u.Wires = "a", "http://a.test/v1", routertest.Wires
	m.ID, target.Upstream = "m", "a"
	m.Targets = []settings.Target{target}
	cfg.Upstreams, cfg.Models = []settings.Upstream{u}, []settings.Model{m}
	return cfg
}

// A failure that was answered in full counts, although the request's time runs out while it waits to ask again.
func TestTimeoutInAWaitKeepsTheBlame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := single()
		cfg.Server.RequestTimeout = time.Minute
		cfg.Models[0].Retry.Max, cfg.Models[0].Retry.Budget = 3, 0
		engine, err := router.New(cfg, router.WithLogger(slog.New(slog.DiscardHandler)), router.WithDialer(func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				if _, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
					_, _ = io.WriteString(server, "HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\nContent-Length: 2\r\n\r\n{}")
				}
			}()
			return client, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		engine.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/v1/messages", strings.NewReader(`{"model":"m","messages":[]}`)))
		target := engine.Status().Upstreams[0].Targets[0]
		if answer.Code != http.StatusServiceUnavailable || target.Reason != "overloaded" {
			t.Errorf("%d %s, the target is %s %s", answer.Code, answer.Body, target.State, target.Reason)
		}
		engine.Close()
	})
}

// A reload that comes after Close must not start checks that nobody ends.
func TestNoChecksAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		cfg := single()
		cfg.Upstreams[0].HealthCheck = new(settings.DefaultHealthCheck())
		engine, err := router.New(cfg, router.WithLogger(slog.New(slog.DiscardHandler)), router.WithDialer(func(context.Context, string, string) (net.Conn, error) {
			dials.Add(1)
			return nil, errors.New("nobody is there")
		}))
		if err != nil {
			t.Fatal(err)
		}
		engine.Close()
		before := dials.Load()
		if err := engine.Load(cfg); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := dials.Load() - before; n != 0 {
			t.Errorf("%d checks after Close", n)
			engine.Close()
		}
	})
}

// A model id is kept in pins, in the ledger and in what status shows, so a pattern must not take one of any length.
func TestModelIDsAreBounded(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), func(c *settings.Config) { c.Models[0].ID = "*" })
	for _, wire := range routertest.Wires {
		got := w.Send(t.Context(), routertest.NewRequest(wire, strings.Repeat("m", 100_000), false))
		refused(t, wire, got, http.StatusBadRequest, "too long")
	}
	if n := len(w.ups[0].Calls()); n != 0 {
		t.Errorf("%d of them were passed on", n)
	}
}

// A caller who knows or guesses another one's session id must not be able to take targets away from it.
func TestExclusionsAreTheCallersOwn(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Body(http.StatusBadRequest, "application/json", "{}"), good), func(c *settings.Config) {
		for _, name := range []string{"one", "two"} {
			k := settings.DefaultKey()
			k.Name, k.Secret = name, settings.NewSecret("key-of-"+name, "")
			c.Auth.Keys = append(c.Auth.Keys, k)
		}
	})
	ask := func(name string) {
		w.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", false).
			With("Authorization", "Bearer key-of-"+name).With("X-Session-Id", "shared"))
	}
	ask("one")
	ask("one")
	if a, b := len(w.ups[0].Calls()), len(w.ups[1].Calls()); a != 1 || b != 2 {
		t.Fatalf("a was asked %d times, b %d times", a, b)
	}
	w.ups[0].Script(good)
	ask("two")
	if n := len(w.ups[0].Calls()); n != 2 {
		t.Error("what caller one was refused keeps caller two away")
	}
}

// preset makes m a preset of one model for each upstream.
func preset(c *settings.Config, strategy string) {
	p := settings.DefaultPreset()
	p.ID, p.Strategy = "m", strategy
	targets := c.Models[0].Targets
	c.Models = nil
	for i, t := range targets {
		m := settings.DefaultModel()
		m.ID, m.Targets = fmt.Sprintf("m%d", i), []settings.Target{t}
		c.Models, p.Models = append(c.Models, m), append(p.Models, m.ID)
	}
	c.Presets = []settings.Preset{p}
}

// Strict means the owner or nobody, also where the owner is one of a preset's models.
func TestStrictHoldsInPresets(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good, good), func(c *settings.Config) {
		preset(c, "weighted")
		c.Affinity.Mode = "strict"
	}, router.WithRandom(func() float64 { return 0 }))
	ask := func() routertest.Result {
		return w.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", false).With("X-Session-Id", "s"))
	}
	ask()
	w.ups[0].Script(down)
	ask() // cools a
	if got := ask(); got.Status != http.StatusServiceUnavailable || len(w.ups[1].Calls()) != 0 {
		t.Errorf("the owner rests, and the answer is %d with %d requests to another", got.Status, len(w.ups[1].Calls()))
	}
}

// An issuer that is gone does not set a strict session free.
func TestStrictHoldsWithoutTheIssuer(t *testing.T) {
	t.Parallel()
	strict := func(c *settings.Config) { c.Affinity.Mode = "strict"; c.Models[0].Strategy = "rendezvous" }
	w := build(t, upstreams(good, good, good), strict)
	ask := func(id string) routertest.Result {
		return w.Send(t.Context(), routertest.NewRequest(routertest.Responses, "m", false).With("X-Session-Id", "s").Field("previous_response_id", `"`+id+`"`))
	}
	first := ask("unheard of")
	_, after, _ := strings.Cut(first.Body, `"id":"`)
	id, _, _ := strings.Cut(after, `"`)
	if id == "" {
		t.Fatal(first.Body)
	}
	owner := first.Header.Get("X-Router-Upstream")
	for _, u := range w.ups {
		u.Script(down)
	}
	if err := w.engine.Load(w.config(func(c *settings.Config) {
		strict(c)
		c.Upstreams[owner[0]-'a'].Enabled = false
	})); err != nil {
		t.Fatal(err)
	}
	ask(id)
	n := -1 // the first request
	for _, u := range w.ups {
		n += len(u.Calls())
	}
	if n != 1 {
		t.Errorf("%d targets were tried", n)
	}
}

// Presets that share presets are expanded once each, and not once for every way to them.
func TestDeepPresets(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), func(c *settings.Config) {
		const deep = 40
		for i := range deep {
			for _, side := range []string{"l", "r"} {
				p := settings.DefaultPreset()
				p.ID, p.Models = fmt.Sprint(side, i), []string{fmt.Sprint("l", i+1), fmt.Sprint("r", i+1)}
				if i == deep-1 {
					p.Models = []string{"m"}
				}
				c.Presets = append(c.Presets, p)
			}
		}
	})
	got := w.Send(t.Context(), routertest.NewRequest(routertest.Chat, "l0", false))
	if got.Status != http.StatusOK {
		t.Errorf("%d %s", got.Status, got.Body)
	}
}

// Nothing that a client makes up is a label of a metric.
func TestClientsMakeNoLabels(t *testing.T) {
	t.Parallel()
	reader := sdkmetric.NewManualReader()
	w := build(t, upstreams(good), func(c *settings.Config) { c.Models[0].ID = "*" },
		router.WithTelemetry(notrace.NewTracerProvider(), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), nolog.NewLoggerProvider()))
	for _, path := range []string{"/v1/chat/completions", "/strange/v1/chat/completions", "/upstreams/strange/v1/chat/completions"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+path, strings.NewReader(`{"model":"strange","user":"strange"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "strange.test"
		for _, name := range []string{"User-Agent", "X-Session-Id", "X-Claude-Code-Agent-Id", "X-Forwarded-Host", "X-Claude-Code-Request-Class"} {
			req.Header.Set(name, "strange")
		}
		tr := &http.Transport{DisableKeepAlives: true}
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			if text := fmt.Sprintf("%+v", m.Data); strings.Contains(text, "strange") {
				t.Errorf("%s: %.500s", m.Name, text)
			}
		}
	}
}

// A path that pins nobody is not one that pins nothing.
func TestEmptyPins(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), nil)
	for _, prefix := range []string{"/backends/", "/upstreams/", "/backend/a", "/Backends/a", "/v1/backends/a", "/backends/a/backends/a", "/upstream/a"} {
		got := w.do(http.MethodPost, prefix+"/v1/messages", nil, strings.NewReader(`{"model":"m"}`))
		refused(t, routertest.Messages, got, http.StatusNotFound, "/backends/NAME/")
	}
	got := w.do(http.MethodPost, "/backends/00/v1/messages", nil, strings.NewReader(`{"model":"m"}`))
	refused(t, routertest.Messages, got, http.StatusNotFound, "unknown backend")
}

// Patterns in a preset have pins of their own, though the client asks for the preset by one id.
func TestPatternsInAPresetKeepTheirPins(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(down, good, good), func(c *settings.Config) {
		preset(c, "failover")
		c.Models[0].ID, c.Models[1].ID = "x*", "y*"
		c.Models[1].Targets = c.Models[2].Targets
		c.Models[0].Targets = append(c.Models[0].Targets, settings.Target{Upstream: "b", Translate: "drop", Weight: 1})
		c.Models = c.Models[:2]
		for i := range c.Models {
			for j := range c.Models[i].Targets {
				c.Models[i].Targets[j].Model = "u"
			}
		}
		c.Presets[0].Models = []string{"x*", "y*"}
	})
	ask := func() string {
		return w.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", false).With("X-Session-Id", "s")).Header.Get("X-Router-Upstream")
	}
	first := ask()
	w.ups[1].Script(down)
	second := ask() // b, the session's own, fails
	for _, u := range w.ups {
		u.Script(good)
	}
	w.clock.Advance(time.Hour)
	if third := ask(); first != "b" || second != "c" || third != "b" {
		t.Errorf("the session went to %s, %s and %s", first, second, third)
	}
}
