package router

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

const chunkSize = 32 << 10

// chunks lends the buffers through which answers run.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// source reads the body of an answer. Upstreams are asked for plain bytes; one that compresses all the same is read
// through a decoder, since usage and errors must be seen, while the client gets the coded bytes if it offered to take
// them.
type source struct {
	body    io.ReadCloser
	buf     *[chunkSize]byte
	decoder io.Reader     // nil: what is read is plain
	coded   *bytes.Buffer // the bytes behind what the decoder gave; nil if the client gets the decoded ones
	blind   bool          // a coding that cannot be looked into
}

// newSource opens a body; undone tells that the client gets it without its content coding.
func newSource(resp *http.Response, offered string, mustUndo bool) (s *source, undone bool) {
	buf, _ := chunks.Get().(*[chunkSize]byte)
	s = &source{body: resp.Body, buf: buf}
	coding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	if coding == "" || coding == "identity" {
		return s, false
	}
	if !knownCoding(coding) {
		s.blind = true
		return s, false
	}
	raw := io.Reader(resp.Body)
	if undone = mustUndo || !strings.Contains(strings.ToLower(offered), coding); !undone {
		s.coded = &bytes.Buffer{}
		raw = io.TeeReader(raw, s.coded)
	}
	s.decoder = &lazyDecoder{coding: coding, raw: raw}
	return s, undone
}

// next reads what comes next: the bytes for the client, and the plain ones behind them. Both are valid until the next
// call. Bytes and an error may come together.
func (s *source) next() (raw, plain []byte, err error) {
	if s.decoder == nil {
		n, err := s.body.Read(s.buf[:])
		if s.blind {
			return s.buf[:n], nil, err
		}
		return s.buf[:n], s.buf[:n], err
	}
	if s.coded != nil {
		s.coded.Reset()
	}
	n, err := s.decoder.Read(s.buf[:])
	if plain = s.buf[:n]; s.coded == nil {
		return plain, plain, err
	}
	return s.coded.Bytes(), plain, err
}

// close ends the reading and gives the buffer back.
func (s *source) close() {
	_ = s.body.Close()
	if s.buf != nil {
		chunks.Put(s.buf)
		s.buf = nil
	}
}

func knownCoding(coding string) bool {
	return coding == "gzip" || coding == "x-gzip" || coding == "deflate" || coding == "zstd"
}

// lazyDecoder opens its decoder with the first read, since a gzip reader wants a header that may not have come yet.
type lazyDecoder struct {
	coding string
	raw    io.Reader
	dec    io.Reader
}

func (l *lazyDecoder) Read(p []byte) (n int, err error) {
	if l.dec == nil {
		if l.dec, err = openDecoder(l.coding, l.raw); err != nil {
			if errors.Is(err, io.EOF) {
				return 0, io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	return l.dec.Read(p)
}

func openDecoder(coding string, raw io.Reader) (io.Reader, error) {
	switch coding {
	case "deflate":
		return zlib.NewReader(raw)
	case "zstd":
		return zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
	}
	return gzip.NewReader(raw)
}

// stripper takes the usage chunk out of a chat stream whose client did not ask for it. It holds back the part of an
// event that has come, at most as much as the scanner keeps of one.
type stripper struct {
	pending []byte
	out     []byte
	from    int // in the current chunk, behind what was dealt with
}

// event deals with one event that ends at end in the chunk.
func (s *stripper) event(chunk []byte, end int, drop bool) {
	if !drop {
		s.out = append(append(s.out, s.pending...), chunk[s.from:end]...)
	}
	s.pending, s.from = s.pending[:0], end
}

// take ends a chunk and gives what goes to the client; valid until the next chunk.
func (s *stripper) take(chunk []byte) []byte {
	s.pending = append(s.pending, chunk[s.from:]...)
	if len(s.pending) > 256<<10 { // no usage chunk is that large
		s.out, s.pending = append(s.out, s.pending...), s.pending[:0]
	}
	out := s.out
	s.out, s.from = s.out[:0], 0
	return out
}

// rest gives what is held back when the stream ends.
func (s *stripper) rest() []byte {
	rest := s.pending
	s.pending = nil
	return rest
}
