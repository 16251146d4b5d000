package export

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

// taken is an exporter that keeps what it is given.
type taken struct{ records []sdklog.Record }

func (*taken) Shutdown(context.Context) error   { return nil }
func (*taken) ForceFlush(context.Context) error { return nil }

func (k *taken) Export(_ context.Context, records []sdklog.Record) error {
	for i := range records {
		k.records = append(k.records, records[i].Clone())
	}
	return nil
}

func drawRecord(t *rapid.T) (r log.Record) {
	at := func() time.Time { return time.Unix(0, rapid.Int64Range(-5, 1<<62).Draw(t, "at")) }
	r.SetTimestamp(at())
	r.SetObservedTimestamp(at())
	r.SetEventName(rapid.StringN(0, 9, -1).Draw(t, "event"))
	r.SetSeverity(log.Severity(rapid.IntRange(-1, 26).Draw(t, "severity")))
	r.SetSeverityText(rapid.StringN(0, 9, -1).Draw(t, "level"))
	r.SetBody(drawValue(t, 0))
	r.AddAttributes(drawPairs(t, 0)...)
	return r
}

func drawBatch(t *rapid.T) []sdklog.Record {
	var k taken
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(&k)), sdklog.WithAttributeCountLimit(3), sdklog.WithAllowKeyDuplication(),
		sdklog.WithResource(resource.NewWithAttributes("schema", append(drawPairs(t, 0), attribute.Int("x", 1))...)))
	for range rapid.IntRange(1, 4).Draw(t, "records") {
		name := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "scope")
		options := []log.LoggerOption{log.WithSchemaURL("s"), log.WithInstrumentationVersion("1")}
		switch name {
		case "b":
			options = append(options, log.WithInstrumentationAttributes(attribute.Int("x", 1)))
		case "":
			options = nil
		}
		lp.Logger(name, options...).Emit(trace.ContextWithSpanContext(context.Background(), drawContext(t)), drawRecord(t))
	}
	return k.records
}

// upload is the transport of an exporter of logs: it keeps what a receiver would read, and how many records were counted.
type upload struct {
	got     collectorlogs.ExportLogsServiceRequest
	counted int
}

func (u *upload) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := proto.Unmarshal(text, &u.got); err != nil {
		return nil, err
	}
	for _, s := range u.got.ResourceLogs[0].ScopeLogs {
		u.counted += len(s.LogRecords)
	}
	if text, ok := r.Context().Value(bodyKey{}).([]byte); ok {
		err = proto.Unmarshal(text, &u.got)
	}
	slices.SortFunc(u.got.ResourceLogs[0].ScopeLogs, func(a, b *logspb.ScopeLogs) int {
		return strings.Compare(a.GetScope().GetName(), b.GetScope().GetName())
	})
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, err
}

func (u *upload) exporter(t *rapid.T) sdklog.Exporter {
	e, err := otlploghttp.New(context.Background(), otlploghttp.WithHTTPClient(&http.Client{Transport: u}))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// What a receiver reads must be what OpenTelemetry's own exporter would have told it, batch after batch, and that must count as
// many records.
func TestRecordsAreWhatTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var theirs, ours upload
		want := theirs.exporter(t)
		got := &logExporter{Exporter: ours.exporter(t)}
		for range 2 {
			records := drawBatch(t)
			if err := want.Export(context.Background(), records); err != nil {
				t.Fatal(err)
			}
			if err := got.Export(context.Background(), records); err != nil {
				t.Fatal(err)
			}
			if theirs.counted != ours.counted {
				t.Fatalf("%d records are counted, want %d", ours.counted, theirs.counted)
			}
			if a, b := &theirs.got, &ours.got; !proto.Equal(a, b) {
				t.Fatalf("a receiver reads (-theirs +ours):\n%s", cmp.Diff(a, b, protocmp.Transform()))
			}
		}
	})
}

// Writing a batch of a usual kind allocates nothing for its records.
func TestWritingRecordsAllocatesNothing(t *testing.T) {
	var k taken
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(&k)))
	for range 64 {
		var r log.Record
		r.SetBody(attribute.StringValue("request"))
		r.AddAttributes(attribute.String("a", "b"), attribute.Int("c", 1), attribute.Bool("d", true), attribute.Float64("e", 1))
		lp.Logger("x").Emit(t.Context(), r)
	}
	var e logExporter
	e.write(k.records)
	if n := testing.AllocsPerRun(100, func() { e.write(k.records) }); n > 5 { // the resource's attributes are copied
		t.Errorf("%v allocations for %d records", n, len(k.records))
	}
}
