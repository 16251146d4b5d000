package export

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"
)

// maxLogBytes is how much of bodies goes out at once: receivers take 4 MiB over gRPC, and what is larger is lost as a whole.
const maxLogBytes = 2 << 20

// portions exports a batch in portions, since records that hold contents are large.
type portions struct{ sdklog.Exporter }

// Export implements sdklog.Exporter.
func (p portions) Export(ctx context.Context, records []sdklog.Record) error {
	var errs []error
	from, size := 0, 0
	for i := range records {
		n := 0
		switch body := records[i].Body(); body.Type() {
		case attribute.STRING:
			n = len(body.AsString())
		case attribute.BYTESLICE:
			n = len(body.AsByteSlice())
		default:
		}
		if i > from && size+n > maxLogBytes {
			errs = append(errs, p.Exporter.Export(ctx, records[from:i]))
			from, size = i, 0
		}
		size += n
	}
	return errors.Join(append(errs, p.Exporter.Export(ctx, records[from:]))...)
}

// late makes its batch processor for the first record: the queue is 1.3 MB, which a start would wait for.
type late func() *sdklog.BatchProcessor

func newLate(e sdklog.Exporter) late {
	return sync.OnceValue(func() *sdklog.BatchProcessor { return sdklog.NewBatchProcessor(portions{e}) })
}

// Enabled implements sdklog.Processor.
func (late) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit implements sdklog.Processor.
func (l late) OnEmit(ctx context.Context, r *sdklog.Record) error { return l().OnEmit(ctx, r) }

// Shutdown implements sdklog.Processor.
func (l late) Shutdown(ctx context.Context) error { return l().Shutdown(ctx) }

// ForceFlush implements sdklog.Processor.
func (l late) ForceFlush(ctx context.Context) error { return l().ForceFlush(ctx) }

// LogHandler wraps the handler that writes to stderr: lines get the ids of the context's span, and those that base lets
// through are exported as well, if logs are.
func (p *Providers) LogHandler(base slog.Handler) slog.Handler {
	h := handler{base: base}
	if p.bridge != nil {
		h.bridge = p.bridge
	}
	return h
}

// handler is base, and bridge beside it unless that is nil.
type handler struct{ base, bridge slog.Handler }

// Enabled implements slog.Handler. One level holds for both ways.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.base.Enabled(ctx, level)
}

// Handle implements slog.Handler. The bridge takes the ids from the context itself.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	var err error
	if h.bridge != nil {
		err = h.bridge.Handle(ctx, r)
	}
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", sc.TraceID().String()), slog.String("span_id", sc.SpanID().String()))
	}
	return errors.Join(h.base.Handle(ctx, r), err)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.base = h.base.WithAttrs(attrs)
	if h.bridge != nil {
		h.bridge = h.bridge.WithAttrs(attrs)
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.base = h.base.WithGroup(name)
	if h.bridge != nil {
		h.bridge = h.bridge.WithGroup(name)
	}
	return h
}

var (
	_ slog.Handler     = handler{}
	_ sdklog.Exporter  = portions{}
	_ sdklog.Processor = late(nil)
)
