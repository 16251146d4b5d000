package routertest

import (
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// End is how an answer ends.
type End uint8

// The ends of an answer.
const (
	Clean End = iota // as its framing says
	Cut              // the connection is closed before the framing says so
	Reset            // the connection is reset (TCP RST)
	Stall            // nothing more comes until the caller leaves or the upstream is closed
)

// Reply is what one call is answered with. Replies are values: each method returns a changed copy.
type Reply struct {
	status int
	header http.Header
	body   func(*Call) content
	events int // how many chunks are sent, -1 for all
	bytes  int // how many bytes are sent, -1 for all
	mute   bool
	end    End
	pace   time.Duration
	ahead  <-chan struct{}         // held before the status
	held   map[int]<-chan struct{} // held when so many chunks are out
}

// content is a body in the pieces in which it is sent.
type content struct {
	kind   string // media type
	chunks []string
	whole  bool // sent with a Content-Length
}

func replyWith(status int, body func(*Call) content) Reply {
	return Reply{status: status, body: body, events: -1, bytes: -1}
}

// Good answers every call well, in its own wire and in the form that it asks for: a stream, a whole answer, or a token
// count. A chat stream tells usage only if it is asked to.
func Good(text string, u Usage) Reply {
	return replyWith(http.StatusOK, func(c *Call) content {
		switch {
		case c.CountTokens:
			return whole(count(u))
		case c.Stream && c.Wire == Chat && !c.usage:
			return stream(c, text, Usage{})
		case c.Stream:
			return stream(c, text, u)
		}
		return whole(answer(c, text, u))
	})
}

// Answer is a whole answer in the given wire, whatever the call asks for. A zero Usage is not reported.
func Answer(wire, text string, u Usage) Reply {
	return replyWith(http.StatusOK, func(c *Call) content { return whole(answer(c.as(wire), text, u)) })
}

// Stream is a stream in the given wire, whatever the call asks for; each event is a chunk of its own. A zero Usage is not
// reported.
func Stream(wire, text string, u Usage) Reply {
	return replyWith(http.StatusOK, func(c *Call) content { return stream(c.as(wire), text, u) })
}

// Fail is an error answer in the wire of the call.
func Fail(status int, message string) Reply {
	return replyWith(status, func(c *Call) content { return whole(failure(c.Wire, status, message)) })
}

// Body is an answer of any kind: the chunks as they are, each sent by itself.
func Body(status int, contentType string, chunks ...string) Reply {
	return replyWith(status, func(*Call) content {
		return content{kind: contentType, chunks: chunks, whole: len(chunks) < 2}
	})
}

// Nothing is no answer at all, not even a status: only the end, which cannot be Clean.
func Nothing(end End) Reply {
	r := Body(0, "").Ending(max(end, Cut))
	r.mute = true
	return r
}

// With sets a header of the answer.
func (r Reply) With(name, value string) Reply {
	if r.header = r.header.Clone(); r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
	return r
}

// Events sends no more than the first n events.
func (r Reply) Events(n int) Reply { r.events = n; return r }

// Bytes sends no more than the first n bytes of the body, be it in the middle of an event.
func (r Reply) Bytes(n int) Reply { r.bytes = n; return r }

// Ending says how the answer ends after what is sent of it.
func (r Reply) Ending(end End) Reply { r.end = end; return r }

// Pace waits before the status and before each chunk.
func (r Reply) Pace(d time.Duration) Reply { r.pace = d; return r }

// HoldStatus keeps everything back until the gate is closed.
func (r Reply) HoldStatus(gate <-chan struct{}) Reply { r.ahead = gate; return r }

// Hold stops when n chunks are out, until the gate is closed. With 0 only status and headers are out.
func (r Reply) Hold(n int, gate <-chan struct{}) Reply {
	held := map[int]<-chan struct{}{n: gate}
	for at, g := range r.held {
		if at != n {
			held[at] = g
		}
	}
	r.held = held
	return r
}

// player sends one reply.
type player struct {
	w            http.ResponseWriter
	call         *Call
	reply        Reply
	gone, closed <-chan struct{}
}

// play sends the reply. A caller that leaves ends it.
func (p *player) play() {
	r, body := p.reply, p.reply.body(p.call)
	p.wait(r.ahead)
	p.pause()
	if r.mute {
		p.finish()
		return
	}
	h := p.w.Header()
	h.Set("Content-Type", body.kind)
	if body.whole {
		h.Set("Content-Length", strconv.Itoa(len(strings.Join(body.chunks, ""))))
	}
	maps.Copy(h, r.header)
	p.w.WriteHeader(r.status)
	_ = p.flush() // a caller that has left is seen by the next step
	chunks := r.cut(body.chunks)
	for i, chunk := range chunks {
		p.wait(r.held[i])
		p.pause()
		p.send(chunk)
	}
	p.wait(r.held[len(chunks)])
	p.finish()
}

// cut is what is sent of the chunks.
func (r Reply) cut(chunks []string) []string {
	if r.events >= 0 && r.events < len(chunks) {
		chunks = chunks[:r.events]
	}
	if r.bytes < 0 {
		return chunks
	}
	var out []string
	for left := r.bytes; left > 0 && len(chunks) > 0; chunks = chunks[1:] {
		out = append(out, chunks[0][:min(left, len(chunks[0]))])
		left -= len(chunks[0])
	}
	return out
}

func (p *player) send(chunk string) {
	p.call.mu.Lock()
	p.call.sent.WriteString(chunk)
	p.call.mu.Unlock()
	_, err := p.w.Write([]byte(chunk))
	if err == nil {
		err = p.flush()
	}
	if err != nil {
		p.abandon()
	}
}

func (p *player) flush() error { return http.NewResponseController(p.w).Flush() }

// wait returns when the gate is closed; a nil gate is open.
func (p *player) wait(gate <-chan struct{}) {
	if gate == nil {
		return
	}
	select {
	case <-gate:
	case <-p.gone:
		p.abandon()
	case <-p.closed:
		panic(http.ErrAbortHandler)
	}
}

func (p *player) pause() {
	if p.reply.pace <= 0 {
		return
	}
	over := make(chan struct{})
	defer time.AfterFunc(p.reply.pace, func() { close(over) }).Stop()
	p.wait(over)
}

// abandon notes that the caller has left, and breaks off.
func (p *player) abandon() {
	p.call.mu.Lock()
	p.call.left = true
	p.call.mu.Unlock()
	panic(http.ErrAbortHandler)
}

// finish ends the answer.
func (p *player) finish() {
	switch p.reply.end {
	case Cut:
		panic(http.ErrAbortHandler)
	case Reset:
		p.reset()
	case Stall:
		p.wait(make(chan struct{}))
	case Clean:
	}
}

// reset closes the connection so that the other side sees a reset. What is out already can still be read there.
func (p *player) reset() {
	conn, _, err := http.NewResponseController(p.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
