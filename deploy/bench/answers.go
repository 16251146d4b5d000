package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// okText stands in every good answer.
const okText = "bench-ok"

// behaviour is what a fake upstream does; it can be changed while it runs.
type behaviour struct {
	mode   string        // ok, 429, 500, hang
	chunks int           // in a stream
	size   int           // text in each chunk, in bytes
	delay  time.Duration // before each chunk
	wait   time.Duration // before an answer's first byte

	plain  []byte // a whole answer
	failed []byte // instead of it; nil in mode ok
	stream stream
}

// parseBehaviour reads settings written as a URL query; what it leaves out is as usual.
func parseBehaviour(query string) (*behaviour, error) {
	b := &behaviour{mode: "ok", chunks: 100, size: 40}
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	for name := range q {
		value := q.Get(name)
		switch name {
		case "mode":
			b.mode = value
		case "chunks":
			b.chunks, err = strconv.Atoi(value)
		case "delay":
			b.delay, err = time.ParseDuration(value)
		case "wait":
			b.wait, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("unknown")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return b, b.build()
}

func (b *behaviour) build() error {
	text := encode(okText + " " + filler(390, 2))
	b.plain = answer(http.StatusOK, `{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"fake-1","choices":[{"index":0,"message":{"role":"assistant","content":`+
		string(text)+`},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46}}`)
	b.stream = newStream(b.size)
	switch b.mode {
	case "ok", "hang":
	case "429":
		b.failed = answer(http.StatusTooManyRequests, `{"error":{"message":"Rate limit reached","type":"rate_limit_error","code":"rate_limit_exceeded"}}`)
	case "500":
		b.failed = answer(http.StatusInternalServerError, `{"error":{"message":"The server had an error","type":"server_error","code":null}}`)
	default:
		return fmt.Errorf("unknown mode %q", b.mode)
	}
	return nil
}

func answer(status int, body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nx-request-id: req_bench\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(body), body)
}

// A mark is a time of sending in a chunk's text: a tilde, nanoseconds in markDigits digits, a tilde. From it the delay of
// every chunk is known, however late it is read.
const (
	markDigits = 19
	markLength = markDigits + 2
)

func putMark(b []byte, at time.Time) {
	b[0], b[markLength-1] = '~', '~'
	putDigits(b[1:markLength-1], at.UnixNano())
}

// parseMark reads a mark at the beginning of b.
func parseMark(b []byte) (at int64, ok bool) {
	if b[0] != '~' || b[markLength-1] != '~' {
		return 0, false
	}
	for _, c := range b[1 : markLength-1] {
		if c < '0' || c > '9' {
			return 0, false
		}
		at = at*10 + int64(c-'0')
	}
	return at, true
}

// putDigits fills b with n.
func putDigits(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

// stream is the parts of a streamed answer, framed as HTTP chunks.
type stream struct {
	first, chunk, last []byte
	mark               int // where in chunk
}

func newStream(size int) stream {
	const event = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"fake-1","choices":[{"index":0,"delta":`
	framed := func(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
	mark := strings.Repeat("0", markLength)
	text := mark + strings.Repeat(".", max(size-markLength, 0))
	chunk := framed(event + `{"content":"` + text + `"},"finish_reason":null}]}` + "\n\n")
	return stream{
		first: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\nx-request-id: req_bench\r\nTransfer-Encoding: chunked\r\n\r\n" +
			framed(event+`{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n")),
		chunk: []byte(chunk),
		last: []byte(framed(event+`{},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":34,"total_tokens":46}}`+"\n\ndata: [DONE]\n\n") +
			"0\r\n\r\n"),
		mark: strings.Index(chunk, mark),
	}
}
