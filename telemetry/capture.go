package telemetry

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// Content is what was sent to an upstream in one attempt, or came back. What must not leave has to be taken out before.
type Content struct {
	Record   string    // RecordRequest or RecordResponse
	At       time.Time // when it was sent, or had come
	Call     string
	Attempt  int // from 1
	Upstream string
	Model    string // as the configuration names it
	Wire     string // that the body is in
	Status   int    // of a response; 0 = there is none
	Outcome  string // of the attempt, with the response
	Header   http.Header
	Body     []byte // what is told of it
	Size     int64  // of all of it, in bytes

	Truncated bool // Body is not all of it
}

// Captures reports whether anybody takes contents, so that nothing need be kept if not.
func (t *Telemetry) Captures(ctx context.Context) bool {
	return t.logger.Enabled(ctx, log.EnabledParameters{Severity: log.SeverityInfo, EventName: RecordRequest})
}

// Capture writes contents as a log record with the ids of the context's span. A body that is no text is written as bytes.
func (t *Telemetry) Capture(ctx context.Context, c Content) {
	prefix, size := PrefixRequestHeader, AttrHTTPRequestBytes
	attrs := []attribute.KeyValue{
		attribute.String(AttrCall, c.Call), attribute.Int(AttrAttemptNumber, c.Attempt), attribute.String(AttrUpstream, c.Upstream),
		attribute.String(AttrModel, c.Model), attribute.String(AttrWire, c.Wire), attribute.Bool(AttrTruncated, c.Truncated),
	}
	if c.Record == RecordResponse {
		prefix, size = PrefixResponseHeader, AttrHTTPResponseBytes
		attrs = append(attrs, attribute.String(AttrAttemptOutcome, c.Outcome))
		if c.Status != 0 {
			attrs = append(attrs, attribute.Int(AttrHTTPStatus, c.Status))
		}
	}
	attrs = append(attrs, attribute.Int64(size, c.Size))
	for name, values := range c.Header {
		attrs = append(attrs, attribute.StringSlice(prefix+strings.ToLower(name), values))
	}
	slices.SortFunc(attrs, func(a, b attribute.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
	var r log.Record
	r.SetEventName(c.Record)
	r.SetTimestamp(c.At)
	r.SetSeverity(log.SeverityInfo)
	r.SetSeverityText("INFO")
	r.AddAttributes(attrs...)
	if utf8.Valid(c.Body) {
		r.SetBody(attribute.StringValue(string(c.Body)))
	} else {
		r.SetBody(attribute.ByteSliceValue(c.Body))
	}
	t.logger.Emit(ctx, r)
}
