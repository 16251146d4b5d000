package chatmessages

import (
	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// ForMessages serves one exchange of a client that speaks Messages with an upstream that speaks chat completions.
type ForMessages struct {
	common
	stream toMessages
}

// NewForMessages returns the translation of one exchange.
func NewForMessages(o model.Options) *ForMessages {
	t := &ForMessages{common: common{opts: o, tools: names{limit: chatLimit}}}
	t.stream.t = t
	return t
}

// Request turns a Messages request into a chat completion request. The error, if any, is meant for the client.
func (t *ForMessages) Request(body []byte) ([]byte, error) {
	var r model.MessagesRequest
	if err := r.Decode(body); err != nil {
		return nil, err
	}
	b := append(make([]byte, 0, size(body)), '{')
	b = model.Field(b, "model", r.Model)
	w := chatTurns{b: append(model.Key(b, "messages"), '['), t: t}
	w.system(r.System)
	if err := w.all(r.Messages); err != nil {
		return nil, err
	}
	b = append(w.b, ']')
	b = t.chatTools(b, &r)
	// The current name; servers that only know max_tokens have it renamed by the configuration.
	b = model.Field(b, "max_completion_tokens", r.MaxTokens)
	b = model.Field(b, "temperature", r.Temperature)
	b = model.Field(b, "top_p", r.TopP)
	if peek.Kind(r.StopSequences) == 'a' && len(r.StopSequences) > 2 {
		b = model.Field(b, "stop", r.StopSequences)
	}
	b = t.effort(b, &r)
	b = model.Field(b, "stream", r.Stream)
	if string(r.Stream) == "true" { // A Messages client is always told its usage.
		b = append(model.Key(b, "stream_options"), `{"include_usage":true}`...)
	}
	t.report.DropExtra("", r.Extra)
	return append(b, '}'), nil
}

// effort maps how hard the model should think. What thinking costs at most has no counterpart.
func (t *ForMessages) effort(b []byte, r *model.MessagesRequest) []byte {
	thinking := model.ReadChoice(r.Thinking).Type
	if model.Is(thinking, "disabled") {
		return append(model.Key(b, "reasoning_effort"), `"none"`...)
	}
	if thinking != nil {
		t.report.Drop("thinking")
	}
	if model.Is(r.Effort, "low") {
		return append(model.Key(b, "reasoning_effort"), `"minimal"`...)
	}
	return model.Field(b, "reasoning_effort", r.Effort)
}

// chatTools appends tools and what goes with them, which means nothing without any.
func (t *ForMessages) chatTools(b []byte, r *model.MessagesRequest) []byte {
	start := len(b)
	b = append(model.Key(b, "tools"), '[')
	empty := len(b)
	for i := range r.Tools {
		b = t.chatTool(b, &r.Tools[i])
	}
	if len(b) == empty {
		return b[:start]
	}
	b = append(b, ']')
	c := model.ReadChoice(r.ToolChoice)
	switch {
	case model.Is(c.Type, "auto"):
		b = append(model.Key(b, "tool_choice"), `"auto"`...)
	case model.Is(c.Type, "any"):
		b = append(model.Key(b, "tool_choice"), `"required"`...)
	case model.Is(c.Type, "none"):
		return append(model.Key(b, "tool_choice"), `"none"`...)
	case model.Is(c.Type, "tool"):
		b = append(model.Key(b, "tool_choice"), `{"type":"function","function":{"name":`...)
		b = append(t.tools.append(b, c.Name, &t.report), `}}`...)
	case r.ToolChoice != nil:
		t.report.Drop("tool_choice")
	}
	if string(c.Serial) == "true" {
		b = append(model.Key(b, "parallel_tool_calls"), "false"...)
	}
	return b
}

func (t *ForMessages) chatTool(b []byte, tool *model.Tool) []byte {
	if tool.Type != nil && !model.Is(tool.Type, "custom") || tool.Name == nil {
		t.report.Drop("tools." + model.Text(tool.Type)) // One that Anthropic's servers run, or only its models know.
		return b
	}
	if tool.CacheControl != nil {
		t.report.Drop("tools.cache_control")
	}
	t.report.DropExtra("tools.", tool.Extra)
	b = append(model.Elem(b), `{"type":"function","function":{"name":`...)
	start := len(b)
	b = t.tools.append(b, tool.Name, &t.report)
	t.tools.offer(b[start:])
	b = model.Field(b, "description", tool.Description)
	if tool.InputSchema != nil {
		b = appendParameters(model.Key(b, "parameters"), tool.InputSchema)
	}
	return append(b, `}}`...)
}

// appendParameters appends the schema byte for byte, but with the properties that OpenAI demands of an object and that tools
// without any leave out.
func appendParameters(b, schema []byte) []byte {
	var o peek.Object
	if peek.Kind(schema) != 'o' || o.Scan(schema) != nil || len(o.Members) == 0 {
		return append(b, `{"type":"object","properties":{}}`...)
	}
	if _, ok := o.Find("properties"); ok || !model.Is(o.Value("type"), "object") {
		return append(b, schema...)
	}
	last := o.Members[len(o.Members)-1].Value.End
	b = append(append(b, schema[:last]...), `,"properties":{}`...)
	return append(b, schema[last:]...)
}
