package chatmessages

import (
	"slices"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// find returns the position of the open block with that index; without an index it is the last one. -1 if there is none.
func (s *toChat) find(index int64) int {
	for i, b := range slices.Backward(s.open) {
		if index < 0 || b.index == index {
			return i
		}
	}
	return -1
}

// begin handles the start of a block.
func (s *toChat) begin(dst []byte) []byte {
	if len(s.open) == maxOpen {
		return s.fail(dst, failTooLarge)
	}
	e := &s.event
	block := openBlock{index: e.BlockIndex(), kind: foreign}
	switch c := &e.Block; {
	case model.Is(c.Type, "text"):
		block.kind = text
		dst = s.say(dst, "content", model.Inner(c.Text))
	case model.Is(c.Type, "thinking"):
		block.kind = thinking
		dst = s.say(dst, "reasoning_content", model.Inner(c.Thinking))
	case isCall(c):
		block.kind, block.tool = toolUse, s.tools
		if peek.Kind(c.Input) == 'o' && len(c.Input) > len("{}") {
			block.input = append([]byte(nil), c.Input...)
		}
		dst = s.beginCall(dst, c)
	default:
		s.t.report.Drop("content." + model.Text(c.Type))
	}
	s.open = append(s.open, block)
	return dst
}

// beginCall tells of a new call. Its index counts calls, not blocks.
func (s *toChat) beginCall(dst []byte, c *model.Block) []byte {
	dst = append(s.chunk(dst), `"tool_calls":[{"index":`...)
	dst = appendIndex(dst, s.tools)
	dst = append(dst, `,"id":`...)
	if len(model.Inner(c.ID)) == 0 {
		dst = model.Quote(dst, madeID("call_", s.id, s.tools))
	} else {
		dst = appendID(dst, c.ID, &s.t.report)
	}
	s.tools++
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = model.Quote(dst, s.t.tools.original(model.Text(c.Name)))
	return s.endChunk(append(dst, `,"arguments":""}}]`...))
}

// delta handles a piece of a block. What its kind has no counterpart for, such as a signature, is left out.
func (s *toChat) delta(dst []byte) []byte {
	e := &s.event
	i := s.find(e.BlockIndex())
	if i >= 0 && s.open[i].kind == foreign { // Its tool may take minutes: the client hears that the stream lives.
		return append(dst, ": ping\n\n"...)
	}
	switch kind := model.Inner(e.Delta); string(kind) {
	case "text_delta":
		return s.say(s.start(dst), "content", model.Inner(e.Block.Text))
	case "thinking_delta":
		return s.say(s.start(dst), "reasoning_content", model.Inner(e.Block.Thinking))
	case "input_json_delta":
		said := model.Inner(e.PartialJSON)
		if i < 0 || s.open[i].kind != toolUse || len(said) == 0 {
			return dst
		}
		s.open[i].said = true
		return s.arguments(dst, s.open[i].tool, said)
	default:
		s.t.report.Drop("content." + string(kind))
	}
	return dst
}

// say writes a chunk with text as it stands between the quotes of a JSON string.
func (s *toChat) say(dst []byte, member string, said []byte) []byte {
	if len(said) == 0 {
		return dst
	}
	dst = append(s.chunk(dst), '"')
	dst = append(dst, member...)
	dst = append(dst, `":"`...)
	dst = append(dst, said...)
	return s.endChunk(append(dst, '"'))
}

func (s *toChat) arguments(dst []byte, tool int, said []byte) []byte {
	dst = append(s.chunk(dst), `"tool_calls":[{"index":`...)
	dst = appendIndex(dst, tool)
	dst = append(dst, `,"function":{"arguments":"`...)
	dst = append(dst, said...)
	return s.endChunk(append(dst, `"}}]`...))
}

// finishBlock ends a block. A call without arguments gets the empty object, since chat clients parse what they are given.
func (s *toChat) finishBlock(dst []byte, i int) []byte {
	b := s.open[i]
	s.open = append(s.open[:i], s.open[i+1:]...)
	if b.kind != toolUse || b.said {
		return dst
	}
	return s.arguments(dst, b.tool, appendArguments(nil, b.input))
}
