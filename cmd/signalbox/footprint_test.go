//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// footprint is one start of the real binary: how long until it was ready, what that took of a processor, and what it held
// when idle.
type footprint struct {
	ready time.Duration
	cpu   time.Duration
	rss   int64 // bytes
}

// How what is released is built.
const releaseTags, releaseLinks = "grpcnotrace", "-s -w -funcalign=16"

// The makefile and the image build what TestFootprint measures.
func TestReleasesAreBuiltAlike(t *testing.T) {
	t.Parallel()
	flags := "-trimpath -tags " + releaseTags + ` -ldflags "` + releaseLinks + " -X main.version="
	for _, name := range []string{"Makefile", "deploy/Dockerfile"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), flags) {
			t.Errorf("%s does not build with %s", name, flags)
		}
	}
}

func TestFootprint(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	const mostTime, mostMemory, mostSize, starts = 100 * time.Millisecond, 22 << 20, 25_700_000, 3
	dir := t.TempDir()
	binary := filepath.Join(dir, "signalbox")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", releaseTags, "-ldflags", releaseLinks, "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // all as in what is released
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	if size := info.Size(); size > mostSize {
		t.Errorf("the binary has %d bytes, want %d at most; `go tool nm -size -sort size` of one built without -s -w shows what is large", size, mostSize)
	}
	least := footprint{ready: time.Hour, cpu: time.Hour, rss: 1 << 62}
	for range starts { // other work on the machine can only add
		f := startOnce(t, dir, binary)
		least.ready, least.cpu, least.rss = min(least.ready, f.ready), min(least.cpu, f.cpu), min(least.rss, f.rss)
	}
	t.Logf("%.1f MB of binary, ready after %v, %v of it at work, %.1f MB when idle", float64(info.Size())/1e6, least.ready, least.cpu, float64(least.rss)/(1<<20))
	if least.cpu > mostTime { // not the time that passed: how much of that is ours to use is the machine's affair
		t.Errorf("worked for %v until it was ready, want %v at most", least.cpu, mostTime)
	}
	if least.rss > mostMemory {
		t.Errorf("%.1f MB when idle, want %d at most", float64(least.rss)/(1<<20), mostMemory>>20)
	}
}

// startOnce starts the binary with a small configuration and without telemetry, and ends it again.
func startOnce(t *testing.T, dir, binary string) footprint {
	t.Helper()
	address := routertest.FreeAddress()
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
	f := footprint{ready: time.Since(begun), cpu: worked(t, cmd.Process.Pid)}
	time.Sleep(200 * time.Millisecond)
	f.rss = resident(t, cmd.Process.Pid)
	return f
}

// worked is how long a process was on a processor, in steps of 10 ms (the clock tick of /proc on Linux).
func worked(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(raw), ") ") // behind the name, which may have spaces
	fields := strings.Fields(after)
	if len(fields) < 13 {
		t.Fatalf("stat says %q", raw)
	}
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime, proc(5)
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
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
