package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	p := &payload{segments: [][]byte{{}, []byte("ab"), {}, []byte("cde"), {}}}
	p.refs.Store(1)
	done := 0
	p.done = func() { done++ }
	r, err := p.open()
	if err != nil || r.(*reader).Len() != 5 {
		t.Fatalf("opened %v, %v", r, err)
	}
	if err := iotest.TestReader(r, []byte("abcde")); err != nil {
		t.Error(err)
	}
	_ = r.(io.Closer).Close()
	_ = r.(io.Closer).Close()
	if n, err := r.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d, %v from a closed reader", n, err)
	}
	if done != 0 {
		t.Error("done while Do is running")
	}
	p.release()
	if done != 1 {
		t.Errorf("done %d times", done)
	}
}

// scribble returns a call with a large body that is overwritten as soon as it is said to be free; the race detector tells
// whether a send still read it.
func scribble(t *testing.T, base string) (*Call, *atomic.Int32) {
	call, done := newCall(t, base, strings.Repeat("x", 2<<20), strings.Repeat("y", 14<<20)), &atomic.Int32{}
	call.Done = func() {
		done.Add(1)
		for _, s := range call.Segments {
			clear(s)
		}
	}
	return call, done
}

func TestAnswerBeforeTheBodyIsRead(t *testing.T) {
	read := make(chan struct{})
	base := tcp(t, func(_ int, c *net.TCPConn, r *bufio.Reader) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		_, _ = io.WriteString(c, ok)
		<-read
		_, _ = io.CopyN(io.Discard, r, 1<<20)
	})
	call, done := scribble(t, base)
	a, err := do(t, newClient(t, base), call)
	if err != nil {
		t.Fatal(err)
	}
	if done.Load() != 0 {
		t.Error("the body was freed while it was being sent")
	}
	close(read)
	text(t, a, nil)
	eventually(t, func() bool { return done.Load() == 1 })
}

func TestAnswerBeforeTheBodyIsReadHTTP2(t *testing.T) {
	var n atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		_, _ = io.CopyN(io.Discard, r.Body, 100_000)
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	c := secureClient(t, s)
	for range 4 {
		call, done := scribble(t, s.URL)
		a, err := do(t, c, call)
		if text(t, a, err); a.StatusCode != 413 {
			t.Errorf("status %d", a.StatusCode)
		}
		eventually(t, func() bool { return done.Load() == 1 })
	}
}

func TestCancelledWhileSending(t *testing.T) {
	base := tcp(t, func(_ int, _ *net.TCPConn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		_, _ = io.CopyN(io.Discard, r, 16<<20)
	})
	for range 5 {
		call, done := scribble(t, base)
		ctx, w := NewWatch(t.Context())
		go w.Stop()
		if _, err := newClient(t, base).Do(ctx, call, w); err == nil || Kind(err) != kindOther && Kind(err) != kindReset {
			t.Errorf("got %v", err)
		}
		eventually(t, func() bool { return done.Load() == 1 })
	}
}
