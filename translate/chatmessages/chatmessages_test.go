package chatmessages

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// TestArgumentsEnd: the end of a JSON object is found at its last brace and nowhere else, however it is cut and escaped.
func TestArgumentsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOfN(rapid.StringOf(rapid.RuneFrom([]rune("a\"\\{}[] \n\té🌍"))), rapid.SampledFrom([]any{1, "}\"", nil, []any{"]", map[string]any{}}, map[string]any{"x": "\\"}}), 0, 4).Draw(t, "value")
		b, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if rapid.Bool().Draw(t, "spread") {
			text = strings.ReplaceAll(text, ":", " :\n ")
			if !json.Valid([]byte(text)) {
				t.Skip("a colon within a string was spread, too: that is another text")
			}
		}
		var a arguments
		runes := []rune(rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "before") + text)
		for i, r := range runes {
			piece := escapeRune(r, rapid.Bool().Draw(t, "escaped"))
			if a.complete {
				t.Fatalf("%q is taken to end before %q", text, string(runes[i:]))
			}
			if n := a.read(piece); n != len(piece) {
				t.Fatalf("%d of %q are taken in %q", n, piece, text)
			}
		}
		if !a.complete || a.odd || a.filled != (len(value) > 0) {
			t.Fatalf("%q: %+v", text, a)
		}
		if n := a.read([]byte("{}")); n != 0 {
			t.Fatalf("%d bytes behind the end are taken", n)
		}
	})
}

// escapeRune is a rune as it may stand between the quotes of a JSON string.
func escapeRune(r rune, escaped bool) []byte {
	if !escaped {
		return model.Escape(nil, string(r))
	}
	b, _ := json.Marshal(string(r))
	if r < 0x80 {
		const digits = "0123456789abcdef"
		return []byte{'\\', 'u', '0', '0', digits[r>>4], digits[r&15]}
	}
	return model.Inner(b)
}

func TestArgumentsOdd(t *testing.T) {
	for _, text := range []string{`[1]`, `null`, `\"{}\"`, ` 7`} {
		var a arguments
		a.read([]byte(text))
		if !a.odd || a.complete {
			t.Errorf("%s: %+v", text, a)
		}
	}
}

// TestLegal: names become legal, stay if they are, and different ones stay different.
func TestLegal(t *testing.T) {
	ok := regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{chatLimit, messagesLimit}).Draw(t, "limit")
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z_./:-]{0,200}`)).Draw(t, "name")
		got, changed := legal(name, limit)
		if !ok.MatchString(got) || len(got) > limit || changed != (got != name) {
			t.Fatalf("%q became %q", name, got)
		}
		if again, changed := legal(got, limit); changed || again != got {
			t.Fatalf("%q is not legal yet", got)
		}
		key := got + string(rune(limit))
		if was, twice := seen[key]; twice && was != name {
			t.Fatalf("both %q and %q became %q", was, name, got)
		}
		seen[key] = name
	})
}

// TestNamesComeBack: the answer's name is the client's own.
func TestNamesComeBack(t *testing.T) {
	n := names{limit: chatLimit}
	var report model.Report
	for _, name := range []string{"Bash", "my.tool", strings.Repeat("x", 100), "é"} {
		short := model.Text(n.append(nil, model.Quote(nil, name), &report))
		if got := n.original(short); got != name {
			t.Errorf("%q came back as %q", name, got)
		}
	}
	if got := n.original("unheard of"); got != "unheard of" {
		t.Errorf("an unknown name became %q", got)
	}
}

// TestReasonsAreTheirs: no reason is made up that the dialect does not have, and a call is always run.
func TestReasonsAreTheirs(t *testing.T) {
	messagesWords := regexp.MustCompile(`^(end_turn|max_tokens|stop_sequence|tool_use|pause_turn|refusal|model_context_window_exceeded)$`)
	chatWords := regexp.MustCompile(`^(stop|length|tool_calls|content_filter)$`)
	var report model.Report
	for _, tools := range []bool{false, true} {
		for finish := range messagesReasons {
			got := stopReason(finish, tools, false, &report)
			if !messagesWords.MatchString(got) || !tools && got == "tool_use" || tools && got == "end_turn" {
				t.Errorf("%s with calls %v became %s", finish, tools, got)
			}
		}
		for stop := range chatReasons {
			got := finishReason(stop, tools, &report)
			if !chatWords.MatchString(got) || !tools && got == "tool_calls" || tools && got == "stop" && stop != "pause_turn" {
				t.Errorf("%s with calls %v became %s", stop, tools, got)
			}
		}
	}
}

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		failure wire.Failure
		want    int
	}{
		{wire.Failure{Type: "overloaded_error"}, 529},
		{wire.Failure{Type: "rate_limit_error", Status: 503}, 503},
		{wire.Failure{Code: "rate_limit_exceeded"}, 429},
		{wire.Failure{Code: "insufficient_quota"}, 429},
		{wire.Failure{Type: "invalid_api_key"}, 401},
		{wire.Failure{Type: "invalid_request_error"}, 400},
		{wire.Failure{Type: "server_error"}, 500},
		{wire.Failure{Message: "boom"}, 500},
	} {
		if got := statusOf(c.failure); got != c.want {
			t.Errorf("%+v stands for %d, want %d", c.failure, got, c.want)
		}
	}
}

// TestUsage: the dialects differ in whether the prompt has cached tokens in it.
func TestUsage(t *testing.T) {
	count := func(n int64) wire.Count { return wire.Count{N: n, Known: true} }
	u := wire.Usage{Input: count(1), CacheRead: count(20), CacheWrite: count(300), Output: count(4000), Reasoning: count(5)}
	const messages = `{"input_tokens":1,"cache_creation_input_tokens":300,"cache_read_input_tokens":20,"output_tokens":4000}`
	if got := string(messagesUsage(nil, u)); got != messages {
		t.Errorf("%s, want %s", got, messages)
	}
	const chat = `{"prompt_tokens":321,"completion_tokens":4000,"total_tokens":4321,"prompt_tokens_details":{"cached_tokens":20,` +
		`"cache_write_tokens":300},"completion_tokens_details":{"reasoning_tokens":5}}`
	if got := string(chatUsage(nil, u)); got != chat {
		t.Errorf("%s, want %s", got, chat)
	}
}
