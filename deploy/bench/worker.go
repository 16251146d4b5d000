package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// records is what all workers of a measurement have seen.
type records struct {
	counting         atomic.Bool // inside the window that is measured
	requests, chunks atomic.Int64
	good             atomic.Int64 // answers, also those outside of the window
	latency, delay   hist         // of whole answers; of chunks, from the upstream's write to the client's read
	mu               sync.Mutex
	faults           map[string]int64 // outside of the window, too
}

func (r *records) fault(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[kind]++
}

// worker is one client: it sends one request after the other on one connection, and looks at every answer.
type worker struct {
	address string
	message message
	chunks  int // expected in a stream; 0 if the answer is whole
	seen    *records
	conn    *wireConn
	open    atomic.Pointer[wireConn] // the same, for interrupt
}

const answerLimit = 60 * time.Second

// send makes one request, the number of which nobody else uses, and tells how long its answer took; 0 if it was none.
func (w *worker) send(ctx context.Context, number int64) time.Duration {
	if w.conn == nil {
		c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", w.address)
		if err != nil {
			w.fail(ctx, "no-connection")
			return 0
		}
		w.conn = newWireConn(c)
		w.open.Store(w.conn)
		if ctx.Err() != nil { // interrupt may have come too early to see it
			w.close()
			return 0
		}
	}
	w.message.number(number)
	counted := w.seen.counting.Load()
	start := time.Now()
	_ = w.conn.SetDeadline(start.Add(answerLimit)) // it is a TCP connection
	if _, err := w.conn.Write(w.message.bytes); err != nil {
		w.fail(ctx, "not-sent")
		return 0
	}
	b, err := w.conn.head()
	if err != nil {
		w.fail(ctx, "no-answer"+late(err))
		return 0
	}
	h := parseHead(b)
	status := h.status() // before the bytes are overwritten
	a := answered{worker: w}
	if err := w.conn.body(h, a.take); err != nil {
		w.fail(ctx, "cut"+late(err))
		return 0
	}
	took := time.Since(start)
	if h.close {
		w.close()
	}
	if fault := a.fault(status); fault != "" {
		w.seen.fault(fault)
		return 0
	}
	w.seen.good.Add(1)
	if counted {
		w.seen.latency.add(took)
	}
	if w.seen.counting.Load() {
		w.seen.requests.Add(1)
	}
	return took
}

func late(err error) string {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "-in-time"
	}
	return ""
}

// fail counts what went wrong, unless the measurement has ended, and gives up the connection.
func (w *worker) fail(ctx context.Context, kind string) {
	w.close()
	if ctx.Err() == nil {
		w.seen.fault(kind)
	}
}

func (w *worker) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// interrupt cuts the request that is under way; it may come from another goroutine.
func (w *worker) interrupt() {
	if c := w.open.Load(); c != nil {
		c.Close()
	}
}

// answered looks through an answer as it comes in.
type answered struct {
	*worker
	said    bool             // okText was there
	got     int              // chunks
	half    [markLength]byte // a mark that a read has cut
	halfLen int
	tail    [128]byte // the newest bytes
	tailLen int
}

func (a *answered) take(part []byte) {
	a.keep(part)
	if a.chunks == 0 {
		a.said = a.said || bytes.Contains(part, []byte(okText))
		return
	}
	if a.halfLen > 0 {
		n := copy(a.half[a.halfLen:], part)
		if a.halfLen += n; a.halfLen < markLength {
			return
		}
		a.halfLen = 0
		a.mark(a.half[:])
		part = part[n:]
	}
	for {
		i := bytes.IndexByte(part, '~') // nowhere else in a stream
		if i < 0 {
			return
		}
		part = part[i:]
		if len(part) < markLength {
			a.halfLen = copy(a.half[:], part)
			return
		}
		a.mark(part[:markLength])
		part = part[markLength:]
	}
}

func (a *answered) mark(b []byte) {
	at, ok := parseMark(b)
	if !ok {
		return
	}
	a.got++
	if a.seen.counting.Load() {
		a.seen.chunks.Add(1)
		a.seen.delay.add(time.Duration(a.conn.readAt.UnixNano() - at))
	}
}

// keep remembers the newest bytes.
func (a *answered) keep(part []byte) {
	part = part[max(len(part)-len(a.tail), 0):]
	if over := a.tailLen + len(part) - len(a.tail); over > 0 {
		a.tailLen = copy(a.tail[:], a.tail[over:a.tailLen])
	}
	a.tailLen += copy(a.tail[a.tailLen:], part)
}

// fault says what is wrong with a complete answer; "" is nothing.
func (a *answered) fault(status int) string {
	switch {
	case status != 200:
		return fmt.Sprintf("status-%d", status)
	case a.chunks == 0 && !a.said:
		return "wrong-answer"
	case a.got != a.chunks:
		return fmt.Sprintf("%d-chunks-of-%d", a.got, a.chunks)
	case a.chunks > 0 && !bytes.Contains(a.tail[:a.tailLen], []byte("[DONE]")):
		return "no-end"
	}
	return ""
}

// message is a request's bytes, with the places that differ from one to the next.
type message struct {
	bytes    []byte
	nonce    int
	session  int // 0: none is named
	sessions int64
}

const sessionDigits = 8

func newMessage(s subject, sc scenario) message {
	body := makeBody(s.model, sc.chunks > 0, sc.size)
	b := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nUser-Agent: bench\r\nAuthorization: Bearer %s\r\n",
		s.address, clientKey)
	m := message{sessions: sc.sessions}
	if m.sessions > 0 {
		b = append(b, "X-Session-Id: bench-"...)
		m.session = len(b)
		b = append(b, "00000000\r\n"...)
	}
	b = fmt.Appendf(b, "Content-Length: %d\r\n\r\n", len(body))
	b = append(b, body...)
	m.bytes, m.nonce = b, bytes.LastIndex(b, []byte(nonceTag))+len(nonceTag)-nonceDigits
	return m
}

// clone returns a message of one's own.
func (m message) clone() message {
	m.bytes = bytes.Clone(m.bytes)
	return m
}

func (m message) number(n int64) {
	putDigits(m.bytes[m.nonce:m.nonce+nonceDigits], n)
	if m.session > 0 {
		putDigits(m.bytes[m.session:m.session+sessionDigits], n%m.sessions)
	}
}
