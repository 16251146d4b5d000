package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// talk is a conversation before it is written in the form of a wire.
type talk struct {
	wire, model   string
	system, first []string
	image         string // in the first message; "" for none
	later         []string
}

func drawTalk(t *rapid.T) talk {
	some := rapid.StringMatching(`[a-zA-Z é€😀"\\\n\t/<]{1,12}`)
	return talk{
		wire:   rapid.SampledFrom(slices.Sorted(maps.Keys(wires))).Draw(t, "wire"),
		model:  rapid.StringMatching(`[a-z0-9-]{1,8}`).Draw(t, "model"),
		system: rapid.SliceOfN(some, 0, 3).Draw(t, "system"),
		first:  rapid.SliceOfN(some, 1, 3).Draw(t, "first"),
		image:  rapid.StringMatching(`([A-Za-z0-9+/]{4,16})?`).Draw(t, "image"),
	}
}

// form is how a client happens to write a conversation this time.
type form struct {
	t       *rapid.T
	billing string // version in the billing block; "" leaves it out
}

func (f form) flip(label string) bool { return rapid.Bool().Draw(f.t, label) }

// write is the body of a talk, with everything drawn that a derived key must not depend on.
func (f form) write(talk talk) []byte {
	system, first := f.content(talk, talk.system, "", talk.wire == "anthropic-messages"), f.content(talk, talk.first, talk.image, false)
	content := "content"
	if talk.wire == "gemini" {
		content = "parts"
	}
	say := func(role string, content any, name string) object { return object{"role": role, name: content} }
	messages := []any{say("user", first, content)}
	for i, s := range talk.later {
		messages = append(messages, say([]string{"assistant", "user"}[i%2], f.content(talk, []string{s}, "", false), content))
	}
	body := object{"model": talk.model, "stream": f.flip("stream"), "max_tokens": 1024, "metadata": object{"n": len(talk.later)}}
	list := "messages"
	switch talk.wire {
	case "anthropic-messages":
		body["system"] = system
	case "openai-responses":
		list = "input"
		if f.flip("instructions") && len(talk.system) > 0 {
			body["instructions"] = strings.Join(talk.system, "")
		} else {
			messages = slices.Insert(messages, 0, any(say("developer", system, content)))
		}
		if len(messages) == 1 && len(talk.first) == 1 && talk.image == "" && f.flip("bare") {
			body[list] = talk.first[0]
			return f.encode(body)
		}
	case "openai-chat":
		messages = slices.Insert(messages, 0, any(say("system", system, content)))
	case "gemini":
		list = "contents"
		body[rapid.SampledFrom([]string{"systemInstruction", "system_instruction"}).Draw(f.t, "case")] = object{"parts": system}
	}
	body[list] = messages
	return f.encode(body)
}

// content is a string or blocks, with cache_control on some.
func (f form) content(talk talk, texts []string, image string, bill bool) any {
	if image == "" && !bill && talk.wire != "gemini" && f.flip("string") {
		return strings.Join(texts, "")
	}
	parts := []any{}
	if bill && f.billing != "" {
		parts = append(parts, object{"type": "text", "text": "x-anthropic-billing-header: cc_version=" + f.billing + ";"})
	}
	for _, s := range texts {
		part := object{"text": s}
		if talk.wire != "gemini" {
			part["type"] = map[bool]string{true: "input_text", false: "text"}[talk.wire == "openai-responses"]
		}
		parts = append(parts, f.cached(part))
	}
	if image != "" {
		parts = append(parts, f.cached(object{"type": "image", "source": object{"type": "base64", "media_type": "image/png", "data": image}}))
	}
	return parts
}

func (f form) cached(part object) object {
	if f.flip("cached") {
		part["cache_control"] = object{"type": "ephemeral"}
	}
	return part
}

// encode writes members in any order, with or without spaces, and every text as escapes or not.
func (f form) encode(v any) []byte {
	gap := ""
	if f.flip("spaces") {
		gap = " "
	}
	escape := f.flip("escapes")
	var write func(v any) string
	write = func(v any) string {
		switch v := v.(type) {
		case object:
			var members []string
			for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(v))).Draw(f.t, "order") {
				members = append(members, fmt.Sprintf("%q:%s%s", name, gap, write(v[name])))
			}
			return "{" + strings.Join(members, gap+",") + "}"
		case []any:
			var elements []string
			for _, e := range v {
				elements = append(elements, write(e))
			}
			return "[" + gap + strings.Join(elements, ","+gap) + "]"
		case string:
			if escape {
				return `"` + escaped(v) + `"`
			}
		}
		b, err := json.Marshal(v)
		if err != nil {
			f.t.Fatal(err)
		}
		return string(b)
	}
	return []byte(write(v))
}

// escaped writes every character as escapes of UTF-16.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func derived(t testing.TB, talk talk, body []byte) string {
	t.Helper()
	r := request(t, talk.wire, body, nil)
	r.Model, r.Only, r.Prefix = talk.model, []string{}, true
	k := Find(r)
	if k.ID != "" && (k.Source != Prefix || len(k.ID) != 32) {
		t.Fatalf("%+v", k)
	}
	return k.ID
}

// However and however late a conversation is written, its key stays.
func TestDerivedKeyStays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		talk := drawTalk(rt)
		want := derived(t, talk, form{rt, rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "billing")}.write(talk))
		talk.later = rapid.SliceOfN(rapid.String(), 0, 6).Draw(rt, "later")
		body := form{rt, rapid.SampledFrom([]string{"", "1", "2"}).Draw(rt, "billing")}.write(talk)
		if got := derived(t, talk, body); got != want || got == "" {
			rt.Fatalf("%q, was %q: %s", got, want, body)
		}
	})
}

// Another model, system text, first text or image is another conversation.
func TestDerivedKeyTellsConversationsApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := drawTalk(rt)
		b := a
		switch rapid.IntRange(0, 4).Draw(rt, "what") {
		case 0:
			b.model += "x"
		case 1:
			b.first = append([]string{"x"}, a.first...)
			if strings.Join(a.first, "")+"x" == strings.Join(b.first, "") {
				b.first = append(b.first, "y")
			}
		case 2:
			b.system = append(slices.Clone(a.system), "x")
		case 3:
			b.image += "x"
		case 4: // A text that moves from the system to the user is not the same.
			b.first = append([]string{"x"}, a.first...)
			a.system = append(slices.Clone(a.system), "x")
		}
		bodyA, bodyB := form{rt, ""}.write(a), form{rt, ""}.write(b)
		if key := derived(t, a, bodyA); key == derived(t, b, bodyB) {
			rt.Fatalf("%s and %s have the key %s", bodyA, bodyB, key)
		}
	})
}

func TestNoTextsNoDerivedKey(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		wire, body string
		want       bool
	}{
		{"anthropic-messages", `{"messages":[]}`, false},
		{"anthropic-messages", `{"messages":[{"role":"user","content":""}],"system":""}`, false},
		{"anthropic-messages", `{"messages":[{"role":"assistant","content":"x"}]}`, false},
		{"anthropic-messages", `{"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2;"}]}`, false},
		{"anthropic-messages", `{"system":"x"}`, true},
		{"openai-chat", `{"messages":"x"}`, true},
		{"openai-chat", `{"messages":[{"role":"user","content":null}]}`, false},
		{"openai-chat", `{}`, false},
		{"openai-responses", `{"input":"x"}`, true},
		{"openai-responses", `{"input":[{"type":"item_reference","id":"x"}],"previous_response_id":"r"}`, false},
		{"gemini", `{"contents":[{"parts":[{"inlineData":{"data":"x"}}]}]}`, true},
		{"", `{"messages":[{"role":"user","content":"x"}]}`, false},
	} {
		if id := derived(t, talk{wire: c.wire, model: "m"}, []byte(c.body)); (id != "") != c.want {
			t.Errorf("%s: %q", c.body, id)
		}
	}
}

// Where the conversation has told its key, none is derived; sub-agents that tell theirs keep it beside the derived one.
func TestDerivedKeyIsTheLastResort(t *testing.T) {
	t.Parallel()
	body := []byte(`{"messages":[{"role":"user","content":"x"}],"user":"u"}`)
	r := request(t, "anthropic-messages", body, map[string]string{"x-claude-code-agent-id": "a"})
	r.Prefix = true
	if k := Find(r); k.ID != "u" {
		t.Errorf("%+v", k)
	}
	r.Only = []string{"x-session-id"}
	if k := Find(r); k.Source != Prefix || k.Agent != "a" {
		t.Errorf("%+v", k)
	}
}

// What no client sends is still hashed without a crash, and deep nesting does not end the stack.
func TestDerivedKeyOfOddParts(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":[`, 10_000) + strings.Repeat(`]}`, 10_000)
	seen := map[string]string{}
	for _, part := range []string{`7`, `null`, `{}`, `[]`, `[1,[2]]`, `[[1],2]`, `{"type":"x","a":{"b":1}}`, `{"type":"text"}`, deep, `"\ud83d"`, `"\ud83d\u0041"`, `"\u12"`, `"\x"`, `"\u0041\ud83d\ude00"`} {
		id := derived(t, talk{wire: "anthropic-messages"}, []byte(`{"messages":[{"role":"user","content":[`+part+`]}]}`))
		if was, ok := seen[id]; ok || id == "" {
			t.Errorf("%.40s has the key %q of %.40s", part, id, was)
		}
		seen[id] = part
	}
}

// An image of many megabytes in the first message comes again with each turn; only its length and its ends are hashed.
func TestDerivedKeyOfLongTexts(t *testing.T) {
	t.Parallel()
	key := func(image, text string) string {
		return derived(t, talk{wire: "anthropic-messages"}, []byte(`{"messages":[{"role":"user","content":[`+
			`{"type":"image","source":{"data":"`+image+`"}},{"type":"text","text":"`+text+`"}]}]}`))
	}
	half := strings.Repeat("QUJD", 100_000)
	long := key(half+half, "hi")
	for name, other := range map[string]string{
		"start": key("x"+half[1:]+half, "hi"), "end": key(half+half[1:]+"x", "hi"), "length": key(half+half+"QUJD", "hi"), "next text": key(half+half, "ho"),
	} {
		if other == long {
			t.Errorf("another %s gives the same key", name)
		}
	}
	if key(half[1:]+"x"+half, "hi") == long || key(half[:len(half)-1]+"x"+half, "hi") != long {
		t.Error("not the ends are hashed, but the middle")
	}
	for n := range 12 { // whatever escapes the cuts go through
		key(strings.Repeat("a", n)+strings.Repeat(`\ud83d\ude00`, 10_000), strings.Repeat("b", n)+strings.Repeat(`\\`, 40_000))
	}
}
