package model

import (
	"errors"
	"fmt"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// ChatRequest is the body of a chat completion request. Members that are null are nil, like those that are absent.
type ChatRequest struct {
	Model, Stream, IncludeUsage              []byte
	MaxTokens, MaxCompletionTokens           []byte
	Temperature, TopP, TopK, Stop            []byte
	ReasoningEffort, Thinking, OutputConfig  []byte
	ToolChoice, FunctionCall, ParallelCalls  []byte
	CacheControl, Count, ResponseFormat      []byte
	Messages                                 []ChatMessage
	Tools                                    []ChatTool
	Extra                                    Extra
	messages, tools, functions, streamOption []byte
}

// ChatMessage is a message of the history, of an answer (message) or of a part of one (delta).
type ChatMessage struct {
	Role             []byte
	Parts            []ChatPart // The content: a mere string is one text part.
	Refusal          []byte
	Name             []byte
	ToolCalls        []ToolCall
	FunctionCall     []byte // The call of old, an object with name and arguments.
	ToolCallID       []byte
	ReasoningContent []byte
	Reasoning        []byte
	ReasoningDetails []byte
	CacheControl     []byte
	Extra            Extra

	content []byte
	calls   []byte
}

// ChatPart is a part of a content.
type ChatPart struct {
	Type         []byte
	Text         []byte // Of text and input_text parts.
	Refusal      []byte
	ImageURL     []byte // A string: a data URI or an address.
	Source       []byte // Of images that are written as the Messages dialect does.
	Thinking     []byte // Of thinking parts as Mistral sends them.
	CacheControl []byte
	Extra        Extra
}

// ToolCall is a call in the history or in an answer, or a piece of one in a stream.
type ToolCall struct {
	Index, ID, Type, Name []byte
	Arguments             []byte // A string; some servers send the object itself.
	Extra                 Extra
}

// ChatTool is a tool on offer. Members of function and those beside it are not told apart.
type ChatTool struct {
	Type, Name, Description, Parameters, CacheControl []byte
	Extra                                             Extra
}

// Decode reads a request. Errors are meant for the client.
func (r *ChatRequest) Decode(body []byte) error {
	if !Valid(body) {
		return errNotJSON
	}
	var d reader
	if err := d.object(body, r.member); err != nil {
		return fmt.Errorf("the body %w", err)
	}
	if r.streamOption != nil {
		_ = d.object(r.streamOption, func(name, value []byte) {
			if string(name) == "include_usage" {
				set(&r.IncludeUsage, value)
			}
		})
	}
	if err := r.decodeMessages(&d); err != nil {
		return err
	}
	if r.tools == nil {
		r.tools = r.functions
	}
	if r.tools == nil {
		return nil
	}
	var err error
	r.Tools, err = list(&d, r.tools, "tools", " ", func(t *ChatTool, element []byte) error { return t.decode(&d, element) })
	return err
}

var (
	errNotJSON    = errors.New("the body is not valid JSON")
	errNoMessages = errors.New("messages is missing")
)

func (r *ChatRequest) member(name, value []byte) {
	switch string(name) {
	case "model":
		set(&r.Model, value)
	case "messages":
		set(&r.messages, value)
	case "stream":
		set(&r.Stream, value)
	case "stream_options":
		set(&r.streamOption, value)
	case "max_tokens":
		set(&r.MaxTokens, value)
	case "max_completion_tokens":
		set(&r.MaxCompletionTokens, value)
	case "temperature":
		set(&r.Temperature, value)
	case "top_p":
		set(&r.TopP, value)
	case "top_k":
		set(&r.TopK, value)
	case "stop":
		set(&r.Stop, value)
	case "reasoning_effort":
		set(&r.ReasoningEffort, value)
	case "thinking":
		set(&r.Thinking, value)
	case "output_config":
		set(&r.OutputConfig, value)
	case "tools":
		set(&r.tools, value)
	case "functions":
		set(&r.functions, value)
	case "tool_choice":
		set(&r.ToolChoice, value)
	case "function_call":
		set(&r.FunctionCall, value)
	case "parallel_tool_calls":
		set(&r.ParallelCalls, value)
	case "cache_control":
		set(&r.CacheControl, value)
	case "n":
		set(&r.Count, value)
	case "response_format":
		set(&r.ResponseFormat, value)
	default:
		r.Extra.note(name, value)
	}
}

func (r *ChatRequest) decodeMessages(d *reader) error {
	if r.messages == nil {
		return errNoMessages
	}
	var err error
	r.Messages, err = list(d, r.messages, "messages", "", func(m *ChatMessage, element []byte) error { return m.decode(d, element) })
	return err
}

func (m *ChatMessage) decode(d *reader, src []byte) error {
	if err := d.object(src, m.member); err != nil {
		return fmt.Errorf(" %w", err)
	}
	return m.nested(d)
}

func (m *ChatMessage) member(name, value []byte) {
	switch string(name) {
	case "role":
		set(&m.Role, value)
	case "content":
		set(&m.content, value)
	case "refusal":
		set(&m.Refusal, value)
	case "name":
		set(&m.Name, value)
	case "tool_calls":
		set(&m.calls, value)
	case "function_call":
		set(&m.FunctionCall, value)
	case "tool_call_id":
		set(&m.ToolCallID, value)
	case "reasoning_content":
		set(&m.ReasoningContent, value)
	case "reasoning":
		set(&m.Reasoning, value)
	case "reasoning_details":
		set(&m.ReasoningDetails, value)
	case "cache_control":
		set(&m.CacheControl, value)
	default:
		m.Extra.note(name, value)
	}
}

// nested reads content and calls.
func (m *ChatMessage) nested(d *reader) error {
	var err error
	switch peek.Kind(m.content) {
	case 's':
		m.Parts = append(m.Parts, ChatPart{Type: textType, Text: m.content})
	case 'a':
		m.Parts, err = list(d, m.content, ".content", " ", func(p *ChatPart, element []byte) error { return p.decode(d, element) })
		if err != nil {
			return err
		}
	case 'o': // One part that stands for itself.
		m.Parts = append(m.Parts, ChatPart{})
		if err := m.Parts[0].decode(d, m.content); err != nil {
			return fmt.Errorf(".content %w", err)
		}
	case 0:
	default:
		return errors.New(".content is neither a string nor an array")
	}
	if m.calls == nil {
		return nil
	}
	m.ToolCalls, err = list(d, m.calls, ".tool_calls", " ", func(c *ToolCall, element []byte) error { return c.decode(d, element) })
	return err
}

var textType = []byte(`"text"`)

func (p *ChatPart) decode(d *reader, src []byte) error {
	if peek.Kind(src) == 's' { // Some clients list mere strings.
		p.Type, p.Text = textType, src
		return nil
	}
	return d.object(src, func(name, value []byte) {
		switch string(name) {
		case "type":
			set(&p.Type, value)
		case "text":
			set(&p.Text, value)
		case "refusal":
			set(&p.Refusal, value)
		case "thinking":
			set(&p.Thinking, value)
		case "source":
			set(&p.Source, value)
		case "cache_control":
			set(&p.CacheControl, value)
		case "image_url":
			if peek.Kind(value) == 's' {
				set(&p.ImageURL, value)
				return
			}
			_ = d.object(value, func(name, value []byte) {
				switch {
				case string(name) == "url":
					set(&p.ImageURL, value)
				case !Is(value, "auto"): // The detail, mostly.
					p.Extra.note(name, value)
				}
			})
		default:
			p.Extra.note(name, value)
		}
	})
}

func (c *ToolCall) decode(d *reader, src []byte) error {
	return d.object(src, func(name, value []byte) {
		switch string(name) {
		case "index":
			set(&c.Index, value)
		case "id":
			set(&c.ID, value)
		case "type":
			set(&c.Type, value)
		case "function":
			_ = c.function(d, value)
		default:
			c.Extra.note(name, value)
		}
	})
}

func (c *ToolCall) function(d *reader, src []byte) error {
	return d.object(src, func(name, value []byte) {
		switch string(name) {
		case "name":
			set(&c.Name, value)
		case "arguments":
			set(&c.Arguments, value)
		default:
			c.Extra.note(name, value)
		}
	})
}

// Call reads the function_call of old; nil if there is none.
func (m *ChatMessage) Call() *ToolCall {
	if m.FunctionCall == nil {
		return nil
	}
	c := &ToolCall{}
	if c.function(&reader{}, m.FunctionCall) != nil {
		return nil
	}
	return c
}

func (t *ChatTool) decode(d *reader, src []byte) error {
	var member func(name, value []byte)
	member = func(name, value []byte) {
		switch string(name) {
		case "type":
			set(&t.Type, value)
		case "name":
			set(&t.Name, value)
		case "description":
			set(&t.Description, value)
		case "parameters", "input_schema":
			set(&t.Parameters, value)
		case "cache_control":
			set(&t.CacheControl, value)
		case "function":
			_ = d.object(value, member)
		default:
			t.Extra.note(name, value)
		}
	}
	return d.object(src, member)
}
