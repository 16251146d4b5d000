package router_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
)

// burst is a peer that sends a stream of n chunks at once.
func (c wireCase) burst(tb testing.TB, n int) *scriptedPeer {
	tb.Helper()
	p := newPeer(tb, streamHead+httpChunk(c.first)+strings.Repeat(httpChunk(c.chunk), n)+httpChunk(c.last)+"0\r\n\r\n", "", "")
	p.tail = nil
	return p
}

// Chunks that come together go out together, and a long stream needs no more memory than a short one.
func TestBurstOfChunks(t *testing.T) {
	if router.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	const short, long, more = 2, 400, 2 << 10
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			ask := routertest.NewRequest(c.wire, "small", true)
			relay := func(n int) (least uint64, writes int) {
				h := benchEngine(t, true, true, c.wire, c.burst(t, n)).Handler()
				least, writes = 1<<62, n
				for range 20 { // other goroutines of the process can only add
					var w *sinkWriter
					_, size := allocated(func() { w = serveOnce(t, h, ask, nil) })
					if w.bytes < n*len(c.chunk) || w.flushes > w.writes || w.writes > w.flushes+1 {
						t.Errorf("%d bytes in %d writes and %d flushes", w.bytes, w.writes, w.flushes)
					}
					least, writes = min(least, size), min(writes, w.writes)
				}
				return least, writes
			}
			few, _ := relay(short)
			many, writes := relay(long)
			t.Logf("%d bytes allocated for %d chunks, %d for %d in %d writes", few, short, many, long, writes)
			if many > few+more || writes > long/20 {
				t.Errorf("%d bytes allocated for %d chunks, want at most %d; %d writes, want at most %d", many, long, few+more, writes, long/20)
			}
		})
	}
}

// heldWriter is a client that looks, at its third flush, at what the process holds. Who writes the request may not have been
// told yet that it is written, so it looks again while that is more than it should be.
type heldWriter struct {
	*sinkWriter
	most, held uint64
}

func (w *heldWriter) Flush() {
	for try := 0; w.flushes == 2 && try < 200; try++ {
		if w.held = inUse(); w.held <= w.most {
			break
		}
	}
	w.sinkWriter.Flush()
}

// inUse is the memory of what can still be reached, the pools emptied.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A stream that is the client's holds nothing of the request that only another try would need.
func TestStreamHoldsNoRequest(t *testing.T) {
	const size, most = 8 << 20, 1 << 20
	for _, c := range wireCases {
		t.Run(c.name, func(t *testing.T) {
			p := c.peer(t)
			p.count.Store(4)
			h := benchEngine(t, true, true, c.wire, p).Handler()
			ask := padded(routertest.NewRequest(c.wire, "small", true), size)
			serveOnce(t, h, ask, p.shown) // connections and histograms get their size
			drain(p.shown)
			req := httptest.NewRequest(http.MethodPost, ask.Path, strings.NewReader(ask.Body))
			req.Header = ask.Header.Clone()
			before := inUse()
			w := &heldWriter{sinkWriter: &sinkWriter{header: http.Header{}, shown: p.shown}, most: before + most}
			h.ServeHTTP(w, req)
			if w.status != http.StatusOK || w.held == 0 {
				t.Fatalf("status %d after %d flushes", w.status, w.flushes)
			}
			if w.held > w.most {
				t.Errorf("%d bytes are held in the middle of the stream, want at most %d for a request of %d", w.held-before, most, len(ask.Body))
			}
		})
	}
}

// BenchmarkStreamBurst counts a stream of 100 chunks that come at once as one operation.
func BenchmarkStreamBurst(b *testing.B) {
	for _, c := range wireCases {
		b.Run(c.name, func(b *testing.B) {
			benchmarkBoth(b, func(b *testing.B, on bool) {
				h := benchEngine(b, on, true, c.wire, c.burst(b, 100)).Handler()
				ask := routertest.NewRequest(c.wire, "small", true)
				b.ReportAllocs()
				for b.Loop() {
					serveOnce(b, h, ask, nil)
				}
			})
		})
	}
}
