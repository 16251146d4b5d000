package chatmessages

import (
	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// Response turns a whole message into a chat completion.
func (t *ForChat) Response(body []byte) ([]byte, error) {
	var a model.MessagesAnswer
	if err := a.Decode(body); err != nil {
		return nil, err
	}
	if model.Is(a.Type, "error") {
		return nil, model.ErrAnswer
	}
	if a.Usage != nil {
		messages.ReadUsage(a.Usage, &t.facts)
	}
	b := append(make([]byte, 0, size(body)), `{"id":`...)
	b = model.Quote(b, answerID(a.ID, "chatcmpl-"))
	b = append(b, `,"object":"chat.completion"`...)
	b = model.Int(b, "created", t.created())
	b = model.Quote(model.Key(b, "model"), t.opts.Alias)
	b = append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...)
	b, tools := t.message(b, a.Blocks)
	b = append(b, `},"logprobs":null,"finish_reason":"`...)
	b = append(b, finishReason(model.Text(a.StopReason), tools, &t.report)...)
	b = append(b, `"}]`...)
	if t.facts.Usage.Known() {
		b = chatUsage(model.Key(b, "usage"), t.facts.Usage)
	}
	return append(b, '}'), nil
}

// created is when the answer began, in seconds since 1970, as chat completions say.
func (t *ForChat) created() int64 {
	if t.opts.Now.IsZero() {
		return 0
	}
	return t.opts.Now.Unix()
}

// message writes content, reasoning and calls.
func (t *ForChat) message(b []byte, blocks []model.Block) (_ []byte, tools bool) {
	b = append(b, '"')
	empty := len(b)
	thoughts := false
	for i := range blocks {
		switch c := &blocks[i]; {
		case model.Is(c.Type, "text"):
			b = append(b, model.Inner(c.Text)...)
			t.report.DropExtra("content.", c.Extra)
		case isCall(c):
			tools = true
		case model.Is(c.Type, "thinking"):
			thoughts = thoughts || len(model.Inner(c.Thinking)) > 0
		default:
			t.report.Drop("content." + model.Text(c.Type))
		}
	}
	if len(b) == empty && tools {
		b = append(b[:empty-1], "null"...)
	} else {
		b = append(b, '"')
	}
	b = append(b, `,"refusal":null`...)
	if thoughts {
		b = append(b, `,"reasoning_content":"`...)
		for i := range blocks {
			b = append(b, model.Inner(blocks[i].Thinking)...)
		}
		b = append(b, '"')
	}
	if tools {
		b = append(b, `,"tool_calls":[`...)
		for i := range blocks {
			b = t.toolCall(b, &blocks[i])
		}
		b = append(b, ']')
	}
	return b, tools
}

// isCall reports whether a block calls a tool; without a name nobody could.
func isCall(c *model.Block) bool { return model.Is(c.Type, "tool_use") && len(model.Inner(c.Name)) > 0 }

func (t *ForChat) toolCall(b []byte, c *model.Block) []byte {
	if !isCall(c) {
		return b
	}
	b = append(model.Elem(b), `{"id":`...)
	b = appendID(b, c.ID, &t.report)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = model.Quote(b, t.tools.original(model.Text(c.Name)))
	b = append(b, `,"arguments":"`...)
	b = appendArguments(b, c.Input)
	return append(b, `"}}`...)
}

// appendArguments appends a call's input as it stands between the quotes of a JSON string, byte for byte.
func appendArguments(b, input []byte) []byte {
	if peek.Kind(input) != 'o' {
		return append(b, "{}"...)
	}
	return model.Escape(b, input)
}

// Error turns the body of an error answer of the upstream into the client's dialect.
func (t *ForChat) Error(status int, body []byte) []byte {
	return errorBody(chat, messages, status, body)
}
