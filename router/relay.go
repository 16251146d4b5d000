package router

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/router/verdict"
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
func (a *attempt) stream() {
	for {
		raw, plain, err := a.read()
		if a.x.outcome.committed {
			if a.pass(raw, plain, err) {
				return
			}
			continue
		}
		class, out := a.tap(raw, plain)
		if a.commits(len(out)) {
			if a.begun(out, err) {
				return
			}
			continue
		}
		a.ans.held = append(a.ans.held, out...)
		switch {
		case class == wire.Failed:
			a.inBand()
			return
		case err != nil:
			if a.ended(err) {
				return
			}
		}
	}
}

// commits reports whether the stream has come so far that it is the client's: by default when the model has put
// something out. More is how many bytes there are beside those that are held.
func (a *attempt) commits(more int) bool {
	more += len(a.ans.held)
	switch {
	case a.facts.Output, a.src.blind, more > maxHeld:
		return true
	case a.facts.Failed && a.x.snap.policy.CommitOn != verdict.CommitHeaders:
		return false
	}
	switch a.x.snap.policy.CommitOn {
	case verdict.CommitHeaders:
		return more > 0
	case verdict.CommitEvent:
		return a.alive
	}
	return false
}

// read waits for the next bytes.
func (a *attempt) read() (raw, plain []byte, err error) {
	from := a.src.since
	if from.IsZero() {
		from = a.x.r.opts.now()
	}
	raw, plain, err = a.src.next()
	a.src.came, a.src.since = a.x.r.opts.now(), time.Time{}
	a.x.waited += a.src.came.Sub(from)
	a.capture.decoded(a, plain)
	if len(raw) > 0 && a.alive {
		a.watch.Touch()
	}
	return raw, plain, err
}

// begun commits: headers, everything held and what came last go out. The error is the one that came with that.
func (a *attempt) begun(out []byte, err error) (over bool) {
	a.lease.Admitted(a.x.r.opts.now())
	if werr := a.commit(out); werr != nil {
		a.transport(werr)
		return true
	}
	if err != nil {
		a.finished(err)
		return true
	}
	return false
}

// ended is the end of a stream that had no output. One that reported output tokens is passed on: some answers consist
// of reasoning that is not shown.
func (a *attempt) ended(err error) (over bool) {
	a.lastEvent()
	switch {
	case a.tr != nil:
		a.ans.held = append(a.ans.held, a.endTurned(errors.Is(err, io.EOF))...)
	case a.strip != nil:
		a.ans.held = append(a.ans.held, a.strip.rest(a.src)...)
	}
	switch {
	case !errors.Is(err, io.EOF) && !a.facts.Terminal:
		a.transport(a.readError(err))
		return true
	case a.facts.Failed:
		a.inBand()
		return true
	case a.facts.Output, a.facts.Terminal && a.facts.Usage.Output.N > 0:
		return a.begun(nil, err)
	}
	a.found = verdict.Evidence{Status: a.ans.status, Header: a.ans.header, Unusable: true, Gone: a.x.clientGone()}
	return true
}

// pass relays bytes of a committed stream: out first, looked at second.
func (a *attempt) pass(raw, plain []byte, err error) (over bool) {
	out, looked, from := raw, a.tr != nil || a.strip != nil, a.src.came
	if looked {
		_, out = a.tap(raw, plain)
		from = time.Time{}
	}
	if len(out) > 0 {
		if werr := a.writeFrom(out, from); werr != nil {
			err = werr
		}
	}
	if !looked {
		a.src.since = time.Time{}
		a.tap(raw, plain)
	}
	if err != nil {
		a.finished(err)
		return true
	}
	return false
}

// write sends bytes of a stream and flushes them, through the server's own writer.
func (a *attempt) write(p []byte) error { return a.writeFrom(p, time.Time{}) }

// writeFrom is write at a time that the clock has just told; zero if it has not.
func (a *attempt) writeFrom(p []byte, from time.Time) error {
	a.capture.answer(a, p)
	if from.IsZero() {
		from = a.x.r.opts.now()
	}
	_, err := a.x.raw.Write(p)
	if err == nil {
		err = flush(a.x.raw)
	}
	a.src.since = a.x.r.opts.now()
	a.x.waited += a.src.since.Sub(from)
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// tap looks at bytes that came, notes what they tell, and gives what should go to the client: all of it, or all but the
// usage chunk that the client did not ask for. The class is Failed if an error came before any output.
func (a *attempt) tap(raw, plain []byte) (class wire.Class, out []byte) {
	if len(plain) == 0 {
		if a.tr != nil {
			raw = nil
		}
		return wire.Nothing, raw
	}
	a.scanner.Feed(plain)
	had, ev := a.facts.Output, &a.event
	for a.scanner.Next(ev) {
		before := a.facts.Output
		c := a.w.Event(ev, a.facts)
		if a.tr != nil {
			c = a.turn(ev, c, before)
		} else if a.strip != nil {
			a.strip.event(a.src, ev.End, a.facts.UsageOnly)
		}
		if c != wire.Nothing && !a.alive {
			a.alive = true
			a.watch.Arm(upstream.Idle, a.t.cfg.Timeouts.Idle)
		}
		if c == wire.Failed && !a.facts.Output && class != wire.Failed {
			class = wire.Failed
		}
	}
	if a.facts.Output {
		a.chunk(had)
	}
	switch {
	case a.tr != nil:
		out, a.turned = a.turned, a.turned[:0]
		return class, out
	case a.strip != nil:
		return class, a.strip.take(a.src)
	}
	return class, raw
}

// chunk times the chunks that carry output.
func (a *attempt) chunk(had bool) {
	now := a.src.came
	if !had {
		a.firstChunk = now.Sub(a.start)
	} else {
		a.rec.Chunk(a.ctx, now.Sub(a.lastChunk))
	}
	a.lastChunk = now
}

// inBand ends with an error that came inside a 200. A client that has been told of it may have left: most hang up
// at an error, which is the upstream's all the same.
func (a *attempt) inBand() {
	told := a.x.outcome.committed
	a.found = verdict.Evidence{
		Status: a.ans.status, Header: a.ans.header, Failure: a.facts.Failure, InBand: true,
		Committed: told, Gone: a.x.clientGone() && !told && !a.facts.Terminal,
	}
}

// finished is how a committed stream ended. A reset after the terminal event is no failure, and a client that hangs up
// after it has all it wanted (Codex does so at response.completed).
func (a *attempt) finished(err error) {
	a.half = a.scanner.Pending() && a.tr == nil
	a.lastEvent()
	a.cut = !errors.Is(err, io.EOF) && !a.facts.Terminal
	var rest []byte
	switch {
	case a.tr != nil && (a.facts.Failed || a.facts.Terminal):
		rest = a.endTurned(true)
		a.faulty()
	case a.strip != nil && errors.Is(err, io.EOF):
		rest = a.strip.rest(a.src)
	}
	if len(rest) > 0 {
		_ = a.write(rest) // the end of the stream follows either way
	}
	switch {
	case a.facts.Failed:
		a.inBand()
	case a.facts.Terminal, a.src.blind && errors.Is(err, io.EOF):
		// Only where a stream is committed before its output can it end without any.
		empty := !a.facts.Output && !a.src.blind && a.facts.Usage.Output.N == 0
		a.found = verdict.Evidence{Status: a.ans.status, Header: a.ans.header, Committed: true, Unusable: empty, Complete: !empty}
	default:
		a.transport(a.readError(err))
	}
}

// lastEvent looks at an event that the end of the stream completes.
func (a *attempt) lastEvent() {
	var ev sse.Event
	if !a.scanner.Finish(&ev) {
		return
	}
	before := a.facts.Output
	if c := a.w.Event(&ev, a.facts); a.tr != nil {
		a.turn(&ev, c, before)
	}
}

// readError names a failure while reading an answer as what it is: the connection broke in the middle.
func (a *attempt) readError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// plain reads a whole answer that is no stream, and passes it on if it is one.
func (a *attempt) plain() {
	x := a.x
	body, err := a.readWhole()
	if err != nil {
		a.transport(err)
		return
	}
	a.found = verdict.Evidence{Status: a.ans.status, Header: a.ans.header, Body: body, Gone: x.clientGone()}
	ev, class := &a.found, a.w.Body(body, x.route.Op, a.facts)
	if a.src.blind || takes(&x.snap.policy, class, body) {
		class = wire.Output
	}
	good := class == wire.Output || class == wire.Terminal
	if a.tr != nil && (!good || !a.translateAnswer(body)) {
		good = false
		a.translateError(body)
	}
	switch {
	case good:
		a.rewriteModel()
		a.firstChunk = a.src.came.Sub(a.start)
		if err := a.commit(nil); err != nil {
			a.transport(err)
			return
		}
		ev.Committed, ev.Complete, ev.Gone = true, true, false
	case class == wire.Failed:
		ev.InBand, ev.Failure = true, a.facts.Failure
	default:
		var o peek.Object
		ev.Unusable, ev.Invalid = true, o.Scan(body) != nil
	}
	if !ev.Complete && x.snap.policy.CommitOn == verdict.CommitHeaders { // the client's, whatever it is worth
		if err := a.commit(nil); err != nil {
			a.transport(err)
			return
		}
		ev.Committed, ev.Gone = true, false
	}
}

// takes reports whether a plain answer is good although it may hold nothing.
func takes(p *verdict.Policy, class wire.Class, body []byte) bool {
	var o peek.Object
	return p.AnyAnswer && (p.CommitOn == verdict.CommitHeaders || class != wire.Failed && o.Scan(body) == nil)
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
			err = errTooLong
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
	return a.t.of.cfg.RewriteModel && a.t.asks(a.x.asked) != a.x.asked && a.w.ModelInBody()
}

func (a *attempt) rewriteModel() {
	if !a.rewrites() || a.tr != nil || a.src.coded != nil || a.src.blind {
		return
	}
	held, at := a.ans.held, peek.Span{}
	err := peek.Members(held, func(m peek.Member) {
		if at.End == 0 && peek.Equal(held[m.Key.Start:m.Key.End], "model") {
			at = m.Value
		}
	})
	if err == nil && at.End > 0 {
		a.ans.held = slices.Concat(held[:at.Start], quote(a.x.asked), held[at.End:])
	}
}

// undone is an error answer's body without its content coding, as far as it can be read.
func undone(h http.Header, body []byte) []byte {
	coding := strings.ToLower(h.Get("Content-Encoding"))
	if !knownCoding(coding) {
		return body
	}
	d, err := openDecoder(coding, bytes.NewReader(body))
	if err != nil {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(d, maxHeld)) // what could be read is looked at
	return text
}

func isEventStream(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}
