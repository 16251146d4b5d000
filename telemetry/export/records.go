package export

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of OTLP 1.11, logs.proto and its service.
const (
	requestResource                                = 1
	resourceItself, resourceScopes, resourceSchema = 1, 2, 3
	scopeItself, scopeRecords, scopeSchema         = 1, 2, 3

	recordTime, recordSeverity, recordSeverityText, recordBody, recordAttributes   = 1, 2, 3, 5, 6
	recordAttributesLost, recordFlags, recordTraceID, recordSpanID, recordObserved = 7, 8, 9, 10, 11
	recordEvent                                                                    = 12
)

// logExporter writes records as OTLP itself and has the exporter of the OTLP package send that, in place of what that makes of as
// many empty records: it takes no other, and would need forty allocations for each. Its client must be a zipper.
type logExporter struct {
	sdklog.Exporter

	text   []byte
	scopes []instrumentation.Scope // of a batch
	blank  []sdklog.Record
}

// Export implements sdklog.Exporter. All records are of one provider, so they have one resource.
func (e *logExporter) Export(ctx context.Context, records []sdklog.Record) error {
	if len(records) > len(e.blank) {
		e.blank = make([]sdklog.Record, len(records))
	}
	if len(records) > 0 {
		e.write(records)
	}
	err := e.Exporter.Export(withBody(ctx, e.text), e.blank[:len(records)])
	if cap(e.text) > keptBytes {
		e.text = nil
	}
	return err
}

// write makes the request, each scope with its records.
func (e *logExporter) write(records []sdklog.Record) {
	e.scopes = e.scopes[:0]
	for i := range records {
		if s := records[i].InstrumentationScope(); !slices.Contains(e.scopes, s) {
			e.scopes = append(e.scopes, s)
		}
	}
	from := records[0].Resource()
	b, all := open(e.text[:0], requestResource)
	b, resource := open(b, resourceItself)
	b = shut(appendPairs(b, resourceAttributes, from.Attributes()), resource)
	for _, s := range e.scopes {
		var scope int
		b, scope = open(b, resourceScopes)
		b = appendScope(b, s)
		for i := range records {
			if records[i].InstrumentationScope() == s {
				b = appendRecord(b, &records[i])
			}
		}
		b = shut(appendText(b, scopeSchema, s.SchemaURL), scope)
	}
	e.text = shut(appendText(b, resourceSchema, from.SchemaURL()), all)
}

func appendScope(b []byte, s instrumentation.Scope) []byte {
	if s == (instrumentation.Scope{}) {
		return b
	}
	b, at := open(b, scopeItself)
	b = appendText(b, scopeName, s.Name)
	b = appendText(b, scopeVersion, s.Version)
	return shut(appendPairs(b, scopeAttributes, s.Attributes.ToSlice()), at)
}

func appendRecord(b []byte, r *sdklog.Record) []byte {
	b, record := open(b, scopeRecords)
	b = appendTime(b, recordTime, r.Timestamp())
	b = appendTime(b, recordObserved, r.ObservedTimestamp())
	if s := r.Severity(); s >= log.SeverityTrace && s <= log.SeverityFatal4 {
		b = appendNumber(b, recordSeverity, uint64(s)) //nolint:gosec // it is not negative
	}
	b = appendText(b, recordSeverityText, r.SeverityText())
	b, body := open(b, recordBody)
	b = shut(appendValue(b, r.Body()), body)
	r.WalkAttributes(func(a attribute.KeyValue) bool {
		b = appendPair(b, recordAttributes, &a)
		return true
	})
	b = appendCount(b, recordAttributesLost, r.DroppedAttributes())
	b = protowire.AppendFixed32(protowire.AppendTag(b, recordFlags, protowire.Fixed32Type), uint32(r.TraceFlags()))
	if id := r.TraceID(); id.IsValid() {
		b = appendBytes(b, recordTraceID, id[:])
	}
	if id := r.SpanID(); id.IsValid() {
		b = appendBytes(b, recordSpanID, id[:])
	}
	return shut(appendText(b, recordEvent, r.EventName()), record)
}

var _ sdklog.Exporter = (*logExporter)(nil)
