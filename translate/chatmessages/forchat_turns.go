package chatmessages

import (
	"fmt"
	"strconv"

	"github.com/signalbox-llm/signalbox/translate/model"
)

// messagesTurns writes system and messages of a Messages request.
type messagesTurns struct {
	b []byte
	t *ForChat

	renamed map[string]string // Ids that had to change as an earlier turn had them too.
	used    map[string]int
	calls   []string          // Ids of the last turn's calls, as they are now.
	results map[string]bool   // Those that the turn has results of.
	named   map[string]string // Ids of the calls of old, which have none, by the tool's name.

	last     span
	answered bool // The last turn has results of tools.
}

// span is where the last text stands: from start to end between its quotes, in a block that ends at block.
type span struct{ start, end, block int }

// operatorNote precedes what the operator says in the middle of a conversation, where the Messages dialect knows only user
// and assistant. It stays where it is: moving it would change the beginning, which is what prompt caches go by.
const operatorNote = "Operator note: "

// What is said of a call that the client has no result of, and of a result whose call is not in the turn before.
const (
	noResult  = "(no result)"
	strayNote = "Result of an earlier tool call: "
)

// nothingSaid is what the user says where the dialect demands a turn of the user and the client has none.
const nothingSaid = "(empty)"

// all writes the whole conversation.
func (w *messagesTurns) all(ms []model.ChatMessage) error {
	if len(ms) == 0 {
		return errEmpty
	}
	for i := range ms {
		if side(ms[i].Role) == nobody {
			return fmt.Errorf("messages[%d] has no role that is known", i)
		}
		w.dropped(&ms[i])
	}
	n := 0
	for n < len(ms) && side(ms[n].Role) == operator {
		n++
	}
	w.system(ms[:n])
	w.b = append(model.Key(w.b, "messages"), '[')
	w.turns(ms[n:])
	if w.b[len(w.b)-1] == '[' {
		w.silence()
	}
	w.b = append(w.b, ']')
	return nil
}

type who uint8

const (
	nobody who = iota
	operator
	user
	assistant
)

// side tells whose turn a message belongs to.
func side(role []byte) who {
	switch {
	case model.Is(role, "user"), model.Is(role, "tool"), model.Is(role, "function"):
		return user
	case model.Is(role, "assistant"):
		return assistant
	case model.Is(role, "system"), model.Is(role, "developer"):
		return operator
	}
	return nobody
}

// dropped reports what a message loses.
func (w *messagesTurns) dropped(m *model.ChatMessage) {
	if m.ReasoningContent != nil || m.Reasoning != nil || m.ReasoningDetails != nil { // No server would know its signature.
		w.t.report.Drop("messages.reasoning_content")
	}
	if m.Name != nil && !model.Is(m.Role, "tool") && !model.Is(m.Role, "function") {
		w.t.report.Drop("messages.name")
	}
	w.t.report.DropExtra("messages.", m.Extra)
}

// system writes the operator's leading messages.
func (w *messagesTurns) system(ms []model.ChatMessage) {
	start := len(w.b)
	w.b = append(model.Key(w.b, "system"), '[')
	empty := len(w.b)
	for i := range ms {
		w.parts(&ms[i], "")
	}
	if len(w.b) == empty {
		w.b = w.b[:start]
		return
	}
	w.b = append(w.b, ']')
}

// turns writes the rest. Neighbours on one side are one turn, and those that say nothing are none.
func (w *messagesTurns) turns(ms []model.ChatMessage) {
	first := true
	for i := 0; i < len(ms); {
		start := len(w.b)
		at := turnSide(ms[i].Role)
		if at == assistant && first {
			w.silence()
		}
		if w.b = model.Elem(w.b); at == assistant {
			w.b = append(w.b, `{"role":"assistant","content":[`...)
		} else {
			w.b = append(w.b, `{"role":"user","content":[`...)
		}
		empty := len(w.b)
		i = w.turn(ms, i, at)
		if len(w.b) == empty {
			w.b = w.b[:start]
			continue
		}
		w.b = append(w.b, `]}`...)
		first = false
	}
}

// turnSide is the side that a message in the middle of a conversation stands on.
func turnSide(role []byte) who {
	if side(role) == assistant {
		return assistant
	}
	return user
}

// turn writes the blocks of the turn that begins with message i and returns where the next one begins. Messages that say
// nothing do not part two turns of one side.
func (w *messagesTurns) turn(ms []model.ChatMessage, i int, at who) int {
	n := i
	for n < len(ms) && (turnSide(ms[n].Role) == at || !says(&ms[n])) {
		n++
	}
	turn := ms[i:n]
	if at == assistant {
		clear(w.renamed)
		w.calls, w.answered = w.calls[:0], false
		for j := range turn {
			if side(turn[j].Role) == assistant {
				w.answer(&turn[j])
			}
		}
		if n == len(ms) {
			w.trim()
		}
		return n
	}
	w.replies(turn)
	for j := range turn {
		switch m := &turn[j]; {
		case side(m.Role) == operator:
			w.parts(m, operatorNote)
		case model.Is(m.Role, "user"):
			w.parts(m, "")
		case side(m.Role) == user:
			if _, ok := w.callOf(m); !ok {
				w.parts(m, strayNote)
			}
		}
	}
	return n
}

// replies writes the results of the last turn's calls. They come first, all in the turn right behind the calls, each call has
// one, and there are no others: anything else is refused, and so would be every turn that follows.
func (w *messagesTurns) replies(turn []model.ChatMessage) {
	w.results, w.answered = map[string]bool{}, len(w.calls) > 0
	for j := range turn {
		if side(turn[j].Role) != user || model.Is(turn[j].Role, "user") {
			continue
		}
		if id, ok := w.callOf(&turn[j]); ok {
			w.result(&turn[j], id)
		} else {
			w.t.report.Change("messages.tool_call_id")
		}
	}
	for _, id := range w.calls {
		if !w.results[id] {
			w.t.report.Change("messages.tool_calls")
			w.b = append(append(model.Elem(w.b), `{"type":"tool_result","tool_use_id":`...), id...)
			w.b = append(w.b, `,"content":"`+noResult+`","is_error":true}`...)
		}
	}
	w.calls = w.calls[:0]
}

// says reports whether there is anything in a message.
func says(m *model.ChatMessage) bool {
	if len(m.ToolCalls) > 0 || m.FunctionCall != nil || side(m.Role) == user && !model.Is(m.Role, "user") {
		return true
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; !model.Blank(p.Text) || !model.Blank(p.Refusal) || p.ImageURL != nil || p.Source != nil {
			return true
		}
	}
	return !model.Blank(m.Refusal)
}

// silence writes a turn of the user that says nothing.
func (w *messagesTurns) silence() {
	w.t.report.Change("messages")
	w.b = append(model.Elem(w.b), `{"role":"user","content":[{"type":"text","text":"`+nothingSaid+`"}]}`...)
}

// trim cuts white space off the end of an answer that the model shall go on with, as the Messages dialect refuses it.
func (w *messagesTurns) trim() {
	if w.last.block != len(w.b) {
		return // The turn ends in a call.
	}
	inner := w.b[w.last.start:w.last.end]
	if trimmed := model.TrimRight(inner); len(trimmed) < len(inner) {
		w.t.report.Change("messages.content")
		w.b = append(w.b[:w.last.start+len(trimmed)], w.b[w.last.end:]...)
	}
}

// answer writes the blocks of an assistant's message.
func (w *messagesTurns) answer(m *model.ChatMessage) {
	w.parts(m, "")
	if !model.Blank(m.Refusal) {
		w.text(m.Refusal, "", nil)
	}
	for i := range m.ToolCalls {
		w.call(&m.ToolCalls[i])
	}
	if c := m.Call(); c != nil {
		if w.named == nil {
			w.named = map[string]string{}
		}
		id := `"call_` + strconv.Itoa(len(w.named)+1) + `"`
		w.named[model.Text(c.Name)] = id
		c.ID = []byte(id)
		w.call(c)
	}
}

// call writes a tool_use block.
func (w *messagesTurns) call(c *model.ToolCall) {
	if c.Name == nil {
		w.t.report.Drop("messages.tool_calls." + model.Text(c.Type))
		return
	}
	id := w.newID(c.ID)
	if id == nil {
		w.t.report.Change("messages.tool_calls")
		return
	}
	w.b = append(append(model.Elem(w.b), `{"type":"tool_use","id":`...), id...)
	w.b = w.t.tools.append(append(w.b, `,"name":`...), c.Name, &w.t.report)
	w.b = appendInput(append(w.b, `,"input":`...), c.Arguments, &w.t.report)
	w.b = append(w.b, '}')
}

// newID is the legal id of a call; nil if its turn has that call already. Servers that count calls anew in each turn give
// the same id again, which the Messages dialect refuses.
func (w *messagesTurns) newID(raw []byte) []byte {
	id := string(appendID(nil, raw, &w.t.report))
	if w.renamed == nil {
		w.renamed, w.used = map[string]string{}, map[string]int{}
	}
	if _, twice := w.renamed[id]; twice {
		return nil
	}
	now := id
	if n := w.used[id]; n > 0 {
		w.t.report.Change("tool_calls.id")
		now = string(appendID(nil, model.Quote(nil, model.Text([]byte(id))+"#"+strconv.Itoa(n)), &w.t.report))
	}
	w.used[id]++
	w.renamed[id] = now
	w.calls = append(w.calls, now)
	return []byte(now)
}

// callOf is the id, as it is now, of the call that a message has the result of; false if it is not in the turn before.
func (w *messagesTurns) callOf(m *model.ChatMessage) (id string, ok bool) {
	raw := m.ToolCallID
	if raw == nil {
		raw = []byte(w.named[model.Text(m.Name)])
	}
	id, ok = w.renamed[string(appendID(nil, raw, &w.t.report))]
	return id, ok
}

// result writes a tool_result block.
func (w *messagesTurns) result(m *model.ChatMessage, id string) {
	if w.results[id] {
		w.t.report.Change("messages.tool_call_id")
		return
	}
	w.results[id] = true
	w.b = append(append(model.Elem(w.b), `{"type":"tool_result","tool_use_id":`...), id...)
	start := len(w.b)
	w.b = append(w.b, `,"content":[`...)
	empty := len(w.b)
	cache := m.CacheControl
	m.CacheControl = nil // It belongs to the block, not to the last of its parts.
	w.parts(m, "")
	if len(w.b) == empty {
		w.b = w.b[:start]
	} else {
		w.b = append(w.b, ']')
	}
	w.b = model.Field(w.b, "cache_control", cache)
	w.b = append(w.b, '}')
}
