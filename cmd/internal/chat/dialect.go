package chat

import (
	"encoding/json"
	"strings"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// piece is what an event adds to an answer.
type piece struct {
	text    string
	thought bool
}

// object is a JSON object to be written.
type object = map[string]any

// dialect is how to ask in a wire, and where its events have text. Everything else about it package wire knows.
type dialect struct {
	body  func(o *Options, model string, talk []message) object
	event func(data []byte) []piece
}

var dialects = map[wire.Name]dialect{
	wire.Chat:      {chatBody, chatEvent},
	wire.Responses: {responsesBody, responsesEvent},
	wire.Messages:  {messagesBody, messagesEvent},
	wire.Gemini:    {geminiBody, geminiEvent},
}

// messagesMax is what is asked for if nobody said how much: the Messages wire needs a limit.
const messagesMax = 8192

func turns(talk []message) (out []object) {
	for _, m := range talk {
		out = append(out, object{"role": m.role, "content": m.text})
	}
	return out
}

func chatBody(o *Options, model string, talk []message) object {
	messages := turns(talk)
	if o.System != "" {
		messages = append([]object{{"role": "system", "content": o.System}}, messages...)
	}
	b := object{"model": model, "stream": true, "stream_options": object{"include_usage": true}, "messages": messages}
	if o.Effort != "" {
		b["reasoning_effort"] = o.Effort
	}
	if o.Max > 0 {
		b["max_completion_tokens"] = o.Max
	}
	return b
}

func responsesBody(o *Options, model string, talk []message) object {
	b := object{"model": model, "stream": true, "store": false, "input": turns(talk)}
	if o.System != "" {
		b["instructions"] = o.System
	}
	if o.Effort != "" {
		b["reasoning"] = object{"effort": o.Effort, "summary": "auto"}
	}
	if o.Max > 0 {
		b["max_output_tokens"] = o.Max
	}
	return b
}

func messagesBody(o *Options, model string, talk []message) object {
	b := object{"model": model, "stream": true, "max_tokens": messagesMax, "messages": turns(talk)}
	if o.System != "" {
		b["system"] = o.System
	}
	if o.Effort != "" {
		b["thinking"], b["output_config"] = object{"type": "adaptive"}, object{"effort": o.Effort}
	}
	if o.Max > 0 {
		b["max_tokens"] = o.Max
	}
	return b
}

// geminiBody leaves the model to the path.
func geminiBody(o *Options, _ string, talk []message) object {
	parts := func(text string) []object { return []object{{"text": text}} }
	var contents []object
	for _, m := range talk {
		contents = append(contents, object{"role": strings.ReplaceAll(m.role, "assistant", "model"), "parts": parts(m.text)})
	}
	b, generation := object{"contents": contents}, object{}
	if o.System != "" {
		b["systemInstruction"] = object{"parts": parts(o.System)}
	}
	if o.Effort != "" {
		generation["thinkingConfig"] = object{"thinkingLevel": o.Effort, "includeThoughts": true}
	}
	if o.Max > 0 {
		generation["maxOutputTokens"] = o.Max
	}
	if len(generation) > 0 {
		b["generationConfig"] = generation
	}
	return b
}

// pieces leaves out what is empty.
func pieces(all ...piece) (out []piece) {
	for _, p := range all {
		if p.text != "" {
			out = append(out, p)
		}
	}
	return out
}

// chatEvent knows both names that providers have for thoughts; some send the same under both.
func chatEvent(data []byte) []piece {
	var ev struct {
		Choices []struct {
			Delta struct {
				Content   string `json:"content"`
				Refusal   string `json:"refusal"`
				Reasoning string `json:"reasoning"`
				Thoughts  string `json:"reasoning_content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &ev) != nil || len(ev.Choices) == 0 {
		return nil
	}
	d := &ev.Choices[0].Delta
	if d.Thoughts == "" {
		d.Thoughts = d.Reasoning
	}
	return pieces(piece{d.Thoughts, true}, piece{d.Content + d.Refusal, false})
}

func responsesEvent(data []byte) []piece {
	var ev struct {
		Type  string `json:"type"`
		Delta any    `json:"delta"` // an object in events that are of no interest here
	}
	if json.Unmarshal(data, &ev) != nil {
		return nil
	}
	text, _ := ev.Delta.(string)
	switch ev.Type {
	case "response.output_text.delta", "response.refusal.delta":
		return pieces(piece{text, false})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return pieces(piece{text, true})
	case "response.reasoning_summary_part.added":
		return pieces(piece{"\n", true})
	}
	return nil
}

func messagesEvent(data []byte) []piece {
	var ev struct {
		Delta struct {
			Text     string `json:"text"`
			Thinking string `json:"thinking"`
		} `json:"delta"`
	}
	if json.Unmarshal(data, &ev) != nil {
		return nil
	}
	return pieces(piece{ev.Delta.Thinking, true}, piece{ev.Delta.Text, false})
}

func geminiEvent(data []byte) (out []piece) {
	var ev struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					Text    string `json:"text"`
					Thought bool   `json:"thought"`
				} `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}
	if json.Unmarshal(data, &ev) != nil || len(ev.Candidates) == 0 {
		return nil
	}
	for _, p := range ev.Candidates[0].Content.Parts {
		out = append(out, pieces(piece{p.Text, p.Thought})...)
	}
	return out
}
