package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// patience is how long a sidecar may take to drain and end.
const patience = 45 * time.Second

// child is the program as a child process, whose environment is what the test says and nothing else.
type child struct {
	binary string
	dir    string
	cmd    *exec.Cmd
	said   bytes.Buffer // read it after the process has ended
	ended  chan struct{}
	result error // how it ended
}

func (c *child) start(_ context.Context, config string) (string, error) {
	var err error
	if c.dir, err = os.MkdirTemp("", "signalbox-e2e-"); err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, "config.hcl")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", err
	}
	address := routertest.FreeAddress()
	binary, err := filepath.Abs(c.binary)
	if err != nil {
		return "", err
	}
	cmd := exec.Command(binary, "serve", "-config", file)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = c.dir, &c.said, &c.said, []string{"SIGNALBOX_LISTEN=" + address}
	for name, value := range environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	c.cmd, c.ended = cmd, make(chan struct{})
	go func() { // ends with the process; stop waits for it
		c.result = cmd.Wait()
		close(c.ended)
	}()
	return "http://" + address, nil
}

func (c *child) gone() <-chan struct{} { return c.ended }

func (c *child) stop() error {
	defer os.RemoveAll(c.dir)
	if c.cmd == nil {
		return nil
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended, which its result tells
	select {
	case <-c.ended:
		return c.result
	case <-time.After(patience):
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
	return errors.New("it had to be killed")
}

func (c *child) logs() string { return c.said.String() }

// container is the service signalbox of docker-compose.yaml, in a project of its own beside any that runs. It is to be started
// in the folder of docker-compose.yaml.
type container struct {
	dir  string
	env  []string
	said string
}

func newContainer(ctx context.Context) (*container, error) {
	if out, err := exec.CommandContext(ctx, "docker", "info").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("no Docker engine is running here, so the stack cannot be tested: %w\n%s", err, lastLine(out))
	}
	if out, err := exec.CommandContext(ctx, "docker", "compose", "version").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("docker has no compose here, so the stack cannot be tested: %w\n%s", err, lastLine(out))
	}
	return &container{}, nil
}

func lastLine(out []byte) []byte {
	out = bytes.TrimSpace(out)
	return out[bytes.LastIndexByte(out, '\n')+1:]
}

func (c *container) start(ctx context.Context, config string) (string, error) {
	var err error
	if c.dir, err = os.MkdirTemp("", "signalbox-e2e-"); err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, "config.hcl")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil { // the container has a user of its own
		return "", err
	}
	address := routertest.FreeAddress()
	host, port, _ := net.SplitHostPort(address)
	c.env = append(os.Environ(), "SIGNALBOX_CONFIG="+file, "SIGNALBOX_HOST="+host, "SIGNALBOX_PORT="+port, "OTEL_EXPORTER_OTLP_ENDPOINT=",
		"OPENROUTER_API_KEY=", "ANTHROPIC_API_KEY=", "GEMINI_API_KEY=")
	for name, value := range environment {
		c.env = append(c.env, name+"="+value)
	}
	if out, err := c.compose(ctx, "up", "--build", "--detach", "signalbox"); err != nil {
		return "", fmt.Errorf("docker compose up: %w\n%s", err, out)
	}
	return "http://" + address, nil
}

func (c *container) gone() <-chan struct{} { return nil }

// stop ends the container, looks how it ended, and removes it.
func (c *container) stop() error {
	if c.dir == "" {
		return nil
	}
	defer os.RemoveAll(c.dir)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	_, err := c.compose(ctx, "stop")
	code, looked := c.compose(ctx, "ps", "--all", "--format", "{{.ExitCode}}", "signalbox")
	if code = strings.TrimSpace(code); code != "0" && err == nil && looked == nil {
		err = fmt.Errorf("it ended with status %q", code)
	}
	c.said, _ = c.compose(ctx, "logs", "--no-color", "signalbox")
	_, down := c.compose(ctx, "down", "--volumes")
	return errors.Join(err, looked, down)
}

func (c *container) logs() string { return c.said }

func (c *container) compose(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"compose", "-p", "signalbox-e2e", "-f", "docker-compose.yaml", "-f", "deploy/e2e/compose.yaml"}, args...)
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var (
	_ sidecar = (*child)(nil)
	_ sidecar = (*container)(nil)
)
