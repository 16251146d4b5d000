package chatmessages

import (
	"bytes"
	"fmt"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// chatTurns writes the messages of a chat completion request.
type chatTurns struct {
	b      []byte
	t      *ForMessages
	called bool             // The last turn called tools: their results have to follow at once.
	held   []*model.Message // System messages that stood before those results.
}

// Between texts that become one, as they stand in a JSON string. Texts of one answer belong together; those that a user or an
// operator put side by side do not.
const (
	apart    = `\n\n`
	lines    = `\n`
	together = ""
)

// billing begins a system block of Claude Code that is meant for Anthropic's books. It differs from one conversation to the
// next, so that no prompt cache would hit behind it.
var billing = []byte("x-anthropic-billing-header:")

// system writes the operator's text that precedes all.
func (w *chatTurns) system(blocks []model.Block) {
	if len(blocks) > 0 && bytes.HasPrefix(model.Inner(blocks[0].Text), billing) {
		w.t.report.Drop("system.x-anthropic-billing-header")
		blocks = blocks[1:]
	}
	w.operator(blocks, "system.")
}

// operator writes a system message, if it says anything.
func (w *chatTurns) operator(blocks []model.Block, path string) {
	start := len(w.b)
	w.b = append(model.Elem(w.b), `{"role":"system","content":"`...)
	empty := len(w.b)
	for i := range blocks {
		w.text(&blocks[i], empty, apart, path)
	}
	if len(w.b) == empty {
		w.b = w.b[:start]
		return
	}
	w.b = append(w.b, `"}`...)
}

// all writes the history. Neighbours of one role are one turn, as the Messages dialect sees them too.
func (w *chatTurns) all(ms []model.Message) error {
	if len(ms) == 0 {
		return errEmpty
	}
	for i := 0; i < len(ms); {
		n := i + 1
		switch role := ms[i].Role; {
		case model.Is(role, "user"), model.Is(role, "assistant"):
			for n < len(ms) && bytes.Equal(ms[n].Role, role) {
				n++
			}
			if model.Is(role, "user") {
				w.user(ms[i:n])
			} else {
				w.assistant(ms[i:n])
			}
		case model.Is(role, "system"), model.Is(role, "developer"):
			if w.called {
				w.held = append(w.held, &ms[i])
			} else {
				w.operator(ms[i].Blocks, "messages.content.")
			}
		default:
			return fmt.Errorf("messages[%d] has no role that is known", i)
		}
		for ; i < n; i++ {
			w.t.report.DropExtra("messages.", ms[i].Extra)
		}
	}
	w.release()
	if w.b[len(w.b)-1] == '[' { // Let the upstream say what it thinks of that.
		w.b = append(w.b, `{"role":"user","content":""}`...)
	}
	return nil
}

// release writes the system messages that were held back.
func (w *chatTurns) release() {
	w.called = false
	for _, m := range w.held {
		w.operator(m.Blocks, "messages.content.")
	}
	w.held = w.held[:0]
}

// user writes the results of tools, which strict servers want right behind the calls, then everything else as one message.
func (w *chatTurns) user(ms []model.Message) {
	images := false
	for i := range ms {
		for j := range ms[i].Blocks {
			b := &ms[i].Blocks[j]
			if model.Is(b.Type, "tool_result") {
				images = w.result(b) || images
			}
			images = images || model.Is(b.Type, "image")
		}
	}
	w.release()
	start := len(w.b)
	w.b = append(model.Elem(w.b), `{"role":"user","content":`...)
	open, end := `"`, `"}`
	if images {
		open, end = `[`, `]}`
	}
	w.b = append(w.b, open...)
	empty := len(w.b)
	for i := range ms {
		for j := range ms[i].Blocks {
			w.userBlock(&ms[i].Blocks[j], empty, images)
		}
	}
	if len(w.b) == empty {
		w.b = w.b[:start]
		return
	}
	w.b = append(w.b, end...)
}

// userBlock writes a block into the one text that the message has, or into the list that images make necessary.
func (w *chatTurns) userBlock(b *model.Block, empty int, list bool) {
	switch {
	case model.Is(b.Type, "image"):
		w.image(b)
	case model.Is(b.Type, "tool_result"):
		for i := range b.Blocks {
			if model.Is(b.Blocks[i].Type, "image") {
				w.image(&b.Blocks[i])
			}
		}
	case !list:
		w.text(b, empty, apart, "messages.content.")
	default:
		start := len(w.b)
		w.b = append(model.Elem(w.b), `{"type":"text","text":"`...)
		n := len(w.b)
		w.text(b, n, together, "messages.content.")
		if len(w.b) == n {
			w.b = w.b[:start]
			return
		}
		w.b = append(w.b, `"}`...)
	}
}

// text appends what a block says to the JSON string that is being written; empty is where that began.
func (w *chatTurns) text(b *model.Block, empty int, between, path string) {
	text := model.Inner(b.Text)
	switch {
	case model.Is(b.Type, "text"):
	case model.Is(b.Type, "document"):
		if s := model.ReadSource(b.Source); model.Is(s.Type, "text") {
			text = model.Inner(s.Data)
			break
		}
		fallthrough
	default:
		w.t.report.Drop(path + model.Text(b.Type))
		return
	}
	if b.CacheControl != nil {
		w.t.report.Drop(path + "cache_control")
	}
	w.t.report.DropExtra(path, b.Extra)
	if len(text) == 0 {
		return
	}
	if len(w.b) > empty {
		w.b = append(w.b, between...)
	}
	w.b = append(w.b, text...)
}

// image writes an image part.
func (w *chatTurns) image(b *model.Block) {
	s := model.ReadSource(b.Source)
	url := model.Inner(s.URL)
	if model.Is(s.Type, "base64") {
		url = model.Inner(s.Data)
	}
	if len(url) == 0 {
		w.t.report.Drop("messages.content.image")
		return
	}
	if b.CacheControl != nil {
		w.t.report.Drop("messages.content.cache_control")
	}
	w.b = append(model.Elem(w.b), `{"type":"image_url","image_url":{"url":"`...)
	if model.Is(s.Type, "base64") {
		w.b = append(w.b, "data:"...)
		w.b = append(w.b, model.Inner(s.MediaType)...)
		w.b = append(w.b, ";base64,"...)
	}
	w.b = append(w.b, url...)
	w.b = append(w.b, `"}}`...)
}

// failedMark tells the model that a tool failed, which chat completions cannot say otherwise.
const failedMark = "Error: "

// result writes a tool message; true if images are left, for which it has no place.
func (w *chatTurns) result(b *model.Block) (images bool) {
	w.b = append(model.Elem(w.b), `{"role":"tool","tool_call_id":`...)
	w.b = appendID(w.b, b.ToolUseID, &w.t.report)
	w.b = append(w.b, `,"content":"`...)
	empty := len(w.b)
	if string(b.IsError) == "true" && !saysError(b.Blocks) {
		w.b = append(w.b, failedMark...)
		empty = len(w.b)
	}
	if b.CacheControl != nil {
		w.t.report.Drop("messages.content.cache_control")
	}
	w.t.report.DropExtra("messages.content.", b.Extra)
	for i := range b.Blocks {
		if model.Is(b.Blocks[i].Type, "image") {
			images = true
			continue
		}
		w.text(&b.Blocks[i], empty, lines, "messages.content.")
	}
	if images {
		w.t.report.Change("messages.content.image")
		if len(w.b) == empty {
			w.b = append(w.b, "The image follows."...)
		}
	}
	w.b = append(w.b, `"}`...)
	return images
}

// saysError reports whether a result's own text begins with the word.
func saysError(blocks []model.Block) bool {
	if len(blocks) == 0 {
		return false
	}
	text := bytes.TrimLeft(model.Inner(blocks[0].Text), "<[(* ")
	for _, word := range []string{"error", "tool_use_error"} {
		if len(text) >= len(word) && bytes.EqualFold(text[:len(word)], []byte(word)) {
			return true
		}
	}
	return false
}

// assistant writes one message of the model: its text, then its calls.
func (w *chatTurns) assistant(ms []model.Message) {
	w.release() // What was held for results that never came.
	start := len(w.b)
	w.b = append(model.Elem(w.b), `{"role":"assistant","content":"`...)
	content := len(w.b)
	thoughts := 0
	for i := range ms {
		for j := range ms[i].Blocks {
			switch b := &ms[i].Blocks[j]; {
			case model.Is(b.Type, "tool_use"):
				w.called = true
			case model.Is(b.Type, "thinking") && w.t.opts.ReplayReasoning:
				thoughts += len(model.Inner(b.Thinking))
			case model.Is(b.Type, "thinking"), model.Is(b.Type, "redacted_thinking"):
				w.t.report.Drop("messages.content." + model.Text(b.Type))
			default:
				w.text(b, content, together, "messages.content.")
			}
		}
	}
	if len(w.b) == content && !w.called && thoughts == 0 {
		w.b = w.b[:start]
		return
	}
	if len(w.b) == content && w.called {
		w.b = append(w.b[:content-1], "null"...)
	} else {
		w.b = append(w.b, '"')
	}
	if thoughts > 0 {
		w.thoughts(ms)
	}
	if w.called {
		w.calls(ms)
	}
	w.b = append(w.b, '}')
}

// thoughts writes the thinking of a turn.
func (w *chatTurns) thoughts(ms []model.Message) {
	w.b = append(model.Key(w.b, "reasoning_content"), '"')
	for i := range ms {
		for j := range ms[i].Blocks {
			if b := &ms[i].Blocks[j]; model.Is(b.Type, "thinking") {
				w.b = append(w.b, model.Inner(b.Thinking)...)
			}
		}
	}
	w.b = append(w.b, '"')
}

// calls writes the calls of a turn, their arguments byte for byte.
func (w *chatTurns) calls(ms []model.Message) {
	w.b = append(model.Key(w.b, "tool_calls"), '[')
	for i := range ms {
		for j := range ms[i].Blocks {
			b := &ms[i].Blocks[j]
			if !model.Is(b.Type, "tool_use") {
				continue
			}
			if b.CacheControl != nil {
				w.t.report.Drop("messages.content.cache_control")
			}
			w.t.report.DropExtra("messages.content.", b.Extra)
			w.b = append(model.Elem(w.b), `{"id":`...)
			w.b = appendID(w.b, b.ID, &w.t.report)
			w.b = append(w.b, `,"type":"function","function":{"name":`...)
			w.b = w.t.tools.append(w.b, b.Name, &w.t.report)
			w.b = append(model.Key(w.b, "arguments"), '"')
			if peek.Kind(b.Input) == 'o' {
				w.b = model.Escape(w.b, b.Input)
			} else {
				w.b = append(w.b, "{}"...)
			}
			w.b = append(w.b, `"}}`...)
		}
	}
	w.b = append(w.b, ']')
}
