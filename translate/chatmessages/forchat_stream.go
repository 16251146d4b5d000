package chatmessages

import (
	"bytes"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// maxOpen is how many blocks a stream may have open at once; Anthropic's have one.
const maxOpen = 256

// toChat turns the events of a Messages stream into the chunks of a chat completion.
type toChat struct {
	t     *ForChat
	event model.MessagesEvent

	started bool
	head    []byte // What every chunk begins with, up to its choices.
	id      string
	stop    string
	stopped bool // The stop reason was told.
	tools   int  // Calls so far.
	open    []openBlock
}

// openBlock is a block of the upstream's stream that has not ended.
type openBlock struct {
	index int64
	kind  blockKind
	tool  int
	input []byte // Of a call, as the start of its block told it; most servers tell it in pieces.
	said  bool   // Arguments were passed on.
}

// Event appends the client's bytes for one event of the upstream.
func (t *ForChat) Event(dst []byte, ev *sse.Event) []byte {
	s := &t.stream
	data := bytes.TrimSpace(ev.Data)
	switch {
	case t.ended:
		return dst
	case ev.Cut:
		return s.fail(dst, failTooLarge)
	case string(ev.Name) == "error":
		return s.fail(dst, inBand(messages, data))
	case string(data) == "[DONE]" && s.stopped: // Nobody's but a server's that resembles OpenAI's too.
		return s.complete(dst)
	case len(data) == 0 || data[0] != '{':
		return append(dst, ": ping\n\n"...)
	}
	if s.event.Decode(data) != nil {
		return s.fail(dst, failUnreadable)
	}
	return s.take(dst, ev.Name, data)
}

// End appends what has to follow when the upstream's stream is over; clean tells whether it was not broken off. A stream is
// whole only with message_stop.
func (t *ForChat) End(dst []byte, clean bool) []byte {
	switch {
	case t.ended:
		return dst
	case clean:
		return t.stream.fail(dst, failCut)
	}
	return t.stream.fail(dst, failBroken)
}

func (s *toChat) take(dst, name, data []byte) []byte {
	e := &s.event
	kind := model.Inner(e.Type)
	if kind == nil {
		kind = name
	}
	switch string(kind) {
	case "content_block_delta":
		return s.delta(dst)
	case "content_block_start":
		return s.begin(s.start(dst))
	case "content_block_stop":
		if i := s.find(e.BlockIndex()); i >= 0 {
			dst = s.finishBlock(dst, i)
		}
	case "message_start":
		s.readUsage()
		return s.start(dst)
	case "message_delta":
		s.readUsage()
		if e.StopReason != nil {
			s.stop, s.stopped = model.Text(e.StopReason), true
		}
	case "message_stop":
		return s.complete(dst)
	case "error":
		return s.fail(dst, messages.ErrorOf(data))
	case "ping":
		return append(dst, ": ping\n\n"...)
	}
	return dst
}

func (s *toChat) readUsage() {
	if s.event.Usage != nil {
		messages.ReadUsage(s.event.Usage, &s.t.facts)
	}
}

// fail ends the client's stream with an error and without the mark of an end.
func (s *toChat) fail(dst []byte, e wire.Failure) []byte {
	s.open = nil
	return s.t.fail(dst, chat, e)
}

// start writes the first chunk, which has the role.
func (s *toChat) start(dst []byte) []byte {
	if s.started {
		return dst
	}
	s.started = true
	s.id = answerID(s.event.ID, "chatcmpl-")
	b := append(s.head[:0], `data: {"id":`...)
	b = model.Quote(b, s.id)
	b = append(b, `,"object":"chat.completion.chunk"`...)
	b = model.Int(b, "created", s.t.created())
	b = model.Quote(model.Key(b, "model"), s.t.opts.Alias)
	s.head = append(b, `,"choices":[`...)
	return s.endChunk(append(s.chunk(dst), `"role":"assistant","content":""`...))
}

// chunk begins a chunk up to what its delta says.
func (s *toChat) chunk(dst []byte) []byte {
	dst = append(dst, s.head...)
	return append(dst, `{"index":0,"delta":{`...)
}

func (s *toChat) endChunk(dst []byte) []byte {
	return append(dst, "},\"finish_reason\":null}]}\n\n"...)
}

// complete ends the client's stream as a whole answer.
func (s *toChat) complete(dst []byte) []byte {
	dst = s.start(dst)
	for len(s.open) > 0 {
		dst = s.finishBlock(dst, 0)
	}
	s.t.ended = true
	dst = append(s.chunk(dst), `},"finish_reason":"`...)
	dst = append(dst, finishReason(s.stop, s.tools > 0, &s.t.report)...)
	dst = append(dst, "\"}]}\n\n"...)
	if s.t.usage {
		dst = append(dst, s.head...)
		dst = append(dst, `],"usage":`...)
		dst = append(chatUsage(dst, s.t.facts.Usage), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}
