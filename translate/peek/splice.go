package peek

import (
	"io"
	"slices"
)

// Edit replaces what the span of a text holds by New. An empty span inserts.
type Edit struct {
	Span
	New []byte
}

// Splice appends to dst the segments that src consists of after edits, which are sorted and do not overlap. It copies
// nothing: the segments are parts of src and of the edits.
func Splice(dst [][]byte, src []byte, edits []Edit) [][]byte {
	dst = slices.Grow(dst, 2*len(edits)+1)
	pos := 0
	for _, e := range edits {
		if pos < e.Start {
			dst = append(dst, src[pos:e.Start])
		}
		if len(e.New) > 0 {
			dst = append(dst, e.New)
		}
		pos = e.End
	}
	if pos < len(src) {
		dst = append(dst, src[pos:])
	}
	return dst
}

// Reader reads segments one after the other. It never writes to them, so that several readers can share them.
type Reader struct {
	segments [][]byte // not begun yet
	current  []byte   // what is left of the one before them
	left     int
}

// NewReader returns a reader of segments, which must not change while it is in use.
func NewReader(segments [][]byte) *Reader {
	r := &Reader{segments: segments}
	for _, s := range segments {
		r.left += len(s)
	}
	return r
}

// Len returns the number of bytes that are left.
func (r *Reader) Len() int { return r.left }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	total := 0
	for total < len(p) && r.advance() {
		n := copy(p[total:], r.current)
		r.consume(n)
		total += n
	}
	return total, nil
}

// WriteTo implements io.WriterTo.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for r.advance() {
		n, err := w.Write(r.current)
		r.consume(n)
		total += int64(n)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Close implements io.Closer; it does nothing.
func (r *Reader) Close() error { return nil }

// advance makes current what is to be read next; false at the end.
func (r *Reader) advance() bool {
	for len(r.current) == 0 {
		if len(r.segments) == 0 {
			return false
		}
		r.current, r.segments = r.segments[0], r.segments[1:]
	}
	return true
}

func (r *Reader) consume(n int) {
	r.current = r.current[n:]
	r.left -= n
}

var (
	_ io.ReadCloser = (*Reader)(nil)
	_ io.WriterTo   = (*Reader)(nil)
)
