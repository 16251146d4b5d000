package router

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

const (
	maxHeld  = 1 << 20  // announcements that are held back before output
	maxPlain = 64 << 20 // a plain answer
)

// stream relays an event stream. Until the model has put something out, all is held back and a failure stays invisible;
// from then on the bytes are the client's.
func (a *attempt) stream() evidence {
	for {
		raw, plain, err := a.read()
		if a.x.outcome.committed {
			if ev, over := a.pass(raw, plain, err); over {
				return ev
			}
			continue
		}
		class, out := a.tap(raw, plain)
		a.ans.held = append(a.ans.held, out...)
		switch {
		case a.facts.Output || a.src.blind || len(a.ans.held) > maxHeld:
			if ev, over := a.begun(err); over {
				return ev
			}
		case class == wire.Failed:
			return a.inBand()
		case err != nil:
			if ev, over := a.ended(err); over {
				return ev
			}
		}
	}
}

// read waits for the next bytes.
func (a *attempt) read() (raw, plain []byte, err error) {
	from := a.x.r.opts.now()
	raw, plain, err = a.src.next()
	a.x.waited += a.x.r.opts.now().Sub(from)
	if len(raw) > 0 && a.alive {
		a.watch.Touch()
	}
	return raw, plain, err
}

// begun commits: headers and everything held go out. The error is the one that came with the last bytes.
func (a *attempt) begun(err error) (evidence, bool) {
	a.lease.Admitted(a.x.r.opts.now())
	if werr := a.commit(); werr != nil {
		return a.transport(werr), true
	}
	if err != nil {
		return a.finished(err), true
	}
	return evidence{}, false
}

// ended is the end of a stream that had no output. One that reported output tokens is passed on: some answers consist
// of reasoning that is not shown.
func (a *attempt) ended(err error) (evidence, bool) {
	var ev sse.Event
	if a.scanner.Finish(&ev) {
		a.x.route.Wire.Event(&ev, &a.facts)
	}
	if a.strip != nil {
		a.ans.held = append(a.ans.held, a.strip.rest()...)
	}
	switch {
	case !errors.Is(err, io.EOF) && !a.facts.Terminal:
		return a.transport(a.readError(err)), true
	case a.facts.Failed:
		return a.inBand(), true
	case a.facts.Output, a.facts.Terminal && a.facts.Usage.Output.N > 0:
		return a.begun(err)
	}
	return evidence{status: a.ans.status, header: a.ans.header, unusable: true, gone: a.x.clientGone()}, true
}

// pass relays bytes of a committed stream: out first, looked at second.
func (a *attempt) pass(raw, plain []byte, err error) (evidence, bool) {
	out := raw
	if a.strip != nil {
		_, out = a.tap(raw, plain)
	}
	if len(out) > 0 {
		if werr := a.write(out); werr != nil {
			err = werr
		}
	}
	if a.strip == nil {
		a.tap(raw, plain)
	}
	if err != nil {
		return a.finished(err), true
	}
	return evidence{}, false
}

// write sends bytes of a stream and flushes them, through the server's own writer.
func (a *attempt) write(p []byte) error {
	from := a.x.r.opts.now()
	_, err := a.x.raw.Write(p)
	if err == nil {
		err = flush(a.x.raw)
	}
	a.x.waited += a.x.r.opts.now().Sub(from)
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// tap looks at bytes that came, notes what they tell, and gives what should go to the client: all of it, or all but the
// usage chunk that the client did not ask for. The class is Failed if an error came before any output.
func (a *attempt) tap(raw, plain []byte) (class wire.Class, out []byte) {
	if len(plain) == 0 {
		return wire.Nothing, raw
	}
	a.scanner.Feed(plain)
	had := a.facts.Output
	var ev sse.Event
	for a.scanner.Next(&ev) {
		c := a.x.route.Wire.Event(&ev, &a.facts)
		if c != wire.Nothing && !a.alive {
			a.alive = true
			a.watch.Arm(upstream.Idle, a.t.cfg.Timeouts.Idle)
		}
		if c == wire.Failed && !a.facts.Output && class != wire.Failed {
			class = wire.Failed
		}
		if a.strip != nil {
			a.strip.event(plain, ev.End, a.facts.UsageOnly)
		}
	}
	if a.facts.Output {
		a.chunk(had)
	}
	if a.strip != nil {
		return class, a.strip.take(plain)
	}
	return class, raw
}

// chunk times the chunks that carry output.
func (a *attempt) chunk(had bool) {
	now := a.x.r.opts.now()
	if !had {
		a.firstChunk = now.Sub(a.start)
	} else {
		a.rec.Chunk(a.ctx, now.Sub(a.lastChunk))
	}
	a.lastChunk = now
}

// inBand is the evidence of an error that came inside a 200.
func (a *attempt) inBand() evidence {
	return evidence{
		status: a.ans.status, header: a.ans.header, failure: a.facts.Failure, inBand: true,
		committed: a.x.outcome.committed, gone: a.x.clientGone() && !a.facts.Terminal,
	}
}

// finished is how a committed stream ended. A reset after the terminal event is no failure, and a client that hangs up
// after it has all it wanted (Codex does so at response.completed).
func (a *attempt) finished(err error) evidence {
	a.half = a.scanner.Pending()
	var ev sse.Event
	if a.scanner.Finish(&ev) {
		a.x.route.Wire.Event(&ev, &a.facts)
	}
	if a.strip != nil {
		if rest := a.strip.rest(); len(rest) > 0 && errors.Is(err, io.EOF) {
			_ = a.write(rest) // the end of the stream follows either way
		}
	}
	switch {
	case a.facts.Failed:
		a.cut = !errors.Is(err, io.EOF) && !a.facts.Terminal
		return a.inBand()
	case a.facts.Terminal, a.src.blind && errors.Is(err, io.EOF):
		return evidence{status: a.ans.status, header: a.ans.header, committed: true, complete: true}
	case errors.Is(err, io.EOF):
		return a.transport(io.ErrUnexpectedEOF)
	}
	return a.transport(a.readError(err))
}

// readError names a failure while reading an answer as what it is: the connection broke in the middle.
func (a *attempt) readError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// breakOff ends a committed answer that broke: the client is told in its own wire, unless the upstream has told it or
// an event is half sent, and then the connection is cut so that nobody takes the half for the whole.
func (a *attempt) breakOff(ev evidence) error {
	x := a.x
	if ev.inBand && !a.cut {
		return nil // told by the upstream itself, and ended as it ended
	}
	if x.snap.cfg.Failover.StreamError == "event" && a.ans.stream && !a.half && !a.facts.Failed && !a.src.blind {
		_ = a.write(x.route.Wire.ErrorEvent(http.StatusBadGateway, "upstream_stream_broken", "the upstream broke off in the middle of its answer"))
	}
	return errAborted
}

// plain reads a whole answer that is no stream, and passes it on if it is one.
func (a *attempt) plain() evidence {
	x := a.x
	body, err := a.readWhole()
	if err != nil {
		return a.transport(err)
	}
	ev := evidence{status: a.ans.status, header: a.ans.header, body: body, gone: x.clientGone()}
	class := x.route.Wire.Body(body, x.route.Op, &a.facts)
	if a.src.blind {
		class = wire.Output
	}
	switch class {
	case wire.Output, wire.Terminal:
		a.rewriteModel()
		a.firstChunk = x.r.opts.now().Sub(a.start)
		if err := a.commit(); err != nil {
			return a.transport(err)
		}
		ev.committed, ev.complete, ev.gone = true, true, false
	case wire.Failed:
		ev.inBand, ev.failure = true, a.facts.Failure
	default:
		var o peek.Object
		ev.unusable, ev.invalid = true, o.Scan(body) != nil
	}
	return ev
}

// readWhole reads a plain answer to its end; what is held is what the client gets, what is returned is plain.
func (a *attempt) readWhole() ([]byte, error) {
	var looked []byte
	separate := a.src.coded != nil
	for {
		raw, plain, err := a.read()
		a.ans.held = append(a.ans.held, raw...)
		if separate {
			looked = append(looked, plain...)
		}
		if len(a.ans.held) > maxPlain || len(looked) > maxPlain {
			return nil, errTooLong
		}
		if errors.Is(err, io.EOF) {
			if !separate {
				looked = a.ans.held
			}
			return looked, nil
		}
		if err != nil {
			a.ans.held = nil // a part of an answer is no answer
			return nil, err
		}
	}
}

var errTooLong = errors.New("the answer is larger than 64 MiB")

// rewrites reports whether the answer's model will be replaced by what the client asked for. A target that has no model
// of its own got the client's own word, and its answer is left alone to the byte.
func (a *attempt) rewrites() bool {
	return a.x.model.cfg.RewriteModel && a.t.asks(a.x.asked) != a.x.asked && a.x.route.Wire.ModelInBody()
}

func (a *attempt) rewriteModel() {
	if !a.rewrites() || a.src.coded != nil || a.src.blind {
		return
	}
	var o peek.Object
	if o.Scan(a.ans.held) != nil {
		return
	}
	if m, ok := o.Find("model"); ok {
		edit := []peek.Edit{{Span: m.Value, New: quote(a.x.asked)}}
		a.ans.held = slices.Concat(peek.Splice(nil, a.ans.held, edit)...)
	}
}

// commit sends headers and what is held. From here on nothing may be tried again.
func (a *attempt) commit() error {
	x := a.x
	x.outcome.committed, x.outcome.status = true, a.ans.status
	now := x.r.opts.now()
	x.outcome.firstChunk = now.Sub(x.start)
	x.r.tel.Event(x.ctx, x.span, telemetry.EventFirstChunk)
	x.r.emit(Event{Phase: PhaseCommitted, Time: now, Call: x.call, Upstream: a.ans.upstream, UpstreamModel: a.ans.model, Attempt: a.number})
	if a.ans.stream {
		a.watch.Cap(a.t.cfg.Timeouts.Stream)
	}
	var err error
	x.await(func() { err = x.emitAnswer(a.ans) })
	a.ans.held = nil
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// emitAnswer writes an answer's status, headers and what is held of its body.
func (x *exchange) emitAnswer(a *answer) error {
	x.answerHeader(a)
	if !a.stream {
		x.w.Header()["Content-Length"] = []string{strconv.Itoa(len(a.held))}
	}
	x.w.WriteHeader(a.status)
	if _, err := x.w.Write(a.held); err != nil {
		return err
	}
	if !a.stream {
		return nil
	}
	return flush(x.raw)
}

// passOn delivers the last attempt's answer although it is a failure: unchanged, and to its end.
func (a *attempt) passOn(ev evidence) error {
	x := a.x
	if !a.ans.stream || a.src == nil {
		return x.deliver(a.ans)
	}
	if a.strip != nil {
		a.ans.held = append(a.ans.held, a.strip.rest()...)
		a.strip = nil
	}
	if err := a.commit(); err != nil {
		return nil //nolint:nilerr // the client left; the failure that brought us here is booked already
	}
	for !ev.unusable {
		raw, _, err := a.read()
		if len(raw) > 0 && a.write(raw) != nil {
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errAborted
		}
	}
	return nil
}

// plainError is an error answer's body without its content coding, as far as it can be read.
func (a *attempt) plainError() []byte {
	coding := strings.ToLower(a.ans.header.Get("Content-Encoding"))
	if !knownCoding(coding) {
		return a.ans.held
	}
	d, err := openDecoder(coding, bytes.NewReader(a.ans.held))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(d, maxHeld)) // what could be read is looked at
	return text
}

func flush(w http.ResponseWriter) error {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
		return nil
	}
	return http.NewResponseController(w).Flush()
}

func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
