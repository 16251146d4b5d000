package chatmessages

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// What a stream may make the translation keep: bytes of blocks that have to wait, and calls to tell apart.
const (
	maxWaiting = 8 << 20
	maxCalls   = 512
)

// toMessages turns the chunks of a chat completion into the events of a Messages stream.
type toMessages struct {
	t       *ForMessages
	chunk   model.ChatAnswer
	started bool
	id      string
	finish  string // The finish reason, once there is one.
	refused bool
	tools   bool // A call was passed on.

	queue   []*piece // Blocks that are not closed: the first one is open or will be next, the others wait.
	calls   []*piece // All calls, by which pieces of arguments find theirs.
	next    int      // Index of the next block.
	waiting int      // Bytes that wait.
}

// Event appends the client's bytes for one event of the upstream.
func (t *ForMessages) Event(dst []byte, ev *sse.Event) []byte {
	s := &t.stream
	data := bytes.TrimSpace(ev.Data)
	switch {
	case t.ended:
		return dst
	case ev.Cut:
		return s.fail(dst, failTooLarge)
	case string(ev.Name) == "error":
		return s.fail(dst, inBand(chat, data))
	case string(data) == "[DONE]":
		return s.complete(dst)
	case len(data) == 0 || data[0] != '{': // A sign of life.
		return s.ping(dst)
	}
	if s.chunk.Decode(data) != nil {
		return s.fail(dst, failUnreadable)
	}
	length, waiting := len(dst), s.waiting
	if dst = s.take(dst, data); len(dst) == length && s.waiting > waiting {
		dst = s.ping(dst) // Clients give up on a stream that is silent, and a whole file may have to wait.
	}
	return dst
}

// End appends what has to follow when the upstream's stream is over; clean tells whether it was not broken off.
func (t *ForMessages) End(dst []byte, clean bool) []byte {
	switch s := &t.stream; {
	case t.ended:
		return dst
	case s.finish != "":
		return s.complete(dst)
	case clean:
		return s.fail(dst, failCut)
	default:
		return s.fail(dst, failBroken)
	}
}

// inBand reads the data of an event that is named an error; text that is no JSON is the message.
func inBand(upstream *wire.Wire, data []byte) wire.Failure {
	e := upstream.ErrorOf(data)
	if e == (wire.Failure{}) {
		e.Message = plainText(data)
	}
	return e
}

// take handles one chunk.
func (s *toMessages) take(dst, data []byte) []byte {
	a := &s.chunk
	s.t.read(a)
	if failed := a.Failure(data); failed != nil {
		return s.fail(dst, chat.ErrorOf(failed))
	}
	if !a.Choices {
		if s.finish != "" && a.Usage != nil && s.t.facts.Usage.Output.N > 0 { // The last that is worth waiting for.
			return s.complete(dst)
		}
		return dst
	}
	if reason := model.Text(a.FinishReason); brokenReasons[reason] {
		return s.fail(dst, wire.Failure{Type: reason})
	} else if reason != "" {
		s.finish = reason
	}
	dst = s.start(dst)
	if a.Whole && s.next+len(s.queue) > 0 {
		return dst // All of it once more, as MiniMax ends its streams.
	}
	m := &a.Message
	dst = s.say(dst, thinking, thought(m))
	for i := range m.Parts {
		dst = s.say(dst, text, model.Inner(m.Parts[i].Text))
	}
	if said := refusal(m); len(said) > 0 {
		s.refused = true
		dst = s.say(dst, text, said)
	}
	calls := callsOf(m)
	for i := range calls {
		dst = s.call(dst, &calls[i])
	}
	if s.waiting > maxWaiting || len(s.calls) > maxCalls {
		return s.fail(dst, failTooLarge)
	}
	return dst
}

// fail ends the client's stream with an error. Open blocks stay open: nothing may look complete that is not.
func (s *toMessages) fail(dst []byte, e wire.Failure) []byte {
	s.queue, s.calls = nil, nil
	return s.t.fail(dst, messages, e)
}

// ping passes a sign of life on; before the first event the client's dialect has only comments for that.
func (s *toMessages) ping(dst []byte) []byte {
	if !s.started {
		return append(dst, ": ping\n\n"...)
	}
	return append(dst, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

func (s *toMessages) start(dst []byte) []byte {
	if s.started {
		return dst
	}
	s.started = true
	s.id = answerID(s.chunk.ID, "msg_")
	dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":"...)
	dst = model.Quote(dst, s.id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = model.Quote(dst, s.t.opts.Alias)
	dst = append(dst, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	dst = messagesUsage(dst, wire.Usage{}) // The upstream tells it last; message_delta has it.
	return append(dst, "}}\n\n"...)
}

// complete closes what is open and ends the client's stream as a whole answer, unless a call is plainly not whole and would
// be run all the same.
func (s *toMessages) complete(dst []byte) []byte {
	dst = s.start(dst)
	if r := stopReason(s.finish, true, s.refused, &s.t.report); r == "tool_use" && slices.ContainsFunc(s.calls, (*piece).half) {
		return s.fail(dst, failCut)
	}
	for len(s.queue) > 0 {
		dst = s.closeFirst(dst)
	}
	s.t.ended = true
	s.calls = nil
	dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\""...)
	dst = append(dst, stopReason(s.finish, s.tools, s.refused, &s.t.report)...)
	dst = append(dst, `","stop_sequence":null},"usage":`...)
	dst = messagesUsage(dst, s.t.facts.Usage)
	return append(dst, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
}

// call takes a piece of a call to the block it belongs to.
func (s *toMessages) call(dst []byte, c *model.ToolCall) []byte {
	args := model.Inner(c.Arguments)
	if peek.Kind(c.Arguments) == 'o' {
		args = model.Escape(nil, c.Arguments)
	}
	p := s.find(c, len(args) > 0)
	if p == nil {
		s.t.report.Drop("tool_calls") // Of nobody knows which.
		return dst
	}
	if name := model.Text(c.Name); p.name == "" || name != p.name && s.unnamed(p) {
		p.name += name // Some servers tell it in pieces.
	}
	if p.id == "" {
		p.id = model.Text(c.ID)
	}
	if p.closed {
		if len(args) > 0 {
			s.t.report.Change("tool_calls.arguments")
		}
		return dst
	}
	return s.advance(s.addArguments(dst, p, args))
}

// find returns the call that a piece belongs to, a new one if it begins one, nil if it cannot be told. Servers leave out the
// index, or give all calls the same one, or repeat id and name in each piece.
func (s *toMessages) find(c *model.ToolCall, says bool) *piece {
	id, name := model.Inner(c.ID), model.Inner(c.Name)
	index, indexed := peek.Int(c.Index)
	if !indexed {
		index = -1
	}
	for _, p := range slices.Backward(s.calls) {
		switch {
		case indexed && p.index != index:
			continue
		case !indexed && len(id) > 0 && p.id != model.Text(c.ID):
			continue
		case p.another(model.Text(c.ID), string(name), says, s.unnamed(p)):
			return s.begin(index)
		}
		return p
	}
	if len(id) == 0 && len(name) == 0 && !indexed {
		return nil
	}
	return s.begin(index)
}

// another reports whether a piece that seems to belong to p is the beginning of a further call instead.
func (p *piece) another(id, name string, says, unnamed bool) bool {
	switch {
	case name == "":
		return false
	case id != "":
		return p.id != "" && p.id != id
	}
	return p.name != "" && p.name != name && !unnamed || says && p.args.complete
}

// half reports whether a call's arguments end in their middle.
func (p *piece) half() bool { return p.args.begun && !p.args.complete }

func (s *toMessages) begin(index int64) *piece {
	p := &piece{kind: toolUse, index: index}
	s.calls = append(s.calls, p)
	s.queue = append(s.queue, p)
	return p
}

// madeID is the id of a call that the upstream gave none.
func (s *toMessages) madeID() string { return madeID("toolu_", s.id, s.next) }

func appendIndex(dst []byte, n int) []byte { return strconv.AppendInt(dst, int64(n), 10) }
