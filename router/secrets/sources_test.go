package secrets

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDotEnv(t *testing.T) {
	for text, want := range map[string]string{
		"A=b":                      "b",
		"\ufeffA=b\r\n":            "b",
		" export  A = b c # d":     "b c",
		"A=b#c":                    "b#c",
		"A=b\t#c":                  "b",
		"A=#c":                     "",
		"A= # c":                   "",
		"A=":                       "",
		`A="b # c" # d`:            "b # c",
		`A='b "c" \n'`:             `b "c" \n`,
		`A="b\n\t\"c\" \\n \x $D"`: "b\n\t\"c\" \\n \\x $D",
		`A=b"c"`:                   `b"c"`,
		"A=b\n# A=c\nA=d":          "d",
		"A==b=":                    "=b=",
	} {
		d := ParseDotEnv(text)
		if got, ok := d.Lookup("A"); got != want || !ok || d.Trouble() != "" {
			t.Errorf("%q: %q, want %q; %v %s", text, got, want, ok, d.Trouble())
		}
	}
	for _, line := range []string{"A", "A b=c", `A="b`, `A='b`, `A="b" c`, "1A=b", "=b", `A="b\"`, "export A"} {
		d := ParseDotEnv("X=1\n" + line + "\nY=2")
		if diff := cmp.Diff([]string{"X", "Y"}, d.Names()); diff != "" || !strings.Contains(d.Trouble(), "line 2") {
			t.Errorf("%q: %s, %s", line, d.Trouble(), diff)
		}
	}
}

func FuzzDotEnv(f *testing.F) {
	for _, text := range []string{"A=b", `A="b\`, "export A='b' # c", "A=#", "\ufeff=\n\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := ParseDotEnv(text)
		for _, name := range d.Names() {
			if value, _ := d.Lookup(name); !strings.Contains(text, name) || len(value) > len(text) {
				t.Errorf("%q has %s=%q", text, name, value)
			}
		}
	})
}

func TestSources(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config.hcl")
	must(t, os.WriteFile(filepath.Join(dir, ".env"), []byte("A=a3\nB=b3\nC=c3\nD=\n"), 0o600))
	shell := map[string]string{"A": "a1", "B": "", "SIGNALBOX_SECRETS": ""}
	s := Open(config, func(name string) (string, bool) { v, ok := shell[name]; return v, ok })
	must(t, s.Store.Set("A", "a2", "", noon))
	must(t, s.Store.Set("B", "b2", "", noon))
	if want := filepath.Join(dir, "secrets.json"); s.Store.Path() != want {
		t.Errorf("the secrets are in %s, want %s", s.Store.Path(), want)
	}
	book := read(t, s.Store)
	got := map[string][2]string{}
	for _, name := range []string{"A", "B", "C", "D", "E"} {
		value, owner := s.Owned(name, book)
		got[name] = [2]string{value, string(owner)}
	}
	want := map[string][2]string{"A": {"a1", "shell"}, "B": {"b2", "secrets"}, "C": {"c3", ".env"}, "D": {"", "unset"}, "E": {"", "unset"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	shell["SIGNALBOX_SECRETS"] = "/elsewhere"
	if s := Open(config, s.Env); s.Store.Path() != "/elsewhere" {
		t.Errorf("the secrets are in %s", s.Store.Path())
	}
}

func TestDotEnvThatCannotBeRead(t *testing.T) {
	if d := ReadDotEnv(t.TempDir()); !strings.Contains(d.Trouble(), "not a regular file") {
		t.Errorf("a folder: %q", d.Trouble())
	}
	if d := ReadDotEnv(filepath.Join(t.TempDir(), ".env")); d.Trouble() != "" || d.Names() != nil {
		t.Errorf("nothing: %q %v", d.Trouble(), d.Names())
	}
}
