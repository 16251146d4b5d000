package chatmessages

import (
	"bytes"

	"github.com/signalbox-llm/signalbox/translate/model"
)

type blockKind uint8

const (
	text blockKind = iota
	thinking
	toolUse
	foreign // Of a kind that the other dialect does not have.
)

// piece is a block of the client's stream. Texts in it are as they stand between the quotes of a JSON string.
type piece struct {
	kind    blockKind
	open    bool
	closed  bool
	whole   bool   // Nothing more can come.
	pending []byte // What waits for its turn.

	// Of calls.
	index    int64 // As the upstream counts, -1 if it does not.
	id, name string
	args     arguments
}

// say adds text of a kind to the last block, which becomes a new one if that is of another kind.
func (s *toMessages) say(dst []byte, k blockKind, said []byte) []byte {
	if len(said) == 0 {
		return dst
	}
	if n := len(s.queue); n == 0 || s.queue[n-1].kind != k {
		s.queue = append(s.queue, &piece{kind: k})
		dst = s.advance(dst)
	}
	return s.add(dst, s.queue[len(s.queue)-1], said)
}

// advance closes the first block as long as others wait and nothing more belongs into it. A call whose arguments are not
// whole keeps its turn, since no two blocks may be open.
func (s *toMessages) advance(dst []byte) []byte {
	for len(s.queue) > 1 {
		if p := s.queue[0]; p.kind == toolUse && !p.args.complete {
			break
		}
		dst = s.closeFirst(dst)
	}
	return s.flush(dst)
}

// add passes text on, or keeps it if it is not the block's turn.
func (s *toMessages) add(dst []byte, p *piece, said []byte) []byte {
	if p == s.queue[0] && len(p.pending) == 0 {
		return s.delta(s.openFirst(dst), p, said)
	}
	p.pending = append(p.pending, said...)
	s.waiting += len(said)
	return s.flush(dst)
}

// addArguments adds a piece of a call's arguments. Nothing may follow the object's end; an empty object is taken for a
// placeholder if another object follows.
func (s *toMessages) addArguments(dst []byte, p *piece, args []byte) []byte {
	n := 0
	for {
		if n = p.args.read(args); p.args.odd {
			n = len(args)
		}
		rest := bytes.TrimLeft(args[n:], " ")
		if len(rest) == 0 || rest[0] != '{' || p.args.filled {
			if len(model.TrimRight(rest)) > 0 {
				s.t.report.Change("tool_calls.arguments")
			}
			break
		}
		s.waiting -= len(p.pending)
		p.args, p.pending, args = arguments{}, p.pending[:0], rest
	}
	p.pending = append(p.pending, args[:n]...)
	s.waiting += n
	return s.flush(dst)
}

// flush passes on what the first block has, if it can be opened.
func (s *toMessages) flush(dst []byte) []byte {
	p := s.queue[0]
	if p.kind == toolUse && (p.name == "" || s.unnamed(p) && !p.whole) {
		return dst
	}
	dst = s.openFirst(dst)
	if len(p.pending) == 0 || p.kind == toolUse && !p.args.filled {
		return dst
	}
	dst = s.delta(dst, p, p.pending)
	s.waiting -= len(p.pending)
	p.pending = p.pending[:0]
	return dst
}

// unnamed reports whether a call's name may go on: no tool has it so far, and the arguments have not begun.
func (s *toMessages) unnamed(p *piece) bool {
	offered := s.t.tools.offered
	return !p.open && !p.closed && len(offered) > 0 && !offered[p.name] && !p.args.begun && !p.args.odd
}

func (s *toMessages) openFirst(dst []byte) []byte {
	p := s.queue[0]
	if p.open {
		return dst
	}
	p.open = true
	dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
	dst = appendIndex(dst, s.next)
	dst = append(dst, `,"content_block":`...)
	switch p.kind {
	case text:
		dst = append(dst, `{"type":"text","text":""}`...)
	case thinking: // Without a signature: only the server that made a thought can sign it.
		dst = append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
	case toolUse:
		s.tools = true
		if p.id == "" {
			p.id = s.madeID()
		}
		id, changed := legal(p.id, idLimit)
		for _, c := range s.calls { // Whose result would it be?
			if c != p && c.id == p.id && (c.open || c.closed) {
				id, changed = s.madeID(), true
			}
		}
		if changed {
			s.t.report.Change("tool_calls.id")
		}
		dst = append(dst, `{"type":"tool_use","id":`...)
		dst = model.Quote(dst, id)
		dst = append(dst, `,"name":`...)
		dst = model.Quote(dst, s.t.tools.original(p.name))
		dst = append(dst, `,"input":{}}`...)
	}
	return append(dst, "}\n\n"...)
}

func (s *toMessages) delta(dst []byte, p *piece, said []byte) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = appendIndex(dst, s.next)
	switch p.kind {
	case text:
		dst = append(dst, `,"delta":{"type":"text_delta","text":"`...)
	case thinking:
		dst = append(dst, `,"delta":{"type":"thinking_delta","thinking":"`...)
	case toolUse:
		dst = append(dst, `,"delta":{"type":"input_json_delta","partial_json":"`...)
	}
	dst = append(dst, said...)
	return append(dst, "\"}}\n\n"...)
}

// closeFirst ends the first block and takes it off the queue. A call that never got a name cannot be told to the client.
func (s *toMessages) closeFirst(dst []byte) []byte {
	p := s.queue[0]
	p.whole = true
	dst = s.flush(dst)
	if p.kind == toolUse && p.args.odd && p.open {
		raw := append(append([]byte{'"'}, p.pending...), '"')
		if input := appendInput(nil, raw, &s.t.report); len(input) > len("{}") {
			dst = s.delta(dst, p, model.Escape(nil, input))
		}
	}
	if p.open {
		dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
		dst = appendIndex(dst, s.next)
		dst = append(dst, "}\n\n"...)
		s.next++
	} else {
		s.t.report.Drop("tool_calls")
	}
	s.waiting -= len(p.pending)
	p.pending, p.open, p.closed = nil, false, true
	s.queue[0] = nil
	s.queue = s.queue[1:]
	return dst
}
