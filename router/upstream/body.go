package upstream

import (
	"errors"
	"io"
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
}

// release gives up one reference; the last one frees the segments.
func (p *payload) release() {
	if p.refs.Add(-1) == 0 && p.done != nil {
		p.done()
	}
}

// open returns a reader of the whole body. It must not be called once the last reference is gone.
func (p *payload) open() (io.Reader, error) {
	r := &reader{payload: p, segments: p.segments}
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

var _ io.ReadCloser = (*reader)(nil)
