package peek

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// applied returns the text after the changes of an overlay, and checks the edits on the way.
func applied(t rapid.TB, v *Overlay, src []byte) string {
	t.Helper()
	edits := v.Edits(nil)
	pos := 0
	for _, e := range edits {
		if e.Start < pos || e.End < e.Start || e.End > len(src) {
			t.Fatalf("edits are not sorted: %v", edits)
		}
		if bytes.Equal(src[e.Start:e.End], e.New) {
			t.Fatalf("an edit changes nothing: %v", e)
		}
		pos = e.End
	}
	return string(bytes.Join(Splice(nil, src, edits), nil))
}

func TestOverlay(t *testing.T) {
	set := func(name, raw string) func(*Overlay) { return func(v *Overlay) { v.Set(name, []byte(raw)) } }
	drop := func(name string) func(*Overlay) { return func(v *Overlay) { v.Drop(name) } }
	rename := func(from, to string) func(*Overlay) { return func(v *Overlay) { v.Rename(from, to) } }
	// setAt replaces the text `old`.
	setAt := func(old, raw string) func(*Overlay) {
		return func(v *Overlay) {
			at := bytes.Index(v.src, []byte(old))
			v.SetAt(Span{at, at + len(old)}, []byte(raw))
		}
	}
	insert := func(before, raw string) func(*Overlay) {
		return func(v *Overlay) {
			at := bytes.Index(v.src, []byte(before))
			v.SetAt(Span{at, at}, []byte(raw))
		}
	}
	type does = []func(*Overlay)
	tests := []struct {
		name, src, want string
		do              does
	}{
		{"nothing", `{"a":1}`, `{"a":1}`, nil},
		{"set", `{"a":1,"b":2}`, `{"a":[3],"b":2}`, does{set("a", "[3]")}},
		{"set the same", ` { "a" : 1 } `, ` { "a" : 1 } `, does{set("a", "1")}},
		{"set twice", `{"a":1}`, `{"a":3}`, does{set("a", "2"), set("a", "3")}},
		{"set and back", `{"a":1}`, `{"a":1}`, does{set("a", "2"), set("a", "1")}},
		{"set nothing", `{"a":1,"b":2}`, `{"b":2}`, does{set("a", "")}},
		{"set an escaped name", `{"\u0061":1}`, `{"\u0061":2}`, does{set("a", "2")}},
		{"append", `{"a":1}`, `{"a":1,"b":2}`, does{set("b", "2")}},
		{"append to an empty object", ` {} `, ` {"b":2} `, does{set("b", "2")}},
		{"append to an empty object with space", "{\n}", "{\"b\":2\n}", does{set("b", "2")}},
		{"append before space", "{\n  \"a\": 1\n}", "{\n  \"a\": 1,\"b\":2\n}", does{set("b", "2")}},
		{"append two", `{}`, `{"a":1,"b":2}`, does{set("a", "1"), set("b", "2")}},
		{"append and drop", `{"a":1}`, `{"a":1}`, does{set("b", "2"), drop("b")}},
		{"append, drop the first", `{}`, `{"b":2}`, does{set("a", "1"), set("b", "2"), drop("a")}},
		{"append a strange name", `{}`, `{"a\"\\\u000a\u001fé":1}`, does{set("a\"\\\n\x1fé", "1")}},
		{"append the empty name", `{}`, `{"":1}`, does{set("", "1")}},
		{"drop the only one", `{ "a" : 1 }`, `{  }`, does{drop("a")}},
		{"drop the first", `{ "a" : 1 , "b" : 2 }`, `{ "b" : 2 }`, does{drop("a")}},
		{"drop the last", `{ "a" : 1 , "b" : 2 }`, `{ "a" : 1 }`, does{drop("b")}},
		{"drop in between", `{"a":1, "b":2, "c":3}`, `{"a":1, "c":3}`, does{drop("b")}},
		{"drop a run", `{"a":1,"b":2,"c":3,"d":4}`, `{"a":1,"d":4}`, does{drop("b"), drop("c")}},
		{"drop a run at the end", `{"a":1,"b":2,"c":3}`, `{"a":1}`, does{drop("c"), drop("b")}},
		{"drop every other", `{"a":1,"b":2,"c":3,"d":4,"e":5}`, `{"b":2,"d":4}`, does{drop("a"), drop("c"), drop("e")}},
		{"drop all", `{"a":1,"b":2}`, `{}`, does{drop("a"), drop("b")}},
		{"drop what is not there", `{"a":1}`, `{"a":1}`, does{drop("b")}},
		{"drop all and append", `{"a":1,"b":2}`, `{"c":3}`, does{drop("a"), drop("b"), set("c", "3")}},
		{"drop the end and append", `{"a":1,"b":2}`, `{"a":1,"c":3}`, does{drop("b"), set("c", "3")}},
		{"drop and set again", `{"a":1,"b":2}`, `{"b":2,"a":1}`, does{drop("a"), set("a", "1")}},
		{"repeated: drop", `{"a":1,"b":2,"\u0061":3}`, `{"b":2}`, does{drop("a")}},
		{"repeated: set", `{"a":1,"b":2,"a":3}`, `{"a":4,"b":2}`, does{set("a", "4")}},
		{"repeated: set the same", `{"a":1,"b":2,"a":3}`, `{"a":1,"b":2}`, does{set("a", "1")}},
		{"repeated: rename", `{"a":1,"b":2,"a":3}`, `{"c":1,"b":2}`, does{rename("a", "c")}},
		{"repeated: untouched", `{"a":1,"a":3}`, `{"a":1,"a":3,"b":2}`, does{set("b", "2")}},
		{"rename", `{"a" : 1,"b":2}`, `{"c" : 1,"b":2}`, does{rename("a", "c")}},
		{"rename over another", `{"a":1,"b":2,"c":3}`, `{"c":1,"b":2}`, does{rename("a", "c")}},
		{"rename over one before", `{"a":1,"b":2,"c":3}`, `{"b":2,"a":3}`, does{rename("c", "a")}},
		{"rename to itself", `{"\u0061":1}`, `{"\u0061":1}`, does{rename("a", "a")}},
		{"rename and back", `{"\u0061":1}`, `{"\u0061":1}`, does{rename("a", "b"), rename("b", "a")}},
		{"rename nothing", `{"b":1}`, `{"b":1}`, does{rename("a", "b")}},
		{"rename, then set both", `{"a":1}`, `{"b":2,"a":3}`, does{rename("a", "b"), set("b", "2"), set("a", "3")}},
		{"rename what was added", `{}`, `{"b":1}`, does{set("a", "1"), rename("a", "b")}},
		{"swap", `{"a":1,"b":2}`, `{"b":1,"a":2}`, does{rename("a", "x"), rename("b", "a"), rename("x", "b")}},
		{"nested", `{"a":[1,2],"b":{"c":3}}`, `{"a":[1,9],"b":{"c":8}}`, does{setAt("3", "8"), setAt("2", "9")}},
		{"nested: the same", `{"a":[1,2]}`, `{"a":[1,2]}`, does{setAt("2", "2")}},
		{"nested: and back", `{"a":[1,2]}`, `{"a":[1,2]}`, does{setAt("2", "3"), setAt("2", "2")}},
		{"nested: take out", `{"a":[1,2]}`, `{"a":[1]}`, does{setAt(",2", "")}},
		{"nested: later one wins", `{"a":[1,2]}`, `{"a":[1,4]}`, does{setAt("2", "3"), setAt("2", "4")}},
		{"nested: larger one wins", `{"a":[1,[2,3]]}`, `{"a":[1,5]}`, does{setAt("2", "4"), setAt("[2,3]", "5"), setAt("3", "6")}},
		{"nested: whole value", `{"a":[1]}`, `{"a":{}}`, does{setAt("1", "2"), setAt("[1]", "{}")}},
		{"nested: insert", `{"a":[1,2]}`, `{"a":[7,8,1,9,2]}`, does{insert("2", "9,"), insert("1", "7,"), insert("1", "8,")}},
		{"nested: insert before what is replaced", `{"a":[1,2]}`, `{"a":[7,3,2]}`, does{setAt("1", "3"), insert("1", "7,")}},
		{"nested: in a replaced value", `{"a":[1],"b":2}`, `{"a":0,"b":2}`, does{set("a", "0"), setAt("[1]", "3")}},
		{"nested: before the value is replaced", `{"a":[1],"b":2}`, `{"a":0,"b":2}`, does{setAt("1", "3"), set("a", "0")}},
		{"nested: before the value is restored", `{"a":[1]}`, `{"a":[1]}`, does{setAt("1", "3"), set("a", "[1]")}},
		{"nested: in a dropped value", `{"a":[1],"b":2}`, `{"b":2}`, does{drop("a"), setAt("1", "3")}},
		{"nested: before the member is dropped", `{"a":[1],"b":[4]}`, `{"b":[5]}`, does{setAt("4", "5"), setAt("1", "3"), drop("a")}},
		{"nested: in a renamed member", `{"a":[1]}`, `{"b":[3]}`, does{rename("a", "b"), setAt("1", "3")}},
		{"nested: outside of values", `{"a":[1]}`, `{"a":[1]}`, does{setAt(`"a"`, `"b"`), setAt("{", "["), setAt(`:[`, ":{")}},
	}
	var o Object
	var v Overlay
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := []byte(tt.src)
			if err := o.Scan(src); err != nil {
				t.Fatal(err)
			}
			v.Reset(src, &o)
			for _, do := range tt.do {
				do(&v)
			}
			if got := applied(t, &v, src); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if edits := v.Edits(nil); tt.src == tt.want && len(edits) > 0 {
				t.Errorf("no change, but %v", edits)
			}
		})
	}
}

func TestOverlayKeepsWhatItHandedOut(t *testing.T) {
	src := []byte(`{"a":1}`)
	var o Object
	if err := o.Scan(src); err != nil {
		t.Fatal(err)
	}
	var v Overlay
	var first []Edit
	for i := range 1000 {
		v.Reset(src, &o)
		v.Rename("a", "renamed")
		v.Set("b", []byte("2"))
		if edits := v.Edits(nil); i == 0 {
			first = edits
		}
		v.Reset(src, &o)
		v.Rename("a", strings.Repeat("x", i%7))
		v.Set("overwritten", []byte("3"))
		v.Edits(nil)
	}
	if got, want := string(bytes.Join(Splice(nil, src, first), nil)), `{"renamed":1,"b":2}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// entry is what the model of an overlay knows of a member.
type entry struct {
	Name, Key string
	own       string // the key in the text, which comes back with the name
	value     string
	elements  []string // the value as an array, if it is still the one of the text
	at        Span     // where that is
}

func (e entry) Value() string {
	if e.elements != nil {
		return "[" + strings.Join(e.elements, " , ") + "]"
	}
	return e.value
}

// model is an overlay the slow way: a list of members.
type model []entry

func (m *model) find(name string) int {
	return slices.IndexFunc(*m, func(e entry) bool { return e.Name == name })
}

func (m *model) drop(name string, but int) {
	var kept model
	for i, e := range *m {
		if e.Name != name || i == but {
			kept = append(kept, e)
		}
	}
	*m = kept
}

func (m *model) set(name, raw, key string) {
	i := m.find(name)
	if i < 0 {
		*m = append(*m, entry{Name: name, Key: key, value: raw})
		return
	}
	(*m)[i].value, (*m)[i].elements = raw, nil
	m.drop(name, i)
}

func (m *model) rename(from, to, key string) {
	i := m.find(from)
	if i < 0 || from == to {
		return
	}
	m.drop(from, i)
	(*m)[i].Name, (*m)[i].Key = "\x00", key
	m.drop(to, -1)
	e := &(*m)[m.find("\x00")]
	e.Name = to
	if e.own != "" && slices.Contains(keys(to), e.own) {
		e.Key = e.own
	}
}

var (
	names  = rapid.SampledFrom([]string{"a", "b", "c", "model", "é", `q"\`, ""})
	spaces = rapid.SampledFrom([]string{"", "", " ", "\n  "})
	raws   = rapid.SampledFrom([]string{`1`, `"x"`, `{"a":[1, 2]}`, `null`, `"}\","`, `[ ]`})
)

// keys returns the spellings of a name.
func keys(name string) []string {
	quoted, _ := json.Marshal(name)
	var escaped strings.Builder
	for _, r := range name {
		fmt.Fprintf(&escaped, `\u%04x`, r)
	}
	return []string{string(quoted), `"` + escaped.String() + `"`}
}

func drawMember(t *rapid.T) entry {
	name := names.Draw(t, "name")
	e := entry{Name: name, Key: rapid.SampledFrom(keys(name)).Draw(t, "key")}
	if rapid.Bool().Draw(t, "array") {
		e.elements = rapid.SliceOfN(raws, 1, 3).Draw(t, "elements")
	} else {
		e.value = raws.Draw(t, "value")
	}
	return e
}

func drawText(t *rapid.T, m model) []byte {
	space := func() string { return spaces.Draw(t, "space") }
	text := space() + "{" + space()
	for i, e := range m {
		if i > 0 {
			text += "," + space()
		}
		text += e.Key + space() + ":" + space() + e.Value() + space()
	}
	return []byte(text + "}" + space())
}

// TestOverlayProperty holds random changes of random objects against the model: the same members in the same order, and
// every byte of those that were not changed.
func TestOverlayProperty(t *testing.T) {
	var o Object
	var v Overlay
	rapid.Check(t, func(t *rapid.T) {
		m := model(rapid.SliceOfN(rapid.Custom(drawMember), 0, 6).Draw(t, "members"))
		src := drawText(t, m)
		if err := o.Scan(src); err != nil {
			t.Fatal(err)
		}
		v.Reset(src, &o)
		for i := range m {
			m[i].own, m[i].at = m[i].Key, o.Members[i].Value
			m[i].elements = slices.Clone(m[i].elements)
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				name, raw := names.Draw(t, "name"), raws.Draw(t, "raw")
				m.set(name, raw, keys(name)[0])
				v.Set(name, []byte(raw))
			},
			"drop": func(t *rapid.T) {
				name := names.Draw(t, "name")
				m.drop(name, -1)
				v.Drop(name)
			},
			"rename": func(t *rapid.T) {
				from, to := names.Draw(t, "from"), names.Draw(t, "to")
				m.rename(from, to, keys(to)[0])
				v.Rename(from, to)
			},
			"set at": func(t *rapid.T) {
				if len(m) == 0 {
					t.Skip("no members")
				}
				e := &m[rapid.IntRange(0, len(m)-1).Draw(t, "member")]
				if e.elements == nil {
					t.Skip("no array of the text")
				}
				var spans []Span
				err := Elements(src, e.at, func(at Span) bool { spans = append(spans, at); return true })
				if err != nil {
					t.Fatal(err)
				}
				i, raw := rapid.IntRange(0, len(spans)-1).Draw(t, "element"), raws.Draw(t, "raw")
				e.elements[i] = raw
				v.SetAt(spans[i], []byte(raw))
			},
			"": func(t *rapid.T) { compare(t, &v, src, m) },
		})
	})
}

func compare(t *rapid.T, v *Overlay, src []byte, want model) {
	text := []byte(applied(t, v, src))
	if !json.Valid(text) {
		t.Fatalf("not valid: %s", text)
	}
	var o Object
	if err := o.Scan(text); err != nil {
		t.Fatal(err)
	}
	var got, expected [][2]string
	for _, m := range o.Members {
		got = append(got, [2]string{string(text[m.Key.Start:m.Key.End]), string(text[m.Value.Start:m.Value.End])})
	}
	for _, e := range want {
		expected = append(expected, [2]string{e.Key, e.Value()})
	}
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Fatalf("%s\n%s\n%s", src, text, diff)
	}
	for _, name := range []string{"a", "b", "c", "model", "é", `q"\`, ""} {
		i := want.find(name)
		if v.Has(name) != (i >= 0) {
			t.Fatalf("has %q: %v", name, v.Has(name))
		}
		if i < 0 {
			if v.Get(name) != nil {
				t.Fatalf("%q is %q", name, v.Get(name))
			}
		} else if string(v.Get(name)) != want[i].Value() {
			t.Fatalf("%q is %q, want %q", name, v.Get(name), want[i].Value())
		}
	}
}
