package export

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// told is a processor that remembers the names of what ended, and what else it was told.
type told struct {
	mu      sync.Mutex
	names   []string
	late    int // spans that came after the end
	flushed bool
	ended   bool
	first   func() // called with the first span, if not nil
}

func (p *told) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (p *told) OnEnd(s sdktrace.ReadOnlySpan) {
	p.mu.Lock()
	p.names = append(p.names, s.Name())
	if p.ended {
		p.late++
	}
	first := len(p.names) == 1
	p.mu.Unlock()
	if first && p.first != nil {
		p.first()
	}
}

func (p *told) ForceFlush(context.Context) error { p.flushed = true; return nil }

func (p *told) Shutdown(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	return nil
}

func (p *told) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.names)
}

// Spans are handed on in their order, when there are many, when a moment has passed, and before a flush and the end.
func TestSpansAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := &told{}
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&gatherer{SpanProcessor: next}))
		var want []string
		end := func(n int) {
			for range n {
				name := fmt.Sprint(len(want))
				_, span := tp.Tracer("x").Start(t.Context(), name)
				span.End()
				want = append(want, name)
			}
		}
		have := func(when string, n int) {
			synctest.Wait()
			if got := next.list(); !slices.Equal(got, want[:n]) {
				t.Errorf("%s: %v, want the first %d", when, got, n)
			}
		}
		end(gatheredSpans - 1)
		have("not yet many", 0)
		end(1)
		have("many", gatheredSpans)
		end(3)
		time.Sleep(gatheredFor - time.Millisecond)
		have("within a moment", gatheredSpans)
		time.Sleep(time.Millisecond)
		have("after a moment", len(want))
		end(1)
		time.Sleep(gatheredFor)
		have("after the next moment", len(want))
		end(2)
		if err := tp.ForceFlush(t.Context()); err != nil || !next.flushed {
			t.Error(err, next.flushed)
		}
		have("flushed", len(want))
		end(2)
		if err := tp.Shutdown(t.Context()); err != nil || !next.ended {
			t.Error(err, next.ended)
		}
		have("ended", len(want))
	})
}

// No span is lost or doubled when many goroutines end some.
func TestNoSpanIsLost(t *testing.T) {
	const goroutines, each = 8, 1000
	next := &told{}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&gatherer{SpanProcessor: next}))
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range each {
				_, span := tp.Tracer("x").Start(t.Context(), fmt.Sprint(g, " ", i))
				span.End()
			}
		})
	}
	all.Wait()
	if err := tp.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := next.list()
	slices.Sort(got)
	if names := len(slices.Compact(slices.Clone(got))); len(got) != goroutines*each || names != len(got) {
		t.Errorf("%d spans with %d names, want %d", len(got), names, goroutines*each)
	}
}

// The end waits for spans that are just being handed on.
func TestTheEndOvertakesNoSpan(t *testing.T) {
	next := &told{}
	g := &gatherer{SpanProcessor: next}
	var end sync.WaitGroup
	next.first = func() {
		end.Go(func() { _ = g.Shutdown(t.Context()) })
		for range 100 { // time enough to overtake
			runtime.Gosched()
		}
	}
	for range gatheredSpans {
		g.OnEnd(tracetest.SpanStub{}.Snapshot())
	}
	end.Wait()
	if n := len(next.list()); n != gatheredSpans || next.late > 0 || !next.ended {
		t.Errorf("%d spans, %d of them after the end %v", n, next.late, next.ended)
	}
}

var _ sdktrace.SpanProcessor = (*told)(nil)
