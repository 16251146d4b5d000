package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/ledger/ledgertest"
	"github.com/signalbox-llm/signalbox/router/ledger/postgres"
	"github.com/signalbox-llm/signalbox/router/ledger/sqlite"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

func TestLedgerAgreesWithTheMetrics(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "usage.db"))
	if err != nil {
		t.Fatal(err)
	}
	ledgerAgrees(t, s)
}

func TestPostgresAgreesWithTheMetrics(t *testing.T) {
	t.Parallel()
	url, _, _ := ledgertest.Postgres(t)
	s, err := postgres.Open(t.Context(), url, "signalbox@test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ledgerAgrees(t, s)
}

// ledgerAgrees sends requests of all kinds through an engine, 10,000 of them with `make postgres`, and compares the sums of the
// store with the counters, to the token and to the cent.
func ledgerAgrees(t *testing.T, store ledger.Store) {
	t.Helper()
	requests := 1000
	if os.Getenv(ledgertest.PostgresBin) != "" {
		requests = 10_000
	}
	reader := sdkmetric.NewManualReader()
	engine := traffic(t, router.WithTelemetry(nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), nil))
	l := ledger.New(store, ledger.Options{Logger: slog.New(slog.DiscardHandler)})
	keep(engine, l)
	front := routertest.Serve(engine.Handler())
	sendAll(t, front, engine, requests)
	front.Close()
	var got *ledger.Answer
	eventually(t, "the last rows", func() bool {
		a, err := l.Ask(t.Context(), ledger.Question{Limit: 10, GroupBy: []string{"outcome"}})
		if err != nil {
			t.Fatal(err)
		}
		got = a
		return a.Totals.Requests == int64(requests)
	})
	want := ledger.Sums{Requests: int64(requests)}
	counted := sums(t, reader)
	want.Input, want.Output = int64(counted[telemetry.MetricUsageInput]), int64(counted[telemetry.MetricUsageOutput])
	want.CacheRead, want.CacheWrite = int64(counted[telemetry.MetricUsageCacheRead]), int64(counted[telemetry.MetricUsageCacheWrite])
	want.Reasoning = int64(counted[telemetry.MetricUsageReasoning])
	want.Cost, want.Savings = counted[telemetry.MetricCost], counted[telemetry.MetricSavings]
	sum := got.Totals
	if sum.Cost-sum.FailedCost <= 0 || sum.FailedCost <= 0 || sum.Unreported == 0 || sum.CacheRead == 0 || sum.Uncached == 0 {
		t.Errorf("something never happened: %+v", sum)
	}
	t.Logf("%+v", sum)
	sum.Uncached, sum.FailedCost, sum.Unreported = 0, 0, 0 // no metric has them
	if math.Abs(sum.Cost-want.Cost) < 1e-6 && math.Abs(sum.Savings-want.Savings) < 1e-6 {
		sum.Cost, sum.Savings = want.Cost, want.Savings
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Errorf("store against metrics (-metrics +store):\n%s", diff)
	}
	kinds := map[string]bool{}
	for _, g := range got.Groups {
		kinds[g.Key["outcome"]] = true
		t.Logf("%s: %d requests, %.4f USD", g.Key["outcome"], g.Requests, g.Cost)
	}
	for _, kind := range []string{
		telemetry.OutcomeSuccess, telemetry.OutcomeSuccessAfterFailover, telemetry.OutcomeFailed, telemetry.OutcomeRejected, telemetry.OutcomeCancelled,
		telemetry.AttemptFailedOver,
	} {
		if !kinds[kind] {
			t.Errorf("no request was %s", kind)
		}
	}
	if err := l.Close(context.Background()); err != nil || l.Dropped() != 0 {
		t.Errorf("%v, dropped %d", err, l.Dropped())
	}
}

// traffic is an engine with two priced accounts that speak Messages, of which the first fails at times after it has told
// what went in, and one that speaks Chat Completions, has no price and reports costs at times.
func traffic(t *testing.T, opts ...router.Option) *router.Router {
	t.Helper()
	cfg := settings.Defaults()
	cfg.Cooling.NoneEligible = "clear"
	random := rand.New(rand.NewPCG(1, 2))
	usage := func() routertest.Usage {
		return routertest.Usage{Input: 1 + random.IntN(5000), CacheRead: random.IntN(90_000), CacheWrite: random.IntN(3000), Output: 1 + random.IntN(900)}
	}
	var messages, spare, chat, slow []routertest.Reply
	for i := range 40_000 {
		good := routertest.Good("hello", usage())
		messages, spare, chat = append(messages, good), append(spare, routertest.Good("hello", usage())), append(chat, routertest.Good("hello", usage()))
		slow = append(slow, routertest.Stream(routertest.Messages, "hello", usage()).Events(3).Ending(routertest.Stall))
		switch i % 10 {
		case 3: // it has told its input and is cut before any output
			messages[i] = routertest.Stream(routertest.Messages, "hello", usage()).Events(1).Ending(routertest.Cut)
		case 5: // cut in the middle of the output
			messages[i] = routertest.Stream(routertest.Messages, "hello", usage()).Events(3).Ending(routertest.Cut)
		case 7:
			chat[i] = routertest.Body(200, "application/json", fmt.Sprintf(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},`+
				`"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":7,"total_tokens":9,"completion_tokens_details":{"reasoning_tokens":3},"cost":0.0123}}`, 10+i))
		case 8:
			messages[i], spare[i] = routertest.Fail(500, "broken"), routertest.Fail(400, "not like this")
		case 9:
			chat[i] = routertest.Answer(routertest.Chat, "hi", routertest.Usage{})
		}
	}
	price := &settings.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
	for name, replies := range map[string][]routertest.Reply{"first": messages, "spare": spare, "chat": chat, "slow": slow} {
		up := routertest.NewUpstream(replies...)
		t.Cleanup(up.Close)
		u := settings.DefaultUpstream()
		u.Name, u.BaseURL, u.Wires, u.APIKey = name, up.URL, []string{routertest.Messages}, settings.NewSecret("k", "test")
		if name == "chat" {
			u.Wires = []string{routertest.Chat}
		}
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	model := func(id string, p *settings.Price, upstreams ...string) {
		m := settings.DefaultModel()
		m.ID, m.Strategy, m.Price = id, "failover", p
		for _, name := range upstreams {
			target := settings.DefaultTarget()
			target.Upstream, target.Model = name, "real-"+id
			m.Targets = append(m.Targets, target)
		}
		cfg.Models = append(cfg.Models, m)
	}
	model("priced", price, "first", "spare")
	model("free", nil, "chat")
	model("endless", price, "slow") // its clients always leave in the middle
	engine, err := router.New(cfg, append(opts, router.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	return engine
}

// sendAll sends requests of all kinds: streams and whole answers, native and translated, some for nobody, some that their
// client leaves in the middle.
func sendAll(t *testing.T, front *routertest.Front, engine *router.Router, requests int) {
	t.Helper()
	work := make(chan int)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for i := range work {
				stream := i%3 != 0
				switch i % 8 {
				case 0:
					front.Send(t.Context(), routertest.NewRequest(routertest.Chat, "priced", stream)) // translated
				case 1, 2:
					front.Send(t.Context(), routertest.NewRequest(routertest.Chat, "free", stream))
				case 3:
					front.Send(t.Context(), routertest.NewRequest(routertest.Chat, "unknown", stream))
				case 4:
					front.Watch(t.Context(), routertest.NewRequest(routertest.Messages, [2]string{"priced", "endless"}[i/8%2], true), func(r routertest.Result) bool {
						return !strings.Contains(r.Body, "content_block_delta")
					})
				default:
					front.Send(t.Context(), routertest.NewRequest(routertest.Messages, "priced", stream).With("X-Session-Id", fmt.Sprint("s", i%50)))
				}
				if i%5 == 0 {
					engine.ResetHealth() // so that failures go on
				}
			}
		})
	}
	for i := range requests {
		work <- i
	}
	close(work)
	clients.Wait()
}

// sums adds up every counter.
func sums(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var rm metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &rm); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, scope := range rm.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					out[m.Name] += float64(p.Value)
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					out[m.Name] += p.Value
				}
			}
		}
	}
	return out
}

// BenchmarkStore measures requests per second with the store and without, in turns.
func BenchmarkStore(b *testing.B) {
	for round := range 3 {
		for _, on := range []bool{false, true} {
			b.Run(fmt.Sprintf("round=%d/store=%v", round, on), func(b *testing.B) { throughput(b, on) })
		}
	}
}

func throughput(b *testing.B, on bool) {
	up := routertest.NewUpstream()
	defer up.Close()
	cfg := settings.Defaults()
	u, m, target := settings.DefaultUpstream(), settings.DefaultModel(), settings.DefaultTarget()
	u.Name, u.BaseURL, u.Wires, u.APIKey = "a", up.URL, []string{routertest.Messages}, settings.NewSecret("k", "test")
	target.Upstream, target.Model = "a", "real"
	m.ID, m.Targets, m.Price = "m", []settings.Target{target}, &settings.Price{Input: 3, Output: 15}
	cfg.Upstreams, cfg.Models = []settings.Upstream{u}, []settings.Model{m}
	engine, err := router.New(cfg, router.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	defer engine.Close()
	if on {
		s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "usage.db"))
		if err != nil {
			b.Fatal(err)
		}
		l := ledger.New(s, ledger.Options{})
		defer func() {
			if err := l.Close(context.Background()); err != nil || l.Dropped() > 0 {
				b.Errorf("%v, %d rows dropped", err, l.Dropped())
			}
		}()
		keep(engine, l)
	}
	front := routertest.Serve(engine.Handler())
	defer front.Close()
	request := routertest.NewRequest(routertest.Messages, "m", false)
	b.ResetTimer()
	begun, from := time.Now(), processor(b)
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if got := front.Send(b.Context(), request); got.Status != 200 {
				b.Error(got)
			}
		}
	})
	b.ReportMetric(float64(b.N)/time.Since(begun).Seconds(), "requests/s")
	b.ReportMetric(float64((processor(b)-from).Microseconds())/float64(b.N), "cpu-us/request") // client and upstream included
}

// processor is how long this process was on a processor.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
