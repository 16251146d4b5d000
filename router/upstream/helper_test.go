package upstream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func parse(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newClient(t testing.TB, base string) *Client {
	t.Helper()
	c := New(Config{Name: "a", Base: parse(t, base)})
	t.Cleanup(c.CloseIdle)
	return c
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// newCall returns a POST of the pieces to base.
func newCall(t testing.TB, base string, pieces ...string) *Call {
	t.Helper()
	call := &Call{
		Method: http.MethodPost, URL: parse(t, base+"/v1/messages"), Route: "/v1/messages",
		Header: http.Header{"Content-Type": {"application/json"}},
	}
	for _, p := range pieces {
		call.Segments = append(call.Segments, []byte(p))
		call.Length += int64(len(p))
	}
	return call
}

// do sends the call under a watch that lasts as long as the test.
func do(t testing.TB, c *Client, call *Call) (*Answer, error) {
	t.Helper()
	ctx, w := NewWatch(t.Context())
	t.Cleanup(w.Stop)
	return c.Do(ctx, call, w)
}

// text reads the answer to its end.
func text(t testing.TB, a *Answer, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("Do: %v (%v)", err, errors.Unwrap(err))
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tcp serves each accepted connection with f, which is told how many came before; it closes it in the end.
func tcp(t testing.TB, f func(n int, c *net.TCPConn, r *bufio.Reader)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				f(n, c.(*net.TCPConn), bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

// request reads one request from a raw connection, its body included.
func request(r *bufio.Reader) (*http.Request, string, error) {
	req, err := http.ReadRequest(r)
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(req.Body)
	return req, string(b), err
}

// bubble returns a client whose upstream is h, both inside the caller's synctest bubble, and what ends them.
func bubble(t testing.TB, h http.HandlerFunc) (*Client, func()) {
	t.Helper()
	return bubbleOf(t, Config{}, h)
}

// bubbleOf is a bubble whose client has what else cfg says.
func bubbleOf(t testing.TB, cfg Config, h http.HandlerFunc) (*Client, func()) {
	t.Helper()
	n := &routertest.Network{}
	l := n.Listen(parse(t, inMemory).Host + ":80")
	s := &http.Server{Handler: h}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Serve(l) })
	cfg.Name, cfg.Base, cfg.Dial = "a", parse(t, inMemory), n.Dial
	c := New(cfg)
	return c, func() {
		c.CloseIdle()
		_ = s.Close()
		wg.Wait()
	}
}

const inMemory = "http://upstream.test"
