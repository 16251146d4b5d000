//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// footprint is one start of the real binary: how long until it was ready, and what it held when idle.
type footprint struct {
	ready time.Duration
	rss   int64 // bytes
}

func TestFootprint(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	const mostTime, mostMemory, starts = 100 * time.Millisecond, 25 << 20, 3
	dir := t.TempDir()
	binary := filepath.Join(dir, "signalbox")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	least := footprint{ready: time.Hour, rss: 1 << 62}
	for range starts { // other work on the machine can only add
		f := startOnce(t, dir, binary)
		least.ready, least.rss = min(least.ready, f.ready), min(least.rss, f.rss)
	}
	t.Logf("ready after %v, %.1f MB when idle", least.ready, float64(least.rss)/(1<<20))
	if least.ready > mostTime {
		t.Errorf("ready after %v, want %v at most", least.ready, mostTime)
	}
	if least.rss > mostMemory {
		t.Errorf("%.1f MB when idle, want %d at most", float64(least.rss)/(1<<20), mostMemory>>20)
	}
}

// startOnce starts the binary with a small configuration and without telemetry, and ends it again.
func startOnce(t *testing.T, dir, binary string) footprint {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	path := filepath.Join(dir, "footprint.hcl")
	write(t, path, fmt.Sprintf(`
server { listen = %q }
upstream "up" {
  base_url = "http://127.0.0.1:9"
  wires    = ["openai-chat"]
  api_key  = env("FOOTPRINT_KEY")
}
model "small" {
  target "up" { model = "large" }
}
`, address))
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "serve", "-config", path)
	cmd.Stderr = &log
	cmd.Env = []string{"FOOTPRINT_KEY=k", "HOME=" + dir} // no OTEL_* variable, no GOGC of ours
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the binary said:\n%s", log.String())
		}
	}()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		if resp, err := client.Get("http://" + address + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Since(begun) > 20*time.Second {
			t.Fatal("not ready after 20 s")
		}
		time.Sleep(time.Millisecond)
	}
	f := footprint{ready: time.Since(begun)}
	time.Sleep(200 * time.Millisecond)
	f.rss = resident(t, cmd.Process.Pid)
	return f
}

// resident is the memory of a process that is in RAM, shared pages included.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw))
	if len(fields) < 2 {
		t.Fatalf("statm says %q", raw)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
