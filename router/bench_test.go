package router_test

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	nolog "go.opentelemetry.io/otel/log/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// scriptedPeer is an upstream on plain TCP that allocates nothing while it answers, so that what is counted is the
// router's. It answers every request alike.
type scriptedPeer struct {
	l     net.Listener
	head  []byte        // the answer, or what comes before the chunks
	chunk []byte        // repeated, each one only when the one before has reached the client
	tail  []byte        // behind the chunks
	count atomic.Int64  // how many chunks
	shown chan struct{} // one for each flush to the client
}

func newPeer(tb testing.TB, head, chunk, tail string) *scriptedPeer {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &scriptedPeer{l: l, head: []byte(head), chunk: []byte(chunk), tail: []byte(tail), shown: make(chan struct{}, 1<<14)}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *scriptedPeer) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReaderSize(c, 64<<10)
	for {
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			if name := []byte("content-length:"); len(line) > len(name) && bytes.EqualFold(line[:len(name)], name) {
				length = 0
				for _, d := range bytes.TrimSpace(line[len(name):]) {
					length = 10*length + int(d-'0')
				}
			}
		}
		if _, err := in.Discard(length); err != nil {
			return
		}
		if p.answer(c) != nil {
			return
		}
	}
}

func (p *scriptedPeer) answer(c net.Conn) error {
	if _, err := c.Write(p.head); err != nil || p.tail == nil {
		return err
	}
	for range p.count.Load() {
		if _, err := c.Write(p.chunk); err != nil {
			return err
		}
		<-p.shown
	}
	_, err := c.Write(p.tail)
	return err
}

// sinkWriter is a client that keeps nothing.
type sinkWriter struct {
	header http.Header
	status int
	bytes  int
	tail   [64]byte
	shown  chan struct{}

	writes, flushes int
}

func (w *sinkWriter) Header() http.Header    { return w.header }
func (w *sinkWriter) WriteHeader(status int) { w.status = status }
func (w *sinkWriter) Flush() {
	w.flushes++
	select {
	case w.shown <- struct{}{}:
	default:
	}
}

func (w *sinkWriter) Write(b []byte) (int, error) {
	w.writes++
	w.bytes += len(b)
	copy(w.tail[:], b[max(0, len(b)-len(w.tail)):])
	return len(b), nil
}

// wireCase is a stream of one wire in pieces: chunk is the repeated one.
type wireCase struct{ name, wire, first, chunk, last, end string }

var wireCases = []wireCase{
	{
		"chat", routertest.Chat, `data: {"id":"c","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n",
		`data: {"id":"c","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n",
		`data: {"id":"c","object":"chat.completion.chunk","model":"up","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
			`data: {"id":"c","object":"chat.completion.chunk","model":"up","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}}` + "\n\n" +
			"data: [DONE]\n\n", "[DONE]",
	},
	{
		"responses", routertest.Responses, "event: response.created\n" + `data: {"type":"response.created","response":{"id":"r","status":"in_progress"}}` + "\n\n",
		"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","item_id":"i","output_index":0,"content_index":0,"delta":"word "}` + "\n\n",
		"event: response.completed\n" + `data: {"type":"response.completed","response":{"id":"r","status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":5}}}` + "\n\n", "}}}",
	},
	{
		"messages", routertest.Messages, "event: message_start\n" + `data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"up","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n",
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}` + "\n\n",
		"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":5}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n", "message_stop",
	},
	{
		"gemini", routertest.Gemini, "",
		`data: {"candidates":[{"content":{"parts":[{"text":"word "}],"role":"model"},"index":0}],"modelVersion":"up"}` + "\r\n\r\n",
		`data: {"candidates":[{"content":{"parts":[{"text":"."}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":5,"totalTokenCount":8}}` + "\r\n\r\n", "}}",
	},
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func httpChunk(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(s), s)
}

func (c wireCase) peer(tb testing.TB) *scriptedPeer {
	tb.Helper()
	return newPeer(tb, streamHead+httpChunk(c.first), httpChunk(c.chunk), httpChunk(c.last)+"0\r\n\r\n")
}

func wholeAnswer(status int, body string) string {
	return "HTTP/1.1 " + strconv.Itoa(status) + " X\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

const goodChat = `{"id":"c","object":"chat.completion","model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}}`

// benchEngine is an engine over the peers in the order given, every one asked for a model of its own. No target ever
// rests, so that each request goes the same way.
func benchEngine(tb testing.TB, telemetry, stripping bool, wire string, peers ...*scriptedPeer) *router.Router {
	tb.Helper()
	cfg := settings.Defaults()
	cfg.Cooling.Server.After = 1 << 30
	m := settings.DefaultModel()
	m.ID = "small"
	for i, p := range peers {
		u := settings.DefaultUpstream()
		u.Name, u.BaseURL, u.Wires = "up"+strconv.Itoa(i), "http://"+p.l.Addr().String(), []string{wire}
		u.APIKey, u.StreamUsage = settings.NewSecret("k", "env K"), stripping
		cfg.Upstreams = append(cfg.Upstreams, u)
		t := settings.DefaultTarget()
		t.Upstream, t.Model = u.Name, "a-longer-upstream-model"
		m.Targets = append(m.Targets, t)
	}
	cfg.Models = []settings.Model{m}
	opts := []router.Option{router.WithLogger(slog.New(slog.DiscardHandler))}
	if telemetry {
		// Spans are recorded and dropped at their end, measurements are kept: what an exporter does later is its own.
		traces := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()))
		meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
		opts = append(opts, router.WithTelemetry(traces, meters, nolog.NewLoggerProvider()))
	}
	r, err := router.New(cfg, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Close)
	return r
}

func padded(r routertest.Request, size int) routertest.Request {
	if fill := size - len(r.Body); fill > 0 {
		r.Body = strings.TrimSuffix(r.Body, "}") + `,"metadata":{"fill":"` + strings.Repeat("x", fill) + `"}}`
	}
	return r
}

// serveOnce sends a request to the handler itself. There is no client and no connection to it whose work would count.
func serveOnce(tb testing.TB, h http.Handler, ask routertest.Request, shown chan struct{}) *sinkWriter {
	req := httptest.NewRequest(http.MethodPost, ask.Path, strings.NewReader(ask.Body))
	req.Header = ask.Header.Clone()
	w := &sinkWriter{header: http.Header{}, shown: shown}
	h.ServeHTTP(w, req)
	if w.status != http.StatusOK {
		tb.Fatalf("status %d, want 200", w.status)
	}
	return w
}

// drain forgets the flushes that no chunk waited for.
func drain(c chan struct{}) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

// allocated is what f allocates: objects and bytes of the whole process.
func allocated(f func()) (objects, size uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, after.TotalAlloc - before.TotalAlloc
}

func TestNoAllocationPerChunk(t *testing.T) {
	if router.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	const short, long = 200, 2000
	for _, c := range wireCases {
		for _, stripping := range []bool{false, true} {
			if stripping && c.wire != routertest.Chat {
				continue // only there is a chunk taken out
			}
			t.Run(fmt.Sprintf("%s/strip=%t", c.name, stripping), func(t *testing.T) {
				p := c.peer(t)
				h := benchEngine(t, true, stripping, c.wire, p).Handler()
				ask := routertest.NewRequest(c.wire, "small", true)
				relay := func(n int) uint64 {
					p.count.Store(int64(n))
					drain(p.shown)
					objects, _ := allocated(func() {
						w := serveOnce(t, h, ask, p.shown)
						if w.bytes < n*len(c.chunk) || !bytes.Contains(w.tail[:], []byte(c.end)) {
							t.Fatalf("%d bytes of %d chunks reached the client, the last ones %q", w.bytes, n, w.tail)
						}
					})
					return objects
				}
				relay(long) // pools, connections and histograms get their size
				few, many := relay(short), relay(long)
				for range 4 { // other goroutines of the process can only add
					few, many = min(few, relay(short)), min(many, relay(long))
				}
				per := (float64(many) - float64(few)) / (long - short)
				t.Logf("%d objects for %d chunks, %d for %d: %.4f for each further chunk", few, short, many, long, per)
				if per > 0.01 {
					t.Errorf("%.4f allocations for each chunk, want none", per)
				}
			})
		}
	}
}

func TestOneBufferForRequestBody(t *testing.T) {
	if router.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	const size, beside = 2 << 20, 512 << 10
	bad := newPeer(t, wholeAnswer(500, `{"error":{"message":"no"}}`), "", "")
	bad.tail = nil
	good := newPeer(t, wholeAnswer(200, goodChat), "", "")
	good.tail = nil
	h := benchEngine(t, true, false, routertest.Chat, bad, bad, good).Handler()
	ask := padded(routertest.NewRequest(routertest.Chat, "small", false), size)
	serveOnce(t, h, ask, nil)
	least := uint64(1 << 62)
	for range 5 {
		runtime.GC() // twice empties the pools: the body's own buffer is made anew
		runtime.GC()
		_, n := allocated(func() { serveOnce(t, h, ask, nil) })
		least = min(least, n)
	}
	pooled := uint64(1 << 62)
	for range 5 {
		_, n := allocated(func() { serveOnce(t, h, ask, nil) })
		pooled = min(pooled, n)
	}
	t.Logf("a body of %d bytes, sent three times: %d bytes allocated, %d with a buffer from the pool", len(ask.Body), least, pooled)
	if least > uint64(len(ask.Body))+beside {
		t.Errorf("%d bytes allocated for a body of %d, want one buffer and at most %d beside it", least, len(ask.Body), beside)
	}
	if pooled > beside {
		t.Errorf("%d bytes allocated with a buffer from the pool, want at most %d", pooled, beside)
	}
}

func benchmarkBoth(b *testing.B, run func(b *testing.B, telemetry bool)) {
	for _, on := range []bool{false, true} {
		b.Run(fmt.Sprintf("telemetry=%t", on), func(b *testing.B) { run(b, on) })
	}
}

func benchmarkWhole(b *testing.B, size int, heads ...string) {
	benchmarkBoth(b, func(b *testing.B, on bool) {
		var peers []*scriptedPeer
		for _, head := range heads {
			p := newPeer(b, head, "", "")
			p.tail = nil
			peers = append(peers, p)
		}
		h := benchEngine(b, on, false, routertest.Chat, peers...).Handler()
		ask := padded(routertest.NewRequest(routertest.Chat, "small", false), size)
		b.ReportAllocs()
		b.SetBytes(int64(len(ask.Body)))
		for b.Loop() {
			serveOnce(b, h, ask, nil)
		}
	})
}

func BenchmarkSmallJSON(b *testing.B) { benchmarkWhole(b, 1<<10, wholeAnswer(200, goodChat)) }

func BenchmarkAgent200K(b *testing.B) { benchmarkWhole(b, 200<<10, wholeAnswer(200, goodChat)) }

func BenchmarkFailover(b *testing.B) {
	benchmarkWhole(b, 1<<10, wholeAnswer(500, `{"error":{"message":"no"}}`), wholeAnswer(200, goodChat))
}

// BenchmarkStreamChunk counts one chunk as one operation. Each is sent when the one before has reached the client, so
// the time holds two switches between goroutines.
func BenchmarkStreamChunk(b *testing.B) {
	for _, c := range wireCases {
		b.Run(c.name, func(b *testing.B) {
			benchmarkBoth(b, func(b *testing.B, on bool) {
				p := c.peer(b)
				h := benchEngine(b, on, false, c.wire, p).Handler()
				ask := routertest.NewRequest(c.wire, "small", true)
				b.ReportAllocs()
				p.count.Store(int64(b.N))
				b.ResetTimer()
				serveOnce(b, h, ask, p.shown)
			})
		})
	}
}
