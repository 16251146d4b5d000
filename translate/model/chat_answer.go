package model

import (
	"errors"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// ChatAnswer is a whole chat completion or a chunk of one. It can be used again and again: decoding a chunk allocates
// nothing once its slices have grown. Members that nobody knows are left out, as providers add many.
type ChatAnswer struct {
	ID, Usage     []byte
	Object, Error []byte
	Choices       bool // There is at least one choice, so that what follows is not empty for want of any.
	Others        bool // There are choices beside the first.
	Whole         bool // The choice has a whole message, as in an answer that is no stream.
	Message       ChatMessage
	FinishReason  []byte
	ChoiceError   []byte
	GroqUsage     []byte // Usage where Groq puts it.
	GroqError     []byte

	read    reader
	choices []byte
	groq    []byte
	choice  []byte
}

// ErrAnswer tells that an answer is not what its dialect says.
var ErrAnswer = errors.New("the upstream's answer cannot be read")

// Decode reads a chunk or a body.
func (a *ChatAnswer) Decode(src []byte) error {
	parts, calls := a.Message.Parts[:0], a.Message.ToolCalls[:0]
	*a = ChatAnswer{read: a.read}
	a.read.depth = 0
	a.Message.Parts, a.Message.ToolCalls = parts, calls
	if !Valid(src) || a.read.object(src, a.member) != nil {
		return ErrAnswer
	}
	if a.groq != nil {
		_ = a.read.object(a.groq, func(name, value []byte) {
			switch string(name) {
			case "usage":
				set(&a.GroqUsage, value)
			case "error":
				set(&a.GroqError, value)
			}
		})
	}
	if peek.Kind(a.choices) != 'a' {
		return nil
	}
	return a.decodeChoices()
}

func (a *ChatAnswer) member(name, value []byte) {
	switch string(name) {
	case "id":
		set(&a.ID, value)
	case "object":
		set(&a.Object, value)
	case "usage":
		set(&a.Usage, value)
	case "error":
		set(&a.Error, value)
	case "choices":
		set(&a.choices, value)
	case "x_groq":
		set(&a.groq, value)
	}
}

// decodeChoices reads the choice that has index 0 or none.
func (a *ChatAnswer) decodeChoices() error {
	var failed error
	_ = a.read.array(a.choices, func(_ int, element []byte) bool {
		var index, delta, message, reason, fault, usage []byte
		failed = a.read.object(element, func(name, value []byte) {
			switch string(name) {
			case "index":
				index = value
			case "delta":
				set(&delta, value)
			case "message":
				set(&message, value)
			case "finish_reason":
				set(&reason, value)
			case "error":
				set(&fault, value)
			case "usage":
				set(&usage, value)
			}
		})
		if failed != nil {
			return false
		}
		if n, ok := peek.Int(index); ok && n != 0 || a.Choices {
			a.Others = true
			return true
		}
		a.Choices, a.FinishReason, a.ChoiceError, a.choice = true, reason, fault, element
		set(&a.Usage, usage) // Kimi.
		if delta == nil {
			a.Whole, delta = message != nil, message
		}
		if peek.Kind(delta) == 'o' {
			failed = a.message(delta)
		}
		return failed == nil
	})
	if failed != nil {
		return ErrAnswer
	}
	return nil
}

func (a *ChatAnswer) message(src []byte) error {
	m := &a.Message
	err := a.read.object(src, func(name, value []byte) {
		switch string(name) {
		case "annotations", "audio", "images":
			if peek.Kind(value) == 'o' || peek.Kind(value) == 'a' && len(value) > 2 {
				m.Extra.note(name, value)
			}
		case "role", "content", "refusal", "tool_calls", "function_call", "reasoning_content", "reasoning", "reasoning_details":
			m.member(name, value)
		}
	})
	if err != nil {
		return err
	}
	return m.nested(&a.read)
}

// Failure is the object that tells of an error in band, nil if there is none. An error that is false, empty or 0 is none.
func (a *ChatAnswer) Failure(src []byte) []byte {
	switch {
	case said(a.Error), Is(a.Object, "error"):
		return src
	case said(a.ChoiceError), Is(a.FinishReason, "error"):
		return a.choice
	case said(a.GroqError):
		return a.groq
	}
	return nil
}

func said(raw []byte) bool {
	switch string(raw) {
	case "", "false", `""`, "0", "{}", "[]":
		return false
	}
	return true
}
