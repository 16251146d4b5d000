package router_test

import (
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
