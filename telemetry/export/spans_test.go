package export

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
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

// marshalled is an uploader that keeps the bytes that would be sent, and how many spans were counted.
type marshalled struct {
	sent    []byte
	counted int
}

func (*marshalled) Start(context.Context) error { return nil }
func (*marshalled) Stop(context.Context) error  { return nil }

func (m *marshalled) UploadTraces(ctx context.Context, rs []*tracepb.ResourceSpans) (err error) {
	m.counted = 0
	for _, r := range rs {
		for _, s := range r.ScopeSpans {
			m.counted += len(s.Spans)
		}
	}
	if text, ok := ctx.Value(bodyKey{}).([]byte); ok {
		m.sent = text
		return nil
	}
	m.sent, err = proto.Marshal(&collectortrace.ExportTraceServiceRequest{ResourceSpans: rs})
	return err
}

func (m *marshalled) received(t *rapid.T) *collectortrace.ExportTraceServiceRequest {
	var r collectortrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(m.sent, &r); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(r.ResourceSpans[0].ScopeSpans, func(a, b *tracepb.ScopeSpans) int {
		return strings.Compare(a.GetScope().GetName(), b.GetScope().GetName())
	})
	return &r
}

func drawValue(t *rapid.T, depth int) attribute.Value {
	text := rapid.SampledFrom([]string{"", "x", "gr\u00fc\u00df", strings.Repeat("y", 127), strings.Repeat("z", 20000)})
	switch k := rapid.IntRange(0, 11-2*depth).Draw(t, "type"); k {
	case 0:
		return attribute.StringValue(text.Draw(t, "text"))
	case 1:
		return attribute.BoolValue(rapid.Bool().Draw(t, "bool"))
	case 2:
		return attribute.Int64Value(rapid.Int64().Draw(t, "int"))
	case 3:
		return attribute.Float64Value(rapid.Float64().Draw(t, "float"))
	case 4:
		return attribute.ByteSliceValue([]byte(text.Draw(t, "bytes")))
	case 5:
		return attribute.StringSliceValue(rapid.SliceOfN(text, 0, 2).Draw(t, "texts"))
	case 6:
		return attribute.BoolSliceValue(rapid.SliceOfN(rapid.Bool(), 0, 2).Draw(t, "bools"))
	case 7:
		return attribute.Int64SliceValue(rapid.SliceOfN(rapid.Int64(), 0, 2).Draw(t, "ints"))
	case 8:
		return attribute.Float64SliceValue(rapid.SliceOfN(rapid.Float64(), 0, 2).Draw(t, "floats"))
	case 9:
		return attribute.Value{}
	case 10:
		return attribute.MapValue(drawPairs(t, depth+1)...)
	default:
		var list []attribute.Value
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list = append(list, drawValue(t, depth+1))
		}
		return attribute.SliceValue(list...)
	}
}

func drawPairs(t *rapid.T, depth int) (list []attribute.KeyValue) {
	for i := range rapid.IntRange(0, 4).Draw(t, "pairs") {
		list = append(list, attribute.KeyValue{Key: attribute.Key(fmt.Sprint("key", i)), Value: drawValue(t, depth)})
	}
	return list
}

func drawContext(t *rapid.T) trace.SpanContext {
	c := trace.SpanContextConfig{
		TraceFlags: trace.TraceFlags(rapid.Byte().Draw(t, "flags")), Remote: rapid.Bool().Draw(t, "remote"),
		SpanID: trace.SpanID{rapid.Byte().Draw(t, "id")}, TraceID: trace.TraceID{15: rapid.Byte().Draw(t, "trace")},
	}
	c.TraceState, _ = trace.ParseTraceState(rapid.SampledFrom([]string{"", "a=1,b=2"}).Draw(t, "state"))
	return trace.NewSpanContext(c)
}

func drawSpan(t *rapid.T) tracetest.SpanStub {
	at := func() time.Time { return time.Unix(0, rapid.Int64Range(-5, 1<<62).Draw(t, "at")) }
	count := func() int { return rapid.IntRange(-1, 1<<33).Draw(t, "count") }
	s := tracetest.SpanStub{
		Name: rapid.StringN(0, 9, -1).Draw(t, "name"), SpanContext: drawContext(t), Parent: drawContext(t),
		SpanKind: trace.SpanKind(rapid.IntRange(0, 6).Draw(t, "kind")), StartTime: at(), EndTime: at(), Attributes: drawPairs(t, 0),
		Status:            sdktrace.Status{Code: codes.Code(rapid.Uint32Range(0, 3).Draw(t, "code")), Description: rapid.StringN(0, 9, -1).Draw(t, "why")},
		DroppedAttributes: count(), DroppedEvents: count(), DroppedLinks: count(),
		InstrumentationScope: instrumentation.Scope{Name: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "scope"), SchemaURL: "s"},
	}
	switch s.InstrumentationScope.Name {
	case "b":
		s.InstrumentationScope.Attributes = attribute.NewSet(attribute.Int("x", 1))
	case "":
		s.InstrumentationScope = instrumentation.Scope{}
	}
	for range rapid.IntRange(0, 2).Draw(t, "events") {
		s.Events = append(s.Events, sdktrace.Event{Name: "e", Time: at(), Attributes: drawPairs(t, 0), DroppedAttributeCount: count()})
		s.Links = append(s.Links, sdktrace.Link{SpanContext: drawContext(t), Attributes: drawPairs(t, 0), DroppedAttributeCount: count()})
	}
	return s
}

// What a receiver reads must be what OpenTelemetry's own exporter would have told it, batch after batch.
func TestSpansAreWhatTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var theirs, ours marshalled
		want, err := otlptrace.New(context.Background(), &theirs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := newSpanExporter(context.Background(), &ours, rapid.Bool().Draw(t, "zipped"))
		if err != nil {
			t.Fatal(err)
		}
		res := resource.NewWithAttributes("schema", drawPairs(t, 0)...)
		for range 2 {
			var stubs tracetest.SpanStubs
			for range rapid.IntRange(1, 4).Draw(t, "spans") {
				s := drawSpan(t)
				s.Resource = res
				stubs = append(stubs, s)
			}
			if err := want.ExportSpans(context.Background(), stubs.Snapshots()); err != nil {
				t.Fatal(err)
			}
			if err := got.ExportSpans(context.Background(), stubs.Snapshots()); err != nil {
				t.Fatal(err)
			}
			if theirs.counted != ours.counted {
				t.Fatalf("%d spans are counted, want %d", ours.counted, theirs.counted)
			}
			if a, b := theirs.received(t), ours.received(t); !proto.Equal(a, b) { // which is much faster than a look for differences
				t.Fatalf("a receiver reads (-theirs +ours):\n%s", cmp.Diff(a, b, protocmp.Transform()))
			}
		}
	})
}

// A client may send any bytes, and they may be in an attribute.
func TestTextThatIsNoUTF8(t *testing.T) {
	var sent marshalled
	e, _ := newSpanExporter(t.Context(), &sent, false)
	s := tracetest.SpanStub{Name: "a\xffb", Attributes: []attribute.KeyValue{attribute.String("k\xff", "v\xff")}}
	if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{s}.Snapshots()); err != nil {
		t.Fatal(err)
	}
	var r collectortrace.ExportTraceServiceRequest
	if err := proto.Unmarshal(sent.sent, &r); err != nil {
		t.Fatal(err)
	}
	if got := r.ResourceSpans[0].ScopeSpans[0].Spans[0]; got.Name != "a\uFFFDb" || got.Attributes[0].Value.GetStringValue() != "v\uFFFD" {
		t.Errorf("got %v", got)
	}
}

func TestLargeBatchesAreNotKept(t *testing.T) {
	e, _ := newSpanExporter(t.Context(), &marshalled{}, true)
	large := tracetest.SpanStub{Attributes: []attribute.KeyValue{attribute.String("k", strings.Repeat("x", keptBytes))}}
	if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{large}.Snapshots()); err != nil {
		t.Fatal(err)
	}
	if cap(e.text) > keptBytes || cap(e.body) > keptBytes || len(e.spans) > 0 {
		t.Errorf("%d bytes and %d spans are kept", cap(e.text), len(e.spans))
	}
}

// Encoding a batch of a usual kind allocates nothing for its spans; the SDK copies a span's attributes as it hands them out.
func TestEncodingAllocatesNothing(t *testing.T) {
	e, _ := newSpanExporter(t.Context(), &marshalled{}, true)
	var stubs tracetest.SpanStubs
	for range 64 {
		stubs = append(stubs, tracetest.SpanStub{Name: "route opus", Attributes: []attribute.KeyValue{
			attribute.String("a", "b"), attribute.Int("c", 1), attribute.Bool("d", true), attribute.Float64("e", 1),
		}})
	}
	spans := stubs.Snapshots()
	e.encode(spans)
	if n := testing.AllocsPerRun(100, func() {
		for _, s := range e.scopes {
			s.spans.Spans = s.spans.Spans[:0]
		}
		e.encode(spans)
	}); n != 0 {
		t.Errorf("%v allocations for %d spans", n, len(spans))
	}
}
