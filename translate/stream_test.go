package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// TestStreamIsBounded: an upstream that makes the translation keep too much is told of as an error, whatever the client has
// had so far.
func TestStreamIsBounded(t *testing.T) {
	const start = `{"id":"c","choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`
	waiting := `{"id":"c","choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"` + strings.Repeat(" ", 200<<10) + `"}}]}}]}`
	for name, next := range map[string]func(i int) string{
		"arguments that wait": func(int) string { return waiting },
		"calls without end": func(i int) string {
			return fmt.Sprintf(`{"id":"c","choices":[{"delta":{"tool_calls":[{"index":%d,"id":"x%d","function":{"name":"f"}}]}}]}`, i+1, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := Lookup(wire.Messages, wire.Chat).New(Options{Alias: "m"})
			out := tr.Event(nil, &sse.Event{Data: []byte(start)})
			for i := range 1000 {
				out = tr.Event(out, &sse.Event{Data: []byte(next(i))})
			}
			got, err := read(wire.Messages, tr.End(out, true))
			if err != nil || !strings.Contains(got.Failed, "larger") {
				t.Errorf("failed %q, %v", got.Failed, err)
			}
		})
	}
	t.Run("blocks without end", func(t *testing.T) {
		tr := Lookup(wire.Chat, wire.Messages).New(Options{Alias: "m"})
		var out []byte
		for i := range 1000 {
			out = tr.Event(out, &sse.Event{Data: fmt.Appendf(nil, `{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)})
		}
		got, err := read(wire.Chat, tr.End(out, true))
		if err != nil || !strings.Contains(got.Failed, "larger") {
			t.Errorf("failed %q, %v", got.Failed, err)
		}
	})
}

// TestCutEvent: an event that was too large to keep cannot be translated, and passing over it would falsify the answer.
func TestCutEvent(t *testing.T) {
	for _, p := range Pairs() {
		tr := p.New(Options{Alias: "m"})
		out := tr.Event(nil, &sse.Event{Data: []byte(`..."}}`), Cut: true})
		out = tr.Event(out, &sse.Event{Data: []byte(`{"type":"message_stop"}`)})
		got, err := read(p.Client, tr.End(out, true))
		if err != nil || !strings.Contains(got.Failed, "larger") {
			t.Errorf("%s: failed %q, %v", p.Client, got.Failed, err)
		}
	}
}

// TestDeltasDoNotAllocate: what most of a stream is costs no memory.
func TestDeltasDoNotAllocate(t *testing.T) {
	for client, data := range map[wire.Name]string{
		wire.Messages: `{"id":"c","choices":[{"index":0,"delta":{"content":"words"},"finish_reason":null}]}`,
		wire.Chat:     `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"words"}}`,
	} {
		upstream := wire.Chat
		if client == wire.Chat {
			upstream = wire.Messages
		}
		tr := Lookup(client, upstream).New(Options{Alias: "m"})
		ev := &sse.Event{Data: []byte(data)}
		dst := tr.Event(make([]byte, 0, 4<<10), ev)
		if n := testing.AllocsPerRun(100, func() { dst = tr.Event(dst[:0], ev) }); n > 0 {
			t.Errorf("%s: %v allocations", client, n)
		}
	}
}

// TestNothingAfterTheEnd: an answer that has ended stays ended.
func TestNothingAfterTheEnd(t *testing.T) {
	for _, p := range Pairs() {
		pool := messagesPool
		if p.Client == wire.Messages {
			pool = chatPool
		}
		for _, last := range []string{pool[len(pool)-1], "event: error\ndata: {}\n\n"} {
			tr := p.New(Options{Alias: "m"})
			_ = run(tr, p.Upstream, &wire.Facts{}, pool[0]+last, 1<<10, true)
			if more := run(tr, p.Upstream, &wire.Facts{}, strings.Join(pool, ""), 1<<10, false); len(more) > 0 {
				t.Errorf("%s: %s", p.Client, more)
			}
		}
	}
}
