package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/routertest"
)

const explainConfig = `
server {
  max_body = "1MiB"
}
auth {
  key "agents" {
    secret = "key-of-agents"
    group  = "team"
  }
  key "ops" {
    secret = "key-of-ops"
    scope  = "admin"
  }
}
group "team" { upstreams = ["work", "spare"] }
upstream "work" {
  base_url = "UPSTREAM/v1"
  wires    = ["anthropic-messages"]
  api_key  = "sk-1"
  health_check {}
}
upstream "spare" {
  base_url     = "UPSTREAM/v1"
  wires        = ["anthropic-messages"]
  api_key      = "sk-2"
  price_weight = 2
}
upstream "other" {
  base_url = "UPSTREAM/v1"
  wires    = ["anthropic-messages"]
  api_key  = "sk-3"
}
model "sonnet" {
  strategy = "scored"
  target "work" { model = "s-4-5" }
  target "spare" { model = "s-4-5" }
  target "other" { model = "s-4-5" }
}
`

// explainFiles writes the configuration, a body, and the same as a captured request.
func explainFiles(t *testing.T, upstream string) (config, body, captured string) {
	t.Helper()
	quiet(t)
	dir := t.TempDir()
	config, body, captured = filepath.Join(dir, "config.hcl"), filepath.Join(dir, "body.json"), filepath.Join(dir, "captured.json")
	write(t, config, strings.ReplaceAll(explainConfig, "UPSTREAM", upstream))
	const text = `{"model":"sonnet","messages":[{"role":"user","content":"hi"}]}`
	write(t, body, text)
	write(t, captured, `{"method":"POST","path":"/v1/messages","query":"beta=true","headers":{"x-session-id":"abc"},"body":`+text+`}`)
	return config, body, captured
}

func TestExplainConfiguration(t *testing.T) {
	config, body, captured := explainFiles(t, "http://127.0.0.1:1")
	t.Setenv("SIGNALBOX_KEY", "")
	const plan = `
    #  UPSTREAM  MODEL  MAY BE TRIED  WHY                          BACK IN
    1  work      s-4-5  yes           by the strategy, score 1.00
    2  spare     s-4-5  yes           by the strategy, score 0.71
`
	for _, c := range []struct {
		name string
		args []string
		key  string
		want string
	}{
		{"captured", []string{captured}, "key-of-agents", `model sonnet · wire anthropic-messages · strategy scored · decision strategy · session 1a47e90b from x-session-id (main)` + plan +
			"    -  other     s-4-5  no            outside the group of the caller's key\n"},
		{
			"body",
			[]string{"-path", "/v1/messages", "-H", "X-Session-Id: abc", "-H", "x-api-key:key-of-agents", body},
			"key-of-ops",
			`model sonnet · wire anthropic-messages · strategy scored · decision strategy · session 1a47e90b from x-session-id (main)` + plan +
				"    -  other     s-4-5  no            outside the group of the caller's key\n",
		},
		{
			"path",
			[]string{"-path", "/upstreams/spare/v1/messages", captured},
			"key-of-agents",
			`model sonnet · wire anthropic-messages · strategy scored · decision pinned · session 1a47e90b from x-session-id (main)
    #  UPSTREAM  MODEL  MAY BE TRIED  WHY                                    BACK IN
    1  spare     s-4-5  yes           the path names it, score 1.00
    -  work      s-4-5  no            the path names another one
    -  other     s-4-5  no            outside the group of the caller's key
`,
		},
	} {
		t.Setenv("SIGNALBOX_KEY", c.key)
		status, stdout, stderr := invoke(append([]string{"explain", "-config", config}, c.args...)...)
		if status != 0 {
			t.Errorf("%s: status %d: %s", c.name, status, stderr)
		}
		if diff := cmp.Diff(align(c.want), align(stdout)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	for never, want := range map[string]bool{"": true, "1": false} {
		t.Setenv("FORCE_COLOR", "1")
		t.Setenv("NO_COLOR", never)
		if _, stdout, _ := invoke("explain", "-config", config, captured); strings.Contains(stdout, "\x1b[32myes") != want {
			t.Errorf("NO_COLOR=%s: %q", never, stdout)
		}
	}
}

// align makes runs of spaces within a line as one, since the last column is as wide as what is longest.
func align(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestExplainRouter(t *testing.T) {
	up := routertest.NewUpstream(routertest.Good("hello", routertest.Usage{}))
	defer up.Close()
	file, body, captured := explainFiles(t, up.URL)
	loaded, diags := config.Load(file)
	if diags.HasErrors() {
		t.Fatal(config.Lines(diags))
	}
	loaded.Config.Upstreams[0].HealthCheck = nil
	engine, err := router.New(loaded.Config, router.WithClock(func() time.Time { return time.Unix(1e9, 0) }))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	server := httptest.NewServer(control.New(engine, control.Options{}).Or(engine.Handler()))
	defer server.Close()
	if err := engine.Cool("work", "", time.Minute); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) (int, string, string) {
		return invoke(append([]string{"explain", "-url", server.URL + "/"}, args...)...)
	}

	t.Setenv("SIGNALBOX_KEY", "")
	for key, want := range map[string]string{"": "401 unauthorized", "key-of-agents": "403 forbidden"} {
		t.Setenv("SIGNALBOX_ADMIN_KEY", key)
		if status, _, stderr := ask(captured); status != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, "SIGNALBOX_ADMIN_KEY") {
			t.Errorf("key %q: %d %s", key, status, stderr)
		}
	}
	t.Setenv("SIGNALBOX_ADMIN_KEY", "key-of-ops")
	want := `model sonnet · wire anthropic-messages · strategy scored · decision strategy · session 1a47e90b from x-session-id (main)
# UPSTREAM MODEL MAY BE TRIED WHY BACK IN
1 other s-4-5 yes by the strategy, score 1.00
2 work s-4-5 not now cooled by hand, score 1.00 1m0s
3 spare s-4-5 yes by the strategy, score 0.71
`
	if status, stdout, stderr := ask(captured); status != 0 || cmp.Diff(align(want), align(stdout)) != "" {
		t.Errorf("%d %s\n%s", status, stderr, cmp.Diff(align(want), align(stdout)))
	}
	var x router.Explanation
	status, stdout, stderr := ask("-json", "-path", "/backends/1/v1/messages", body)
	if err := json.Unmarshal([]byte(stdout), &x); err != nil || status != 0 || x.Decision != "pinned" || x.Plan[0].Upstream != "spare" {
		t.Errorf("%d %s%s", status, stdout, stderr)
	}
	if status, _, stderr := ask("-path", "/v1/embeddings", body); status != 1 || !strings.Contains(stderr, "404 unsupported_endpoint") {
		t.Errorf("%d %s", status, stderr)
	}
	if n := len(up.Calls()); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
}

// The bytes of a body reach the router as they are in the file.
func TestExplainSendsBytes(t *testing.T) {
	quiet(t)
	t.Setenv("SIGNALBOX_KEY", "")
	sent := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sent <- string(b)
		_, _ = w.Write([]byte(`{"model":"m","plan":[]}`))
	}))
	defer server.Close()
	for body, want := range map[string]string{
		"{ \"model\" : \"<\",\n\"a\":1.50}\n": "{ \"model\" : \"<\",\n\"a\":1.50}\n",
		"no JSON":                             `"no JSON"`,
	} {
		var out, errs output
		status := run(t.Context(), env{strings.NewReader(body), &out, &errs}, []string{"explain", "-url", server.URL, "-path", "/v1/x", "-H", "a: 1", "-H", "a:2", "-"})
		if got := <-sent; status != 0 || got != `{"path":"/v1/x","headers":{"A":["1","2"]},"body":`+want+`}` {
			t.Errorf("%d %s\n%s", status, got, errs.String())
		}
	}
}

func TestExplainMisused(t *testing.T) {
	config, body, captured := explainFiles(t, "http://127.0.0.1:1")
	broken := filepath.Join(t.TempDir(), "broken.hcl")
	write(t, broken, `model "m" {}`)
	notThere := httptest.NewServer(http.NotFoundHandler())
	defer notThere.Close()
	for _, c := range []struct {
		args   []string
		status int
		says   string
	}{
		{nil, 2, "one file is wanted"},
		{[]string{body, body}, 2, "one file is wanted"},
		{[]string{"-config", config, body}, 2, "-path is needed"},
		{[]string{"-H", "nothing", body}, 2, "NAME: VALUE"},
		{[]string{"-config", config, body + ".none"}, 1, "body.json.none"},
		{[]string{"-config", broken, captured}, 1, "No upstream"},
		{[]string{"-config", config, "-path", "/v1/responses", body}, 1, "400 protocol_mismatch"},
		{[]string{"-config", config, "-path", "/v1/messages", config}, 1, "400 invalid_body"},
		{[]string{"-url", notThere.URL, captured}, 1, "is there a Signalbox at that address?"},
		{[]string{"-url", "http://127.0.0.1:1", captured}, 1, "connection refused"},
	} {
		status, _, stderr := invoke(append([]string{"explain"}, c.args...)...)
		if status != c.status || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: status %d, want %d with %q:\n%s", c.args, status, c.status, c.says, stderr)
		}
	}
	var out, errs output
	if status := run(context.Background(), env{strings.NewReader("{}"), &out, &errs}, []string{"explain", "-h"}); status != 0 || !strings.Contains(out.String(), "-config") {
		t.Errorf("help: %d %s%s", status, out.String(), errs.String())
	}
}
