package telemetry

import (
	"net/http"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

func TestCapture(t *testing.T) {
	logs := &keep{}
	tel, err := New(nil, nil, sdklog.NewLoggerProvider(sdklog.WithProcessor(logs)))
	if err != nil {
		t.Fatal(err)
	}
	if !tel.Captures(t.Context()) {
		t.Error("nobody takes contents")
	}
	at := time.Unix(1, 0)
	c := Content{
		Record: RecordResponse, At: at, Call: "c1", Attempt: 2, Upstream: "a", Model: "m", Wire: "w", Status: 200, Outcome: AttemptServed,
		Header: http.Header{"X-One": {"1", "2"}}, Body: []byte("hello"), Size: 9, Truncated: true,
	}
	tel.Capture(sampled(), c)
	c.Record, c.Body, c.Size, c.Truncated = RecordRequest, []byte{0xff, 0xfe}, 2, false
	tel.Capture(sampled(), c)
	if len(logs.records) != 2 {
		t.Fatalf("%d records", len(logs.records))
	}
	for i, r := range logs.records {
		entry, ok := Contract().Record(r.EventName())
		if !ok || !r.TraceID().IsValid() || !r.Timestamp().Equal(at) {
			t.Errorf("record %q of %v at %v", r.EventName(), r.TraceID(), r.Timestamp())
		}
		got := map[string]attribute.Value{}
		r.WalkAttributes(func(kv attribute.KeyValue) bool {
			got[string(kv.Key)] = kv.Value
			if !entry.Has(string(kv.Key)) {
				t.Errorf("%s: %s is not in the contract", r.EventName(), kv.Key)
			}
			return true
		})
		if want := i == 0; got[AttrTruncated].AsBool() != want || got[AttrCall].AsString() != "c1" || got[AttrAttemptNumber].AsInt64() != 2 {
			t.Errorf("%s: %v", r.EventName(), got)
		}
	}
	response, request := logs.records[0], logs.records[1]
	if response.Body().AsString() != "hello" || request.Body().Type() != attribute.BYTESLICE {
		t.Errorf("bodies %v and %v", response.Body(), request.Body())
	}
}

func TestNobodyTakesContents(t *testing.T) {
	tel, err := New(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tel.Captures(t.Context()) {
		t.Error("without a provider there is somebody")
	}
	if n := testing.AllocsPerRun(100, func() { tel.Captures(t.Context()) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
