package session

import "github.com/signalbox-llm/signalbox/translate/peek"

// role is who says something, as far as it matters here.
type role byte

const (
	other role = iota
	system
	user
)

// places says where a wire keeps its texts: top-level members with system texts, and the list of messages.
type places struct {
	system  []string
	list    string
	content string
}

var wires = map[string]places{
	"openai-chat":        {nil, "messages", "content"},
	"openai-responses":   {[]string{"instructions"}, "input", "content"},
	"anthropic-messages": {[]string{"system"}, "messages", "content"},
	"gemini":             {[]string{"systemInstruction", "system_instruction"}, "contents", "parts"},
}

// system calls visit with each system text at the top of the body until it returns false.
func (f *finder) system(visit func(content []byte) bool) {
	for _, name := range wires[f.Wire].system {
		if v := f.Body.Value(name); v != nil && !visit(v) {
			return
		}
	}
}

// messages calls visit with each message of the body, in order, until it returns false. Content is nil if a message has
// none. A list that is no list ends it, as do the messages behind a broken one.
func (f *finder) messages(visit func(who role, content []byte) bool) {
	in := wires[f.Wire]
	list := f.Body.Value(in.list)
	if peek.Kind(list) == 's' { // The input of OpenAI Responses may be one text.
		visit(user, list)
		return
	}
	_ = peek.Elements(list, peek.Span{End: len(list)}, func(at peek.Span) bool {
		v, ok := pick(list[at.Start:at.End], "role", in.content)
		return !ok || visit(f.role(v[0]), v[1])
	})
}

func (f *finder) role(raw []byte) role {
	switch {
	case peek.Equal(raw, "user"), raw == nil && f.Wire == "gemini":
		return user
	case peek.Equal(raw, "system"), peek.Equal(raw, "developer"):
		return system
	}
	return other
}

// texts calls visit with each part of a content until it returns false, and reports whether it never did. Text is the
// raw JSON string that the part says, nil if it is something else (an image); part is the whole of it, nil for a bare
// string. Content is a string, a list of strings and parts, one part, or an object with such a list (Gemini).
func texts(content []byte, visit func(text, part []byte) bool) bool {
	switch peek.Kind(content) {
	case 's':
		return visit(content, nil)
	case 'o':
		if parts := member(content, "parts"); parts != nil {
			content = parts
			break
		}
		return visit(partText(content), content)
	}
	more := true
	_ = peek.Elements(content, peek.Span{End: len(content)}, func(at peek.Span) bool {
		part := content[at.Start:at.End]
		if peek.Kind(part) == 's' {
			more = visit(part, nil)
		} else {
			more = visit(partText(part), part)
		}
		return more
	})
	return more
}

// partText is the text of a part that is nothing else, nil for every other part. That leaves out the results of tools,
// which have their text in a list of their own.
func partText(part []byte) []byte {
	v, _ := pick(part, "type", "text")
	if kind := v[0]; kind != nil && !peek.Equal(kind, "text") && !peek.Equal(kind, "input_text") {
		return nil
	}
	if text := v[1]; peek.Kind(text) == 's' {
		return text
	}
	return nil
}
