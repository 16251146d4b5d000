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
	v, _ := pick(object, name)
	return v[0]
}

// picked are the values of as many members as are looked for at once.
type picked [4][]byte

// pick returns the values of an object's members by their names, nil for those that it has not; ok is false if it is no
// object.
func pick(object []byte, names ...string) (values picked, ok bool) {
	if peek.Kind(object) != 'o' {
		return values, false
	}
	err := peek.Members(object, func(m peek.Member) {
		for i, name := range names {
			if values[i] == nil && peek.Equal(object[m.Key.Start:m.Key.End], name) {
				values[i] = object[m.Value.Start:m.Value.End:m.Value.End]
			}
		}
	})
	if err != nil {
		return picked{}, false
	}
	return values, true
}

// text is what a JSON string says, "" for anything else.
func text(raw []byte) string {
	s, _ := peek.String(raw)
	return s
}
