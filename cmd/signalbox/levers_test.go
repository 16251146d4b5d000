package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/secrets/keyring"
)

// TestLevers runs each script against a router of its own, made from the script's config.hcl, which refers to the upstream
// as env("UPSTREAM"). The control plane is at $SIGNALBOX_URL. "ask MODEL [FILE]" sends a request, with the key in a file;
// "revoke NAME" runs the command with the id of that key.
func TestLevers(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/levers",
		Setup: func(e *testscript.Env) error { return startFor(t, e) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ask": func(s *testscript.TestScript, neg bool, args []string) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Getenv("SIGNALBOX_URL")+"/v1/chat/completions", strings.NewReader(`{"model":"`+args[0]+`","messages":[]}`))
				s.Check(err)
				key := s.Getenv("SIGNALBOX_ADMIN_KEY")
				if len(args) > 1 {
					key = strings.TrimSpace(s.ReadFile(args[1]))
				}
				req.Header.Set("Authorization", "Bearer "+key)
				resp, err := http.DefaultClient.Do(req)
				s.Check(err)
				defer resp.Body.Close()
				if body, _ := io.ReadAll(resp.Body); (resp.StatusCode == http.StatusOK) == neg {
					s.Fatalf("%s: %s", resp.Status, body)
				}
			},
			"revoke": func(s *testscript.TestScript, _ bool, args []string) {
				var file struct{ Keys []keyring.Key }
				s.Check(json.Unmarshal([]byte(s.ReadFile("keys.json")), &file))
				for _, k := range file.Keys {
					if k.Name == args[0] {
						s.Check(s.Exec("signalbox", "keys", "revoke", k.ID))
					}
				}
			},
		},
	})
}

func startFor(t *testing.T, e *testscript.Env) error {
	t.Helper()
	up := routertest.NewUpstream()
	e.Defer(up.Close)
	file := filepath.Join(e.WorkDir, "config.hcl")
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	values := map[string]string{"UPSTREAM": up.URL + "/v1", "KEYS": filepath.Join(e.WorkDir, "keys.json")}
	loaded, diags := config.Parse(src, file, func(name string) (string, bool) { return values[name], true })
	if diags.HasErrors() {
		return diags
	}
	silent := slog.New(slog.DiscardHandler)
	ring := keyring.New(time.Now, silent)
	if err := ring.Use(loaded.Config.Auth.IssuedKeysFile); err != nil {
		return err
	}
	engine, err := router.New(loaded.Config, router.WithLogger(silent), router.WithKeyring(ring))
	if err != nil {
		return err
	}
	server := httptest.NewServer(control.New(engine, control.Options{Keys: ring}).Or(engine.Handler()))
	e.Defer(func() { server.Close(); engine.Close() })
	e.Setenv("SIGNALBOX_URL", server.URL)
	e.Setenv("SIGNALBOX_ADMIN_KEY", "key-of-ops")
	e.Setenv("TZ", "UTC")
	return nil
}
