package router

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// commit sends headers, what is held and what comes behind it. From here on nothing may be tried again.
func (a *attempt) commit(out []byte) error {
	a.announceAnswer(out)
	var err error
	a.x.await(func() { err = a.x.emitAnswer(a.ans, out) })
	a.ans.held = nil
	if a.ans.stream {
		a.letGo()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// announceAnswer tells that an answer is about to go out.
func (a *attempt) announceAnswer(out []byte) {
	x := a.x
	x.outcome.committed, x.outcome.status = true, a.ans.status
	now := x.r.opts.now()
	x.outcome.firstChunk = now.Sub(x.start)
	if x.watched() {
		x.tell(PhaseCommitted, now, a)
	}
	if a.ans.stream { // an answer that comes as a whole has no first chunk: its span ends with it
		x.r.tel.Event(x.ctx, x.span, telemetry.EventFirstChunk)
		a.watch.Cap(a.t.cfg.Timeouts.Stream)
	}
	a.capture.answer(a, a.ans.held)
	a.capture.answer(a, out)
}

// letGo gives back what only another try would need, since the answer may take many minutes.
func (a *attempt) letGo() {
	x := a.x
	a.request, a.object = nil, nil
	x.object, x.overlay, x.edits = peek.Object{}, peek.Overlay{}, nil
	x.body.release()
	x.body = nil
}

// emitAnswer writes an answer's status, headers, what is held of its body, and of a stream what comes behind it.
func (x *exchange) emitAnswer(a *answer, out []byte) error {
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
	if len(out) > 0 {
		if _, err := x.w.Write(out); err != nil {
			return err
		}
	}
	return flush(x.raw)
}

// passOn delivers the last attempt's answer although it is a failure: unchanged, and to its end.
func (a *attempt) passOn(ev verdict.Evidence) error {
	x := a.x
	if !a.ans.stream || a.src == nil {
		return x.deliver(a.ans)
	}
	if a.strip != nil {
		a.ans.held = append(a.ans.held, a.strip.rest(a.src)...)
		a.strip = nil
	}
	if err := a.commit(nil); err != nil {
		return nil //nolint:nilerr // the client left; the failure that brought us here is booked already
	}
	for !ev.Unusable {
		out, plain, err := a.read()
		if a.tr != nil {
			if _, out = a.tap(out, plain); errors.Is(err, io.EOF) {
				a.lastEvent()
				out = append(out, a.endTurned(true)...)
			}
		}
		if len(out) > 0 && a.write(out) != nil {
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

func flush(w http.ResponseWriter) error {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
		return nil
	}
	return http.NewResponseController(w).Flush()
}

// breakOff ends a committed answer that broke: the client is told in its own wire, unless the upstream has told it or
// an event is half sent, and then the connection is cut so that nobody takes the half for the whole.
func (a *attempt) breakOff(ev verdict.Evidence) error {
	x := a.x
	if ev.InBand && !a.cut || ev.Unusable {
		return nil // told by the upstream itself, and ended as it ended
	}
	if x.snap.cfg.Failover.StreamError != "event" || !a.ans.stream || a.half || a.facts.Failed || a.src.blind {
		return errAborted
	}
	switch e := x.overtaken(); {
	case e != nil:
		_ = a.write(x.route.Wire.ErrorEvent(e.Status, e.Kind, e.Msg))
	case a.tr != nil:
		_ = a.write(a.endTurned(!a.cut))
	default:
		_ = a.write(x.route.Wire.ErrorEvent(http.StatusBadGateway, "upstream_stream_broken", "the upstream broke off in the middle of its answer"))
	}
	return errAborted
}

// estimate answers a token count that no upstream can be asked for, and says that it is a guess.
func (x *exchange) estimate() error {
	o := &x.outcome
	o.committed, o.status, o.result = true, http.StatusOK, telemetry.OutcomeSuccess
	o.class, o.errorType = "", ""
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set(headerEstimate, "true")
	if x.snap.cfg.Server.ResponseHeaders {
		h.Set(headerCall, x.call)
		h.Set(headerAttempts, strconv.Itoa(o.attempts))
	}
	_, _ = fmt.Fprintf(x.w, `{"input_tokens":%d,"estimated":true}`+"\n", translate.EstimateTokens(x.body.bytes)) // a client that has left needs none
	return errAnswered
}

// conclude ends the request with this attempt: it was served, or it is the last that could be tried.
func (a *attempt) conclude() error {
	x, ev, v := a.x, &a.found, &a.verdict
	switch {
	case v.Move == verdict.Stop:
		a.settle(*v, telemetry.AttemptCancelled)
		x.outcome.result, x.outcome.class = telemetry.OutcomeCancelled, telemetry.ClassCancelled
		if !x.outcome.committed {
			return errGone
		}
		return nil
	case v.Move == verdict.Serve:
		a.settle(*v, telemetry.AttemptServed)
		x.served(a)
		x.remember(a)
		return nil
	case x.outcome.committed:
		a.settle(*v, telemetry.AttemptFailed)
		x.failed(*v)
		return a.breakOff(*ev)
	}
	a.settle(*v, telemetry.AttemptFailed)
	if v.CannotCount {
		return x.estimate()
	}
	x.failed(*v)
	if probed := x.probed(a.rest); v.AboutAccount() && len(probed) > 0 {
		return x.none(probed)
	}
	if a.ans == nil || a.broken(*ev) {
		return x.exhausted(*v)
	}
	if v.Move == verdict.FailOver && x.snap.cfg.Failover.AllFailed != "answer" {
		x.keep(a)
		return x.exhausted(*v)
	}
	return a.passOn(*ev)
}

// broken reports whether an answer ended before it said anything, so that there is nothing to pass on.
func (a *attempt) broken(ev verdict.Evidence) bool {
	return ev.Kind != "" && len(a.ans.held) == 0 || ev.Kind != "" && a.ans.stream
}
