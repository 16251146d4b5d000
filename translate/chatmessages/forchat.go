package chatmessages

import (
	"strconv"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// ForChat serves one exchange of a client that speaks chat completions with an upstream that speaks Messages.
type ForChat struct {
	common
	usage  bool // The client asked for the usage of its stream.
	stream toChat
}

// NewForChat returns the translation of one exchange.
func NewForChat(o model.Options) *ForChat {
	t := &ForChat{common: common{opts: o, tools: names{limit: messagesLimit}}}
	t.stream.t = t
	return t
}

// defaultMaxTokens is the limit where the Messages dialect demands one and the client gave none.
const defaultMaxTokens = 4096

// Request turns a chat completion request into a Messages request. The error, if any, is meant for the client.
func (t *ForChat) Request(body []byte) ([]byte, error) {
	var r model.ChatRequest
	if err := r.Decode(body); err != nil {
		return nil, err
	}
	t.usage = string(r.IncludeUsage) == "true"
	b := append(make([]byte, 0, size(body)), '{')
	b = model.Field(b, "model", r.Model)
	b = t.maxTokens(b, &r)
	w := messagesTurns{b: b, t: t}
	if err := w.all(r.Messages); err != nil {
		return nil, err
	}
	b = t.messagesTools(w.b, &r)
	b = t.temperature(b, r.Temperature)
	b = model.Field(b, "top_p", r.TopP)
	if n, ok := peek.Int(r.TopK); ok && n > 0 { // Not OpenAI's, but widely sent.
		b = model.Field(b, "top_k", r.TopK)
	}
	b = t.stop(b, r.Stop)
	if model.Is(model.ReadChoice(r.Thinking).Type, "enabled") && w.answered {
		// With thinking on, the turn that goes on has to begin with its thoughts, which no chat client can give back.
		t.report.Drop("thinking")
		r.Thinking = nil
	}
	b = model.Field(b, "thinking", r.Thinking)
	b = t.effort(b, &r)
	b = model.Field(b, "cache_control", r.CacheControl)
	b = model.Field(b, "stream", r.Stream)
	t.dropped(&r)
	return append(b, '}'), nil
}

// maxTokens writes the limit that the Messages dialect demands.
func (t *ForChat) maxTokens(b []byte, r *model.ChatRequest) []byte {
	for _, raw := range [][]byte{r.MaxCompletionTokens, r.MaxTokens} {
		if n, ok := peek.Int(raw); ok && n > 0 {
			return model.Int(b, "max_tokens", n)
		}
	}
	if t.opts.MaxTokens > 0 {
		return model.Int(b, "max_tokens", t.opts.MaxTokens)
	}
	return model.Int(b, "max_tokens", defaultMaxTokens)
}

// temperature writes the temperature, which ends at 1 in the Messages dialect and at 2 in chat completions.
func (t *ForChat) temperature(b, raw []byte) []byte {
	if v, err := strconv.ParseFloat(string(raw), 64); err == nil && v > 1 {
		t.report.Change("temperature")
		raw = []byte("1")
	}
	return model.Field(b, "temperature", raw)
}

// stop writes the stop sequences. Those that are blank would be refused.
func (t *ForChat) stop(b, raw []byte) []byte {
	start := len(b)
	b = append(model.Key(b, "stop_sequences"), '[')
	empty := len(b)
	add := func(s []byte) {
		if model.Blank(s) {
			t.report.Drop("stop")
			return
		}
		b = append(model.Elem(b), s...)
	}
	if elements(raw) {
		_ = peek.Elements(raw, peek.Span{End: len(raw)}, func(at peek.Span) bool {
			add(raw[at.Start:at.End])
			return true
		})
	} else if raw != nil {
		add(raw)
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b, ']')
}

// effort writes how hard the model should think; an output_config that the client sent itself says all of it.
func (t *ForChat) effort(b []byte, r *model.ChatRequest) []byte {
	switch {
	case r.OutputConfig != nil:
		return model.Field(b, "output_config", r.OutputConfig)
	case r.ReasoningEffort == nil, model.Is(r.ReasoningEffort, "none"):
		return b
	}
	b = append(model.Key(b, "output_config"), `{"effort":`...)
	if model.Is(r.ReasoningEffort, "minimal") {
		b = append(b, `"low"`...)
	} else {
		b = append(b, r.ReasoningEffort...)
	}
	return append(b, '}')
}

// neutral are members that say with these values what is so anyway; leaving them out loses nothing.
var neutral = map[string]string{
	"frequency_penalty": "0", "presence_penalty": "0", "logprobs": "false", "store": "false",
	"verbosity": `"medium"`, "modalities": `["text"]`, "service_tier": `"auto"`,
}

// dropped reports what has no place in the Messages dialect.
func (t *ForChat) dropped(r *model.ChatRequest) {
	for name, value := range r.Extra {
		if means, ok := neutral[name]; !ok || means != string(value) {
			t.report.Drop(name)
		}
	}
	if n, ok := peek.Int(r.Count); r.Count != nil && (!ok || n != 1) {
		t.report.Drop("n")
	}
	if r.ResponseFormat != nil && !model.Is(model.ReadChoice(r.ResponseFormat).Type, "text") {
		t.report.Drop("response_format")
	}
	if model.Is(r.ReasoningEffort, "none") || r.ReasoningEffort != nil && r.OutputConfig != nil {
		t.report.Drop("reasoning_effort")
	}
}
