package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// A reload turns issued keys on, moves their file and turns them off again; profiles are on the control plane's own
// listener alone.
func TestServeKeys(t *testing.T) {
	defer slog.SetDefault(slog.Default())
	defer log.SetOutput(os.Stderr)
	for _, name := range []string{"SIGNALBOX_KEY", "SIGNALBOX_ADMIN_KEY", "SIGNALBOX_URL"} {
		t.Setenv(name, "")
	}
	up := routertest.NewUpstream()
	defer up.Close()
	public, admin := routertest.FreeAddress(), routertest.FreeAddress()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.hcl")
	configure := func(auth string) {
		write(t, file, fmt.Sprintf(`
server {
  listen       = %q
  admin_listen = %q
}
%s
upstream "u" {
  base_url = %q
  wires    = ["openai-chat"]
}
model "m" {
  target "u" {}
}
`, public, admin, auth, up.URL))
	}
	keysIn := func(name string) string {
		return fmt.Sprintf("auth {\n  key \"ops\" {\n    secret = \"key-of-ops\"\n    scope = \"admin\"\n  }\n  issued_keys_file = %q\n}\n", filepath.Join(dir, name))
	}
	configure("")
	var out output
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() { ended <- run(ctx, env{nil, io.Discard, &out}, []string{"serve", "-config", file}) }()
	eventually(t, "readiness", func() bool {
		status, _, _ := invoke("healthcheck", "http://"+public+"/readyz")
		return status == 0
	})
	ask := func(key, method, url string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+url, strings.NewReader(`{"model":"m","messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	chat := func(key string) int { return ask(key, http.MethodPost, public+"/v1/chat/completions") }
	profiles := func(key string) [2]int {
		return [2]int{ask(key, http.MethodGet, public+"/debug/pprof/heap"), ask(key, http.MethodGet, admin+"/debug/pprof/heap")}
	}
	if got := profiles(""); got != [2]int{404, 200} {
		t.Errorf("profiles without any key: %v", got)
	}
	configure(keysIn("one.json"))
	eventually(t, "a closed door", func() bool { return chat("") == 401 })
	for key, want := range map[string][2]int{"": {404, 401}, "key-of-ops": {404, 200}} {
		if got := profiles(key); got != want {
			t.Errorf("profiles with key %q: %v, want %v", key, got, want)
		}
	}
	t.Setenv("SIGNALBOX_ADMIN_KEY", "key-of-ops")
	if status, _, stderr := invoke("keys", "-url", "http://"+public); status != 1 || !strings.Contains(stderr, "admin_listen") {
		t.Errorf("%d %s", status, stderr)
	}
	issue := func() string {
		t.Helper()
		status, stdout, stderr := invoke("keys", "issue", "laptop", "-url", "http://"+admin)
		if status != 0 {
			t.Fatal(stderr)
		}
		return strings.TrimSpace(stdout)
	}
	one := issue()
	if got := chat(one); got != 200 {
		t.Errorf("an issued key: %d", got)
	}
	configure(keysIn("no/such/folder.json"))
	eventually(t, "the refusal", func() bool { return strings.Contains(out.String(), "no/such") })
	if got := chat(one); got != 200 {
		t.Errorf("after a bad reload: %d", got)
	}
	configure(keysIn("two.json"))
	eventually(t, "the other file", func() bool { return chat(one) == 401 })
	if got := chat(issue()); got != 200 {
		t.Errorf("a key in the other file: %d", got)
	}
	configure("")
	eventually(t, "an open door", func() bool { return chat("") == 200 })
	stop()
	if status := <-ended; status != 0 {
		t.Errorf("ended with status %d:\n%s", status, out.String())
	}
	if strings.Contains(out.String(), one) {
		t.Error("a key is in the log")
	}
}
