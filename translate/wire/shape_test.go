package wire

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

// drawChunk draws a chunk of a chat stream: mostly one like the others, now and then with something to tell.
func drawChunk(t *rapid.T) string {
	odd := rapid.SampledFrom([]string{"none", "none", "delta", "beside", "reason", "choices", "before", "time", "model", "usage", "end", "close", "all"}).Draw(t, "odd")
	pick := func(label, usual string, others ...string) string {
		if odd != label && odd != "all" {
			return usual
		}
		return rapid.SampledFrom(append(others, usual)).Draw(t, label)
	}
	delta := pick("delta", `{"content":"x"}`, `{"content":"a \"quoted\" word\\"}`, `{}`, `{"role":"assistant","content":""}`, `null`, `"x"`, `{"content":"}],\"usage\":{"}`,
		`{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":"}}]}`, `{"content":"open`, `{"a":[}`)
	choice := `{"index":0,"delta":` + delta + pick("beside", "", `,"delta":{"content":"y"}`, `,"usage":{"prompt_tokens":4}`, `,"error":{"code":500}`, `,"text":"z"`) +
		pick("reason", `,"finish_reason":null`, `,"finish_reason":"stop"`, `,"finish_reason" : "length"`, `,"finish\u005freason":"stop"`, `,"finish_reason":"error"`, ``) + `}`
	choices := pick("choices", `[`+choice+`]`, `[]`, `[`+choice+`,`+choice+`]`, `null`)
	return `{` + pick("before", ``, `"id":"c",`, `"usage":{"completion_tokens":7},`, `"object":"error",`) +
		pick("time", `"created":1`, `"created":2`, `"created":{}`, `"created":"x"`) +
		pick("model", `,"model":"m"`, `,"model":"n"`) + `,"choices":` + choices +
		pick("usage", `,"usage":null`, `,"usage":{"prompt_tokens":3,"completion_tokens":2}`, `,"us\u0061ge":{"prompt_tokens":9}`, ``) +
		pick("end", `,"obfuscation":"ab"`, `,"obfuscation":"\u0022c"`, `,"x_groq":{"usage":{"prompt_tokens":5}}`, `,"x_groq":{"error":"e"}`, `,"error":{"message":"no"}`,
			`,"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]`) + pick("close", `}`, ` }`, ``, `} {`)
}

// TestShapeTellsTheSame holds that a chunk which is like another one tells no less than when it is taken apart.
func TestShapeTellsTheSame(t *testing.T) {
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		var fast, slow Facts
		w := ByName(Chat)
		for _, chunk := range rapid.SliceOfN(rapid.Custom(drawChunk), 1, 40).Draw(t, "chunks") {
			ev := sse.Event{Data: []byte(chunk)}
			slow.shape.tries = maxMisses // notes none
			if fast.Output && fast.shape.fits(ev.Data) {
				hits++
			}
			got, want := w.Event(&ev, &fast), w.Event(&ev, &slow)
			if got == Output && want == Preamble && slow.Output { // the same once there was output
				got = want
			}
			if got != want || told(&fast) != told(&slow) || fast.Usage != slow.Usage || fast.Failure != slow.Failure ||
				fast.ID != slow.ID || fast.Model != slow.Model || fast.Events != slow.Events {
				t.Fatalf("class %d, want %d, at %s\n%s %+v\n%s %+v", got, want, chunk, told(&fast), fast.Usage, told(&slow), slow.Usage)
			}
		}
	})
	if hits < 100 {
		t.Errorf("only %d chunks were like another one", hits)
	}
}

func TestShapesThatAreNone(t *testing.T) {
	const usual = `{"id":"c","created":1,"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`
	for name, c := range map[string]struct {
		chunk string
		like  bool
	}{
		"the same":              {usual, true},
		"other words":           {strings.Replace(usual, `"x"`, `"and \" more"`, 1), true},
		"another time":          {strings.Replace(usual, `1,`, `1764,`, 1), true},
		"a call":                {strings.Replace(usual, `"content":"x"`, `"tool_calls":[{"function":{"arguments":"{"}}]`, 1), true},
		"an end":                {strings.Replace(usual, `null`, `"stop"`, 1), false},
		"usage":                 {strings.Replace(usual, `]}`, `],"usage":{}}`, 1), false},
		"usage within":          {strings.Replace(usual, `null`, `null,"usage":{}`, 1), false},
		"another id":            {strings.Replace(usual, `"c"`, `"d"`, 1), false},
		"space":                 {strings.Replace(usual, `:1,`, `: 1,`, 1), false},
		"cut":                   {usual[:len(usual)-1], false},
		"words that do not end": {strings.SplitAfter(usual, `:"x`)[0], false},
		"nothing":               {"", false},
	} {
		var f Facts
		chatEvent(nil, []byte(usual), &f)
		if got := f.shape.fits([]byte(c.chunk)); got != c.like {
			t.Errorf("%s: like the usual one: %v, want %v", name, got, c.like)
		}
	}
}

func TestShapesAreNotNotedForEver(t *testing.T) {
	var f Facts
	for i := range 3 * maxMisses {
		chatEvent(nil, []byte(`{"id":"`+strings.Repeat("x", i)+`","choices":[{"delta":{"content":"x"}}]}`), &f)
	}
	if f.shape.tries != maxMisses {
		t.Errorf("%d shapes noted, want %d", f.shape.tries, maxMisses)
	}
	if f.Reset(); len(f.shape.text) > 0 || f.shape.tries > 0 {
		t.Error("a shape outlives its answer")
	}
}
