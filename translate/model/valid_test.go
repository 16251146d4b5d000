package model

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

func FuzzValid(f *testing.F) {
	for _, s := range []string{
		"", " ", "{}", "[]", ` { "a" : [ 1 , -2.5e+3 , true , false , null , "x\n\u00e9" ] } `, "01", "-", "1.", "1e", "tru", `"\x"`, `"\u12g4"`,
		`{"a"}`, `{"a":}`, `{,}`, `[1,]`, `{"a":1,}`, "\"\t\"", `"`, `"\`, `"\u12`, "nul", "[", "{", `{"a":1`, "1 2", "\xff", "\"\xff\"", strings.Repeat("[", 20),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if got, want := Valid(src), json.Valid(src); got != want {
			t.Errorf("%q: %v, encoding/json says %v", src, got, want)
		}
		want := json.Valid(src) && bytes.TrimLeft(src, " \t\r\n")[0] == '{'
		if got := ValidObject(src); got != want {
			t.Errorf("object %q: %v, want %v", src, got, want)
		}
	})
}

func TestValidNesting(t *testing.T) {
	for _, n := range []int{9_999, 10_000, 10_001} {
		src := []byte(strings.Repeat(`[`, n) + strings.Repeat("]", n))
		if got, want := Valid(src), json.Valid(src); got != want {
			t.Errorf("%d levels: %v, encoding/json says %v", n, got, want)
		}
	}
}

// FuzzQuote: a quoted text is valid and says the text, apart from bytes that are no UTF-8.
func FuzzQuote(f *testing.F) {
	f.Add("a\"b\\c\n\r\t\x00\x1f<&>é")
	f.Fuzz(func(t *testing.T, s string) {
		raw := Quote(nil, s)
		if !Valid(raw) {
			t.Fatalf("%q is not valid", raw)
		}
		if got, want := Text(raw), strings.ToValidUTF8(s, "\ufffd"); len(got) != len(s) && got != want {
			// encoding/json replaces each byte, ToValidUTF8 a whole run.
			if strings.ReplaceAll(got, "\ufffd", "") != strings.ReplaceAll(want, "\ufffd", "") {
				t.Errorf("%q became %q", s, got)
			}
		}
	})
}

func TestTrimRight(t *testing.T) {
	for in, want := range map[string]string{
		``: ``, `a`: `a`, `a  `: `a`, `a\n`: `a`, `a \t\r\n `: `a`, `\n`: ``, `a\\n`: `a\\n`, `a\\\n`: `a\\`, `n`: `n`, `\"n`: `\"n`, `a\\ `: `a\\`,
	} {
		if got := string(TrimRight([]byte(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
		if blank := Blank([]byte(`"` + in + `"`)); blank != (want == "") {
			t.Errorf("blank %q: %v", in, blank)
		}
	}
}

func TestReportIsBounded(t *testing.T) {
	var r Report
	for i := range 300 {
		r.Drop(strings.Repeat("x", i))
		r.Change("same")
	}
	if len(r.Dropped) != maxNames || len(r.Changed) != 1 || len(r.Dropped[maxNames-1]) > maxName {
		t.Errorf("%d dropped, %d changed", len(r.Dropped), len(r.Changed))
	}
	c := r.Clone()
	r.Change("a")
	if len(c.Changed) != 1 {
		t.Error("a clone changes with its origin")
	}
}

func TestExtraKeepsTheFirst(t *testing.T) {
	var r ChatRequest
	err := r.Decode([]byte(`{"messages":[{"role":"user","content":"a","odd":1}],"x":1,"x":2,"y":null,"mod\u0065l":"m","model":"n"}`))
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Extra["x"]) != "1" || len(r.Extra) != 1 || !Is(r.Model, "m") || peek.Kind(r.Messages[0].Extra["odd"]) != 'n' {
		t.Errorf("%+v", r)
	}
}
