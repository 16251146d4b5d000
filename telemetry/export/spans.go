package export

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// keptBytes is how much of a batch's text is kept for the next one: more than a full batch takes, unless contents are odd.
const keptBytes = 2 << 20

// uploader sends spans and tries again where that helps; the clients of the OTLP packages are such.
type uploader interface {
	Start(context.Context) error
	Stop(context.Context) error
	UploadTraces(context.Context, []*tracepb.ResourceSpans) error
}

// spanExporter writes spans as OTLP itself and lets client send them. The messages that client gets know nothing of a span
// but its bytes, as fields that nobody looked at; what they marshal to is the same. All is kept for the next batch, since
// batches come one at a time.
type spanExporter struct {
	client uploader
	end    sync.Once

	from   *resource.Resource // that all says
	all    *tracepb.ResourceSpans
	scopes []*spanScope
	spans  []*tracepb.Span // as many as the largest batch had
	text   []byte          // of all spans of a batch
	ends   []int           // where each span ends in text

	zipped bool   // client is over a zipper, which takes what is written already
	body   []byte // for the zipper
}

// spanScope holds the spans of one tracer. There are as many as a program has, so they are never forgotten.
type spanScope struct {
	scope instrumentation.Scope
	spans *tracepb.ScopeSpans
}

// newSpanExporter starts client; zipped tells that it sends through a zipper.
func newSpanExporter(ctx context.Context, client uploader, zipped bool) (*spanExporter, error) {
	return &spanExporter{client: client, zipped: zipped}, client.Start(ctx)
}

// ExportSpans implements sdktrace.SpanExporter. All spans are of one provider, so they have one resource.
func (e *spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	if res := spans[0].Resource(); e.all == nil || e.from != res {
		e.all, e.from = describeResource(res), res
	}
	e.encode(spans)
	e.all.ScopeSpans = e.all.ScopeSpans[:0]
	for _, s := range e.scopes {
		if len(s.spans.Spans) > 0 {
			e.all.ScopeSpans = append(e.all.ScopeSpans, s.spans)
		}
	}
	err := e.upload(ctx, len(spans))
	for _, s := range e.scopes {
		s.spans.Spans = s.spans.Spans[:0]
	}
	if cap(e.text) > keptBytes {
		e.text, e.body = nil, nil
		clear(e.spans)
		e.spans = e.spans[:0]
	}
	if err != nil {
		return fmt.Errorf("exporting spans: %w", err)
	}
	return nil
}

// upload sends all. A client makes a new body for each batch; a zipper is given one that is kept, and the client counts empty
// spans.
func (e *spanExporter) upload(ctx context.Context, count int) (err error) {
	all := []*tracepb.ResourceSpans{e.all}
	if !e.zipped {
		return e.client.UploadTraces(ctx, all)
	}
	e.body, err = proto.MarshalOptions{}.MarshalAppend(e.body[:0], &collectortrace.ExportTraceServiceRequest{ResourceSpans: all})
	if err != nil {
		return err
	}
	blank := []*tracepb.ScopeSpans{{Spans: slices.Repeat([]*tracepb.Span{{}}, count)}}
	return e.client.UploadTraces(withBody(ctx, e.body), []*tracepb.ResourceSpans{{ScopeSpans: blank}})
}

// encode writes the spans and gives each one to its scope.
func (e *spanExporter) encode(spans []sdktrace.ReadOnlySpan) {
	e.text, e.ends = e.text[:0], e.ends[:0]
	for _, s := range spans {
		e.text = appendSpan(e.text, s)
		e.ends = append(e.ends, len(e.text))
	}
	for len(e.spans) < len(spans) {
		e.spans = append(e.spans, &tracepb.Span{})
	}
	from := 0
	for i, s := range spans {
		e.spans[i].ProtoReflect().SetUnknown(e.text[from:e.ends[i]])
		from = e.ends[i]
		scope := e.scope(s.InstrumentationScope())
		scope.Spans = append(scope.Spans, e.spans[i])
	}
}

func (e *spanExporter) scope(scope instrumentation.Scope) *tracepb.ScopeSpans {
	for _, s := range e.scopes {
		if s.scope == scope {
			return s.spans
		}
	}
	s := &spanScope{scope, &tracepb.ScopeSpans{SchemaUrl: scope.SchemaURL}}
	if scope != (instrumentation.Scope{}) {
		s.spans.Scope = &commonpb.InstrumentationScope{Name: scope.Name, Version: scope.Version}
		s.spans.Scope.ProtoReflect().SetUnknown(appendPairs(nil, scopeAttributes, scope.Attributes.ToSlice()))
	}
	e.scopes = append(e.scopes, s)
	return s.spans
}

func describeResource(res *resource.Resource) *tracepb.ResourceSpans {
	r := &resourcepb.Resource{}
	r.ProtoReflect().SetUnknown(appendPairs(nil, resourceAttributes, res.Attributes()))
	return &tracepb.ResourceSpans{Resource: r, SchemaUrl: res.SchemaURL()}
}

// Shutdown implements sdktrace.SpanExporter, and stops what is being sent. Only the first call does something.
func (e *spanExporter) Shutdown(ctx context.Context) error {
	var err error
	e.end.Do(func() { err = e.client.Stop(ctx) })
	return err
}

var _ sdktrace.SpanExporter = (*spanExporter)(nil)
