package wire

import (
	"testing"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

// steady are the events that make up nearly all of a stream, some with a running usage.
var steady = map[string]struct {
	wire Name
	ev   sse.Event
}{
	"chat":           {Chat, sse.Event{Data: []byte(chatText)}},
	"chat usage":     {Chat, sse.Event{Data: []byte(`{"id":"c1","model":"m1","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}],"usage":{"prompt_tokens":65,"completion_tokens":1,"total_tokens":66,"cost":0.25,"prompt_tokens_details":{"cached_tokens":5}}}`)}},
	"responses":      {Responses, sse.Event{Name: []byte("response.output_text.delta"), Data: []byte(textDelta)}},
	"responses bare": {Responses, sse.Event{Data: []byte(textDelta)}},
	"messages":       {Messages, sse.Event{Name: []byte("content_block_delta"), Data: []byte(blockDelta)}},
	"messages bare":  {Messages, sse.Event{Data: []byte(blockDelta)}},
	"gemini":         {Gemini, sse.Event{Data: []byte(`{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":5},"modelVersion":"g","responseId":"i"}`)}},
}

func TestEventsDoNotAllocate(t *testing.T) {
	for name, c := range steady {
		w, f := ByName(c.wire), &Facts{}
		w.Event(&c.ev, f)
		if n := testing.AllocsPerRun(100, func() { w.Event(&c.ev, f) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		if !f.Output {
			t.Errorf("%s: no output", name)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	for name, c := range steady {
		b.Run(name, func(b *testing.B) {
			w, f := ByName(c.wire), &Facts{}
			b.SetBytes(int64(len(c.ev.Data)))
			b.ReportAllocs()
			for b.Loop() {
				w.Event(&c.ev, f)
			}
		})
	}
}

// seeds are texts in which every reader finds something.
var seeds = []string{
	chatRole, chatText, chatStop, chatUsage, created, textDelta, blockDelta, stop,
	`{"choices":[{"delta":{},"finish_reason":"error","usage":{}}],"x_groq":{"usage":{"prompt_tokens":1}},"error":[{"message":{"msg":"m"}}]}`,
	`{"type":"response.completed","response":{"status":"incomplete","incomplete_details":{"reason":"r"},"error":"e","usage":{"input_tokens_details":{"cached_tokens":9}}}}`,
	`{"type":"message_start","message":{"usage":{"cache_creation":{"ephemeral_5m_input_tokens":1}}}}`,
	`{"type":"message_delta","delta":{"stop_reason":"refusal"},"usage":{"output_tokens":1}}`,
	`{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":9},"promptFeedback":{"blockReason":"X"}}`,
	`[{"error":{"code":429,"status":"S","metadata":{"error_type":"t"}}}]`, `{"detail":[{"msg":"m"}]}`, `x"usage" : {"a":"}"}`, `"usage":{`, `{"error":"x"`, ``,
}

// FuzzReaders gives anything to all readers: none may panic or contradict itself.
func FuzzReaders(f *testing.F) {
	for _, s := range seeds {
		f.Add("", s, false)
		f.Add("response.completed", s, true)
		f.Add("message_delta", s, true)
	}
	f.Fuzz(func(t *testing.T, name, text string, cut bool) {
		for _, w := range All {
			facts := &Facts{}
			for range 2 {
				c := w.Event(&sse.Event{Name: []byte(name), Data: []byte(text), Cut: cut}, facts)
				sound(t, c, facts)
			}
			for _, op := range []Op{Generate, CountTokens} {
				facts.Reset()
				sound(t, w.Body([]byte(text), op, facts), facts)
			}
			if e := w.ErrorOf([]byte(text)); len(e.Message) > maxMessage {
				t.Errorf("message of %d bytes", len(e.Message))
			}
		}
	})
}

func sound(t *testing.T, c Class, f *Facts) {
	t.Helper()
	if c > Failed || c == Failed && !f.Failed {
		t.Errorf("class %d, failed %v", c, f.Failed)
	}
	for _, n := range []Count{f.Usage.Input, f.Usage.CacheRead, f.Usage.CacheWrite, f.Usage.Output, f.Usage.Reasoning, f.Usage.TotalInput()} {
		if n.N < 0 || !n.Known && n.N > 0 && n != f.Usage.TotalInput() {
			t.Errorf("count %+v", n)
		}
	}
}

// FuzzMatch checks that a path which matches can be told again.
func FuzzMatch(f *testing.F) {
	for _, p := range []string{"/v1/chat/completions", "/v1beta/models/a%2Fb:generateContent", "/models/models/x:streamGenerateContent", "/v1/messages/count_tokens/"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, path string) {
		r, ok := Match(path)
		if !ok {
			return
		}
		again, ok := Match("/" + r.Wire.Version + r.Wire.Path(r.Op, r.Model, r.Stream))
		if !ok || again != r {
			t.Errorf("%+v became %+v", r, again)
		}
	})
}
