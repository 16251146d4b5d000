package router_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
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

// observed is a world with its telemetry in memory.
type observed struct {
	*world
	spans  *tracetest.InMemoryExporter
	reader *sdkmetric.ManualReader
}

func observe(t *testing.T, ups []*routertest.Upstream, change func(*settings.Config)) *observed {
	t.Helper()
	o := &observed{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader))
	o.world = build(t, ups, change, router.WithTelemetry(tracers, meters, nil), router.WithClock(time.Now))
	return o
}

// trees are the ended spans as text, one tree for each request: name, kind, status, children indented in order of start.
func (o *observed) trees() []string {
	all := o.spans.GetSpans()
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var walk func(parent trace.SpanID, indent string) string
	walk = func(parent trace.SpanID, indent string) (text string) {
		for _, s := range all {
			if s.Parent.SpanID() == parent {
				text += fmt.Sprintf("%s%s %s %s\n", indent, s.Name, s.SpanKind, s.Status.Code) + walk(s.SpanContext.SpanID(), indent+" ")
			}
		}
		return text
	}
	var trees []string
	for _, s := range all {
		if !s.Parent.SpanID().IsValid() {
			trees = append(trees, fmt.Sprintf("%s %s %s\n", s.Name, s.SpanKind, s.Status.Code)+walk(s.SpanContext.SpanID(), " "))
		}
	}
	return trees
}

// find gives the attributes of the spans of a name, in order of their end.
func (o *observed) find(name string) (found []map[string]attribute.Value) {
	for _, s := range o.spans.GetSpans() {
		if s.Name == name {
			m := map[string]attribute.Value{}
			for _, kv := range s.Attributes {
				m[string(kv.Key)] = kv.Value
			}
			found = append(found, m)
		}
	}
	return found
}

// routes and operations name the spans of each wire.
var (
	routes = map[string]string{
		routertest.Chat: "POST /v1/chat/completions", routertest.Responses: "POST /v1/responses", routertest.Messages: "POST /v1/messages",
		routertest.Gemini: "POST /v1beta/models/{model}",
	}
	operations = map[string]string{
		routertest.Chat: "chat", routertest.Responses: "chat", routertest.Messages: "chat", routertest.Gemini: "generate_content",
	}
)

func TestSpansAreATree(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		http, op := routes[wire], operations[wire]
		for _, c := range []struct {
			name  string
			a, b  routertest.Reply
			model string
			want  string
		}{
			{"success", good, good, "m", "server Unset\n route m internal Unset\n  op m client Unset\n   http client Unset\n"},
			{"failover", routertest.Fail(429, "slow"), good, "m", "server Unset\n route m internal Unset\n" +
				"  op m client Error\n   http client Error\n  op m client Unset\n   http client Unset\n"},
			{"failed", routertest.Fail(400, "bad"), good, "m", "server Error\n route m internal Error\n  op m client Error\n   http client Error\n"},
			{"rejected", good, good, "nope", "server Error\n route internal Error\n"},
		} {
			o := observe(t, upstreams(c.a, c.b), nil)
			o.Send(t.Context(), routertest.NewRequest(wire, c.model, stream))
			o.completed()
			o.close()
			want := strings.NewReplacer("server", http+" server", "http", http, "op ", op+" ").Replace(c.want)
			if diff := cmp.Diff([]string{want}, o.trees()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.name, diff)
			}
		}
	})
}

func TestSpansTellWhatHappened(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		o := observe(t, upstreams(routertest.Fail(429, "slow").With("Retry-After", "7"), good.With("Request-Id", "req-7")), func(cfg *settings.Config) {
			cfg.Auth.Keys = keys()
		})
		o.Send(t.Context(), routertest.NewRequest(wire, "m", stream).With("X-Api-Key", "key-of-agents").With("Session-Id", "s-1"))
		o.completed()
		o.close()
		op := operations[wire]
		check := func(got map[string]attribute.Value, want map[string]any) {
			t.Helper()
			for key, v := range want {
				if have, ok := got[key]; !ok || have.AsInterface() != v && v != nil {
					t.Errorf("%s is %v, want %v", key, have.AsInterface(), v)
				}
			}
		}
		check(o.find("route m")[0], map[string]any{
			"signalbox.model": "m", "signalbox.wire": wire, "signalbox.client.model": "m", "signalbox.key": "agents", "signalbox.call": nil,
			"gen_ai.request.stream": stream, "signalbox.decision": "failover", "signalbox.strategy": "failover", "signalbox.targets.eligible": int64(2),
			"signalbox.targets.cooling": int64(0), "signalbox.attempts": int64(2), "signalbox.outcome": "success_after_failover",
			"signalbox.upstream": "b", "signalbox.overhead": nil, "signalbox.time_to_first_chunk": nil, "signalbox.session.source": nil,
			"signalbox.session.hash": nil,
		})
		attempts := o.find(op + " m")
		check(attempts[0], map[string]any{
			"signalbox.upstream": "a", "signalbox.attempt.number": int64(1), "signalbox.attempt.reason": "initial", "signalbox.attempt.outcome": "failed_over",
			"error.type": "429", "signalbox.error.class": "provider_rate_limited", "http.response.status_code": int64(429), "signalbox.retry_after": 7.0,
		})
		check(attempts[1], map[string]any{
			"gen_ai.operation.name": op, "gen_ai.request.model": "m", "gen_ai.response.model": "m", "gen_ai.response.id": nil,
			"gen_ai.response.finish_reasons": nil, "gen_ai.response.time_to_first_chunk": nil, "signalbox.attempt.reason": "failover",
			"gen_ai.usage.input_tokens": int64(18), "gen_ai.usage.cache_read.input_tokens": int64(7), "gen_ai.usage.output_tokens": int64(5),
			"signalbox.attempt.outcome": "served", "signalbox.provider.request_id": "req-7", "server.address": "127.0.0.1", "server.port": nil,
		})
		server := o.find(routes[wire])
		check(server[len(server)-1], map[string]any{"http.route": strings.TrimPrefix(routes[wire], "POST "), "http.response.status_code": int64(200)})
	})
}

// Whatever is sent through, what comes out is in the contract and holds nothing that must not leave.
func TestTelemetryKeepsTheContract(t *testing.T) {
	t.Parallel()
	o := observe(t, upstreams(good, good), func(cfg *settings.Config) { cfg.Auth.Keys = keys() })
	o.engine.Reloaded(t.Context(), telemetry.ReloadApplied)
	for _, wire := range routertest.Wires {
		for _, stream := range []bool{true, false} {
			req := routertest.NewRequest(wire, "m", stream).With("Authorization", "Bearer key-of-agents").With("Session-Id", "s-1").
				With("User-Agent", "claude-cli/9").With("X-Claude-Code-Agent-Id", "agent-1").
				Field("temperature", "0.5").Field("max_tokens", "9").Field("user", `"user-id-of-someone"`)
			sep := map[bool]string{true: "&", false: "?"}[strings.Contains(req.Path, "?")]
			req.Path += sep + "key=key-of-agents&secret=key-of-query"
			for _, bad := range failures(wire, stream) {
				o.engine.ResetHealth()
				o.ups[0].Script(bad)
				o.Send(t.Context(), req)
			}
			o.ups[0].Script(routertest.Stream(wire, words, spent).Events(7).Ending(routertest.Cut))
			o.engine.ResetHealth()
			o.Send(t.Context(), req)
			_ = o.engine.Cool("a", "", 0)
			o.Send(t.Context(), req)
			o.ups[1].Script(routertest.Fail(429, "slow"))
			o.Send(t.Context(), req)
			o.Send(t.Context(), req)
			o.ups[1].Script(good)
			o.engine.ResetHealth()
			bad := req
			bad.Body = "{"
			o.Send(t.Context(), bad)
			o.Send(t.Context(), req.With("Authorization", "Bearer key-of-nobody"))
		}
	}
	o.Send(t.Context(), routertest.NewCount("m").With("X-Api-Key", "key-of-agents"))
	metrics := o.metrics()
	o.once()
	contract := telemetry.Contract()
	for _, s := range o.spans.GetSpans() {
		o.inContract(contract, s)
	}
	for _, m := range metrics {
		entry, ok := contract.Instrument(m.Name)
		if !ok && !strings.HasPrefix(m.Name, "http.") {
			t.Errorf("metric %s is not in the contract", m.Name)
		}
		for _, set := range setsOf(m) {
			for _, kv := range set.ToSlice() {
				if ok && !slices.Contains(entry.Attributes, string(kv.Key)) {
					t.Errorf("metric %s: %s is not in the contract", m.Name, kv.Key)
				}
				o.harmless(m.Name, kv)
				if kv.Key == "error.type" && kv.Value.AsString() == "_OTHER" {
					t.Errorf("metric %s: an error that nobody has classed", m.Name)
				}
			}
		}
	}
	for _, name := range []string{"signalbox.requests", "signalbox.overhead", "signalbox.failovers", "signalbox.coolings", "gen_ai.client.inference.duration"} {
		if !slices.ContainsFunc(metrics, func(m metricdata.Metrics) bool { return m.Name == name }) {
			t.Errorf("no metric %s", name)
		}
	}
}

func (o *observed) metrics() (all []metricdata.Metrics) {
	var rm metricdata.ResourceMetrics
	if err := o.reader.Collect(context.Background(), &rm); err != nil {
		o.t.Fatal(err)
	}
	for _, s := range rm.ScopeMetrics {
		all = append(all, s.Metrics...)
	}
	return all
}

func (o *observed) inContract(contract telemetry.ContractTable, s tracetest.SpanStub) {
	o.t.Helper()
	entry, ok := contract.Span(s.SpanKind, s.Name)
	if !ok {
		o.t.Errorf("span %s %s is not in the contract", s.SpanKind, s.Name)
	}
	failed := false
	for _, kv := range s.Attributes {
		if !slices.Contains(entry.Attributes, string(kv.Key)) {
			o.t.Errorf("span %s %s: %s is not in the contract", s.SpanKind, s.Name, kv.Key)
		}
		failed = failed || kv.Key == "error.type"
		o.harmless(s.Name, kv)
	}
	if failed != (s.Status.Code == codes.Error) || s.Status.Code == codes.Ok {
		o.t.Errorf("span %s: status %v, error.type %v: %v", s.Name, s.Status, failed, s.Attributes)
	}
	if s.SpanKind == trace.SpanKindInternal && strings.HasPrefix(s.Name, "route") && !slices.ContainsFunc(s.Attributes, func(kv attribute.KeyValue) bool {
		return kv.Key == telemetry.AttrOverhead && kv.Value.AsFloat64() >= 0
	}) {
		o.t.Errorf("span %s has no overhead", s.Name)
	}
	for _, e := range s.Events {
		event, known := contract.Event(e.Name)
		if !known || !slices.Contains(entry.Events, e.Name) {
			o.t.Errorf("span %s: event %s is not in the contract", s.Name, e.Name)
		}
		for _, kv := range e.Attributes {
			if !slices.Contains(event.Attributes, string(kv.Key)) {
				o.t.Errorf("event %s: %s is not in the contract", e.Name, kv.Key)
			}
			o.harmless(e.Name, kv)
		}
	}
}

// harmless fails if an attribute shows a key, a prompt, an answer, a query or a user.
func (o *observed) harmless(where string, kv attribute.KeyValue) {
	o.t.Helper()
	text := kv.Value.String()
	for _, secret := range []string{"key-of", "sk-of", "Say hello", "One two", "user-id-of", "?", "secret="} {
		if strings.Contains(text, secret) {
			o.t.Errorf("%s: %s shows %q: %s", where, kv.Key, secret, text)
		}
	}
}

func setsOf(m metricdata.Metrics) (sets []attribute.Set) {
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Sum[float64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[int64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			sets = append(sets, p.Attributes)
		}
	}
	return sets
}
