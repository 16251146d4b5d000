package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// environment is what the files of the tests see.
func environment(name string) (string, bool) {
	v, ok := map[string]string{"KEY_A": "sk-from-env", "EMPTY": ""}[name]
	return v, ok
}

func parse(t testing.TB, path string) (*File, hcl.Diagnostics) {
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Parse(src, path, environment)
}

// expected reads the marks "# ERROR: summary" and "# WARN: summary" off the lines of a file.
func expected(src []byte) (list []string) {
	for i, line := range strings.Split(string(src), "\n") {
		for _, mark := range strings.Split(line, "# ")[1:] {
			for word, severity := range map[string]string{"ERROR: ": "error", "WARN: ": "warning"} {
				if summary, ok := strings.CutPrefix(mark, word); ok {
					list = append(list, fmt.Sprintf("%d %s: %s", i+1, severity, strings.TrimSpace(summary)))
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

func found(diags hcl.Diagnostics) (list []string) {
	for _, d := range diags {
		severity := "error"
		if d.Severity == hcl.DiagWarning {
			severity = "warning"
		}
		list = append(list, fmt.Sprintf("%d %s: %s", d.Subject.Start.Line, severity, d.Summary))
	}
	slices.Sort(list)
	return list
}

func TestFiles(t *testing.T) {
	for _, path := range files(t) {
		t.Run(strings.TrimPrefix(path, "testdata/"), func(t *testing.T) {
			f, diags := parse(t, path)
			if diff := cmp.Diff(expected(f.Source), found(diags)); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
			if bad := filepath.Base(filepath.Dir(path)) == "bad"; bad != diags.HasErrors() {
				t.Errorf("errors: %v, want %v", diags.HasErrors(), bad)
			}
			var out bytes.Buffer
			_ = Write(&out, diags, f, false)
			for _, d := range diags {
				at := fmt.Sprintf("%s:%d", filepath.Base(path), d.Subject.Start.Line)
				if !strings.Contains(d.Error(), at) || !strings.Contains(out.String(), at) {
					t.Errorf("%s is not in %q", at, d.Error())
				}
			}
			if testing.Verbose() {
				t.Log("\n" + out.String())
			}
		})
	}
}

// TestWarningsSayWhatToDo: what a warning is about and why is of little use to those who do not know what would be right.
func TestWarningsSayWhatToDo(t *testing.T) {
	advice := regexp.MustCompile(`\. (Add|Enable|Leave|Rename|Take|Use) [^.]*\S.*\.$`)
	told := 0
	for _, path := range files(t) {
		_, diags := parse(t, path)
		for _, d := range diags {
			if d.Severity != hcl.DiagWarning {
				continue
			}
			told++
			if !advice.MatchString(d.Detail) {
				t.Errorf("%s:%d: %q has no advice: %q", path, d.Subject.Start.Line, d.Summary, d.Detail)
			}
		}
	}
	if told == 0 {
		t.Error("no file has a warning")
	}
}

func files(t testing.TB) []string {
	paths, err := filepath.Glob("testdata/*/*.hcl")
	if err != nil || len(paths) == 0 {
		t.Fatal("no files")
	}
	return paths
}

func TestValues(t *testing.T) {
	f, diags := parse(t, "testdata/good/full.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	u := f.Config.Upstreams[0]
	got := map[string]string{}
	for name, raw := range u.Set {
		got[name] = string(raw)
	}
	want := map[string]string{
		"temperature": "0.30000000000000004",
		"seed":        "12345678901234567890",
		"nothing":     "null",
		"nested":      `{"list":[1,"two",true,null],"text":"\u003c\u0026\u003e"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	secrets := map[string][2]string{}
	for name, s := range map[string]settings.Secret{
		"api_key": u.APIKey, "authorization": u.Headers["Authorization"], "title": u.Headers["X-Title"],
		"agents": f.Config.Auth.Keys[0].Secret, "ops": f.Config.Auth.Keys[1].Secret, "otlp": f.Config.Telemetry.OTLP.Headers["api-key"],
		"none": f.Config.Upstreams[1].APIKey,
	} {
		secrets[name] = [2]string{s.Reveal(), s.Origin()}
	}
	wantSecrets := map[string][2]string{
		"api_key": {"sk-from-env", "env KEY_A"}, "authorization": {"Bearer sk-from-env", "env KEY_A"}, "title": {"signalbox", "literal"},
		"agents": {"sk-from-env", "env KEY_A"}, "ops": {"sk-from-file", "file key"}, "otlp": {"sk-from-env", "env KEY_A"}, "none": {},
	}
	if diff := cmp.Diff(wantSecrets, secrets); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
	if s := f.Config.Server; s.MaxBody != 64<<20 || s.DrainTimeout != settings.Defaults().Server.DrainTimeout {
		t.Errorf("server is %+v", s)
	}
	if f.Config.Telemetry.Traces.SampleRatio == nil || *f.Config.Telemetry.Traces.SampleRatio != 0 {
		t.Error("a sample ratio of 0 is lost")
	}
}

// TestPointers checks that blocks that are off unless present start from their defaults.
func TestPointers(t *testing.T) {
	f, _ := Parse([]byte("upstream \"a\" {\n health_check {\n failures = 7\n }\n}\nusage {}\npassthrough {}\n"), "x.hcl", environment)
	want := settings.DefaultHealthCheck()
	want.Failures = 7
	if diff := cmp.Diff(&want, f.Config.Upstreams[0].HealthCheck); diff != "" {
		t.Error(diff)
	}
	if f.Config.Usage == nil || f.Config.Usage.Path != "usage.db" || f.Config.Passthrough == nil {
		t.Errorf("usage %+v, passthrough %+v", f.Config.Usage, f.Config.Passthrough)
	}
}

// TestPathsStartAtTheFile checks where what the router itself writes goes.
func TestPathsStartAtTheFile(t *testing.T) {
	for _, c := range []struct{ file, path, want string }{
		{"/etc/signalbox/config.hcl", "kept", "/etc/signalbox/kept"},
		{"/etc/signalbox/config.hcl", "./data/../kept", "/etc/signalbox/kept"},
		{"/etc/signalbox/config.hcl", "/var/kept", "/var/kept"},
		{"/etc/signalbox/config.hcl", "~/kept", "~/kept"},
		{"/etc/signalbox/config.hcl", "~kept", "/etc/signalbox/~kept"},
		{"conf/config.hcl", "../kept", "kept"},
		{"config.hcl", "kept", "kept"},
	} {
		f, _ := Parse(fmt.Appendf(nil, "auth {\n issued_keys_file = %q\n}\nusage {\n path = %[1]q\n}\n", c.path), c.file, environment)
		if f.Config.Usage.Path != c.want || f.Config.Auth.IssuedKeysFile != c.want {
			t.Errorf("%s in %s: usage %s, keys %s; want %s", c.path, c.file, f.Config.Usage.Path, f.Config.Auth.IssuedKeysFile, c.want)
		}
	}
	f, _ := Parse([]byte("auth {}\nusage {}\n"), "/etc/signalbox/config.hcl", environment)
	if f.Config.Usage.Path != "/etc/signalbox/usage.db" || f.Config.Auth.IssuedKeysFile != "" {
		t.Errorf("defaults: usage %s, keys %q", f.Config.Usage.Path, f.Config.Auth.IssuedKeysFile)
	}
}

// TestProfile checks that every block starts from the profile and that what is written wins.
func TestProfile(t *testing.T) {
	f, diags := parse(t, "testdata/good/profile.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	from, _ := settings.Profile("copilot-api-router")
	a, b, wantA, wantB := f.Config.Upstreams[0], f.Config.Upstreams[1], from.Upstream, from.Upstream
	wantA.Name, wantA.BaseURL, wantA.Wires, wantA.Auth = "a", a.BaseURL, a.Wires, "bearer"
	wantA.HealthCheck = &settings.HealthCheck{Path: "/v1/models", Interval: 20 * time.Second, Failures: 7}
	wantB.Name, wantB.BaseURL, wantB.Wires = "b", b.BaseURL, b.Wires
	wantModel := from.Model
	wantModel.ID, wantModel.Targets = "m", f.Config.Models[0].Targets
	want := from.Config
	want.Server.MaxBody, want.Affinity.Sources = 1<<20, nil
	want.Upstreams, want.Models = []settings.Upstream{wantA, wantB}, []settings.Model{wantModel}
	if diff := cmp.Diff(want, f.Config, alike); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestProfileClients checks that the client rules of a file stand in place of the profile's.
func TestProfileClients(t *testing.T) {
	for src, want := range map[string]string{
		"profile = \"optaris\"\n": "claude-code codex",
		"client \"a\" {\n retries = 4\n}\nprofile = local.p\nlocals { p = \"optaris\" }\n": "a",
		"profile = null\n":                  "",
		"profile = env(\"UNSET\")\n":        "",
		"profile = [\"optaris\"]\n":         "",
		"profile = env(\"U\", \"optaris\")": "claude-code codex",
	} {
		f, _ := Parse([]byte(src), "x.hcl", environment)
		var got []string
		for _, c := range f.Config.Clients {
			got = append(got, c.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %v, want %s", src, got, want)
		}
	}
}

func TestSyntaxError(t *testing.T) {
	for src, line := range map[string]int{
		"upstream \"a\" {\n  base_url = \"x\"\n": 1,
		"server {\n  listen = \n}\n":             2,
		"server {\n  listen = \"a\n}\n":          2,
	} {
		_, diags := Parse([]byte(src), "/etc/config.hcl", environment)
		if !diags.HasErrors() || !strings.Contains(diags[0].Error(), fmt.Sprintf("config.hcl:%d", line)) {
			t.Errorf("%q gives %v", src, diags)
		}
	}
	for _, src := range []string{"", "\n", "# nothing\n", "\ufeff"} {
		if _, diags := Parse([]byte(src), "config.hcl", environment); !diags.HasErrors() {
			t.Errorf("%q is accepted", src)
		}
	}
}

func TestMissingFile(t *testing.T) {
	f, diags := Load(filepath.Join(t.TempDir(), "config.hcl"))
	if f == nil || !diags.HasErrors() || !strings.Contains(diags[0].Error(), "config.hcl:1") {
		t.Errorf("%v %v", f, diags)
	}
}

func FuzzParse(f *testing.F) {
	for _, path := range files(f) {
		src, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		file, diags := Parse(src, "config.hcl", environment)
		for _, d := range diags {
			if d.Subject == nil {
				t.Fatalf("%v has no place", d)
			}
		}
		var out bytes.Buffer
		_ = Write(&out, diags, file, true)
	})
}
