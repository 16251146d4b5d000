package export

import (
	"context"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A batch processor wakes its goroutine for each span that ends, four times a request: spans are handed to it together.
const (
	gatheredSpans = 128
	gatheredFor   = 100 * time.Millisecond // a part of the seconds that the processor keeps them
)

// gatherer holds spans that have ended until there are many, or a moment has passed.
type gatherer struct {
	sdktrace.SpanProcessor // must not block
	mu                     sync.Mutex
	ended                  []sdktrace.ReadOnlySpan
	timer                  *time.Timer // runs while ended is not empty; nil before the first span
}

// OnEnd implements sdktrace.SpanProcessor.
func (g *gatherer) OnEnd(s sdktrace.ReadOnlySpan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = append(g.ended, s)
	switch {
	case len(g.ended) >= gatheredSpans:
		g.handOver()
	case len(g.ended) > 1:
	case g.timer == nil:
		g.timer = time.AfterFunc(gatheredFor, g.pass)
	default:
		g.timer.Reset(gatheredFor)
	}
}

// pass hands over all that have ended.
func (g *gatherer) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.handOver()
}

// handOver does so under the lock, since a flush must not overtake spans that are on their way.
func (g *gatherer) handOver() {
	for _, s := range g.ended {
		g.SpanProcessor.OnEnd(s)
	}
	clear(g.ended)
	g.ended = g.ended[:0]
}

// ForceFlush implements sdktrace.SpanProcessor.
func (g *gatherer) ForceFlush(ctx context.Context) error {
	g.pass()
	return g.SpanProcessor.ForceFlush(ctx)
}

// Shutdown implements sdktrace.SpanProcessor.
func (g *gatherer) Shutdown(ctx context.Context) error {
	g.pass()
	return g.SpanProcessor.Shutdown(ctx)
}

var _ sdktrace.SpanProcessor = (*gatherer)(nil)
