package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// output collects what a command writes while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// invoke runs one command to its end.
func invoke(args ...string) (status int, stdout, stderr string) {
	var out, errs output
	status = run(context.Background(), env{nil, &out, &errs}, args)
	return status, out.String(), errs.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, limit := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatal("waited in vain for " + what)
		}
	}
}

func TestCommandLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.hcl")
	const secret = "sk-do-not-show-this"
	t.Setenv("TEST_KEY", secret)
	write(t, file, `
upstream "a" {
  base_url = "https://a.example/v1"
  wires    = ["openai-chat"]
  api_key  = env("TEST_KEY")
}
model "m" {
  target "a" { model = "real" }
}
preset "p" { models = ["m"] }
`)
	broken := filepath.Join(t.TempDir(), "broken.hcl")
	write(t, broken, `
upstream "a" {
  base_url = "https://a.example/v1/chat/completions"
  wires    = ["openai-chat"]
  api_key  = "`+secret+`"
}
model "m" {
  strategi = "failover"
  target "b" {}
}
`)
	for _, c := range []struct {
		args   []string
		status int
		says   []string
	}{
		{[]string{"check", file}, 0, []string{"set (env TEST_KEY)", "a as real", "p       affinity  m\n", "is valid"}},
		{[]string{"check", broken}, 1, []string{"literal", "base_url", `Did you mean "strategy"`, `Unknown upstream "b"`, "broken.hcl:3", "is refused"}},
		{[]string{"check"}, 2, []string{"usage: signalbox check FILE"}},
		{[]string{"check", file + ".none"}, 1, []string{"config.hcl.none"}},
		{[]string{"serve", "-config", broken}, 1, []string{"broken.hcl:3"}},
		{[]string{"serve", "-nonsense"}, 2, []string{"usage"}},
		{[]string{"healthcheck", "http://127.0.0.1:1/readyz"}, 1, nil},
		{[]string{"version"}, 0, []string{"signalbox"}},
		{[]string{"nonsense"}, 2, []string{"no command", "signalbox demo"}},
		{nil, 0, []string{"signalbox serve"}},
	} {
		status, stdout, stderr := invoke(c.args...)
		if status != c.status {
			t.Errorf("%v: status %d, want %d", c.args, status, c.status)
		}
		for _, text := range c.says {
			if !strings.Contains(stdout+stderr, text) {
				t.Errorf("%v does not say %q:\n%s%s", c.args, text, stdout, stderr)
			}
		}
		if strings.Contains(stdout+stderr, secret) {
			t.Errorf("%v shows the key:\n%s%s", c.args, stdout, stderr)
		}
	}
}

// runServe runs the router in this process until stop, and tells then how it ended.
func runServe(t *testing.T, address, file string) (out *output, stop func() int) {
	t.Helper()
	logger := slog.Default()
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan int)
	out = &output{}
	go func() { ended <- run(ctx, env{nil, io.Discard, out}, []string{"serve", "-config", file}) }()
	eventually(t, "readiness", func() bool {
		status, _, _ := invoke("healthcheck", "http://"+address+"/readyz")
		return status == 0
	})
	return out, func() int {
		end()
		status := <-ended
		slog.SetDefault(logger)
		log.SetOutput(os.Stderr)
		return status
	}
}

// A stream that takes longer than the drain ends with a word, and the books are kept.
func TestDrainEndsWithAWord(t *testing.T) {
	gate := make(chan struct{})
	up := routertest.NewUpstream(routertest.Good("on and on and on it goes", routertest.Usage{}).Hold(4, gate))
	defer up.Close()
	defer close(gate)
	address := routertest.FreeAddress()
	dir := t.TempDir()
	file, usage := filepath.Join(dir, "config.hcl"), filepath.Join(dir, "usage.db")
	write(t, file, fmt.Sprintf("server {\n  listen = %q\n  drain_timeout = \"20ms\"\n}\nusage {\n  path = %q\n}\n"+
		"upstream \"u\" {\n  base_url = %q\n  wires = [\"openai-chat\"]\n}\nmodel \"m\" {\n  target \"u\" {}\n}\n", address, usage, up.URL))
	out, stop := runServe(t, address, file)
	client := routertest.NewClient("http://" + address)
	defer client.Close()
	ended := make(chan int, 1)
	var once sync.Once
	end := func() { once.Do(func() { go func() { ended <- stop() }() }) }
	got := client.Watch(context.Background(), routertest.NewRequest("openai-chat", "m", true), func(r routertest.Result) bool {
		if r.Body != "" {
			end()
		}
		return true
	})
	end()
	if status := <-ended; status != 0 {
		t.Errorf("ended with status %d:\n%s", status, out)
	}
	if got.Err == nil || !strings.Contains(got.Body, "router is being ended") {
		t.Errorf("the client got %v, %s", got.Err, got.Body)
	}
	if _, rows, errs := invoke("usage", "-config", file, "-by", "request", "-format", "csv"); !strings.Contains(rows, "router_stopping") || !strings.Contains(rows, "unreported") {
		t.Errorf("usage:\n%s%s", rows, errs)
	}
}

func TestServe(t *testing.T) {
	one := routertest.NewUpstream(routertest.Good("one", routertest.Usage{}))
	two := routertest.NewUpstream(routertest.Good("two", routertest.Usage{}))
	defer one.Close()
	defer two.Close()
	address := routertest.FreeAddress()
	config := func(url string) string {
		return fmt.Sprintf("server {\n  listen = %q\n}\nupstream \"u\" {\n  base_url = %q\n  wires = [\"openai-chat\"]\n}\nmodel \"m\" {\n  target \"u\" {}\n}\n", address, url)
	}
	file := filepath.Join(t.TempDir(), "config.hcl")
	write(t, file, config(one.URL))

	out, stop := runServe(t, address, file)
	client := routertest.NewClient("http://" + address)
	defer client.Close()
	ask := func() string {
		return client.Send(context.Background(), routertest.NewRequest("openai-chat", "m", false)).Text()
	}
	if got := ask(); got != "one" {
		t.Errorf("before the reload: %q", got)
	}
	write(t, file, strings.TrimSuffix(config(two.URL), "}\n"))
	eventually(t, "the refusal", func() bool { return strings.Contains(out.String(), "config.hcl:") })
	if got := ask(); got != "one" {
		t.Errorf("after a bad reload: %q", got)
	}
	write(t, file, config(two.URL))
	eventually(t, "the reload", func() bool { return ask() == "two" })

	resp, err := http.Get("http://" + address + "/_router/status")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	for _, text := range []string{`"config_revision": 2`, `"state": "healthy"`, `"upstream": "u"`} {
		if !bytes.Contains(body, []byte(text)) {
			t.Errorf("the status does not have %s:\n%s", text, body)
		}
	}
	if status := stop(); status != 0 {
		t.Errorf("ended with status %d:\n%s", status, out.String())
	}
}
