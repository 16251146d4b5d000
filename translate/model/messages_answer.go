package model

import "github.com/signalbox-llm/signalbox/translate/peek"

// MessagesAnswer is a whole message as the upstream answers it.
type MessagesAnswer struct {
	ID, Type, Usage, StopReason []byte
	Blocks                      []Block
	content                     []byte
}

// Decode reads a body.
func (a *MessagesAnswer) Decode(src []byte) error {
	var d reader
	if !Valid(src) || d.object(src, a.member) != nil {
		return ErrAnswer
	}
	var err error
	if a.Blocks, err = blocks(&d, a.content, true); err != nil || a.content == nil && a.StopReason == nil {
		return ErrAnswer
	}
	return nil
}

func (a *MessagesAnswer) member(name, value []byte) {
	switch string(name) {
	case "id":
		set(&a.ID, value)
	case "type":
		set(&a.Type, value)
	case "usage":
		set(&a.Usage, value)
	case "stop_reason":
		set(&a.StopReason, value)
	case "content":
		set(&a.content, value)
	}
}

// MessagesEvent is an event of a Messages stream. It can be used again and again: decoding allocates nothing once its
// scanners have grown.
type MessagesEvent struct {
	Type, Index, Usage []byte
	ID                 []byte // Of the message, in message_start.
	StopReason         []byte // In message_delta.
	Block              Block  // In content_block_start; of a delta the members text and thinking.
	Delta              []byte // The type of a delta.
	PartialJSON        []byte

	read    reader
	message []byte
	delta   []byte
	block   []byte
}

// Decode reads the data of an event.
func (e *MessagesEvent) Decode(src []byte) error {
	*e = MessagesEvent{read: e.read}
	e.read.depth = 0
	if !Valid(src) || e.read.object(src, e.member) != nil {
		return ErrAnswer
	}
	if e.message != nil && e.read.object(e.message, e.inMessage) != nil {
		return ErrAnswer
	}
	if e.block != nil && e.Block.decode(&e.read, e.block, false) != nil {
		return ErrAnswer
	}
	if e.delta != nil && e.read.object(e.delta, e.inDelta) != nil {
		return ErrAnswer
	}
	return nil
}

func (e *MessagesEvent) member(name, value []byte) {
	switch string(name) {
	case "type":
		set(&e.Type, value)
	case "index":
		set(&e.Index, value)
	case "message":
		set(&e.message, value)
	case "delta":
		set(&e.delta, value)
	case "content_block":
		set(&e.block, value)
	case "usage":
		set(&e.Usage, value)
	}
}

func (e *MessagesEvent) inMessage(name, value []byte) {
	switch string(name) {
	case "id":
		set(&e.ID, value)
	case "usage":
		set(&e.Usage, value)
	}
}

func (e *MessagesEvent) inDelta(name, value []byte) {
	switch string(name) {
	case "type":
		set(&e.Delta, value)
	case "text":
		set(&e.Block.Text, value)
	case "thinking":
		set(&e.Block.Thinking, value)
	case "partial_json":
		set(&e.PartialJSON, value)
	case "stop_reason":
		set(&e.StopReason, value)
	}
}

// BlockIndex is the index of the content block that the event is about, -1 if it does not say.
func (e *MessagesEvent) BlockIndex() int64 {
	if n, ok := peek.Int(e.Index); ok && n >= 0 {
		return n
	}
	return -1
}
