package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Keys that stand in the configurations; nothing here is reached from another machine.
const (
	clientKey   = "sk-client"
	adminKey    = "sk-admin"
	upstreamKey = "sk-upstream"
)

// fleet is the processes of a run: fake upstreams, the sink of telemetry, and the subjects.
type fleet struct {
	dir       string // configurations and logs
	self      string // this program
	signalbox string // the binary that is measured
	client    *http.Client
	numbers   atomic.Int64 // the last one that a request was sent with
	running   []*process

	upstreams, controls []string // addresses
	sink                string   // address
	aid                 []int    // process ids of what is not measured
}

// process is one that was started.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// newFleet starts n upstreams and the sink. End it with close.
func newFleet(ctx context.Context, signalbox string, n int) (*fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if signalbox, err = filepath.Abs(signalbox); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "signalbox-bench-")
	if err != nil {
		return nil, err
	}
	f := &fleet{dir: dir, self: self, signalbox: signalbox, client: &http.Client{Timeout: 5 * time.Second}}
	f.numbers.Store(time.Now().UnixNano() % 1e15) // not those of an earlier run
	if err := f.startAid(ctx, n); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *fleet) startAid(ctx context.Context, n int) error {
	addresses, err := freeAddresses(2*n + 1)
	if err != nil {
		return err
	}
	f.upstreams, f.controls, f.sink = addresses[:n], addresses[n:2*n], addresses[2*n]
	for _, args := range [][]string{
		{"upstream", "-listen", strings.Join(f.upstreams, ","), "-control", strings.Join(f.controls, ",")},
		{"sink", "-listen", f.sink},
	} {
		p, err := f.start(args[0], f.self, args...)
		if err != nil {
			return err
		}
		f.aid = append(f.aid, p.cmd.Process.Pid)
	}
	for _, address := range append(slices.Clone(f.controls), f.sink) {
		if err := reachable(ctx, address); err != nil {
			return err
		}
	}
	return nil
}

// start runs a program until the fleet is closed; what it says goes to a file.
func (f *fleet) start(name, program string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(f.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, f.dir
	// What the caller's environment says about telemetry is not to count.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "OTEL_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's interrupt is for the bench, which ends them
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // it is told to end
	}()
	f.running = append(f.running, p)
	return p, nil
}

// end ends one process of the fleet.
func (f *fleet) end(p *process) {
	p.stop()
	f.running = slices.DeleteFunc(f.running, func(r *process) bool { return r == p })
}

// stop ends a process, and returns when it has.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // or it has ended already
	limit := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	<-p.ended
	limit.Stop()
}

// close ends everything and removes the folder.
func (f *fleet) close() {
	for _, p := range slices.Backward(f.running) {
		p.stop()
	}
	_ = os.RemoveAll(f.dir)
}

// said is the end of what a process has said, for errors.
func (f *fleet) said(name string) string {
	b, _ := os.ReadFile(filepath.Join(f.dir, name+".log"))
	return string(b[max(len(b)-2000, 0):])
}

// behave tells the upstreams what to do.
func (f *fleet) behave(ctx context.Context, how []string) error {
	if len(how) == 0 {
		how = []string{""}
	}
	for i, control := range f.controls {
		if err := f.post(ctx, "http://"+control+"/is?"+how[min(i, len(how)-1)], ""); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) post(ctx context.Context, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	res, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, res.Status, bytes.TrimSpace(said))
	}
	return err
}

// asked is how many requests an upstream has had.
func (f *fleet) asked(ctx context.Context, upstream int) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.controls[upstream]+"/requests", http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := f.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(b))
}

// freeAddresses are loopback addresses that nobody listens on.
func freeAddresses(n int) (free []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // when all are known, so that none comes twice
		free = append(free, l.Addr().String())
	}
	return free, nil
}

var errNotUp = errors.New("it does not listen")

// reachable waits until somebody listens on an address.
func reachable(ctx context.Context, address string) error {
	for range 5000 {
		c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		pause(ctx, 2*time.Millisecond)
	}
	return fmt.Errorf("%s: %w", address, errNotUp)
}
