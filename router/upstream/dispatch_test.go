package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

func TestDoSendsThePieces(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d %q %s", r.Method, r.URL, r.ContentLength, r.TransferEncoding, b)
	})
	c := newClient(t, s.URL)
	for _, pieces := range [][]string{nil, {"abc"}, {"", "ab", "", "cd", ""}, {strings.Repeat("x", 100_000), strings.Repeat("y", 100_000)}} {
		var done atomic.Int32
		call := newCall(t, s.URL, pieces...)
		call.URL.RawQuery = "beta=true"
		call.Done = func() { done.Add(1) }
		a, err := do(t, c, call)
		got := text(t, a, err)
		want := fmt.Sprintf("POST /v1/messages?beta=true %d [] %s", call.Length, strings.Join(pieces, ""))
		if got != want {
			t.Errorf("the upstream got %.80q, want %.80q", got, want)
		}
		if a.Sends != 1 || a.ErrorBody != nil {
			t.Errorf("sends %d, error body %q", a.Sends, a.ErrorBody)
		}
		eventually(t, func() bool { return done.Load() == 1 })
	}
}

// eventually waits for another goroutine to have done its part.
func eventually(t testing.TB, f func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

func TestRetryReplaysTheBody(t *testing.T) {
	var connections, n atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); string(b) != "hello world" {
			t.Errorf("send %d carried %q", n.Load()+1, b)
		}
		if n.Add(1) <= 20 {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write(bytes.Repeat([]byte("overloaded "), 1000))
			return
		}
		_, _ = io.WriteString(w, "fine")
	})
	c := newClient(t, s.URL)
	dial := c.base.DialContext
	c.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		connections.Add(1)
		return dial(ctx, network, addr)
	}
	var sends []int
	call := newCall(t, s.URL, "hello", " ", "world")
	done := make(chan struct{})
	call.Done = func() { close(done) }
	call.Retry = func(send int, resp *http.Response, body []byte, err error) (bool, time.Duration) {
		sends = append(sends, send)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "7" || len(body) != 11_000 || err != nil {
			t.Errorf("retry was told %v, %d bytes, %v", resp.Status, len(body), err)
		}
		return true, 0
	}
	a, err := do(t, c, call)
	if got := text(t, a, err); got != "fine" || a.Sends != 21 {
		t.Errorf("got %q after %d sends", got, a.Sends)
	}
	if len(sends) != 20 || sends[0] != 1 || sends[19] != 20 {
		t.Errorf("retry was asked at %v", sends)
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections were made", connections.Load())
	}
	<-done
}

func TestFinalErrorAnswer(t *testing.T) {
	long := bytes.Repeat([]byte("e"), maxErrorBody+1000)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Request-Id", "req_1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write(long)
	})
	a, err := do(t, newClient(t, s.URL), newCall(t, s.URL, "x"))
	if got := text(t, a, err); got != "" || a.StatusCode != 429 || a.Header.Get("Request-Id") != "req_1" || len(a.ErrorBody) != maxErrorBody {
		t.Errorf("got %q %d %v and %d bytes", got, a.StatusCode, a.Header, len(a.ErrorBody))
	}
}

func TestStreamIsNotBuffered(t *testing.T) {
	next := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, chunk := range []string{"data: 1\n\n", "data: 2\n\n"} {
			_, _ = io.WriteString(w, chunk)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	})
	call := newCall(t, s.URL, "x")
	call.Stream = true
	a, err := do(t, newClient(t, s.URL), call)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	buf := make([]byte, 1000)
	for _, want := range []string{"data: 1\n\n", "data: 2\n\n"} {
		n, err := a.Body.Read(buf)
		if err != nil || string(buf[:n]) != want {
			t.Fatalf("read %q, %v", buf[:n], err)
		}
		next <- struct{}{} // only now may the upstream go on
	}
	if n, err := a.Body.Read(buf); n != 0 || err != io.EOF {
		t.Fatalf("read %q, %v", buf[:n], err)
	}
}

func TestClientLeaves(t *testing.T) {
	left := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	parent, cancel := context.WithCancel(t.Context())
	ctx, w := NewWatch(parent)
	defer w.Stop()
	a, err := newClient(t, s.URL).Do(ctx, newCall(t, s.URL, "x"), w)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	cancel()
	if _, err := io.ReadAll(a.Body); !errors.Is(err, context.Canceled) || err.Error() != "cancelled" {
		t.Errorf("the body ended with %v", err)
	}
	<-left
}

func TestRedirectsAreAnswers(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = io.WriteString(w, "moved")
	})
	a, err := do(t, newClient(t, s.URL), newCall(t, s.URL, "x"))
	if got := text(t, a, err); a.StatusCode != 307 || got != "" || string(a.ErrorBody) != "moved" || a.Sends != 1 {
		t.Errorf("got %d %q", a.StatusCode, got)
	}
}

func TestInformationalAnswers(t *testing.T) {
	base := tcp(t, func(_ int, c *net.TCPConn, r *bufio.Reader) {
		for {
			if _, _, err := request(r); err != nil {
				return
			}
			for range 20 {
				_, _ = io.WriteString(c, "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	c := newClient(t, base)
	for range 2 {
		a, err := do(t, c, newCall(t, base, "x"))
		if got := text(t, a, err); got != "ok" || a.StatusCode != 200 || a.Header.Get("Link") != "" {
			t.Errorf("got %d %q", a.StatusCode, got)
		}
	}
}

func TestCompressedAnswersPass(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		fmt.Fprintf(w, "accept %q", r.Header.Values("Accept-Encoding"))
	})
	a, err := do(t, newClient(t, s.URL), newCall(t, s.URL, "x"))
	if got := text(t, a, err); got != "accept []" || a.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("got %q, %v", got, a.Header)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	if _, ok := c.retry.HTTPClient.Transport.(interface{ CloseIdleConnections() }); ok {
		t.Error("go-retryablehttp can close idle connections")
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	var kept []bool
	for range 3 {
		call := newCall(t, s.URL, "x")
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { kept = append(kept, i.Reused) },
		})
		ctx, w := NewWatch(ctx)
		a, err := c.Do(ctx, call, w)
		text(t, a, err)
		w.Stop()
	}
	if fmt.Sprint(kept) != "[false true true]" {
		t.Errorf("reused %v", kept)
	}
}

func TestSame(t *testing.T) {
	cfg := func() Config {
		return Config{Name: "a", Base: parse(t, "https://api.test/v1"), Connect: time.Second}
	}
	c := New(cfg())
	if !c.Same(cfg()) {
		t.Error("the same configuration needs a new client")
	}
	other := cfg()
	other.Dial = new(routertest.Network).Dial
	if !c.Same(other) {
		t.Error("Dial is compared")
	}
	for name, change := range map[string]func(*Config){
		"name":       func(c *Config) { c.Name = "b" },
		"base":       func(c *Config) { c.Base = parse(t, "https://api.test/v2") },
		"connect":    func(c *Config) { c.Connect = time.Minute },
		"propagator": func(c *Config) { c.Propagator = traceContext() },
	} {
		other := cfg()
		change(&other)
		if c.Same(other) {
			t.Errorf("a changed %s keeps the client", name)
		}
	}
}

func BenchmarkDo(b *testing.B) {
	s := serve(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	c := newClient(b, s.URL)
	for _, size := range []int{300, 20_000, 200_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			call := newCall(b, s.URL, strings.Repeat("x", size))
			b.ReportAllocs()
			for b.Loop() {
				ctx, w := NewWatch(b.Context())
				a, err := c.Do(ctx, call, w)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, a.Body)
				_ = a.Body.Close()
				w.Stop()
			}
		})
	}
}

// A redirect is not followed, but net/http opens the body for it before it asks.
func TestRedirectGivesTheBodyBack(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	c := newClient(t, s.URL)
	for _, size := range []int{10, joined + 1, 1 << 20} {
		var done atomic.Int32
		call := newCall(t, s.URL, strings.Repeat("x", size))
		call.Done = func() { done.Add(1) }
		if a, err := do(t, c, call); err != nil || a.StatusCode != http.StatusTemporaryRedirect || a.Sends != 1 {
			t.Errorf("%d bytes: %+v, %v", size, a, err)
		}
		eventually(t, func() bool { return done.Load() == 1 })
	}
}
