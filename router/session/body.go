package session

import "github.com/signalbox-llm/signalbox/translate/peek"

// field is a source that is a string at the top of the body.
func field(name string) Source {
	return Source{name, func(f *finder) string { return text(f.Body.Value(name)) }}
}

// conversation is an id or an object with one (OpenAI Responses).
func conversation(f *finder) string {
	v := f.Body.Value("conversation")
	if peek.Kind(v) == 'o' {
		v = member(v, "id")
	}
	return text(v)
}

// member returns the member of an object, nil if there is no such thing.
func member(object []byte, name string) []byte {
	if peek.Kind(object) != 'o' {
		return nil
	}
	var room [16]peek.Member
	o := peek.Object{Members: room[:0]}
	if o.Scan(object) != nil {
		return nil
	}
	return o.Value(name)
}

// text is what a JSON string says, "" for anything else.
func text(raw []byte) string {
	s, _ := peek.String(raw)
	return s
}
