package translate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// TestAnyEvents: the grammar holds for any events of the pools in any order.
func TestAnyEvents(t *testing.T) {
	for _, p := range Pairs() {
		pool := messagesPool
		if p.Client == wire.Messages {
			pool = chatPool
		}
		t.Run(string(p.Client), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				stream := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pool), 0, 40).Draw(t, "events"), "")
				tr := p.New(Options{Alias: "m"})
				out := run(tr, p.Upstream, &wire.Facts{}, stream, max(1, len(stream)), rapid.Bool().Draw(t, "clean"))
				if _, err := read(p.Client, out); err != nil {
					t.Fatalf("%v\n%s\nfrom\n%s", err, out, stream)
				}
			})
		})
	}
}

// anyText draws texts with what JSON escapes and what a chunk may cut.
var anyText = rapid.StringOfN(rapid.RuneFrom([]rune("ab {}[]:,\"\\\n\t/<&é修🌍")), 1, 20, -1)

// drawInput draws a call's arguments.
func drawInput(t *rapid.T) string {
	members := map[string]any{}
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		members[anyText.Draw(t, "key")] = rapid.OneOf(anyText.AsAny(), rapid.Int().AsAny(), rapid.Just[any]([]any{"}", nil, map[string]any{}})).Draw(t, "value")
	}
	b, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// drawAnswer draws the blocks of an answer: no two texts of a kind side by side, which would be one.
func drawAnswer(t *rapid.T) (blocks []said) {
	for range rapid.IntRange(1, 6).Draw(t, "blocks") {
		b := said{Kind: rapid.SampledFrom([]string{"text", "thinking", "tool_use"}).Draw(t, "kind")}
		switch {
		case b.Kind == "tool_use":
			n := strconv.Itoa(len(blocks))
			b.ID, b.Name, b.Text = "call_"+n, "tool-"+n, drawInput(t)
		case len(blocks) > 0 && blocks[len(blocks)-1].Kind == b.Kind:
			continue
		default:
			b.Text = anyText.Draw(t, "text")
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// pieces cuts a text into pieces at any rune.
func pieces(t *rapid.T, text string) (list []string) {
	runes := []rune(text)
	for len(runes) > 0 {
		n := rapid.IntRange(1, len(runes)).Draw(t, "piece")
		list, runes = append(list, string(runes[:n])), runes[n:]
	}
	return list
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n")
}

// TestChatAnswerKept: whatever blocks a chat server streams, in whatever pieces and with the arguments of neighbouring calls
// in turns, a Messages client gets them in their order and whole.
func TestChatAnswerKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := drawAnswer(t)
		var deltas []string
		calls := 0
		for i := 0; i < len(blocks); {
			if b := blocks[i]; b.Kind != "tool_use" {
				member := map[string]string{"text": "content", "thinking": "reasoning_content"}[b.Kind]
				for _, piece := range pieces(t, b.Text) {
					deltas = append(deltas, fmt.Sprintf(`{%q:%s}`, member, quote(piece)))
				}
				i++
				continue
			}
			var queues [][]string
			for ; i < len(blocks) && blocks[i].Kind == "tool_use"; i++ {
				b := blocks[i]
				queue := []string{fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%q,"type":"function","function":{"name":%q,"arguments":""}}]}`, calls, b.ID, b.Name)}
				for _, piece := range pieces(t, b.Text) {
					queue = append(queue, fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%s}}]}`, calls, quote(piece)))
				}
				queues, calls = append(queues, queue), calls+1
			}
			deltas = append(deltas, merge(t, queues)...)
		}
		var stream strings.Builder
		for _, d := range deltas {
			stream.WriteString(`data: {"id":"c","choices":[{"index":0,"delta":` + d + "}]}\n\n")
		}
		stream.WriteString("data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		compare(t, wire.Messages, wire.Chat, stream.String(), blocks)
	})
}

// merge puts queues into one list in which each keeps its order, and begins in its turn.
func merge(t *rapid.T, queues [][]string) (list []string) {
	begun := 0
	for begun < len(queues) || slicesLeft(queues) {
		n := rapid.IntRange(0, min(begun, len(queues)-1)).Draw(t, "queue")
		if len(queues[n]) == 0 {
			n = begun
			for i := range queues {
				if len(queues[i]) > 0 {
					n = min(n, i)
					break
				}
			}
		}
		if n == begun {
			begun++
		}
		list, queues[n] = append(list, queues[n][0]), queues[n][1:]
	}
	return list
}

func slicesLeft(queues [][]string) bool {
	for _, q := range queues {
		if len(q) > 0 {
			return true
		}
	}
	return false
}

// TestMessagesAnswerKept: a chat client gets all texts, thoughts and calls of a Messages stream, each kind in its order.
func TestMessagesAnswerKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks := drawAnswer(t)
		var stream strings.Builder
		event := func(format string, args ...any) { fmt.Fprintf(&stream, "data: "+format+"\n\n", args...) }
		event(`{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1,"output_tokens":1}}}`)
		var text, thought string
		var calls, want []said
		for i, b := range blocks {
			delta := `{"type":"text_delta","text":%s}`
			switch b.Kind {
			case "text":
				event(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)
				text += b.Text
			case "thinking":
				event(`{"type":"content_block_start","index":%d,"content_block":{"type":"thinking","thinking":""}}`, i)
				delta = `{"type":"thinking_delta","thinking":%s}`
				thought += b.Text
			default:
				event(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, i, b.ID, b.Name)
				delta = `{"type":"input_json_delta","partial_json":%s}`
				calls = append(calls, b)
			}
			for _, piece := range pieces(t, b.Text) {
				event(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, fmt.Sprintf(delta, quote(piece)))
			}
			event(`{"type":"content_block_stop","index":%d}`, i)
		}
		event(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`)
		event(`{"type":"message_stop"}`)
		if thought != "" {
			want = append(want, said{Kind: "thinking", Text: thought})
		}
		if text != "" {
			want = append(want, said{Kind: "text", Text: text})
		}
		compare(t, wire.Chat, wire.Messages, stream.String(), append(want, calls...))
	})
}

func compare(t *rapid.T, client, upstream wire.Name, stream string, want []said) {
	tr := Lookup(client, upstream).New(Options{Alias: "alias"})
	out := run(tr, upstream, &wire.Facts{}, stream, rapid.IntRange(1, 200).Draw(t, "chunk"), true)
	got, err := read(client, out)
	if err != nil {
		t.Fatalf("%v\n%s\nfrom\n%s", err, out, stream)
	}
	for i := range got.Blocks {
		if b := &got.Blocks[i]; b.Kind == "tool_use" && b.Text == "" {
			b.Text = "{}"
		}
	}
	if got.Failed != "" || got.Model != "alias" {
		t.Fatalf("failed %q, model %q", got.Failed, got.Model)
	}
	if d := cmp.Diff(want, got.Blocks); d != "" {
		t.Fatalf("-want +got:\n%s\n%s\nfrom\n%s", d, out, stream)
	}
}
