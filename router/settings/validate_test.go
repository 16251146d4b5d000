package settings

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// valid is the smallest configuration that works.
func valid() Config {
	c := Defaults()
	u, m, t := DefaultUpstream(), DefaultModel(), DefaultTarget()
	u.Name, u.BaseURL, u.Wires = "a", "https://a.example/v1", []string{"openai-chat"}
	t.Upstream = "a"
	m.ID, m.Targets = "m", []Target{t}
	c.Upstreams, c.Models = []Upstream{u}, []Model{m}
	return c
}

func TestValidateDefaults(t *testing.T) {
	c := valid()
	if got := c.Validate(); got != nil {
		t.Error(got)
	}
	d := Defaults()
	if got := d.Validate(); len(got) != 2 {
		t.Errorf("no upstream and no model give %v", got)
	}
}

// TestValidateOrder has more than ten of a kind, so that numbers must count as such.
func TestValidateOrder(t *testing.T) {
	c := valid()
	for i := range 11 {
		u := c.Upstreams[0]
		u.Name = fmt.Sprintf("u%d", i)
		u.BaseURL = ""
		c.Upstreams = append(c.Upstreams, u)
	}
	c.Server.DrainTimeout = -time.Second
	var paths []string
	for _, p := range c.Validate() {
		if !p.Warning {
			paths = append(paths, p.Path)
		}
	}
	want := []string{"server.drain_timeout"}
	for i := range 11 {
		want = append(want, fmt.Sprintf("upstream[%d].base_url", i+1))
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
}

func TestComparePaths(t *testing.T) {
	path := rapid.StringMatching(`([a-c]|\[[0-9]{1,3}\]|\.){0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := path.Draw(t, "a"), path.Draw(t, "b"), path.Draw(t, "c")
		list := []string{a, b, c}
		slices.SortFunc(list, comparePaths)
		if comparePaths(a, b) != -comparePaths(b, a) || comparePaths(list[0], list[2]) > 0 || comparePaths(a, a) != 0 {
			t.Fatalf("no order: %q", list)
		}
	})
}

func TestDidYouMean(t *testing.T) {
	known := []string{"anthropic", "openai", "a"}
	for word, want := range map[string]string{
		"antropic": ` Did you mean "anthropic"?`, "opnai": ` Did you mean "openai"?`, "ghost": "", "b": "", "": "",
	} {
		if got := didYouMean(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// TestProblemsKeepSecrets puts a credential wherever people put one, by right or by mistake.
func TestProblemsKeepSecrets(t *testing.T) {
	const key = "sk-QZQZ"
	c := valid()
	u := &c.Upstreams[0]
	u.BaseURL, u.Auth = "https://user:"+key+"@a.example/?key="+key, key
	u.APIKey = NewSecret(key+"\n", "")
	u.Headers = map[string]Secret{"Authorization": NewSecret(key+"\n", ""), "a b": NewSecret(key, "")}
	u.Mode, u.DeveloperRole = key, key
	c.Auth.Keys = []Key{{Name: "a", Secret: NewSecret(" "+key, ""), Scope: key}}
	c.State = State{Kind: key, URL: NewSecret(key, "")}
	c.Telemetry.OTLP = OTLP{Endpoint: "x" + key, Protocol: key, Headers: map[string]Secret{"a": NewSecret(key+"\n", "")}}
	problems := c.Validate()
	if len(problems) < 12 {
		t.Errorf("only %d problems", len(problems))
	}
	for _, p := range problems {
		if strings.Contains(p.Error(), "QZQZ") {
			t.Error(p)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", c.Upstreams[0].Headers, c.Auth.Keys[0].Secret, c.State.URL); strings.Contains(text, "QZQZ") {
		t.Error(text)
	}
}

// TestLaterKnowsItsPaths checks that every line of the table fires for a configuration that asks for everything, and for
// none that is at its defaults.
func TestLaterKnowsItsPaths(t *testing.T) {
	c := valid()
	for _, l := range later {
		if got := l.asked(&c); got != nil {
			t.Errorf("%s is refused at its default: %v", l.what, got)
		}
	}
	c.Passthrough = &Passthrough{}
	c.State.Kind = "redis"
	u := &c.Upstreams[0]
	u.Command, u.Mode, u.ReplayReasoning = []string{"x"}, "persistent", true
	for _, l := range later {
		if got := l.asked(&c); len(got) != 1 {
			t.Errorf("%s: %v", l.what, got)
		}
	}
}

// Issued keys close the door as configured ones do, so that other machines may stand before it.
func TestIssuedKeysAreADoor(t *testing.T) {
	for file, want := range map[string]string{"": "server.listen", "keys.json": "auth.issued_keys_file"} {
		c := valid()
		c.Server.Listen, c.Auth.IssuedKeysFile = "0.0.0.0:4141", file
		got := c.Validate()
		if len(got) != 1 || got[0].Path != want || got[0].Warning != (file != "") {
			t.Errorf("%q: %v", file, got)
		}
	}
	c := valid()
	c.Auth.IssuedKeysFile, c.Auth.Keys = "keys.json", []Key{{Name: "ops", Secret: NewSecret("k", "env K"), Scope: "admin"}}
	if got := c.Validate(); got != nil {
		t.Error(got)
	}
}

func TestCaptureIsWarnedOf(t *testing.T) {
	for mode, want := range map[string]int{"off": 0, "failed": 1, "all": 1} {
		c, n := valid(), 0
		c.Telemetry.Capture = mode
		for _, p := range c.Validate() {
			if p.Path == "telemetry.capture" && p.Warning {
				n++
			}
		}
		if n != want {
			t.Errorf("%s: %d warnings", mode, n)
		}
	}
}
