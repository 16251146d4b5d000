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
	"time"

	"github.com/klauspost/compress/zstd"
)

// Bytes are read a little at a time until there are more: a thousand idle streams hold no more than they need.
const (
	smallSize = 2 << 10
	largeSize = 32 << 10
)

// smalls and larges lend the buffers through which answers run.
var (
	smalls = sync.Pool{New: func() any { return new([smallSize]byte) }}
	larges = sync.Pool{New: func() any { return new([largeSize]byte) }}
)

// source reads the body of an answer. Upstreams are asked for plain bytes; one that compresses all the same is read
// through a decoder, since usage and errors must be seen, while the client gets the coded bytes if it offered to take
// them.
type source struct {
	body    io.ReadCloser
	small   *[smallSize]byte // what is read into,
	large   *[largeSize]byte // unless there is a large one
	last    int              // bytes that the last read gave,
	filled  bool             // and whether there was room for no more
	kept    []byte           // of what was read before: the next bytes are put behind them
	decoder io.Reader        // nil: what is read is plain
	coded   *bytes.Buffer    // the bytes behind what the decoder gave; nil if the client gets the decoded ones
	blind   bool             // a coding that cannot be looked into
	came    time.Time        // when the last bytes came
	since   time.Time        // since when nothing has been done but to wait; zero: it is not known
}

// newSource opens a body; undone tells that the client gets it without its content coding.
func newSource(resp *http.Response, offered string, mustUndo bool) (s *source, undone bool) {
	small, _ := smalls.Get().(*[smallSize]byte)
	s = &source{body: resp.Body, small: small}
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
	buf := s.room()
	from := io.Reader(s.body)
	if s.decoder != nil {
		from = s.decoder
	}
	if s.coded != nil {
		s.coded.Reset()
	}
	s.last, err = from.Read(buf)
	s.filled = s.last == len(buf)
	plain = buf[:s.last]
	switch {
	case s.blind:
		return plain, nil, err
	case s.coded != nil:
		return s.coded.Bytes(), plain, err
	}
	return plain, plain, err
}

// room is what the next bytes are read into, behind those that are kept. A read that filled the small buffer makes it a
// large one, until there is little again.
func (s *source) room() []byte {
	kept, large := s.kept, s.large
	switch {
	case large == nil && s.filled:
		s.large, _ = larges.Get().(*[largeSize]byte)
	case large != nil && len(kept)+s.last < smallSize/4:
		s.large = nil
	}
	buf := s.small[:]
	if s.large != nil {
		buf = s.large[:]
	}
	s.kept = buf[:copy(buf, kept)]
	if large != nil && s.large == nil {
		larges.Put(large)
	}
	return buf[len(s.kept):]
}

// all is what is kept and the bytes that the last read put behind it.
func (s *source) all() []byte { return s.kept[:len(s.kept)+s.last] }

// close ends the reading and gives the buffers back.
func (s *source) close() {
	_ = s.body.Close()
	if s.small != nil {
		smalls.Put(s.small)
	}
	if s.large != nil {
		larges.Put(s.large)
	}
	s.small, s.large, s.kept = nil, nil, nil
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

// maxPart is how much of an event is held back until it is whole. No usage chunk is that large.
const maxPart = 16 << 10

// stripper takes the usage chunk out of a chat stream whose client did not ask for it. It works in the source's buffer,
// where the part of an event that has come is held back until the rest comes. Offsets are those of what is there.
type stripper struct {
	out, done int  // what goes to the client, what was dealt with
	begun     bool // the beginning of the event is with the client already
}

// event deals with one event that ends at end in what was read last.
func (s *stripper) event(src *source, end int, drop bool) {
	all := src.all()
	end += len(src.kept)
	if !drop || s.begun {
		if s.out < s.done { // behind an event that was dropped
			copy(all[s.out:], all[s.done:end])
		}
		s.out += end - s.done
	}
	s.done, s.begun = end, false
}

// take ends a read and gives what goes to the client; valid until the next one.
func (s *stripper) take(src *source) []byte {
	all := src.all()
	if part := all[s.done:]; len(part) > maxPart || s.begun {
		s.out += copy(all[s.out:], part)
		s.done, s.begun = len(all), true
	}
	src.kept = all[s.done:]
	out := all[:s.out]
	s.out, s.done = 0, 0
	return out
}

// rest gives what is held back when the stream ends.
func (s *stripper) rest(src *source) []byte {
	rest := src.kept
	src.kept = nil
	return rest
}
