package peek

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScan(t *testing.T) {
	type pair struct{ Key, Value string }
	tests := []struct {
		name, text string
		want       []pair
	}{
		{"empty", `{}`, nil},
		{"empty with space", " \r\n{\t} \n", nil},
		{"one", `{"a":1}`, []pair{{`"a"`, `1`}}},
		{"space everywhere", " { \"a\" : 1 , \"b\"\n:\t\"x\" } ", []pair{{`"a"`, `1`}, {`"b"`, `"x"`}}},
		{"no key text", `{"":null}`, []pair{{`""`, `null`}}},
		{"kinds", `{"s":"","n":-1.5e+3,"t":true,"f":false,"z":null,"o":{},"a":[]}`, []pair{
			{`"s"`, `""`}, {`"n"`, `-1.5e+3`}, {`"t"`, `true`}, {`"f"`, `false`}, {`"z"`, `null`}, {`"o"`, `{}`}, {`"a"`, `[]`},
		}},
		{"python numbers", `{"a":NaN,"b":-Infinity}`, []pair{{`"a"`, `NaN`}, {`"b"`, `-Infinity`}}},
		{"nested", `{"a":{"model":[{"b":"]}"}]},"c":[[],{}]}`, []pair{{`"a"`, `{"model":[{"b":"]}"}]}`}, {`"c"`, `[[],{}]`}}},
		{"escaped quote", `{"a":"x\"y","b":1}`, []pair{{`"a"`, `"x\"y"`}, {`"b"`, `1`}}},
		{"backslash at the end", `{"a":"x\\","b":"\\\"","c":["\\\\"]}`, []pair{{`"a"`, `"x\\"`}, {`"b"`, `"\\\""`}, {`"c"`, `["\\\\"]`}}},
		{"only backslashes", `{"\\":"\\"}`, []pair{{`"\\"`, `"\\"`}}},
		{"repeated", `{"a":1,"a":2}`, []pair{{`"a"`, `1`}, {`"a"`, `2`}}},
		{"control character in a value", "{\"a\":\"\n\"}", []pair{{`"a"`, "\"\n\""}}},
	}
	var o Object
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := o.Scan([]byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			var got []pair
			for _, m := range o.Members {
				got = append(got, pair{tt.text[m.Key.Start:m.Key.End], tt.text[m.Value.Start:m.Value.End]})
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if got, want := tt.text[o.Body.Start:o.Body.End], strings.Trim(tt.text, " \r\n\t"); got != want {
				t.Errorf("body %q, want %q", got, want)
			}
		})
	}
}

func TestScanRejects(t *testing.T) {
	tests := []struct {
		name, text string
		offset     int
	}{
		{"nothing", ``, 0},
		{"space", ` `, 1},
		{"array", `[{}]`, 0},
		{"string", `"a"`, 0},
		{"number", `1`, 0},
		{"null", `null`, 0},
		{"byte order mark", "\xef\xbb\xbf{}", 0},
		{"open", `{`, 1},
		{"open after member", `{"a":1`, 6},
		{"two objects", `{} {}`, 3},
		{"two lines", "{\"a\":1}\n{\"a\":2}", 8},
		{"text after", `{"a":1}x`, 7},
		{"closed twice", `{}}`, 2},
		{"NUL after", "{}\x00", 2},
		{"comma only", `{,}`, 1},
		{"comma last", `{"a":1,}`, 7},
		{"comma first", `{,"a":1}`, 1},
		{"two commas", `{"a":1,,"b":2}`, 7},
		{"no comma", `{"a":1 "b":2}`, 7},
		{"no comma nor space", `{"a":1"b":2}`, 6},
		{"no comma after object", `{"a":{}"b":2}`, 7},
		{"semicolon", `{"a":1;"b":2}`, 6},
		{"no colon", `{"a" 1}`, 5},
		{"no colon at end", `{"a"`, 4},
		{"no value", `{"a":}`, 5},
		{"no value at end", `{"a":`, 5},
		{"no value before comma", `{"a":,"b":1}`, 5},
		{"bad value", `{"a":!}`, 5},
		{"single quotes", `{'a':1}`, 1},
		{"bare key", `{a:1}`, 1},
		{"number as key", `{1:1}`, 1},
		{"comment", `{/**/"a":1}`, 1},
		{"form feed", "{\f}", 1},
		{"key does not end", `{"a:1}`, 1},
		{"key ends escaped", `{"a\":1}`, 1},
		{"string does not end", `{"a":"b}`, 5},
		{"nested string does not end", `{"a":["b]}`, 6},
		{"nested not closed", `{"a":[1,2}`, 9},
		{"nested not closed at end", `{"a":{"b":1}`, 12},
		{"array not closed at end", `{"a":[[1]`, 5},
		{"closed by the other kind", `{"a":{]}`, 6},
		{"crossed", `{"a":[{]}}`, 7},
		{"newline in a key", "{\"a\nb\":1}", 3},
		{"NUL in a key", "{\"\x00\":1}", 2},
		{"bad escape in a key", `{"a\x":1}`, 3},
		{"bad code in a key", `{"\u00g0":1}`, 2},
		{"short code in a key", `{"\u00":1}`, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Object{Members: make([]Member, 3)}
			err := o.Scan([]byte(tt.text))
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Fatalf("error %v", err)
			}
			if syntax.Offset != tt.offset {
				t.Errorf("%v, want offset %d", err, tt.offset)
			}
			if len(o.Members) != 0 || o.Body != (Span{}) {
				t.Errorf("left behind: %v", o)
			}
		})
	}
}

func TestScanDeep(t *testing.T) {
	const depth = 5_000_000
	text := `{"a":` + strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth) + `,"b":1}`
	var o Object
	if err := o.Scan([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if got := string(o.Value("b")); got != "1" {
		t.Errorf("b is %q", got)
	}
	for _, bad := range []string{
		`{"a":` + strings.Repeat(`[`, depth),
		`{"a":` + strings.Repeat(`{"a":`, depth),
		`{"a":{` + strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth) + `]}`,
	} {
		if o.Scan([]byte(bad)) == nil {
			t.Errorf("no error for %q...", bad[:20])
		}
	}
}

func TestScanMemberLimit(t *testing.T) {
	members := strings.TrimSuffix(strings.Repeat(`"":0,`, maxMembers), ",")
	var o Object
	if err := o.Scan([]byte("{" + members + "}")); err != nil {
		t.Error(err)
	}
	if o.Scan([]byte("{"+members+`,"":0}`)) == nil {
		t.Error("no error past the limit")
	}
}

func TestScanAt(t *testing.T) {
	src := []byte(`{"a": {"b":[{"c":"d"} , 2]} ,"e":{"c":1}}`)
	var outer, inner Object
	if err := outer.Scan(src); err != nil {
		t.Fatal(err)
	}
	a, _ := outer.Find("a")
	if err := inner.ScanAt(src, a.Value); err != nil {
		t.Fatal(err)
	}
	var got []string
	b, _ := inner.Find("b")
	err := Elements(src, b.Value, func(at Span) bool {
		got = append(got, string(src[at.Start:at.End]))
		return true
	})
	if diff := cmp.Diff([]string{`{"c":"d"}`, `2`}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if err := inner.ScanAt(src, b.Value); err == nil {
		t.Error("an array was scanned")
	}
}

func TestElements(t *testing.T) {
	tests := []struct {
		text string
		want string
		ok   bool
	}{
		{`[]`, ``, true},
		{` [ ] `, ``, true},
		{`[1]`, `1`, true},
		{` [ 1 , "a,]" ,[2,3],{"b":[]} , null ] `, `1|"a,]"|[2,3]|{"b":[]}|null`, true},
		{``, ``, false},
		{`{}`, ``, false},
		{`[`, ``, false},
		{`[1`, `1`, false},
		{`[1,`, `1`, false},
		{`[1,]`, `1`, false},
		{`[,1]`, ``, false},
		{`[1 2]`, `1`, false},
		{`["a]`, ``, false},
		{`[[1]`, `[1]`, false},
		{`[]]`, ``, false},
		{`[1] 2`, `1`, false},
	}
	for _, tt := range tests {
		var got []string
		err := Elements([]byte(tt.text), Span{0, len(tt.text)}, func(at Span) bool {
			got = append(got, tt.text[at.Start:at.End])
			return true
		})
		if joined := strings.Join(got, "|"); joined != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q: %q, %v", tt.text, joined, err)
		}
	}
	n := 0
	err := Elements([]byte(`[1,2,!`), Span{0, 6}, func(Span) bool { n++; return n < 2 })
	if n != 2 || err != nil {
		t.Errorf("stopped after %d, %v", n, err)
	}
}

func TestFind(t *testing.T) {
	var o Object
	if err := o.Scan([]byte(`{"mod\u0065l":1,"model":2,"a\"b":3,"é":4,"x\ud83d\ude00":5,"\\u0061":6}`)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"model": "1", `a"b`: "3", "é": "4", "x😀": "5", `\u0061`: "6",
		"a": "", "mode": "", "models": "", "Model": "", "": "", `mod\u0065l`: "", `a\"b`: "",
	} {
		if got := string(o.Value(name)); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	if got := o.Repeated("a", "é", "model"); got != "model" {
		t.Errorf("repeated: %q", got)
	}
	if got := o.Repeated("a", "é"); got != "" {
		t.Errorf("repeated: %q", got)
	}
}

// FuzzScan holds Scan against encoding/json: what that takes for an object is one, with the same names and values.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1}`, ` {"a" : [1,{"b":"\"}"}] , "model":"x\\"}`, `{"a":{]}`, `{"a":"\ud800"}`, `{"a\u0000":1}`,
		`{"a":1}{`, `{"a":[[[[`, "{\"\xff\":\"\xff\"}", `{"a":NaN}`, `[1]`, `{"a":1,"a":2}`, string(body(2000)),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var o Object
		err := o.Scan(src)
		var want map[string]json.RawMessage
		if !json.Valid(src) || json.Unmarshal(src, &want) != nil || want == nil {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", src, err)
		}
		got := map[string]json.RawMessage{}
		for _, m := range o.Members {
			name, ok := String(src[m.Key.Start:m.Key.End])
			if !ok {
				t.Fatalf("%q: key at %d", src, m.Key.Start)
			}
			got[name] = src[m.Value.Start:m.Value.End] // Last wins, as in encoding/json.
			checkValue(t, src[m.Value.Start:m.Value.End])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func checkValue(t *testing.T, raw []byte) {
	t.Helper()
	var want any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	kind, ok := byte(0), true
	switch want := want.(type) {
	case string:
		kind = 's'
		got, valid := String(raw)
		ok = valid && got == want && (Equal(raw, want) || !bytes.Equal(bytes.ToValidUTF8(raw, nil), raw))
	case float64:
		kind = 'n'
		ok = checkInt(raw)
	case bool:
		kind = fmt.Sprint(want)[0]
		v, is := Bool(raw)
		ok = is && v == want
	case nil:
		kind, ok = 'z', IsNull(raw)
	case map[string]any:
		kind = 'o'
		var o Object
		if err := o.Scan(raw); err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
	case []any:
		kind = 'a'
		n := 0
		err := Elements(raw, Span{0, len(raw)}, func(at Span) bool {
			n++
			checkValue(t, raw[at.Start:at.End])
			return true
		})
		ok = err == nil && n == len(want)
	}
	if !ok || Kind(raw) != kind {
		t.Fatalf("%q: kind %q, want %q; value agrees: %v", raw, Kind(raw), kind, ok)
	}
}
