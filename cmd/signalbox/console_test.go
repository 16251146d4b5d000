//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// pseudoTerminal opens a terminal to write to, and collects what comes out of it. Closing it waits for the rest.
func pseudoTerminal(t *testing.T) (tty *os.File, out *output, end func()) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals here: ", err)
	}
	var number, unlocked int32
	for request, argument := range map[uintptr]*int32{syscall.TIOCGPTN: &number, syscall.TIOCSPTLCK: &unlocked} { // pts(4)
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(unsafe.Pointer(argument))); errno != 0 {
			t.Fatal(errno)
		}
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Skip("there are no pseudo terminals here: ", err)
	}
	out = &output{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(out, master) // ends with EIO when the terminal is closed
	}()
	return tty, out, func() {
		_ = tty.Close()
		<-over
		_ = master.Close()
	}
}

// serving is a router that serve runs, with one upstream and, for those who watch it, a key.
type serving struct {
	t       *testing.T
	address string
	file    string
	stop    func() int
}

const opsKey = "sk-of-somebody-who-watches"

func startServing(t *testing.T, stderr io.Writer, up string) *serving {
	t.Helper()
	defaults := slog.Default()
	s := &serving{t: t, address: routertest.FreeAddress(), file: filepath.Join(t.TempDir(), "config.hcl")}
	write(t, s.file, fmt.Sprintf(`
server { listen = %q }
auth {
  key "agents" { secret = "sk-of-an-agent" }
  key "ops" {
    secret = %q
    scope  = "admin"
  }
}
upstream "work" {
  base_url = %q
  wires    = ["openai-chat"]
}
model "m" {
  target "work" {}
}
`, s.address, opsKey, up))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int)
	go func() { ended <- run(ctx, env{nil, io.Discard, stderr}, []string{"serve", "-config", s.file}) }()
	s.stop = func() int {
		cancel()
		defer slog.SetDefault(defaults)
		defer log.SetOutput(os.Stderr)
		return <-ended
	}
	eventually(t, "readiness", func() bool {
		status, _, _ := invoke("healthcheck", "http://"+s.address+"/readyz")
		return status == 0
	})
	return s
}

func (s *serving) ask(model string) {
	s.t.Helper()
	client := routertest.NewClient("http://" + s.address)
	defer client.Close()
	client.Send(context.Background(), routertest.NewRequest("openai-chat", model, false).With("Authorization", "Bearer sk-of-an-agent"))
}

var (
	startLine  = regexp.MustCompile(`\d\d:\d\d:\d\d \[\.{4}\] /v1/chat/completions {6}strategy {4}#0/work +m +c\w{10}\r?\n`)
	endLine    = regexp.MustCompile(`\d\d:\d\d:\d\d \[ OK \] /v1/chat/completions {6}\w+ +#0/work {8}200 +\d\.\d{3} m +10/0/1 +c\w{10}\r?\n`)
	refuseLine = regexp.MustCompile(`\d\d:\d\d:\d\d \[FAIL\] /v1/chat/completions {6}none {8}-- {13}404 +\d\.\d{3} _unknown +c\w{10} caller_model_unknown\r?\n`)
)

func TestServeOnATerminal(t *testing.T) {
	quiet(t)
	t.Setenv("NO_COLOR", "1")
	t.Setenv("TERM", "xterm")
	up := routertest.NewUpstream()
	defer up.Close()
	tty, out, end := pseudoTerminal(t)
	s := startServing(t, tty, up.URL)
	s.ask("m")
	s.ask("nope")
	eventually(t, "the footer", func() bool { return strings.Contains(out.String(), "in flight 0, queued 0, requests 2, failures 1") })
	write(t, s.file, "nonsense")
	eventually(t, "a log line", func() bool { return strings.Contains(out.String(), "level=ERROR") })
	if status := s.stop(); status != 0 {
		t.Errorf("status %d", status)
	}
	end()
	text := out.String()
	for _, re := range []*regexp.Regexp{startLine, endLine, refuseLine} {
		if n := len(re.FindAllString(text, -1)); n != 1 {
			t.Errorf("%d times %v", n, re)
		}
	}
	for _, wrong := range []string{"msg=request", `"msg"`, "\x1b[3", "Say hello", "sk-of"} {
		if strings.Contains(text, wrong) {
			t.Errorf("it shows %q", wrong)
		}
	}
	if wiped := strings.LastIndex(text, "\r\x1b[K"); wiped < 0 || strings.Contains(text[wiped:], "in flight") {
		t.Error("the footer is left")
	}
	if t.Failed() {
		t.Logf("%q", text)
	}
}

func TestServeForPeopleAndMachines(t *testing.T) {
	up := routertest.NewUpstream()
	defer up.Close()
	for force, want := range map[string]bool{"1": true, "0": false, "": false} {
		quiet(t)
		t.Setenv("FORCE_COLOR", force)
		var out output
		s := startServing(t, &out, up.URL)
		s.ask("nope")
		s.stop()
		text := out.String()
		if lines := strings.Contains(text, "\x1b[31m[FAIL]\x1b[0m /v1/chat"); lines != want {
			t.Errorf("FORCE_COLOR=%q: lines %v, want %v\n%s", force, lines, want, text)
		}
		if records := strings.Contains(text, `"msg":"request"`); records == want {
			t.Errorf("FORCE_COLOR=%q: records %v, want %v\n%s", force, records, !want, text)
		}
		if strings.Contains(text, "in flight") {
			t.Errorf("a footer where there is no terminal:\n%s", text)
		}
	}
}

func TestTailCommand(t *testing.T) {
	quiet(t)
	for _, name := range []string{"SIGNALBOX_URL", "SIGNALBOX_KEY", "SIGNALBOX_ADMIN_KEY", "ROUTER_API_KEY", "ROUTER_TAIL_MAX_RECONNECTS"} {
		t.Setenv(name, "")
	}
	up := routertest.NewUpstream()
	defer up.Close()
	s := startServing(t, io.Discard, up.URL)
	url := "http://" + s.address
	for key, says := range map[string]string{"": "401", "sk-of-nobody": "401", "sk-of-an-agent": "403"} {
		t.Setenv("ROUTER_API_KEY", key)
		status, stdout, stderr := invoke("tail", url, "-max-reconnects", "9")
		if status != 1 || stdout != "" || !strings.Contains(stderr, says) || !strings.Contains(stderr, "-key-file") || strings.Contains(stderr, "-- ") {
			t.Errorf("with key %q: %d %s%s", key, status, stdout, stderr)
		}
	}
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, opsKey+"\n")
	t.Setenv("ROUTER_TAIL_MAX_RECONNECTS", "0")
	s.ask("nope")
	var out, errs output
	ended := make(chan int)
	go func() {
		ended <- run(context.Background(), env{nil, &out, &errs}, []string{"tail", "-n", "5", "-token-file", token, url})
	}()
	eventually(t, "what was", func() bool { return refuseLine.MatchString(out.String()) })
	eventually(t, "what is", func() bool { s.ask("m"); return endLine.MatchString(out.String()) })
	if status := s.stop(); status != 0 { // although somebody watches
		t.Errorf("serve ended with status %d", status)
	}
	if status := <-ended; status != 1 || !strings.Contains(errs.String(), "the router ended the stream; given up after 0 reconnects") {
		t.Errorf("status %d: %s", status, errs.String())
	}
	if !startLine.MatchString(out.String()) || strings.Contains(out.String()+errs.String(), "sk-of") {
		t.Errorf("%s%s", out.String(), errs.String())
	}
}

func TestTailUse(t *testing.T) {
	quiet(t)
	t.Setenv("ROUTER_TAIL_MAX_RECONNECTS", "")
	for _, args := range [][]string{{"a", "b"}, {"-max-reconnects", "-1"}, {"-max-reconnects", "many"}, {"-n", "-1"}, {"-token", "x"}, {"a", "-nonsense"}} {
		if status, _, stderr := invoke(append([]string{"tail"}, args...)...); status != 2 || !strings.Contains(stderr, "usage: signalbox tail") {
			t.Errorf("%q: %d %s", args, status, stderr)
		}
	}
	for text, want := range map[string]int{"infinity": -1, "0": 0, "12": 12} {
		if got, err := reconnects(text); got != want || err != nil {
			t.Errorf("%s: %d %v", text, got, err)
		}
	}
	if status, _, stderr := invoke("tail", "\x7f"); status != 1 || strings.Contains(stderr, "next try") {
		t.Errorf("a wrong address: %d %s", status, stderr)
	}
}
