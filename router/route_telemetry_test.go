package router_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// clocked is observe with the test's own clock.
func clocked(t *testing.T, ups []*routertest.Upstream, change func(*settings.Config)) *observed {
	t.Helper()
	o := &observed{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader))
	o.world = build(t, ups, change, router.WithTelemetry(tracers, meters, nil))
	return o
}

// points are the values above zero of a sum, by the values of two attributes.
func (o *observed) points(name, first, second string) map[string]int64 {
	o.t.Helper()
	got := map[string]int64{}
	for _, m := range o.metrics() {
		if m.Name != name {
			continue
		}
		sum, _ := m.Data.(metricdata.Sum[int64])
		for _, p := range sum.DataPoints {
			a, _ := p.Attributes.Value(attribute.Key(first))
			b, _ := p.Attributes.Value(attribute.Key(second))
			if p.Value != 0 {
				got[a.AsString()+" "+b.AsString()] += p.Value
			}
		}
	}
	return got
}

// decisions are what the route spans of a model say, in the order of their ends.
func (o *observed) decisions(model string) (all []string) {
	for _, s := range o.find("route " + model) {
		all = append(all, s["signalbox.decision"].AsString())
	}
	return all
}

// moves are the sessions that moved, as "from to reason".
func (o *observed) moves() (all []string) {
	for _, s := range o.spans.GetSpans() {
		for _, e := range s.Events {
			if e.Name != "signalbox.affinity.moved" {
				continue
			}
			text := ""
			for _, kv := range e.Attributes {
				text += kv.Value.AsString() + " "
			}
			all = append(all, text)
		}
	}
	return all
}

func TestDecisionsAreTold(t *testing.T) {
	t.Parallel()
	o := clocked(t, upstreams(spentCache, spentCache), func(cfg *settings.Config) {
		cfg.Affinity.PinTTL, cfg.Affinity.CacheTTL = 10*time.Minute, 30*time.Minute
	})
	var want []string
	ends := func(r routertest.Request, to, decision string) {
		t.Helper()
		o.goes(r, to)
		want = append(want, decision)
	}
	ends(turn(""), "a", "strategy")
	ends(turn("s"), "a", "strategy")
	ends(turn("s"), "a", "sticky")
	o.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"), spentCache)
	ends(turn("s"), "b", "failover")
	ends(turn("s"), "b", "sticky")
	ends(turn("t"), "b", "strategy") // a rests, so that b is what the strategy gives
	ends(below("/backends/b", turn("u")), "b", "pinned")
	o.clock.Advance(20 * time.Minute)
	ends(turn("t"), "b", "cache")
	ends(responses("r", ""), "a", "strategy")
	ends(responses("r2", `"previous_response_id":"resp_1"`), "a", "strategy") // nobody is known to have issued it
	ends(responses("r3", `"previous_response_id":"resp_5"`), "a", "sticky")
	_ = o.engine.Cool("a", "", 0)
	_ = o.engine.Cool("b", "", 0)
	ends(turn(""), "503 router_unavailable", "none")
	ends(below("/backends/b", turn("u")), "503 router_unavailable", "none")
	o.close()
	if diff := cmp.Diff(want, o.decisions("m")); diff != "" {
		t.Error(diff)
	}
	var kinds []string
	for _, r := range o.engine.Status().Recent {
		kinds = append([]string{r.Kind}, kinds...)
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("status:\n%s", diff)
	}
}

func TestAffinityDecisionsAreCounted(t *testing.T) {
	t.Parallel()
	o := clocked(t, upstreams(spentCache, spentCache), func(cfg *settings.Config) {
		cfg.Affinity.PinTTL, cfg.Affinity.CacheTTL = 10*time.Minute, 30*time.Minute
	})
	limit := routertest.Fail(429, "slow").With("Retry-After", "60")
	o.goes(turn(""), "a", "a")                                    // none none, twice
	o.goes(turn("s"), "a", "a", "a")                              // new, hit, hit
	o.goes(below("/backends/b", turn("s")), "b")                  // counts for nothing
	o.goes(routertest.NewCount("m").With("Session-Id", "s"), "a") // nor does this
	for _, r := range beside() {
		o.goes(r, "a") // nor do these
	}
	o.ups[0].Script(limit, spentCache)
	o.goes(turn("s"), "b", "b") // moved, hit
	o.clock.Advance(5 * time.Minute)
	o.goes(turn("t"), "a") // new
	o.clock.Advance(40 * time.Minute)
	o.goes(turn("t"), "a") // expired, and the cache too
	o.clock.Advance(20 * time.Minute)
	o.goes(turn("t"), "a") // by the cache
	o.goes(responses("r", ""), "a")
	o.goes(responses("r", `"previous_response_id":"resp_99"`), "a") // nobody is known
	last := len(o.ups[0].Calls()) - 1
	o.goes(responses("r", `"previous_response_id":"resp_`+strconv.Itoa(last)+`"`), "a")
	want := map[string]int64{
		"none none": 2, "session new": 3, "session hit": 3, "session moved": 1, "session expired": 1, "cache hit": 1, "response none": 1, "response hit": 1,
	}
	if diff := cmp.Diff(want, o.points("signalbox.affinity.decisions", "signalbox.kind", "signalbox.result")); diff != "" {
		t.Error(diff)
	}
	entries := map[string]int64{"session ": 3, "cache ": 3, "response ": 3}
	if diff := cmp.Diff(entries, o.points("signalbox.affinity.entries", "signalbox.kind", "")); diff != "" {
		t.Errorf("entries:\n%s", diff)
	}
	if n := o.engine.ResetHealth().Pins; n != 3-1 { // s has expired by now
		t.Errorf("%d pins", n)
	}
	if diff := cmp.Diff(map[string]int64{"response ": 3}, o.points("signalbox.affinity.entries", "signalbox.kind", "")); diff != "" {
		t.Errorf("entries after a reset:\n%s", diff)
	}
}

// Why a session left its owner: what the owner did, what holds it, or that it is there no more.
func TestMovesAreTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		act        func(o *observed) (undo func())
	}{
		{"it failed under the session itself", "a b provider_server_error ", func(o *observed) func() {
			o.ups[0].Script(routertest.Fail(500, "down"))
			return nil
		}},
		{"it was limited under another", "a b rate_limit ", func(o *observed) func() {
			o.ups[0].Script(routertest.Fail(429, "slow"))
			o.goes(turn("other"), "b")
			return nil
		}},
		{"it is full", "a b full ", func(o *observed) func() {
			release := o.hold(0)
			running := o.inBackground(turn(""))
			o.ups[0].Await(1)
			return func() { release(); <-running }
		}},
		{"it is gone", "a b gone ", func(o *observed) func() {
			if err := o.engine.Load(o.config(func(cfg *settings.Config) { cfg.Models[0].Targets = cfg.Models[0].Targets[1:] })); err != nil {
				o.t.Fatal(err)
			}
			return nil
		}},
	} {
		o := clocked(t, upstreams(plain, plain), func(cfg *settings.Config) { cfg.Upstreams[0].MaxConcurrent = 1 })
		o.goes(turn("s"), "a")
		undo := c.act(o)
		o.goes(turn("s"), "b", "b")
		if undo != nil {
			undo()
		}
		o.close()
		if diff := cmp.Diff([]string{c.want}, o.moves()); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
	// An operator's word forgets the pin, so that nothing moves.
	o := clocked(t, upstreams(plain, plain), nil)
	o.goes(turn("s"), "a")
	_ = o.engine.Cool("a", "", 0)
	o.goes(turn("s"), "b")
	o.close()
	if got := o.moves(); got != nil {
		t.Errorf("it moved: %v", got)
	}
}

// Everything about choosing stays within the contract, and shows nobody's secrets.
func TestTelemetryOfChoosingKeepsTheContract(t *testing.T) {
	t.Parallel()
	o := clocked(t, upstreams(spentCache, spentCache), func(cfg *settings.Config) {
		teams(cfg)
		cfg.Groups[0].Upstreams = []string{"b"}
		cfg.Groups = cfg.Groups[:1]
		retrying(1)(cfg)
		cfg.Models[0].Retry.Base = 2 * time.Millisecond
	})
	ops := turn("s").With("X-Api-Key", "key-of-ops")
	o.goes(ops, "a")
	o.ups[0].Script(routertest.Fail(503, "busy"), spentCache)
	o.goes(ops, "b")
	o.goes(turn("s").With("X-Api-Key", "key-of-agents"), "b")
	o.ups[1].Script(routertest.Fail(503, "busy"), spentCache)
	o.goes(ops, "b")
	o.close()
	contract := telemetry.Contract()
	for _, s := range o.spans.GetSpans() {
		o.inContract(contract, s)
	}
	if len(o.find("wait retry")) != 1 || len(o.moves()) != 1 {
		t.Errorf("%d waits, moves %v", len(o.find("wait retry")), o.moves())
	}
}

// What holds an account off holds all of its targets off, and the state of a target says so.
func TestTargetStatesFollowTheirAccount(t *testing.T) {
	t.Parallel()
	o := clocked(t, three(), nil)
	if err := o.engine.Cool("b", "", 0); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{"a healthy": 1, "b cooling": 1, "c healthy": 1}
	if diff := cmp.Diff(want, o.points("signalbox.target.state", "signalbox.upstream", "signalbox.state")); diff != "" {
		t.Error(diff)
	}
}

// The first chunk of a stream is an event of its route, once; an answer that comes as a whole ends its span.
func TestEventOfTheFirstChunk(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		o := observe(t, upstreams(good), nil)
		o.ask(wire, stream)
		o.completed()
		n := 0
		for _, e := range o.spanNamed("route").Events {
			if e.Name == "signalbox.first_chunk" {
				n++
			}
		}
		want := 0
		if stream {
			want = 1
		}
		if n != want {
			t.Errorf("%d events, want %d", n, want)
		}
	})
}

// A configuration of many models leaves room for the series of what happens.
func TestManyModelsLeaveRoomForSeries(t *testing.T) {
	t.Parallel()
	const last = 300
	o := observe(t, upstreams(good, good), func(cfg *settings.Config) {
		first := cfg.Models[0]
		for i := range last {
			m := first
			m.ID = "m" + strconv.Itoa(i+1)
			cfg.Models = append(cfg.Models, m)
		}
	})
	zeros := o.sums("signalbox.requests")
	if len(zeros) < 1000 || len(zeros) > 1500 {
		t.Errorf("%d series before anything has happened", len(zeros))
	}
	o.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m"+strconv.Itoa(last), false))
	const set = "signalbox.error.class=none,signalbox.model=m300,signalbox.outcome=success,signalbox.wire=openai-chat"
	if got := o.sums("signalbox.requests"); got[set] != 1 {
		t.Errorf("%s is %v of %d", set, got[set], len(got))
	}
}

// Who is neither on this machine nor shows a key may not join its trace to ours: it is linked.
func TestAStrangersTraceIsLinked(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(good), func(cfg *settings.Config) {
		cfg.Server.Listen, cfg.Server.AllowUnauthenticated = "0.0.0.0:4141", true
	})
	o.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", true).With("Traceparent", "00-"+theirTrace+"-b7ad6b7169203331-01"))
	o.completed()
	o.close()
	if id := o.spanNamed("route m").SpanContext.TraceID().String(); id == theirTrace {
		t.Error("the client's trace is joined")
	}
	for _, s := range o.spans.GetSpans() {
		if linked := len(s.Links) == 1 && s.Links[0].SpanContext.TraceID().String() == theirTrace; linked != (s.SpanKind == trace.SpanKindServer) {
			t.Errorf("%v span %s has the links %v", s.SpanKind, s.Name, s.Links)
		}
	}
}
