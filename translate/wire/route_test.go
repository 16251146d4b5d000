package wire

import (
	"net/url"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		path, model string
		wire        Name
		op          Op
		stream      bool
	}{
		{path: "/v1/chat/completions", wire: Chat},
		{path: "/chat/completions", wire: Chat},
		{path: "/api/v1/chat/completions/", wire: Chat},
		{path: "/any/where/responses", wire: Responses},
		{path: "/v1/messages", wire: Messages},
		{path: "/v1/messages/count_tokens", wire: Messages, op: CountTokens},
		{path: "/v1beta/models/gemini-2.5-pro:generateContent", wire: Gemini, model: "gemini-2.5-pro"},
		{path: "/v1/models/gemini-2.5-pro:streamGenerateContent", wire: Gemini, model: "gemini-2.5-pro", stream: true},
		{path: "/v1beta/models/org/a%2Fb%20c:free%3AgenerateContent", wire: Gemini, model: "org/a/b c:free"},
		// The API begins behind the version segment, or at the start, and what follows is the model.
		{path: "/proxy/models/x/v1beta/models/m:generateContent", wire: Gemini, model: "m"},
		{path: "/v1beta/models/tuned/models/m:generateContent", wire: Gemini, model: "tuned/models/m"},
		{path: "/models/tuned/models/m:generateContent", wire: Gemini, model: "tuned/models/m"},
		{path: "/v1/projects/p/publishers/google/models/m:generateContent", wire: Gemini, model: "m"},
		{path: "/proxy/models/m/models/n:generateContent", wire: Gemini, model: "m/models/n"},
	} {
		r, ok := Match(c.path)
		if !ok || r.Wire.Name != c.wire || r.Op != c.op || r.Model != c.model || r.Stream != c.stream {
			t.Errorf("%s: %+v %v", c.path, r, ok)
		}
	}
	for _, path := range []string{
		"", "/", "/v1/models", "/v1/models/m", "/v1/completions", "/v1/chat/completions/x", "/v1/responses/r1", "/v1/responses/compact",
		"/v1/messages/batches", "/v1/messages/count_tokens/x", "/v1/xmessages", "/v1/chat/completions//", "/v1beta/models/:generateContent",
		"/v1beta/models/m:embedContent", "/v1beta/models/../../x:generateContent", "/v1beta/models/%2e%2e/x:generateContent", "/v1beta/models/%zz:generateContent",
		"/v1beta/m:generateContent",
	} {
		if r, ok := Match(path); ok {
			t.Errorf("%s: matched %s", path, r.Wire.Name)
		}
	}
}

func TestPathsMatch(t *testing.T) {
	for _, w := range All {
		for _, op := range []Op{Generate, CountTokens} {
			if op == CountTokens && w.Name != Messages {
				continue
			}
			r, ok := Match("/" + w.Version + w.Path(op, "a/b c%3F:x", true))
			if !ok || r.Wire != w || r.Op != op {
				t.Errorf("%s %d: %+v %v", w.Name, op, r, ok)
			}
			if !w.ModelInBody() && (r.Model != "a/b c%3F:x" || !r.Stream) {
				t.Errorf("%s: %+v", w.Name, r)
			}
			if r, ok := Match(w.Template(op)); w.ModelInBody() && (!ok || r.Wire != w || r.Op != op) {
				t.Errorf("template %s", w.Template(op))
			}
		}
		if ByName(w.Name) != w {
			t.Errorf("%s is not found by its name", w.Name)
		}
	}
	if ByName("x") != nil {
		t.Error("x is a dialect")
	}
	if got := ByName(Gemini).Template(Generate); got != "/v1beta/models/{model}" {
		t.Errorf("template %s", got)
	}
}

func TestJoinURL(t *testing.T) {
	for _, c := range []struct {
		wire              Name
		base, query, want string
	}{
		{Chat, "http://h", "", "http://h/v1/chat/completions"},
		{Chat, "http://h/", "", "http://h/v1/chat/completions"},
		{Chat, "http://h/v1", "", "http://h/v1/chat/completions"},
		{Chat, "http://h/v1/", "", "http://h/v1/chat/completions"},
		{Chat, "http://h/api/openai/v1/", "", "http://h/api/openai/v1/chat/completions"},
		{Chat, "http://h/api/paas/v4", "", "http://h/api/paas/v4/chat/completions"},
		{Chat, "http://h/openai", "", "http://h/openai/v1/chat/completions"},
		{Chat, "http://h/v1x", "", "http://h/v1x/v1/chat/completions"},
		{Chat, "http://h/a%2Fb", "", "http://h/a%2Fb/v1/chat/completions"},
		{Messages, "http://h", "beta=true", "http://h/v1/messages?beta=true"},
		{Gemini, "http://h", "alt=json&key=SECRET&prettyPrint=false", "http://h/v1beta/models/m%20n:generateContent?alt=json&prettyPrint=false"},
		{Gemini, "http://h/v1beta", "%6bey=SECRET", "http://h/v1beta/models/m%20n:generateContent"},
		{Gemini, "http://h/v1", "monkey=1&keys=2&&x=%zz;key=3", "http://h/v1/models/m%20n:generateContent?monkey=1&keys=2&&x=%zz;key=3"},
		{Chat, "http://h/v1?api-version=1", "a=b", "http://h/v1/chat/completions?api-version=1&a=b"},
	} {
		base, err := url.Parse(c.base)
		if err != nil {
			t.Fatal(err)
		}
		before := *base
		w := ByName(c.wire)
		if got := w.JoinURL(base, w.Path(Generate, "m n", false), c.query).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.base, got, c.want)
		}
		if *base != before {
			t.Errorf("%s: base changed", c.base)
		}
	}
}

func TestHasEndpoint(t *testing.T) {
	for path, want := range map[string]bool{"": false, "/v1": false, "/v1/chat/completions/": true, "/x/responses": true, "/v1/messages": true, "/models/m:generateContent": true} {
		if HasEndpoint(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func TestWantsStream(t *testing.T) {
	for _, c := range []struct {
		path, body string
		want       bool
	}{
		{"/v1/messages", `{"stream":true}`, true},
		{"/v1/messages", `{"stream":false}`, false},
		{"/v1/messages", `{"stream":"true"}`, false},
		{"/v1/messages/count_tokens", `{"stream":true}`, false},
		{"/v1/chat/completions", `{}`, false},
		{"/v1/models/m:streamGenerateContent", `{}`, true},
		{"/v1/models/m:generateContent", `{"stream":true}`, false},
	} {
		var o peek.Object
		if err := o.Scan([]byte(c.body)); err != nil {
			t.Fatal(err)
		}
		r, _ := Match(c.path)
		if got := r.Wire.WantsStream(&o, r); got != c.want {
			t.Errorf("%s %s: %v", c.path, c.body, got)
		}
	}
}
