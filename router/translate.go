package router

import (
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// maxEvent is how much of one event is kept for a translation: a whole file may be written by one tool call, and some
// upstreams send its arguments at once. What is larger cannot be translated, and ends the stream with an error.
const maxEvent = 8 << 20

// maxTold bounds the header that names what a translation left out.
const maxTold = 1 << 10

// translate brings the request into the wire that the target speaks. What is left out or altered on the way is told, or
// with a strict target refused.
func (a *attempt) translate() error {
	x := a.x
	a.request, a.object = x.body.bytes, &x.object
	if a.w == x.route.Wire {
		return nil
	}
	pair := translate.Lookup(x.route.Wire.Name, a.w.Name)
	a.scanner.Limit = maxEvent
	a.tr = pair.New(translate.Options{
		Alias: x.asked, ReplayReasoning: a.t.cfg.ReplayReasoning, MaxTokens: a.t.maxTokens, Now: x.r.opts.now(),
	})
	out, err := a.tr.Request(x.body.bytes)
	if err != nil {
		return invalid("invalid_body", err.Error())
	}
	if dropped := a.tr.Report().Dropped; a.t.strict && len(dropped) > 0 {
		return invalid("untranslatable", "the target of this model takes "+string(a.w.Name)+" and has no place for "+strings.Join(dropped, ", "))
	}
	a.request, a.object = out, new(peek.Object)
	if err := a.object.Scan(out); err != nil {
		return err // the translator's own fault
	}
	return nil
}

// query is what the upstream gets of the client's query. It is in the client's wire (such as beta=true of Messages), so
// nothing of it means anything in another.
func (a *attempt) query() string {
	if a.tr != nil {
		return ""
	}
	return a.x.req.URL.RawQuery
}

// pairName is how telemetry names a translation, "" if there is none.
func (a *attempt) pairName() string {
	if a.tr == nil {
		return ""
	}
	return string(a.x.route.Wire.Name) + ">" + string(a.w.Name)
}

// tellTranslated says what the translation of an attempt left out or altered.
func (a *attempt) tellTranslated() {
	if a.tr == nil {
		return
	}
	a.notes.add(attribute.String(telemetry.AttrTranslated, a.pairName()))
	r := a.tr.Report()
	a.rec.Translated(a.ctx, len(r.Dropped))
	if len(r.Dropped)+len(r.Changed) == 0 {
		return
	}
	a.x.r.tel.Event(a.ctx, a.span, telemetry.EventTranslated, attribute.String(telemetry.AttrTranslated, a.pairName()),
		attribute.StringSlice(telemetry.AttrDropped, r.Dropped), attribute.StringSlice(telemetry.AttrChanged, r.Changed))
}

// translateError brings an error answer into the client's wire.
func (a *attempt) translateError(text []byte) {
	if a.tr == nil {
		return
	}
	a.ans.held = a.tr.Error(a.ans.status, text)
	a.jsonAnswer()
}

// translateAnswer brings a whole answer into the client's wire and reports whether it was one.
func (a *attempt) translateAnswer(body []byte) bool {
	if a.tr == nil {
		return true
	}
	out, err := a.tr.Response(body)
	if err != nil {
		return false
	}
	a.ans.held = out
	a.jsonAnswer()
	return true
}

// jsonAnswer makes the answer's headers those of a JSON body that the router wrote.
func (a *attempt) jsonAnswer() {
	a.ans.header = a.ans.header.Clone()
	a.ans.header["Content-Type"] = []string{"application/json"}
	a.ans.undone = true
}

// turn lets the translator take an event. What it cannot take for an answer is a failure, and output only if there was
// some before: the client is told no more than the error.
func (a *attempt) turn(ev *sse.Event, c wire.Class, had bool) wire.Class {
	a.turned = a.tr.Event(a.turned, ev)
	if !a.faulty() {
		return c
	}
	a.facts.Output = had
	return wire.Failed
}

// faulty reports whether the translator ended the client's stream with an error, and notes it as the answer's.
func (a *attempt) faulty() bool {
	e, failed := a.tr.Failed()
	if failed && !a.facts.Failed {
		a.facts.Failed, a.facts.Failure = true, e
	}
	return failed
}

// endTurned lets the translator end the client's stream: clean, or with an error event of the client's wire.
func (a *attempt) endTurned(clean bool) []byte {
	out := a.tr.End(a.turned, clean)
	a.turned = a.turned[:0]
	return out
}

// unreadable ends with an answer in a coding that the router cannot look into, and so cannot translate either.
func (a *attempt) unreadable(resp *http.Response) {
	a.ans = nil
	a.found = verdict.Evidence{Status: resp.StatusCode, Header: resp.Header, Unusable: true, Invalid: true}
}

// droppedHeader names in an answer's header what the client sent and the upstream did not get.
func (a *attempt) droppedHeader() string {
	if a.tr == nil {
		return ""
	}
	return clip(strings.Join(a.tr.Report().Dropped, ", "), maxTold)
}

// limitOf is the token limit that a target's layers give a request that has none.
func limitOf(defaults []layered) int64 {
	for _, l := range defaults {
		if n, err := strconv.ParseInt(string(l.raw), 10, 64); err == nil && (l.name == "max_tokens" || l.name == "max_completion_tokens") {
			return n
		}
	}
	return 0
}
