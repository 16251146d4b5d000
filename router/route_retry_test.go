package router_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// retrying repeats up to n times on the same target, without a wait.
func retrying(n int) func(*settings.Config) {
	return func(cfg *settings.Config) { cfg.Models[0].Retry.Max, cfg.Models[0].Retry.Base = n, 0 }
}

func (w *world) counts() (n []int) {
	for _, u := range w.ups {
		n = append(n, len(u.Calls()))
	}
	return n
}

func (w *world) called(what string, want ...int) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.counts()); diff != "" {
		w.t.Errorf("%s: calls of each upstream:\n%s", what, diff)
	}
}

func TestRetriesOnlyWhatMayPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		reply routertest.Reply
		again bool
	}{
		{"502", routertest.Fail(502, "bad gateway"), true},
		{"503", routertest.Fail(503, "restarting"), true},
		{"504", routertest.Fail(504, "too late"), true},
		{"529", routertest.Fail(529, "overloaded"), true},
		{"reset", routertest.Nothing(routertest.Reset), true},
		{"cut", routertest.Nothing(routertest.Cut), true},
		{"500", routertest.Fail(500, "broken"), false},
		{"429", routertest.Fail(429, "slow"), false},
		{"401", routertest.Fail(401, "bad key"), false},
		{"402", routertest.Fail(402, "pay"), false},
		{"400", routertest.Fail(400, "max_tokens is missing"), false},
		{"404", routertest.Fail(404, "nothing here"), false},
		{"HTML", routertest.Body(200, "text/html", "<html></html>"), false},
	} {
		forms(t, func(t *testing.T, wire string, stream bool) {
			w := build(t, upstreams(c.reply, good), func(cfg *settings.Config) {
				retrying(2)(cfg)
				cfg.Models[0].Targets = cfg.Models[0].Targets[:1]
			})
			got := w.ask(wire, stream)
			want := 1
			if c.again {
				want = 3
			}
			w.called(c.name, want, 0)
			if e := w.completed(); e.Attempts != 1 || got.Status == 200 && c.name != "HTML" {
				t.Errorf("%s: %d attempts, status %d", c.name, e.Attempts, got.Status)
			}
		})
	}
}

func TestRetriesEndWithTheFirstThatIsWell(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), retrying(5))
	w.ups[0].Script(routertest.Fail(503, "busy"), routertest.Fail(529, "overloaded"), good)
	w.goes(turn(""), "a")
	w.called("two failures", 3)
	if e := w.completed(); e.Attempts != 1 || e.Outcome != "success" {
		t.Errorf("%+v", e)
	}
	if u := w.engine.Status().Upstreams[0]; u.Targets[0].State != "healthy" || u.LastError != nil {
		t.Errorf("a target that was well in the end: %+v", u)
	}
}

// A stream that has begun is never repeated.
func TestRetriesNeverRepeatAStreamThatHasBegun(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Stream(routertest.Chat, words, spent).Events(3).Ending(routertest.Cut)), retrying(5))
	got := w.ask(routertest.Chat, true)
	if got.Err == nil {
		t.Errorf("it ended well: %s", got.Body)
	}
	w.called("a cut stream", 1)
}

// Another target comes first: only the last one is asked again, and it is booked once.
func TestRetriesAreForTheLastTarget(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Fail(503, "busy"), routertest.Fail(503, "busy")), retrying(3))
	w.goes(turn(""), "503 server_error")
	w.called("both fail", 1, 4)
	if e := w.completed(); e.Attempts != 2 {
		t.Errorf("%d attempts", e.Attempts)
	}
	for _, u := range w.engine.Status().Upstreams {
		if target := u.Targets[0]; target.State != "cooling" || target.Failures != 1 || target.RemainingMS != 30_000 {
			t.Errorf("%s is booked as %+v", u.Name, target)
		}
	}
	// With the other one out there is none to go to, so that the first is repeated at once.
	w.engine.ResetHealth()
	_ = w.engine.Cool("b", "", 0)
	w.goes(turn(""), "503 server_error")
	w.called("the other is out", 5, 4)
}

func TestSameTargetFirst(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Fail(503, "busy"), routertest.Fail(503, "busy"), good), func(cfg *settings.Config) {
		cfg.Failover.SameTargetFirst, cfg.Models[0].Retry.Base = 2, 0
	})
	w.goes(turn(""), "c")
	w.called("two that fail", 3, 3, 1)
	if e := w.completed(); e.Attempts != 3 || e.Outcome != "success_after_failover" {
		t.Errorf("%+v", e)
	}
	// What another send would not mend is left at once.
	w.engine.ResetHealth()
	w.ups[0].Script(routertest.Fail(429, "slow"))
	w.ups[1].Script(routertest.Fail(500, "down"))
	w.goes(turn(""), "c")
	w.called("two that will not change", 4, 4, 2)
}

// Both kinds add up where there is no other target.
func TestSameTargetFirstAndLast(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(routertest.Fail(503, "busy"), routertest.Fail(503, "busy")), func(cfg *settings.Config) {
		retrying(2)(cfg)
		cfg.Failover.SameTargetFirst = 1
	})
	w.goes(turn(""), "503 server_error")
	w.called("first and last", 2, 4)
}

// sends lists when an upstream was asked, in seconds from the first, and what came of it in the end.
func sends(t *testing.T, reply routertest.Reply, change func(*settings.Config)) (at []float64, status int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewInMemoryExporter()
		b, end := inBubble(t, []routertest.Reply{reply}, change,
			router.WithTelemetry(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), sdkmetric.NewMeterProvider(), nil))
		start := time.Now()
		status = b.send(context.Background(), turn("")).Status
		end()
		for _, s := range spans.GetSpans() {
			if s.SpanKind == trace.SpanKindClient && s.Name == "POST /v1/chat/completions" {
				at = append(at, s.StartTime.Sub(start).Seconds())
			}
		}
	})
	return at, status
}

func TestRetryWaits(t *testing.T) {
	for _, c := range []struct {
		name   string
		reply  routertest.Reply
		change func(*settings.Config)
		want   []float64
	}{
		{"doubling to the cap, within the budget", routertest.Fail(503, "busy"), nil, []float64{0, 1, 3, 7, 15}},
		{
			"at most so many", routertest.Fail(503, "busy"), func(cfg *settings.Config) { cfg.Models[0].Retry.Max = 2 },
			[]float64{0, 1, 3},
		},
		{
			"in larger steps", routertest.Fail(503, "busy"), func(cfg *settings.Config) { cfg.Models[0].Retry.Multiplier = 3 },
			[]float64{0, 1, 4, 12},
		},
		{"a hint that is longer", routertest.Fail(503, "busy").With("Retry-After", "5"), nil, []float64{0, 5, 10, 15}},
		{"a hint that is longer than the budget", routertest.Fail(503, "busy").With("Retry-After", "16"), nil, []float64{0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			at, status := sends(t, c.reply, func(cfg *settings.Config) {
				cfg.Models[0].Retry.Max = 9
				if c.change != nil {
					c.change(cfg)
				}
			})
			if diff := cmp.Diff(c.want, at); diff != "" || status != 503 {
				t.Errorf("status %d, asked at:\n%s", status, diff)
			}
		})
	}
}

// A client that leaves while its request waits is not waited for.
func TestClientLeavesWhileARetryWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, end := inBubble(t, []routertest.Reply{routertest.Fail(503, "busy")}, func(cfg *settings.Config) {
			cfg.Models[0].Retry = settings.Retry{Max: 1, Base: time.Minute, Cap: time.Hour, Multiplier: 2}
		})
		defer end()
		start := time.Now()
		ctx, leave := context.WithTimeout(context.Background(), 5*time.Second)
		defer leave()
		got := b.send(ctx, turn(""))
		e := <-b.ended
		if got.Err == nil || time.Since(start) != 5*time.Second || e.Outcome != "cancelled" || len(b.ups[0].Calls()) != 1 {
			t.Errorf("after %v: %v, outcome %s, %d calls", time.Since(start), got.Err, e.Outcome, len(b.ups[0].Calls()))
		}
	})
}

// sums adds up what a histogram has recorded, by the values of some attributes.
func sums(m metricdata.Metrics, keys ...string) map[string]string {
	out := map[string]string{}
	h, _ := m.Data.(metricdata.Histogram[float64])
	for _, p := range h.DataPoints {
		name := ""
		for _, k := range keys {
			for _, kv := range p.Attributes.ToSlice() {
				if string(kv.Key) == k {
					name += kv.Value.AsString() + " "
				}
			}
		}
		out[name] = fmt.Sprint(p.Count, "x ", p.Sum)
	}
	return out
}

func TestWaitsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans, reader := tracetest.NewInMemoryExporter(), sdkmetric.NewManualReader()
		b, end := inBubble(t, []routertest.Reply{routertest.Fail(503, "busy")}, func(cfg *settings.Config) {
			retrying(2)(cfg)
			cfg.Models[0].Retry.Base = time.Second
			ceiling(1, 5)(cfg)
		}, router.WithTelemetry(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), nil))
		defer end()
		o := &observed{world: b.world, spans: spans, reader: reader}
		first, second := make(chan string, 1), make(chan string, 1)
		go func() { first <- gist(b.send(context.Background(), turn(""))) }()
		time.Sleep(500 * time.Millisecond)
		go func() { second <- gist(b.send(context.Background(), turn(""))) }()
		synctest.Wait()
		b.ups[0].Script(routertest.Fail(503, "busy"), good)
		if got := <-first; got != "a" {
			t.Errorf("the first went to %s", got)
		}
		if got := <-second; got != "a" {
			t.Errorf("the second went to %s", got)
		}
		want := map[string]string{"m queue ": "1x 2.5", "m retry ": "2x 3"}
		for _, m := range o.metrics() {
			if m.Name == "signalbox.wait" {
				if diff := cmp.Diff(want, sums(m, "signalbox.model", "signalbox.reason")); diff != "" {
					t.Errorf("signalbox.wait:\n%s", diff)
				}
				want = nil
			}
		}
		if want != nil {
			t.Error("signalbox.wait was not recorded")
		}
		trees := []string{
			"POST /v1/chat/completions server Unset\n route m internal Unset\n  chat m client Unset\n   POST /v1/chat/completions client Error\n" +
				"   wait retry internal Unset\n   POST /v1/chat/completions client Error\n   wait retry internal Unset\n   POST /v1/chat/completions client Unset\n",
			"POST /v1/chat/completions server Unset\n route m internal Unset\n  wait queue internal Unset\n  chat m client Unset\n   POST /v1/chat/completions client Unset\n",
		}
		if diff := cmp.Diff(trees, o.trees()); diff != "" {
			t.Errorf("spans:\n%s", diff)
		}
		lengths := map[string][]string{}
		for _, s := range o.spans.GetSpans() {
			lengths[s.Name] = append(lengths[s.Name], s.EndTime.Sub(s.StartTime).String())
		}
		if diff := cmp.Diff([][]string{{"2.5s"}, {"1s", "2s"}}, [][]string{lengths["wait queue"], lengths["wait retry"]}); diff != "" {
			t.Errorf("lengths of the waits:\n%s", diff)
		}
	})
}
