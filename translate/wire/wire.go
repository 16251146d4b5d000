// Package wire knows one dialect each of how language models are spoken to over HTTP: its paths, its credential slot, and
// where in its bytes the model, stream flag, usage, errors, end and first output live; it must not know routing,
// telemetry or how to turn one dialect into another.
package wire

import (
	"bytes"

	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/sse"
)

// Name is a dialect as the configuration spells it.
type Name string

// The dialects.
const (
	Chat      Name = "openai-chat"
	Responses Name = "openai-responses"
	Messages  Name = "anthropic-messages"
	Gemini    Name = "gemini"
)

// Op is what a request asks a dialect to do.
type Op uint8

// The operations.
const (
	Generate    Op = iota
	CountTokens    // Messages only: counts a prompt, books no usage.
)

// Wire is one dialect: where things live in it. All fields are read-only.
type Wire struct {
	Name      Name
	Version   string   // Version segment that a base URL without one gets: "v1", "v1beta".
	Auth      string   // Default credential slot: "bearer", "x-api-key", "x-goog-api-key".
	Provider  string   // gen_ai.provider.name of last resort.
	Operation string   // gen_ai.operation.name of Generate.
	Vendor    []string // Lower-case header prefixes that never go to a target of another dialect.

	endpoint string                                  // Path below the version segment.
	event    func(name, data []byte, f *Facts) Class // Reads one whole event that has data.
	cut      func(name, tail []byte, f *Facts) Class // Reads the end of an event too large to keep.
	body     func(o *peek.Object, f *Facts) Class    // Reads a whole plain answer.
	word     func(status int) string                 // The dialect's own word for an HTTP status.
	envelope func(e fault) any                       // The error answer, ready for encoding/json.
	frame    func(e fault) any                       // The error event's data, ready for encoding/json.
}

// All lists the dialects in the order in which paths are matched.
var All = []*Wire{
	{
		Name: Chat, Version: "v1", Auth: "bearer", Provider: "openai", Operation: "chat",
		Vendor: []string{"openai-", "x-openai-"}, endpoint: "/chat/completions",
		event: chatEvent, cut: chatCut, body: chatBody, word: openaiWord, envelope: openaiEnvelope, frame: openaiEnvelope,
	},
	{
		Name: Responses, Version: "v1", Auth: "bearer", Provider: "openai", Operation: "chat",
		Vendor: []string{"openai-", "x-openai-"}, endpoint: "/responses",
		event: responsesEvent, cut: responsesCut, body: responsesBody, word: openaiWord, envelope: openaiEnvelope,
		frame: responsesFrame,
	},
	{
		Name: Messages, Version: "v1", Auth: "x-api-key", Provider: "anthropic", Operation: "chat",
		Vendor: []string{"anthropic-", "x-anthropic-"}, endpoint: "/messages",
		event: messagesEvent, cut: messagesCut, body: messagesBody, word: messagesWord, envelope: messagesEnvelope,
		frame: messagesEnvelope,
	},
	{
		Name: Gemini, Version: "v1beta", Auth: "x-goog-api-key", Provider: "gcp.gemini", Operation: "generate_content",
		Vendor: []string{"x-goog-", "x-gemini-"},
		event:  geminiEvent, cut: geminiCut, body: geminiBody, word: geminiWord, envelope: geminiEnvelope, frame: geminiEnvelope,
	},
}

// ByName returns the dialect of that name, nil if there is none.
func ByName(n Name) *Wire {
	for _, w := range All {
		if w.Name == n {
			return w
		}
	}
	return nil
}

// ModelInBody reports whether the model is named in the body; otherwise the path has it.
func (w *Wire) ModelInBody() bool { return w.Name != Gemini }

// WantsStream reports whether a request asks for an event stream. The Accept header never tells.
func (w *Wire) WantsStream(o *peek.Object, r Route) bool {
	if !w.ModelInBody() {
		return r.Stream
	}
	stream, _ := peek.Bool(o.Value("stream"))
	return stream && r.Op == Generate
}

// Class is what an event or a body means for the commit.
type Class uint8

// The classes.
const (
	Nothing  Class = iota // Comment, ping, blank, [DONE], a page of HTML: no output and no sign of life.
	Preamble              // An announcement that precedes output, or a chunk that carries none.
	Output                // Anything else.
	Terminal              // The end of the answer. It may carry output too: Facts.Output tells.
	Failed                // An error told in band: Facts.Failure has it.
)

// Event reads one event of a stream into f. It looks only into events that matter and allocates nothing in steady state.
func (w *Wire) Event(ev *sse.Event, f *Facts) Class {
	f.UsageOnly = false
	c := w.classify(ev, f)
	if c == Nothing {
		return c
	}
	f.Events++
	f.Output = f.Output || c == Output
	return c
}

func (w *Wire) classify(ev *sse.Event, f *Facts) Class {
	if ev.Cut {
		return w.cut(ev.Name, ev.Data, f)
	}
	data := bytes.TrimSpace(ev.Data)
	switch {
	case len(data) == 0:
		return Nothing
	case string(ev.Name) == "error": // In every dialect, whatever the data looks like.
		return f.fail(errorEventOf(data))
	case data[0] == '<': // A page of HTML is nobody's output.
		return Nothing
	case string(data) == "[DONE]":
		f.Terminal = f.Terminal || f.Output && !f.Failed
		return Nothing
	}
	return w.event(ev.Name, data, f)
}

// Body reads a whole plain answer into f: Output if it has output or reports output tokens, Failed if it is an in-band
// error, Nothing if it has neither. Anything but one JSON object is Nothing, and f stays as it was.
func (w *Wire) Body(body []byte, op Op, f *Facts) Class {
	if w.Name == Gemini && peek.Kind(bytes.TrimSpace(body)) == 'a' {
		return geminiArray(body, f)
	}
	o := &f.scratch[top]
	if o.Scan(body) != nil {
		return Nothing
	}
	if op == CountTokens {
		return countBody(o, f)
	}
	return f.settle(w.body(o, f))
}

// countBody reads the answer to a token count, which has no usage to book.
func countBody(o *peek.Object, f *Facts) Class {
	if _, ok := peek.Int(o.Value("input_tokens")); ok {
		f.Output = true
		return Output
	}
	if truthy(o.Value("error")) {
		return f.fail(failureOf(o))
	}
	return Nothing
}
