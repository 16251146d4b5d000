package chatmessages

import (
	"crypto/rand"
	"slices"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// Response turns a whole chat completion into a message.
func (t *ForMessages) Response(body []byte) ([]byte, error) {
	var a model.ChatAnswer
	if err := a.Decode(body); err != nil {
		return nil, err
	}
	if !a.Choices || a.Failure(body) != nil || brokenReasons[model.Text(a.FinishReason)] {
		return nil, model.ErrAnswer
	}
	t.read(&a)
	m := &a.Message
	id := answerID(a.ID, "msg_")
	b := append(make([]byte, 0, size(body)), `{"id":`...)
	b = model.Quote(b, id)
	b = append(b, `,"type":"message","role":"assistant","model":`...)
	b = model.Quote(b, t.opts.Alias)
	b = append(b, `,"content":[`...)
	b = thinkingBlock(b, m)
	b, refused := t.textBlocks(b, m)
	calls := callsOf(m)
	tools, used := false, map[string]bool{}
	for i := range calls {
		if len(model.Inner(calls[i].Name)) == 0 {
			t.report.Drop("tool_calls")
			continue
		}
		tools = true
		b = append(model.Elem(b), `{"type":"tool_use","id":`...)
		switch given := model.Text(calls[i].ID); {
		case given == "":
			b = model.Quote(b, madeID("toolu_", id, i))
		case used[given]: // Whose result would it be?
			t.report.Change("tool_calls.id")
			b = model.Quote(b, madeID("toolu_", id, i))
		default:
			used[given] = true
			b = appendID(b, calls[i].ID, &t.report)
		}
		b = append(b, `,"name":`...)
		b = model.Quote(b, t.tools.original(model.Text(calls[i].Name)))
		b = append(b, `,"input":`...)
		b = append(appendInput(b, calls[i].Arguments, &t.report), '}')
	}
	b = append(b, `],"stop_reason":"`...)
	b = append(b, stopReason(model.Text(a.FinishReason), tools, refused, &t.report)...)
	b = append(b, `","stop_sequence":null,"usage":`...)
	b = messagesUsage(b, t.facts.Usage)
	return append(b, '}'), nil
}

// read takes from an answer or a chunk of one what does not depend on where it goes.
func (t *ForMessages) read(a *model.ChatAnswer) {
	if a.GroqUsage != nil {
		chat.ReadUsage(a.GroqUsage, &t.facts)
	}
	if a.Usage != nil {
		chat.ReadUsage(a.Usage, &t.facts)
	}
	if a.Others {
		t.report.Drop("choices")
	}
	t.report.DropExtra("message.", a.Message.Extra)
}

// callsOf lists the calls of an answer, the one of old among them.
func callsOf(m *model.ChatMessage) []model.ToolCall {
	if c := m.Call(); c != nil {
		return append(m.ToolCalls, *c)
	}
	return m.ToolCalls
}

// answerID is the answer's id: the upstream's own, as operators look for that one, or else a new one.
func answerID(raw []byte, prefix string) string {
	if id := model.Text(raw); id != "" {
		return id
	}
	return prefix + rand.Text()
}

// thought is what a message or delta says of the model's reasoning, as it stands between a string's quotes. Servers spell it
// in several ways, some at once.
func thought(m *model.ChatMessage) []byte {
	if text := model.Inner(m.ReasoningContent); len(text) > 0 {
		return text
	}
	if text := model.Inner(m.Reasoning); len(text) > 0 {
		return text
	}
	if elements(m.ReasoningDetails) {
		if text := detailed(m.ReasoningDetails); len(text) > 0 {
			return text
		}
	}
	var text []byte
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Thinking != nil {
			text = append(text, spoken(p.Thinking)...)
		}
	}
	return text
}

// detailed joins the texts and summaries of reasoning_details, as OpenRouter lists them.
func detailed(raw []byte) (text []byte) {
	var o peek.Object
	_ = peek.Elements(raw, peek.Span{End: len(raw)}, func(at peek.Span) bool {
		if o.Scan(raw[at.Start:at.End]) == nil {
			text = append(text, model.Inner(o.Value("text"))...)
			text = append(text, model.Inner(o.Value("summary"))...)
		}
		return true
	})
	return text
}

// spoken is the text of what is a string or a list of text parts.
func spoken(raw []byte) []byte {
	if elements(raw) {
		return detailed(raw)
	}
	return model.Inner(raw)
}

// thinkingBlock appends the reasoning as a block without a signature: only the server that made a thought can sign it.
func thinkingBlock(b []byte, m *model.ChatMessage) []byte {
	text := thought(m)
	if len(text) == 0 {
		return b
	}
	b = append(model.Elem(b), `{"type":"thinking","thinking":"`...)
	b = append(b, text...)
	return append(b, `","signature":""}`...)
}

// textBlocks appends content and refusal, each as a block.
func (t *ForMessages) textBlocks(b []byte, m *model.ChatMessage) (_ []byte, refused bool) {
	const open = `{"type":"text","text":"`
	start := len(b)
	b = append(model.Elem(b), open...)
	empty := len(b)
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Text == nil && p.Thinking == nil && p.Refusal == nil {
			t.report.Drop("message.content." + model.Text(p.Type))
		}
		b = append(b, model.Inner(p.Text)...)
	}
	if len(b) == empty {
		b = b[:start]
	} else {
		b = append(b, `"}`...)
	}
	said := refusal(m)
	if len(said) == 0 {
		return b, false
	}
	b = append(model.Elem(b), open...)
	b = append(b, said...)
	return append(b, `"}`...), true
}

// refusal is the text with which the model declines.
func refusal(m *model.ChatMessage) []byte {
	text := model.Inner(m.Refusal)
	for i := range m.Parts {
		if said := model.Inner(m.Parts[i].Refusal); len(said) > 0 {
			text = append(slices.Clip(text), said...)
		}
	}
	return text
}

// appendInput appends a call's arguments as the object that the Messages dialect wants; {} if they are none. Some servers
// send the object itself, and some have quoted it twice.
func appendInput(b, arguments []byte, report *model.Report) []byte {
	start := len(b)
	if peek.Kind(arguments) == 'o' {
		return append(b, arguments...)
	}
	text := model.Text(arguments)
	for range 2 {
		b = append(b[:start], text...)
		if model.ValidObject(b[start:]) {
			return b
		}
		if !model.Valid(b[start:]) || peek.Kind(b[start:]) != 's' {
			break
		}
		text = model.Text(b[start:])
	}
	if text != "" && text != "null" {
		report.Change("tool_calls.arguments")
	}
	return append(b[:start], "{}"...)
}

// Error turns the body of an error answer of the upstream into the client's dialect.
func (t *ForMessages) Error(status int, body []byte) []byte {
	return errorBody(messages, chat, status, body)
}
