package upstream

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestStaleConnection(t *testing.T) {
	for name, end := range map[string]func(*net.TCPConn, *bufio.Reader){
		"closed":                   func(c *net.TCPConn, r *bufio.Reader) {},
		"reset":                    func(c *net.TCPConn, r *bufio.Reader) { _ = c.SetLinger(0) },
		"closed after the request": func(c *net.TCPConn, r *bufio.Reader) { _, _, _ = request(r) },
		"reset after the request":  func(c *net.TCPConn, r *bufio.Reader) { _, _, _ = request(r); _ = c.SetLinger(0) },
		"reset within the request": func(c *net.TCPConn, r *bufio.Reader) { _, _ = r.ReadByte(); _ = c.SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			base := tcp(t, func(n int, c *net.TCPConn, r *bufio.Reader) {
				for i := 0; n > 0 || i == 0; i++ {
					_, body, err := request(r)
					if err != nil {
						return
					}
					if body != "hello" {
						t.Errorf("connection %d got %q", n, body)
					}
					_, _ = io.WriteString(c, ok)
				}
				end(c, r)
			})
			c, spans, _ := recorded(t, base, nil)
			for i := range 3 {
				var done atomic.Int32
				call := newCall(t, base, "hel", "lo")
				call.Done = func() { done.Add(1) }
				a, err := do(t, c, call)
				if got := text(t, a, err); got != "ok" {
					t.Errorf("got %q", got)
				}
				if i != 1 && a.Sends != 1 {
					t.Errorf("request %d took %d sends", i+1, a.Sends)
				}
				if i == 1 && strings.HasSuffix(name, "the request") && a.Sends != 2 {
					t.Errorf("the stale connection took %d sends", a.Sends)
				}
				if a.Sends > 1 {
					resent(t, spans)
				}
				eventually(t, func() bool { return done.Load() == 1 })
			}
		})
	}
}

// resent checks that the last span but one failed and the last one says that it is its repetition.
func resent(t *testing.T, spans *tracetest.SpanRecorder) {
	t.Helper()
	all := spans.Ended()
	failed, last := attributes(all[len(all)-2]), attributes(all[len(all)-1])
	if failed["error.type"] != kindReset || last["http.request.resend_count"] != "1" {
		t.Errorf("spans have %v and %v", failed, last)
	}
}

// A connection that takes the request and never answers it is the upstream's fault if it is new, or if it took its time.
func TestResendsEnd(t *testing.T) {
	var requests atomic.Int32
	base := tcp(t, func(n int, c *net.TCPConn, r *bufio.Reader) {
		for i := range 2 {
			if _, _, err := request(r); err != nil {
				return
			}
			requests.Add(1)
			if n == 0 && i == 0 {
				_, _ = io.WriteString(c, ok)
				continue
			}
			return
		}
	})
	c := newClient(t, base)
	a, err := do(t, c, newCall(t, base, "x"))
	text(t, a, err)
	asked := 0
	call := newCall(t, base, "x")
	call.Retry = func(send int, _ *http.Response, _ []byte, err error) (bool, time.Duration) {
		asked++
		if send != 2 || Kind(err) != kindReset {
			t.Errorf("asked about send %d, %v", send, err)
		}
		return false, 0
	}
	if _, err := do(t, c, call); Kind(err) != kindReset || asked != 1 || requests.Load() != 3 {
		t.Errorf("got %v; asked %d times, %d requests", err, asked, requests.Load())
	}
}

func TestStaleConditions(t *testing.T) {
	fail := &Error{Kind: kindReset, Err: io.EOF}
	for _, c := range []struct {
		name     string
		progress uint32
		resends  int
		age      time.Duration
		err      error
		want     bool
	}{
		{"kept alive", reused, 0, 0, fail, true},
		{"once more", reused, 1, time.Second, fail, true},
		{"too often", reused, 2, 0, fail, false},
		{"too late", reused, 0, resendWithin, fail, false},
		{"new", fresh, 0, 0, fail, false},
		{"answered", talking, 0, 0, fail, false},
		{"no connection", dialing, 0, 0, fail, false},
		{"an answer", reused, 0, 0, nil, false},
		{"a refused HTTP/2 stream", reused, 0, 0, &Error{Kind: kindReset, Err: streamError{Code: 2}}, false},
	} {
		_, w := NewWatch(t.Context())
		d := &dispatch{watch: w, sent: w.now() - c.age, resends: c.resends, err: c.err}
		d.progress.Store(c.progress)
		if d.stale() != c.want {
			t.Errorf("%s: stale = %v", c.name, !c.want)
		}
		w.Stop()
	}
}

// secureClient returns a client of an HTTP/2 server.
func secureClient(t *testing.T, s *httptest.Server) *Client {
	t.Helper()
	s.EnableHTTP2 = true
	s.Config.ErrorLog = quiet()
	s.StartTLS()
	t.Cleanup(s.Close)
	c := newClient(t, s.URL)
	c.base.TLSClientConfig = &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	return c
}

func TestHTTP2(t *testing.T) {
	var n atomic.Int32
	var mu sync.Mutex
	var last net.Conn
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if r.ProtoMajor != 2 || string(b) != "hello" {
			t.Errorf("got %s with %q", r.Proto, b)
		}
		switch n.Add(1) {
		case 2: // the connection breaks under its second request
			mu.Lock()
			_ = last.Close()
			mu.Unlock()
		case 4:
			panic(http.ErrAbortHandler) // the stream is reset, the connection is well
		default:
			_, _ = io.WriteString(w, "ok")
		}
	}))
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			mu.Lock()
			last = c.(*tls.Conn).NetConn()
			mu.Unlock()
		}
	}
	c := secureClient(t, s)
	for _, sends := range []int{1, 2} {
		a, err := do(t, c, newCall(t, s.URL, "hel", "lo"))
		if got := text(t, a, err); got != "ok" || a.Sends != sends {
			t.Errorf("got %q after %d sends, want %d", got, a.Sends, sends)
		}
	}
	if _, err := do(t, c, newCall(t, s.URL, "hello")); Kind(err) != kindReset || n.Load() != 4 {
		t.Errorf("a refused stream is %v after %d requests", err, n.Load())
	}
}
