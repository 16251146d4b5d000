package model

import (
	"errors"
	"fmt"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// MessagesRequest is the body of a Messages request. Members that are null are nil, like those that are absent.
type MessagesRequest struct {
	Model, Stream, MaxTokens           []byte
	Temperature, TopP, StopSequences   []byte
	Thinking, Effort, ToolChoice       []byte
	System                             []Block // A mere string is one text block.
	Messages                           []Message
	Tools                              []Tool
	Extra                              Extra
	system, messages, tools, outConfig []byte
}

// Message is a message of the history.
type Message struct {
	Role   []byte
	Blocks []Block // The content: a mere string is one text block.
	Extra  Extra
}

// Block is a content block of any type.
type Block struct {
	Type         []byte
	Text         []byte
	Thinking     []byte
	ID, Name     []byte
	Input        []byte
	ToolUseID    []byte
	IsError      []byte
	Blocks       []Block // The content of a tool result.
	Source       []byte  // Of an image or a document.
	CacheControl []byte
	Extra        Extra
}

// Source is where an image or a document comes from.
type Source struct{ Type, MediaType, Data, URL []byte }

// Tool is a tool on offer.
type Tool struct {
	Type, Name, Description, InputSchema, CacheControl []byte
	Extra                                              Extra
}

// Choice is what a tool_choice object says, of either dialect.
type Choice struct {
	Type, Name, Mode, Serial []byte // Serial is disable_parallel_tool_use.
	Allowed                  bool   // It is restricted to some of the tools.
}

// Decode reads a request. Errors are meant for the client.
func (r *MessagesRequest) Decode(body []byte) error {
	if !Valid(body) {
		return errNotJSON
	}
	var d reader
	if err := d.object(body, r.member); err != nil {
		return fmt.Errorf("the body %w", err)
	}
	if r.messages == nil {
		return errNoMessages
	}
	if r.outConfig != nil {
		_ = d.object(r.outConfig, func(name, value []byte) {
			if string(name) == "effort" {
				set(&r.Effort, value)
			} else {
				r.Extra.note([]byte("output_config."+string(name)), value)
			}
		})
	}
	var err error
	if r.System, err = blocks(&d, r.system, true); err != nil {
		return fmt.Errorf("system%w", err)
	}
	r.Messages, err = list(&d, r.messages, "messages", "", func(m *Message, element []byte) error { return m.decode(&d, element) })
	if err != nil || r.tools == nil {
		return err
	}
	r.Tools, err = list(&d, r.tools, "tools", " ", func(t *Tool, element []byte) error { return t.decode(&d, element) })
	return err
}

func (r *MessagesRequest) member(name, value []byte) {
	switch string(name) {
	case "model":
		set(&r.Model, value)
	case "messages":
		set(&r.messages, value)
	case "system":
		set(&r.system, value)
	case "stream":
		set(&r.Stream, value)
	case "max_tokens":
		set(&r.MaxTokens, value)
	case "temperature":
		set(&r.Temperature, value)
	case "top_p":
		set(&r.TopP, value)
	case "stop_sequences":
		set(&r.StopSequences, value)
	case "thinking":
		set(&r.Thinking, value)
	case "output_config":
		set(&r.outConfig, value)
	case "tools":
		set(&r.tools, value)
	case "tool_choice":
		set(&r.ToolChoice, value)
	default:
		r.Extra.note(name, value)
	}
}

func (m *Message) decode(d *reader, src []byte) error {
	var content []byte
	err := d.object(src, func(name, value []byte) {
		switch string(name) {
		case "role":
			set(&m.Role, value)
		case "content":
			set(&content, value)
		default:
			m.Extra.note(name, value)
		}
	})
	if err != nil {
		return fmt.Errorf(" %w", err)
	}
	if m.Blocks, err = blocks(d, content, true); err != nil {
		return fmt.Errorf(".content%w", err)
	}
	return nil
}

// blocks reads a content; only in an outer one do tool results have a content of their own.
func blocks(d *reader, content []byte, outer bool) ([]Block, error) {
	switch peek.Kind(content) {
	case 0:
		return nil, nil
	case 's':
		return []Block{{Type: textType, Text: content}}, nil
	case 'o':
		one := make([]Block, 1)
		return one, one[0].decode(d, content, outer)
	case 'a':
	default:
		return nil, errors.New(" is neither a string nor an array")
	}
	return list(d, content, "", "", func(b *Block, element []byte) error { return b.decode(d, element, outer) })
}

func (b *Block) decode(d *reader, src []byte, outer bool) error {
	if peek.Kind(src) == 's' {
		b.Type, b.Text = textType, src
		return nil
	}
	var content []byte
	err := d.object(src, func(name, value []byte) {
		switch string(name) {
		case "type":
			set(&b.Type, value)
		case "text":
			set(&b.Text, value)
		case "thinking":
			set(&b.Thinking, value)
		case "id":
			set(&b.ID, value)
		case "name":
			set(&b.Name, value)
		case "input":
			set(&b.Input, value)
		case "tool_use_id":
			set(&b.ToolUseID, value)
		case "is_error":
			set(&b.IsError, value)
		case "content":
			set(&content, value)
		case "source":
			set(&b.Source, value)
		case "cache_control":
			set(&b.CacheControl, value)
		case "signature", "data": // Fit for nobody but the server that made them.
		case "citations":
			if len(value) > 2 {
				b.Extra.note(name, value)
			}
		default:
			b.Extra.note(name, value)
		}
	})
	if err != nil {
		return fmt.Errorf(" %w", err)
	}
	if content == nil || !outer || !Is(b.Type, "tool_result") {
		return nil
	}
	if b.Blocks, err = blocks(d, content, false); err != nil {
		return fmt.Errorf(".content%w", err)
	}
	return nil
}

func (t *Tool) decode(d *reader, src []byte) error {
	return d.object(src, func(name, value []byte) {
		switch string(name) {
		case "type":
			set(&t.Type, value)
		case "name":
			set(&t.Name, value)
		case "description":
			set(&t.Description, value)
		case "input_schema":
			set(&t.InputSchema, value)
		case "cache_control":
			set(&t.CacheControl, value)
		default:
			t.Extra.note(name, value)
		}
	})
}

// ReadSource reads the source of an image or a document.
func ReadSource(src []byte) (s Source) {
	var d reader
	_ = d.object(src, func(name, value []byte) {
		switch string(name) {
		case "type":
			set(&s.Type, value)
		case "media_type":
			set(&s.MediaType, value)
		case "data":
			set(&s.Data, value)
		case "url":
			set(&s.URL, value)
		}
	})
	return s
}

// ReadChoice reads a tool_choice in any of its forms; a mere word is its type.
func ReadChoice(src []byte) (c Choice) {
	c.decode(&reader{}, src)
	return c
}

func (c *Choice) decode(d *reader, src []byte) {
	if peek.Kind(src) == 's' {
		set(&c.Type, src)
		return
	}
	_ = d.object(src, func(name, value []byte) {
		switch string(name) {
		case "type":
			set(&c.Type, value)
		case "name":
			set(&c.Name, value)
		case "mode":
			set(&c.Mode, value)
		case "disable_parallel_tool_use":
			set(&c.Serial, value)
		case "tools":
			c.Allowed = true
		case "function", "allowed_tools":
			var inner Choice
			inner.decode(d, value)
			set(&c.Name, inner.Name)
			set(&c.Mode, inner.Mode)
			c.Allowed = c.Allowed || string(name) == "allowed_tools"
		}
	})
}
