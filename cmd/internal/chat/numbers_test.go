package chat

import (
	"bytes"
	"testing"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

func TestCosts(t *testing.T) {
	w := lab(t)
	w.work.Script(routertest.Good("hello", usage))
	s := w.chat(nil)
	if err := s.Once(t.Context(), "hello"); err != nil {
		t.Fatal(err)
	}
	shows(t, s.notes.String(), " · ~$0.000515 · call") // 12 at 1, 30 at 0.1, 50 at 10

	w.work.Script(routertest.Body(200, "text/event-stream", `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":0.25}}`+"\n\ndata: [DONE]\n\n"))
	if err := s.Once(t.Context(), "hello"); err != nil {
		t.Fatal(err)
	}
	shows(t, s.notes.String(), " · $0.250000 · call")
}

func TestWhatNobodyToldIsLeftOut(t *testing.T) {
	w := lab(t)
	w.home.Script(routertest.Body(200, "text/event-stream", `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":9,"completion_tokens":3}}`+"\n\ndata: [DONE]\n\n"))
	s := w.chat(func(o *Options) { o.Models = []string{"gpt"} })
	if err := s.Once(t.Context(), "hello"); err != nil {
		t.Fatal(err)
	}
	shows(t, s.notes.String(), " · 9 in 3 out · call")
	raw, err := s.asJSON()
	if err != nil || bytes.Contains(raw, []byte("cache_read")) || bytes.Contains(raw, []byte("reasoning")) {
		t.Errorf("%v\n%s", err, raw)
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		first, all float64
		out        *int64
		want       string
	}{
		{100, 1100, new(int64(50)), "50.0"},
		{100, 150, new(int64(50)), "1000.0"},
		{100, 149, new(int64(50)), ""}, // it came at once
		{0, 1100, new(int64(50)), ""},
		{100, 1100, new(int64(0)), ""},
		{100, 1100, nil, ""},
	} {
		a := &Answer{TTFTMS: c.first, DurationMS: c.all, Usage: &Tokens{Output: c.out}}
		if got := a.rate(); got != c.want {
			t.Errorf("%v of %v ms: %q, want %q", c.first, c.all, got, c.want)
		}
	}
}
