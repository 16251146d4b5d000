package router_test

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// attrOf is the value of an attribute of the only span whose name begins so.
func (o *observed) attrOf(span, key string) attribute.Value {
	o.t.Helper()
	for _, kv := range o.spanNamed(span).Attributes {
		if string(kv.Key) == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

// A client that leaves is nobody's failure: no span is an error, and the request is counted as cancelled.
func TestTelemetryOfClientsThatLeave(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		o := observe(t, upstreams(routertest.Nothing(routertest.Stall), good), nil)
		ctx, leave := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() { o.Send(ctx, routertest.NewRequest(wire, "m", stream)) })
		o.ups[0].Await(0)
		leave()
		client.Wait()
		o.completed()
		o.close()
		for _, s := range o.spans.GetSpans() {
			// The sends are otelhttp's own, and an interrupted one is an error to it.
			if s.Status.Code != codes.Unset && !strings.HasPrefix(s.Name, "POST ") {
				t.Errorf("span %s: %v", s.Name, s.Status)
			}
		}
		if got := o.attrOf("route m", "signalbox.outcome").AsString(); got != "cancelled" {
			t.Errorf("outcome %q", got)
		}
		if got := o.attrOf(operations[wire]+" m", "signalbox.attempt.outcome").AsString(); got != "cancelled" {
			t.Errorf("outcome of the attempt %q", got)
		}
		if diff := cmp.Diff(map[string]int64{"cancelled caller_cancelled": 1}, o.points("signalbox.requests", "signalbox.outcome", "signalbox.error.class")); diff != "" {
			t.Error(diff)
		}
		if got := o.points("signalbox.failovers", "signalbox.upstream", ""); len(got) > 0 {
			t.Errorf("failovers: %v", got)
		}
	})
}

// A stream that breaks in the middle is an error on each span, and the server span keeps what it knew: the connection is
// aborted by a panic that must not pass through it.
func TestTelemetryOfTruncatedStreams(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		o := observe(t, upstreams(routertest.Stream(wire, words, spent).Events(7).Ending(routertest.Cut), good), nil)
		if got := o.ask(wire, true); got.Err == nil {
			t.Errorf("%s: the client was not told", wire)
		}
		o.completed()
		o.close()
		for _, name := range []string{operations[wire] + " m", "route m"} {
			if s := o.spanNamed(name); s.Status.Code != codes.Error || o.attrOf(name, "error.type").AsString() != "stream_truncated" ||
				o.attrOf(name, "signalbox.error.class").AsString() != "provider_stream_truncated" {
				t.Errorf("%s: span %s: %v %v", wire, name, s.Status, s.Attributes)
			}
		}
		servers := o.find(routes[wire])
		server := servers[len(servers)-1]
		if server["http.route"].AsString() == "" || server["http.response.status_code"].AsInt64() != 200 || server["error.type"].AsString() != "stream_truncated" {
			t.Errorf("%s: server span %v", wire, server)
		}
		if n := len(o.sums("http.server.request.duration")); n != 1 {
			t.Errorf("%s: %d series of http.server.request.duration", wire, n)
		}
		if diff := cmp.Diff(map[string]int64{"failed provider_stream_truncated": 1}, o.points("signalbox.requests", "signalbox.outcome", "signalbox.error.class")); diff != "" {
			t.Errorf("%s:\n%s", wire, diff)
		}
	}
}

// Keys are in headers, in the query, in the body and in what an upstream says. None of them leaves, and neither do prompts
// and answers; with contents asked for these do, and what their owner wrote into the body, but no key that was used as one.
func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, mode := range []string{"off", "failed", "all"} {
			quoting := routertest.Fail(401, "the key sk-of-a-planted-0001 is not known").With("Set-Cookie", "of=cookie-planted-0002").
				With("X-Token", "token-planted-0003").With("X-Echo", "sk-of-a-planted-0001")
			r := record(t, upstreams(quoting, good), func(cfg *settings.Config) {
				cfg.Auth.Keys = keys()
				cfg.Auth.Keys[0].Secret = settings.NewSecret("key-of-agents-planted-0004", "")
				cfg.Upstreams[0].APIKey = settings.NewSecret("sk-of-a-planted-0001", "")
				cfg.Upstreams[0].Headers = map[string]settings.Secret{"X-Gateway-Token": settings.NewSecret("gateway-planted-0005", "")}
				cfg.Telemetry.Capture = mode
			})
			req := routertest.NewRequest(wire, "m", stream).With("Authorization", "Bearer key-of-agents-planted-0004").
				With("X-Api-Key", "second-planted-0006").With("Cookie", "of=client-planted-0007").With("X-Secret", "planted-0008").
				Field("user", `"user-planted-0009"`).Field("note", `"key-of-body-planted-0010"`)
			req.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(req.Path, "?")] + "key=query-planted-0011&secret=query-planted-0012"
			if got := r.Send(t.Context(), req); got.Status != 200 {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			r.completed()
			r.close()
			out := r.everything()
			if mode != "off" {
				for _, known := range []string{"user-planted-0009", "key-of-body-planted-0010"} {
					if !strings.Contains(out, known) {
						t.Errorf("%s: the body is not told", mode)
					}
					out = strings.ReplaceAll(out, known, "")
				}
				if told := strings.Contains(out, "One"); told != (mode == "all") {
					t.Errorf("%s: the answer is told: %v", mode, told)
				}
			} else if strings.Contains(out, "Say hello") || strings.Contains(out, "One") {
				t.Errorf("a prompt or an answer left")
			}
			if i := strings.Index(out, "planted"); i >= 0 {
				t.Errorf("%s: a secret left: %s", mode, out[max(0, i-200):min(len(out), i+30)])
			}
		}
	})
}

// theirTrace is the id of a client's trace.
const theirTrace = "0af7651916cd43dd8448eb211c80319c"

// What the client's trace is called is nobody's business outside, unless the configuration says so.
func TestTraceContextStaysInside(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		o := observe(t, upstreams(good), func(cfg *settings.Config) { cfg.Telemetry.PropagateUpstream = wanted })
		o.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", true).With("Traceparent", "00-"+theirTrace+"-b7ad6b7169203331-01").
			With("Tracestate", "of=client").With("Baggage", "of=client"))
		o.completed()
		o.close()
		h := o.ups[0].Calls()[0].Header
		if got := strings.Contains(h.Get("Traceparent"), theirTrace); got != wanted || h.Get("Baggage") != "" || !wanted && (h.Get("Traceparent") != "" || h.Get("Tracestate") != "") {
			t.Errorf("propagate_upstream %v: %v", wanted, h)
		}
		if id := o.spanNamed("route m").SpanContext.TraceID().String(); id != theirTrace { // the listener is on this machine
			t.Errorf("the client's trace is not joined: %s", id)
		}
	}
}

func TestUnknownModelsAreOneSeries(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(good), nil)
	count := func() map[string]int {
		n := map[string]int{}
		for _, m := range o.metrics() {
			n[m.Name] = len(setsOf(m))
		}
		return n
	}
	before, h := count(), o.engine.Handler()
	for i := range 10_000 {
		req := routertest.NewRequest(routertest.Wires[i%2], fmt.Sprintf("model-%d", i), false)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", req.Path, strings.NewReader(req.Body)))
		o.completed()
		if i == 1 { // one of each wire
			for name, n := range count() {
				if n-before[name] > 2 {
					t.Errorf("%s has %d series more after two requests", name, n-before[name])
				}
			}
			before = count()
		}
	}
	if diff := cmp.Diff(before, count()); diff != "" {
		t.Errorf("unknown models add series (-before +after):\n%s", diff)
	}
	for _, m := range o.metrics() {
		for _, s := range setsOf(m) {
			if text := s.Encoded(attribute.DefaultEncoder()); strings.Contains(text, "model-") {
				t.Errorf("%s: %s", m.Name, text)
			}
		}
	}
	names := map[string]bool{}
	for _, s := range o.spans.GetSpans() {
		names[s.Name] = true
	}
	if len(names) > 3 {
		t.Errorf("%d span names", len(names))
	}
}

// Whatever happens to targets, each is in exactly one state; one that is gone is in none.
func TestStateSetsSumToOne(t *testing.T) {
	t.Parallel()
	o := clocked(t, three(), func(cfg *settings.Config) { cfg.Models = append(cfg.Models, modelNamed("n", "a/x", "b/y", "b/z")) })
	check := func(when string, targets int) {
		t.Helper()
		sums := map[string]float64{}
		for set, v := range o.sums("signalbox.target.state") {
			keep := slices.DeleteFunc(strings.Split(set, ","), func(kv string) bool { return strings.HasPrefix(kv, "signalbox.state=") })
			sums[strings.Join(keep, ",")] += v
		}
		if len(sums) != targets {
			t.Errorf("%s: %d targets, want %d: %v", when, len(sums), targets, sums)
		}
		for target, v := range sums {
			if v != 1 {
				t.Errorf("%s: %s is in %v states", when, target, v)
			}
		}
	}
	check("at first", 6)
	o.ups[0].Script(routertest.Fail(429, "slow").With("Retry-After", "60"))
	o.ups[1].Script(routertest.Fail(401, "bad key"))
	o.ask(routertest.Chat, false)
	check("after failures", 6)
	o.clock.Advance(90_000_000_000)
	check("when a rest is over", 6)
	_ = o.engine.Cool("c", "", 0)
	check("cooled by hand", 6)
	reload := func(change func(*settings.Config)) {
		t.Helper()
		if err := o.engine.Load(o.config(change)); err != nil {
			t.Fatal(err)
		}
	}
	reload(func(cfg *settings.Config) { cfg.Upstreams[1].Enabled = false })
	check("one off, and model n gone", 3)
	reload(func(cfg *settings.Config) {
		cfg.Upstreams, cfg.Models[0].Targets = cfg.Upstreams[1:], cfg.Models[0].Targets[1:]
	})
	check("an upstream gone", 2)
	for _, name := range []string{"signalbox.target.state", "signalbox.cooling.remaining"} {
		for _, m := range o.metrics() {
			for _, s := range setsOf(m) {
				if v, _ := s.Value("signalbox.upstream"); m.Name == name && v.AsString() == "a" {
					t.Errorf("%s still tells of a: %s", name, s.Encoded(attribute.DefaultEncoder()))
				}
			}
		}
	}
}

// What alerts read is there before anything has happened, and nothing else is.
func TestSeriesOfAlertsBeginAtZero(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(good, good), func(cfg *settings.Config) {
		cfg.Models[0].Price = &settings.Price{Input: 3}
		cfg.Upstreams[0].Wires, cfg.Upstreams[1].Wires = []string{routertest.Chat}, []string{routertest.Chat}
	})
	const m = "signalbox.model=m"
	for name, wanted := range map[string][]string{
		"signalbox.requests": {
			"signalbox.error.class=none," + m + ",signalbox.outcome=success,signalbox.wire=openai-chat",
			"signalbox.error.class=provider_stream_truncated," + m + ",signalbox.outcome=failed,signalbox.wire=openai-chat",
			"signalbox.error.class=router_internal," + m + ",signalbox.outcome=failed,signalbox.wire=openai-chat",
			"signalbox.error.class=router_none_eligible," + m + ",signalbox.outcome=failed,signalbox.wire=openai-chat",
		},
		"signalbox.attempts":         {"gen_ai.provider.name=openai,signalbox.attempt.reason=initial,signalbox.error.class=none," + m + ",signalbox.upstream=a"},
		"signalbox.failovers":        {"signalbox.error.class=provider_rate_limited," + m + ",signalbox.upstream=b"},
		"signalbox.coolings":         {"signalbox.reason=auth,signalbox.scope=account,signalbox.source=policy,signalbox.upstream=a"},
		"signalbox.config.reloads":   {"signalbox.result=rejected"},
		"signalbox.cost":             {m + ",signalbox.source=calculated,signalbox.upstream=a"},
		"signalbox.cache.savings":    {m + ",signalbox.upstream=b"},
		"signalbox.upstream.active":  {"signalbox.upstream=a"},
		"signalbox.affinity.entries": {"signalbox.kind=session"},
	} {
		got := o.sums(name)
		for _, set := range wanted {
			if v, ok := got[set]; !ok || v != 0 {
				t.Errorf("%s{%s} is %v, there: %v; there are %v", name, set, v, ok, got)
			}
		}
		for set := range got {
			if strings.Contains(set, "wire=gemini") {
				t.Errorf("%s{%s}: nobody can serve that", name, set)
			}
		}
	}
}

func TestCountersOutliveReloads(t *testing.T) {
	t.Parallel()
	priced := func(cfg *settings.Config) {
		cfg.Models[0].Price = &settings.Price{Input: 3, Output: 15, CacheRead: 0.3}
	}
	o := clocked(t, upstreams(good, good), priced)
	last := map[string]map[string]float64{}
	check := func(when string) {
		t.Helper()
		next := map[string]map[string]float64{}
		for _, m := range o.metrics() {
			if isMonotonic(m) {
				next[m.Name] = sumsOf(m)
			}
		}
		for name, sets := range last {
			for set, v := range sets {
				if now, ok := next[name][set]; !ok || now < v {
					t.Errorf("%s: %s{%s} fell from %v to %v", when, name, set, v, now)
				}
			}
		}
		last = next
	}
	use := func() {
		o.engine.ResetHealth()
		for _, wire := range routertest.Wires {
			o.ups[0].Script(routertest.Fail(429, "slow"), good)
			o.ask(wire, true)
			o.ask(wire, false)
		}
	}
	use()
	check("at first")
	for i, change := range []func(*settings.Config){
		priced,
		func(cfg *settings.Config) { cfg.Upstreams[0].APIKey = settings.NewSecret("sk-of-another", "") },
		func(cfg *settings.Config) { cfg.Models[0].Targets = cfg.Models[0].Targets[1:] },
		priced,
	} {
		if err := o.engine.Load(o.config(change)); err != nil {
			t.Fatal(err)
		}
		check(fmt.Sprint("reload ", i))
		use()
		check(fmt.Sprint("after reload ", i))
	}
	if got := o.sums("signalbox.cost"); len(got) != 2 {
		t.Errorf("cost: %v", got)
	}
}

func TestCostIsTold(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		o := observe(t, upstreams(routertest.Fail(429, "slow"), good), func(cfg *settings.Config) {
			cfg.Models[0].Price = &settings.Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}
			cfg.Models = append(cfg.Models, modelNamed("free", "b"))
		})
		o.Send(t.Context(), routertest.NewRequest(wire, "m", stream))
		o.Send(t.Context(), routertest.NewRequest(wire, "free", stream))
		o.Send(t.Context(), routertest.NewCount("m"))
		o.close()
		const cost, saved = (11*3 + 7*0.3 + 5*15) / 1e6, 7 * 2.7 / 1e6
		near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })
		if diff := cmp.Diff(map[string]float64{
			"signalbox.model=m,signalbox.source=calculated,signalbox.upstream=a": 0,
			"signalbox.model=m,signalbox.source=calculated,signalbox.upstream=b": cost,
		}, o.sums("signalbox.cost"), near); diff != "" {
			t.Errorf("cost:\n%s", diff)
		}
		if diff := cmp.Diff(map[string]float64{
			"signalbox.model=m,signalbox.upstream=a": 0, "signalbox.model=m,signalbox.upstream=b": saved,
		}, o.sums("signalbox.cache.savings"), near); diff != "" {
			t.Errorf("savings:\n%s", diff)
		}
		attempts := o.find(operations[wire] + " m")
		if _, ok := attempts[0]["signalbox.cost.usd"]; ok {
			t.Error("an attempt that used nothing has a cost")
		}
		if got := attempts[1]["signalbox.cost.usd"].AsFloat64(); math.Abs(got-cost) > 1e-12 {
			t.Errorf("cost of the attempt: %v", got)
		}
		for _, name := range []string{operations[wire] + " free", "count_tokens m"} {
			for _, s := range o.find(name) {
				if v, ok := s["signalbox.cost.usd"]; ok {
					t.Errorf("%s has a cost: %v", name, v.AsFloat64())
				}
			}
		}
	})
}
