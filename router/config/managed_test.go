package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/secrets"
)

// configured puts a configuration in place whose upstream has a provider by an expression, which reloads then tell.
func (w *watching) configured(expression string) string {
	w.t.Helper()
	path := w.write("config.hcl", "a")
	src, err := os.ReadFile(path)
	w.must(err)
	text := strings.Replace(string(src), "base_url", "provider = "+expression+"\n base_url", 1)
	w.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (w *watching) set(name, value string) {
	w.t.Helper()
	w.must(secrets.At(w.path("secrets.json")).Set(name, value, "", time.Now()))
}

func TestWatchSecret(t *testing.T) {
	w := watch(t, hurry, func(w *watching) string {
		w.set("WATCHED_NAME", "one")
		return w.configured(`secret("WATCHED_NAME")`)
	})
	w.set("WATCHED_NAME", "two")
	w.want("a two")
	w.must(secrets.At(w.path("secrets.json")).Unset("WATCHED_NAME", "", time.Now()))
	w.want("signalbox secret set WATCHED_NAME")
	w.set("WATCHED_NAME", "three")
	w.want("a three")
	w.must(os.Chmod(w.path("secrets.json"), 0o644))
	w.want("chmod 600")
	w.must(os.Chmod(w.path("secrets.json"), 0o600))
	w.want("a three")
}

// TestWatchEnv has a name that only .env knows at first, which is read once.
func TestWatchEnv(t *testing.T) {
	w := watch(t, hurry, func(w *watching) string {
		w.must(os.WriteFile(w.path(".env"), []byte("WATCHED_ENV_NAME=beside\n"), 0o600))
		return w.configured(`env("WATCHED_ENV_NAME")`)
	})
	w.must(os.WriteFile(w.path(".env"), []byte("WATCHED_ENV_NAME=changed\n"), 0o600))
	w.wantNothing()
	w.set("WATCHED_ENV_NAME", "managed")
	w.want("a managed")
	w.must(secrets.At(w.path("secrets.json")).Unset("WATCHED_ENV_NAME", "", time.Now()))
	w.want("a beside")
	if value, set := os.LookupEnv("WATCHED_ENV_NAME"); set {
		t.Errorf("the environment has got %q", value)
	}
}

// TestWatchUnusedSecrets: a file of secrets that the configuration does not ask for is no reason to reload.
func TestWatchUnusedSecrets(t *testing.T) {
	w := watch(t, hurry, func(w *watching) string { return w.write("config.hcl", "a") })
	w.set("WATCHED_OTHER", "one")
	w.wantNothing()
}

// TestOrigin asks all sources for one name, taking away the winner each time.
func TestOrigin(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.hcl")
	store := secrets.At(filepath.Join(dir, "secrets.json"))
	shell := map[string]string{"KEY": "sk-shell"}
	env := func(name string) (string, bool) { v, ok := shell[name]; return v, ok }
	if err := os.WriteFile(filepath.Join(dir, ".env"), []byte("KEY=sk-dotenv"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Set("KEY", "sk-managed", "", time.Now()); err != nil {
		t.Fatal(err)
	}
	sources := secrets.Open(path, env)
	src := []byte("upstream \"a\" {\n base_url = \"http://127.0.0.1\"\n wires = [\"gemini\"]\n api_key = env(\"KEY\")\n}\nmodel \"*\" {\n target \"a\" {}\n}\n")
	for _, c := range []struct {
		want [2]string
		then func()
	}{
		{[2]string{"sk-shell", "env KEY"}, func() { delete(shell, "KEY") }},
		{[2]string{"sk-managed", "secret KEY"}, func() { _ = store.Unset("KEY", "", time.Now()) }},
		{[2]string{"sk-dotenv", ".env KEY"}, func() { sources.DotEnv = secrets.DotEnv{} }},
	} {
		f, diags := parseFrom(src, path, sources)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		key := f.Config.Upstreams[0].APIKey
		if diff := cmp.Diff(c.want, [2]string{key.Reveal(), key.Origin()}); diff != "" {
			t.Error(diff)
		}
		c.then()
	}
	if _, diags := parseFrom(src, path, sources); len(diags) != 1 || !strings.Contains(diags[0].Detail, "signalbox secret set KEY") || diags[0].Subject.Start.Line != 4 {
		t.Errorf("without any: %v", diags)
	}
}

func TestReferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.hcl")
	src := `locals { one = "${env("A")}x" }
upstream "u" {
  headers = {
    X-A = env("A", "b")
    X-B = secret("B")
  }
  api_key = env(local.one) # not to be known without evaluating
  set     = { a = file("C") }
}
auth {
  key "k" {
    secret = "sk-${secret("D")}-${env("not a name")}"
  }
}
server { # never closed
`
	if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := References(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Reference{{"A", "locals.one", 1}, {"A", "upstream.u.headers", 4}, {"B", "upstream.u.headers", 5}, {"D", "auth.key.k.secret", 12}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := References(path + ".none"); err == nil {
		t.Error("a file that is not there gives no error")
	}
}
