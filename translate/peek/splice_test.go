package peek

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestSplice(t *testing.T) {
	src := []byte("0123456789")
	edits := []Edit{
		{Span{0, 1}, []byte("a")},
		{Span{1, 1}, []byte("b")},
		{Span{1, 1}, []byte("c")},
		{Span{3, 5}, nil},
		{Span{5, 5}, nil},
		{Span{8, 10}, []byte("d")},
	}
	var got []string
	for _, s := range Splice([][]byte{[]byte("x")}, src, edits) {
		got = append(got, string(s))
	}
	if diff := cmp.Diff([]string{"x", "a", "b", "c", "12", "567", "d"}, got); diff != "" {
		t.Error(diff)
	}
	if whole := Splice(nil, src, nil); len(whole) != 1 || &whole[0][0] != &src[0] {
		t.Errorf("without edits: %q", whole)
	}
}

func TestReader(t *testing.T) {
	segments := [][]byte{nil, []byte("abc"), {}, []byte("d"), []byte("efghij"), nil}
	if err := iotest.TestReader(NewReader(segments), []byte("abcdefghij")); err != nil {
		t.Error(err)
	}
	r := NewReader(segments)
	two := make([]byte, 2)
	if n, err := io.ReadFull(r, two); n != 2 || err != nil || r.Len() != 8 {
		t.Errorf("read %d, %v, left %d", n, err, r.Len())
	}
	var b bytes.Buffer
	if n, err := r.WriteTo(&b); n != 8 || err != nil || b.String() != "cdefghij" || r.Len() != 0 {
		t.Errorf("wrote %d, %v, %q, left %d", n, err, b.String(), r.Len())
	}
	if n, err := r.Read(two); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d, %v at the end", n, err)
	}
	if n, err := NewReader(segments).Read(nil); n != 0 || err != nil {
		t.Errorf("read %d, %v into nothing", n, err)
	}
	if n, err := NewReader(nil).WriteTo(&b); n != 0 || err != nil {
		t.Errorf("wrote %d, %v of nothing", n, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// brokenWriter takes only the first bytes.
type brokenWriter struct{ left int }

var errBroken = errors.New("broken")

func (w *brokenWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if n < len(p) {
		return n, errBroken
	}
	return n, nil
}

func TestReaderBrokenWriter(t *testing.T) {
	r := NewReader([][]byte{[]byte("abc"), []byte("def")})
	if n, err := r.WriteTo(&brokenWriter{4}); n != 4 || !errors.Is(err, errBroken) || r.Len() != 2 {
		t.Errorf("wrote %d, %v, left %d", n, err, r.Len())
	}
	if rest, err := io.ReadAll(r); string(rest) != "ef" || err != nil {
		t.Errorf("rest %q, %v", rest, err)
	}
}
