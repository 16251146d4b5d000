package upstream

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

var errBodyClosed = errors.New("request body is closed")

// payload is the request body of one dispatch: segments that several sends read, also at the same time. It counts its
// readers, because an old send's write loop may go on reading after its answer has come.
type payload struct {
	segments [][]byte
	refs     atomic.Int64
	done     func()
	newest   *reader
}

// release gives up one reference; the last one frees the segments.
func (p *payload) release() {
	if p.refs.Add(-1) > 0 {
		return
	}
	p.segments = nil // an answer that is read for long keeps the dispatch
	if p.done != nil {
		p.done()
	}
}

// open returns a reader of the whole body. It must not be called once the last reference is gone.
func (p *payload) open() (io.Reader, error) {
	r := &reader{payload: p, segments: p.segments}
	p.newest = r
	for _, s := range p.segments {
		r.left += len(s)
	}
	p.refs.Add(1)
	return r, nil
}

// reader reads the payload once, without a copy of the segments.
type reader struct {
	payload *payload

	// HTTP/2 closes a body while another goroutine is reading it; the lock makes Close the last moment at which the segments
	// are looked at. There is no WriteTo, which would hold it while the network is slow.
	mu       sync.Mutex
	segments [][]byte
	offset   int
	left     int
	closed   bool
	lent     bool // the segments are written by someone else; reading only counts them
}

// Len returns the number of bytes left: go-retryablehttp takes the Content-Length from it.
func (r *reader) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

func (r *reader) Read(p []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, errBodyClosed
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	if r.lent {
		n = min(len(p), r.left)
		r.left -= n
		return n, nil
	}
	for n < len(p) && r.left > 0 {
		c := copy(p[n:], r.segments[0][r.offset:])
		n, r.offset, r.left = n+c, r.offset+c, r.left-c
		if r.offset == len(r.segments[0]) {
			r.segments, r.offset = r.segments[1:], 0
		}
	}
	return n, nil
}

// Close lets go of the segments; net/http calls it for every body, sometimes twice.
func (r *reader) Close() error {
	r.mu.Lock()
	closed := r.closed
	r.closed, r.segments = true, nil
	r.mu.Unlock()
	if !closed {
		r.payload.release()
	}
	return nil
}

// lend gives the whole body to somebody who writes it without a copy, and who must say when that is done; nil if reading
// has begun or ended. The reference keeps the segments although Close may come meanwhile.
func (r *reader) lend() (all net.Buffers, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.lent || r.offset > 0 || len(r.segments) != len(r.payload.segments) {
		return nil, nil
	}
	r.lent = true
	r.payload.refs.Add(1)
	return append(all, r.segments...), r.payload.release
}

// joined is up to which size, in bytes, a body is copied to leave in one write with its headers: a second write, and the
// upstream's second read, cost more than the copy. More would not fit into the connection's buffer beside them.
const joined = bufferSize * 3 / 4

// direct is a request body as net/http gets it. What the instrumentation has put around the reader counts its bytes.
type direct struct {
	io.ReadCloser
	own *reader
}

// lighten makes the body of a send cheap to write. net/http takes only its own readers to be in memory and flushes the
// headers before any other, such as what the instrumentation has put around one: that is read for its own sake.
func (d *dispatch) lighten(r *http.Request, silent bool) error {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
	case d.newest != nil:
		r.Body = &direct{r.Body, d.newest}
	case d.whole != nil && !silent:
		_, err := io.Copy(io.Discard, r.Body)
		_ = r.Body.Close() // it is memory
		if err != nil {
			return err
		}
		r.Body = io.NopCloser(bytes.NewReader(d.whole))
	}
	return nil
}

// conn is a connection that takes a body as it lies in memory: one system call instead of a buffer that is filled and
// emptied time and again.
type conn struct{ net.Conn }

// ReadFrom implements io.ReaderFrom, for net/http's copy of a body of known length.
func (c conn) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		if d, ok := l.R.(*direct); ok {
			if all, done := d.own.lend(); all != nil {
				defer done()
				return d.write(c.Conn, all, l)
			}
		}
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

func (d *direct) write(to io.Writer, all net.Buffers, l *io.LimitedReader) (int64, error) {
	segments := append(net.Buffers(nil), all...) // writing consumes the list
	n, err := all.WriteTo(to)
	l.N -= n
	if err != nil {
		return n, err
	}
	for _, s := range segments {
		if _, err := io.ReadFull(d.ReadCloser, s); err != nil { // counts, and leaves s alone
			return n, err
		}
	}
	return n, nil
}

var (
	_ io.ReadCloser = (*reader)(nil)
	_ io.ReaderFrom = conn{}
)
