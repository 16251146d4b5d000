package chatmessages

import (
	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// messagesTools appends tools and what goes with them, which means nothing without any.
func (t *ForChat) messagesTools(b []byte, r *model.ChatRequest) []byte {
	start := len(b)
	b = append(model.Key(b, "tools"), '[')
	empty := len(b)
	for i := range r.Tools {
		b = t.messagesTool(b, &r.Tools[i])
	}
	if len(b) == empty {
		return b[:start]
	}
	b = append(b, ']')
	raw := r.ToolChoice
	if raw == nil {
		raw = r.FunctionCall
	}
	return t.choice(b, raw, string(r.ParallelCalls) == "false")
}

// choice writes tool_choice, which is where the Messages dialect forbids parallel calls too.
func (t *ForChat) choice(b, raw []byte, serial bool) []byte {
	c := model.ReadChoice(raw)
	if c.Allowed {
		t.report.Drop("tool_choice.allowed_tools")
		c.Type, c.Name = c.Mode, nil
	}
	word := ""
	switch {
	case c.Name != nil && !model.Is(c.Type, "auto") && !model.Is(c.Type, "none"):
		word = "tool" // The type may be missing, or be a tool's in some other way.
	case model.Is(c.Type, "required"), model.Is(c.Type, "any"):
		word = "any"
	case model.Is(c.Type, "none"):
		return append(model.Key(b, "tool_choice"), `{"type":"none"}`...)
	case model.Is(c.Type, "auto"):
		word = "auto"
	case raw != nil:
		t.report.Drop("tool_choice")
	}
	if word == "" && serial {
		word = "auto" // Somewhere the flag has to be, and this forces nothing.
	}
	if word == "" {
		return b
	}
	b = append(model.Key(b, "tool_choice"), `{"type":"`...)
	b = append(append(b, word...), '"')
	if word == "tool" {
		b = t.tools.append(append(b, `,"name":`...), c.Name, &t.report)
	}
	if serial {
		b = append(b, `,"disable_parallel_tool_use":true`...)
	}
	return append(b, '}')
}

func (t *ForChat) messagesTool(b []byte, tool *model.ChatTool) []byte {
	if tool.Type != nil && !model.Is(tool.Type, "function") || tool.Name == nil {
		t.report.Drop("tools." + model.Text(tool.Type))
		return b
	}
	for name, value := range tool.Extra {
		if string(value) != "false" { // Such as strict, which is off anyway.
			t.report.Drop("tools." + name)
		}
	}
	b = append(model.Elem(b), `{"name":`...)
	b = t.tools.append(b, tool.Name, &t.report)
	b = model.Field(b, "description", tool.Description)
	b = appendSchema(append(b, `,"input_schema":`...), tool.Parameters)
	b = model.Field(b, "cache_control", tool.CacheControl)
	return append(b, '}')
}

// appendSchema appends the schema byte for byte, but with the type that the Messages dialect demands and that clients leave
// out.
func appendSchema(b, schema []byte) []byte {
	var o peek.Object
	if peek.Kind(schema) != 'o' || o.Scan(schema) != nil || len(o.Members) == 0 {
		return append(b, `{"type":"object","properties":{}}`...)
	}
	if o.Value("type") != nil {
		return append(b, schema...)
	}
	b = append(b, `{"type":"object",`...)
	return append(b, schema[o.Members[0].Key.Start:]...)
}
