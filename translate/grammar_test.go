package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// said is a block of an answer: a text, a thought, or a call with its arguments.
type said struct {
	Kind, Text, ID, Name string
}

// told is what a client makes of a stream.
type told struct {
	ID, Model, Stop string
	Blocks          []said
	Usage           json.RawMessage
	Failed          string // Message of the error that the stream ends with.
}

// frames cuts a client's stream into its events. Comments are left out.
func frames(stream []byte) (names []string, data [][]byte, err error) {
	var s sse.Scanner
	var ev sse.Event
	s.Feed(stream)
	for s.Next(&ev) {
		if ev.Comment {
			continue
		}
		if ev.Cut {
			return nil, nil, errors.New("an event is too large")
		}
		names = append(names, string(ev.Name))
		data = append(data, bytes.Clone(ev.Data))
	}
	if s.Pending() {
		return nil, nil, errors.New("the last frame does not end")
	}
	return names, data, nil
}

// read checks a client's finished stream against the grammar of its dialect and assembles it as SDKs do.
func read(client wire.Name, stream []byte) (told, error) {
	names, data, err := frames(stream)
	if err != nil {
		return told{}, err
	}
	if client == wire.Chat {
		return readChat(data)
	}
	return readMessages(names, data)
}

type messagesFrame struct {
	Type    string
	Index   *int
	Message struct {
		ID, Model, Type, Role string
		Content               []any
		Usage                 json.RawMessage
	}
	ContentBlock struct {
		Type, ID, Name string
		Input          json.RawMessage
	} `json:"content_block"`
	Delta struct {
		Type, Text, Thinking string
		PartialJSON          string `json:"partial_json"`
		StopReason           string `json:"stop_reason"`
	}
	Usage json.RawMessage
	Error *struct{ Type, Message string }
}

// readMessages: one message_start first; blocks 0, 1, 2... one after the other, each with deltas of its own kind;
// message_delta once, then message_stop, or an error at any point; nothing after either.
func readMessages(names []string, data [][]byte) (t told, err error) {
	const before, between, within, after, over = 0, 1, 2, 3, 4
	state := before
	for i := range data {
		var e messagesFrame
		if err := json.Unmarshal(data[i], &e); err != nil {
			return t, fmt.Errorf("event %d: %w: %s", i, err, data[i])
		}
		fail := func(why string) (told, error) {
			return t, fmt.Errorf("event %d (%s): %s", i, e.Type, why)
		}
		if e.Type != names[i] {
			return fail("is named " + names[i])
		}
		if state == over {
			return fail("comes after the end")
		}
		at := len(t.Blocks) - 1
		switch e.Type {
		case "ping":
			if state == before {
				return fail("comes before message_start")
			}
		case "error":
			if e.Error == nil || e.Error.Type == "" || e.Error.Message == "" {
				return fail("says nothing")
			}
			t.Failed, state = e.Error.Message, over
		case "message_start":
			m := e.Message
			if state != before || m.ID == "" || m.Type != "message" || m.Role != "assistant" || m.Content == nil || m.Usage == nil {
				return fail("is not in place, or not whole")
			}
			t.ID, t.Model, state = m.ID, m.Model, between
		case "content_block_start":
			if state != between || e.Index == nil || *e.Index != at+1 {
				return fail("is not in place")
			}
			b := e.ContentBlock
			if b.Type == "tool_use" && (b.ID == "" || b.Name == "" || string(b.Input) != "{}") {
				return fail("is no whole call")
			}
			t.Blocks, state = append(t.Blocks, said{Kind: b.Type, ID: b.ID, Name: b.Name}), within
		case "content_block_delta":
			kind := map[string]string{"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}[e.Delta.Type]
			if state != within || e.Index == nil || *e.Index != at || kind != t.Blocks[at].Kind {
				return fail("is not in place")
			}
			t.Blocks[at].Text += e.Delta.Text + e.Delta.Thinking + e.Delta.PartialJSON
		case "content_block_stop":
			if state != within || e.Index == nil || *e.Index != at {
				return fail("is not in place")
			}
			state = between
		case "message_delta":
			if state != between || e.Delta.StopReason == "" || e.Usage == nil {
				return fail("is not in place, or not whole")
			}
			t.Stop, t.Usage, state = e.Delta.StopReason, e.Usage, after
		case "message_stop":
			if state != after {
				return fail("is not in place")
			}
			state = over
		default:
			return fail("is unknown")
		}
	}
	if state != over {
		return t, errors.New("the stream does not end")
	}
	return t, nil
}

type chatFrame struct {
	ID, Object, Model string
	Choices           []struct {
		Index int
		Delta *struct {
			Role      string
			Content   string
			Reasoning string `json:"reasoning_content"`
			ToolCalls []struct {
				Index    *int
				ID, Type string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage json.RawMessage
	Error *struct{ Type, Message string }
}

// readChat: the same id in all chunks; the role once and first; one choice in each but the usage chunk; calls counted
// from 0, each beginning with id and name; one finish reason, then [DONE], or an error at any point; nothing after either.
func readChat(data [][]byte) (t told, err error) {
	var (
		text, thought string
		calls         []said
		roles         int
		over          bool
	)
	for i := range data {
		fail := func(why string) (told, error) { return t, fmt.Errorf("chunk %d: %s: %s", i, why, data[i]) }
		if over {
			return fail("comes after the end")
		}
		if string(data[i]) == "[DONE]" {
			if t.Stop == "" {
				return fail("without a finish reason")
			}
			over = true
			continue
		}
		var e chatFrame
		if err := json.Unmarshal(data[i], &e); err != nil {
			return fail(err.Error())
		}
		if e.Error != nil {
			if e.Error.Message == "" || e.Error.Type == "" {
				return fail("an error that says nothing")
			}
			t.Failed, over = e.Error.Message, true
			continue
		}
		if t.ID == "" {
			t.ID, t.Model = e.ID, e.Model
		}
		if e.ID == "" || e.ID != t.ID || e.Model != t.Model || e.Object != "chat.completion.chunk" {
			return fail("is of another answer, or no chunk")
		}
		if len(e.Choices) == 0 && e.Usage != nil && t.Stop != "" && t.Usage == nil {
			t.Usage = e.Usage
			continue
		}
		if len(e.Choices) != 1 || e.Choices[0].Delta == nil || t.Stop != "" {
			return fail("not one choice, or after the finish reason")
		}
		d := e.Choices[0].Delta
		if d.Role != "" {
			roles++
		}
		if roles != 1 {
			return fail("the role is not told once and first")
		}
		text, thought = text+d.Content, thought+d.Reasoning
		for _, c := range d.ToolCalls {
			switch {
			case c.Index != nil && *c.Index == len(calls) && c.ID != "" && c.Function.Name != "" && c.Type == "function":
				calls = append(calls, said{Kind: "tool_use", ID: c.ID, Name: c.Function.Name})
			case c.Index == nil || *c.Index >= len(calls) || *c.Index < 0 || c.ID != "":
				return fail("a piece of no call")
			}
			calls[*c.Index].Text += c.Function.Arguments
		}
		if f := e.Choices[0].FinishReason; f != nil {
			t.Stop = *f
		}
	}
	if !over {
		return t, errors.New("the stream does not end")
	}
	if thought != "" {
		t.Blocks = append(t.Blocks, said{Kind: "thinking", Text: thought})
	}
	if text != "" {
		t.Blocks = append(t.Blocks, said{Kind: "text", Text: text})
	}
	t.Blocks = append(t.Blocks, calls...)
	return t, nil
}
