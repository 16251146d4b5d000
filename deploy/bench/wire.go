package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"time"
)

// wireConn reads HTTP/1.1 from a connection. Both ends of a measurement use it in place of net/http, so that they cost as
// little as possible beside the proxy between them.
type wireConn struct {
	net.Conn
	buf    []byte
	r, w   int
	readAt time.Time // when the newest read returned
}

func newWireConn(c net.Conn) *wireConn { return &wireConn{Conn: c, buf: make([]byte, 16<<10)} }

const maxHead = 1 << 20

var errHeadTooBig = errors.New("header too big")

// fill reads more bytes, making room first.
func (c *wireConn) fill() error {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case c.w == len(c.buf) && c.r > 0:
		c.w = copy(c.buf, c.buf[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.buf) {
		c.buf = append(c.buf, make([]byte, len(c.buf))...)
	}
	n, err := c.Read(c.buf[c.w:])
	c.readAt = time.Now()
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// head returns the bytes up to and including the blank line. They are valid until more is read.
func (c *wireConn) head() ([]byte, error) {
	from := 0
	for {
		if i := bytes.Index(c.buf[c.r+from:c.w], []byte("\r\n\r\n")); i >= 0 {
			end := c.r + from + i + 4
			h := c.buf[c.r:end]
			c.r = end
			return h, nil
		}
		from = max(c.w-c.r-3, 0)
		if c.w-c.r > maxHead {
			return nil, errHeadTooBig
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// line returns one line without its end.
func (c *wireConn) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.buf[c.r:c.w], '\n'); i >= 0 {
			l := c.buf[c.r : c.r+i]
			c.r += i + 1
			return bytes.TrimSuffix(l, []byte{'\r'}), nil
		}
		if err := c.fill(); err != nil {
			return nil, whole(err)
		}
	}
}

// body calls f with the parts of a message's body.
func (c *wireConn) body(h head, f func([]byte)) error {
	if h.chunked {
		return c.chunks(f)
	}
	return c.each(h.length, f)
}

// each calls f with the next n bytes, part by part.
func (c *wireConn) each(n int64, f func([]byte)) error {
	for n > 0 {
		if c.r == c.w {
			if err := c.fill(); err != nil {
				return whole(err)
			}
		}
		s := c.buf[c.r:c.w]
		s = s[:min(int64(len(s)), n)]
		c.r += len(s)
		n -= int64(len(s))
		f(s)
	}
	return nil
}

// chunks decodes a chunked body and its trailers.
func (c *wireConn) chunks(f func([]byte)) error {
	for {
		l, err := c.line()
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(l, []byte{';'})
		n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 64)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		if err := c.each(n, f); err != nil {
			return err
		}
		if _, err := c.line(); err != nil {
			return err
		}
	}
	for {
		if l, err := c.line(); err != nil || len(l) == 0 {
			return err
		}
	}
}

// whole says that a message has not ended yet.
func whole(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// head is what a measurement needs to know from a message's head.
type head struct {
	first   []byte // request or status line
	length  int64
	chunked bool
	close   bool
}

func parseHead(b []byte) head {
	first, rest, _ := bytes.Cut(b, []byte("\r\n"))
	h := head{first: first}
	for {
		l, after, more := bytes.Cut(rest, []byte("\r\n"))
		if !more || len(l) == 0 {
			return h
		}
		rest = after
		name, value, _ := bytes.Cut(l, []byte{':'})
		value = bytes.TrimSpace(value)
		switch { // by length first: most headers are none of these
		case len(name) == len("Connection") && bytes.EqualFold(name, []byte("Connection")):
			h.close = bytes.EqualFold(value, []byte("close"))
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			h.length, _ = strconv.ParseInt(string(value), 10, 64)
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			h.chunked = bytes.EqualFold(value, []byte("chunked"))
		}
	}
}

// status is the status of an answer; 0 if there is none.
func (h head) status() int {
	if len(h.first) < len("HTTP/1.1 200") {
		return 0
	}
	n, _ := strconv.Atoi(string(h.first[9:12]))
	return n
}
