package control_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/secrets/keyring"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	d := open(t)
	code, made := d.ask("ops", "POST", "/api/keys", `{"name":"ci","group":"team"}`)
	secret, _ := made["key"].(string)
	id, _ := made["id"].(string)
	if code != 201 || !strings.HasPrefix(secret, keyring.Prefix) || len(secret) != len(keyring.Prefix)+32 || id == "" {
		t.Fatalf("%d %v", code, made)
	}
	delete(made, "key")
	want := map[string]any{"id": id, "name": "ci", "group": "team", "createdAt": "2030-01-02T03:04:05Z", "revoked": false}
	if diff := cmp.Diff(want, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	d.issued = secret
	ask := func() int {
		code, _ := d.ask("issued", "POST", "/v1/chat/completions", `{"model":"org/m","messages":[]}`)
		return code
	}
	if got := ask(); got != 200 {
		t.Errorf("the new key: %d", got)
	}
	last := func() any {
		_, got := d.ask("ops", "GET", "/api/keys", "")
		list, _ := got["keys"].([]any)
		if len(list) != 2 {
			t.Fatalf("%v", got)
		}
		return list[1]
	}
	if diff := cmp.Diff(any(want), last()); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	want["revoked"] = true
	for range 2 {
		if code, got := d.ask("ops", "DELETE", "/api/keys?id="+id, ""); code != 200 || cmp.Diff(want, got) != "" {
			t.Errorf("%d %v", code, got)
		}
	}
	if diff := cmp.Diff(any(want), last()); diff != "" {
		t.Errorf("revoked (-want +got):\n%s", diff)
	}
	if got := ask(); got != 401 {
		t.Errorf("the revoked key: %d", got)
	}
	raw, err := os.ReadFile(d.engine.Snapshot().Auth.IssuedKeysFile)
	if err != nil || strings.Contains(string(raw), secret) || strings.Contains(string(raw), secret[len(keyring.Prefix):]) {
		t.Errorf("the file has the key: %s %v", raw, err)
	}
}

// An issued key is the caller's name to those who watch, and its group is a limit.
func TestKeysAreCallers(t *testing.T) {
	t.Parallel()
	d := open(t)
	var seen []string
	d.engine.OnEvent(func(e *router.Event) {
		if e.Phase == router.PhaseCompleted {
			seen = append(seen, e.Key)
		}
	})
	const path, body = "/v1/chat/completions", `{"model":"org/m","messages":[]}`
	if code, got := d.ask("issued", "POST", path, body); code != 200 {
		t.Errorf("%d %v", code, got)
	}
	_, secret, err := d.keys.Issue("outsider", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	d.issued = secret
	if code, got := d.ask("issued", "POST", path, body); code == 200 {
		t.Errorf("outside its group: %v", got)
	}
	if diff := cmp.Diff([]string{"laptop", "outsider"}, seen); diff != "" {
		t.Errorf("callers (-want +got):\n%s", diff)
	}
	if n := len(d.up.Calls()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

func TestKeysRefused(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/api/keys", `{}`, 400, "1 to 64 characters"},
		{"POST", "/api/keys", `{"name":"` + strings.Repeat("ä", 65) + `"}`, 400, "1 to 64 characters"},
		{"POST", "/api/keys", `{"name":"a\nb"}`, 400, "control characters"},
		{"POST", "/api/keys", `{"name":"laptop"}`, 409, "another key"},
		{"POST", "/api/keys", `{"name":"ops"}`, 409, "another key"},
		{"POST", "/api/keys", `{"name":"x","group":"nope"}`, 400, "team"},
		{"POST", "/api/keys", `{"name":"x","scope":"admin"}`, 400, "scope"},
		{"DELETE", "/api/keys", ``, 400, "?id="},
		{"DELETE", "/api/keys?id=knope", ``, 404, "no issued key"},
	} {
		code, got := d.ask("ops", c.method, c.path, c.body)
		if text, _ := json.Marshal(got); code != c.code || !strings.Contains(string(text), c.says) {
			t.Errorf("%s %s %s: %d %s, want %d with %q", c.method, c.path, c.body, code, text, c.code, c.says)
		}
	}
	if n := len(d.keys.List()); n != 1 {
		t.Errorf("%d keys", n)
	}
	if err := d.keys.Use(""); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*control.Handler{d.plane, control.New(d.engine, control.Options{})} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			code, got := d.send(h, "ops", method, "/api/keys", `{"name":"x"}`)
			if text, _ := json.Marshal(got); code != 404 || !strings.Contains(string(text), "issued_keys_file") {
				t.Errorf("off, %s: %d %s", method, code, text)
			}
		}
	}
}
