// Command e2e puts scripted accounts behind a sidecar that runs as a process or container of its own, and checks from outside
// that streams, spread, failover and credentials are as promised; it must not know the router's code.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// The keys are made up. Each belongs in one place only.
const (
	clientKey   = "sk-made-up-client-0123456789"
	adminKey    = "sk-made-up-admin-0123456789"
	upstreamKey = "sk-made-up-upstream-0123456789"
)

// environment is all that the sidecar gets of one.
var environment = map[string]string{"SIGNALBOX_KEY": clientKey, "SIGNALBOX_ADMIN_KEY": adminKey, "OPENAI_API_KEY": upstreamKey}

// sidecar is a running Signalbox.
type sidecar interface {
	start(ctx context.Context, config string) (url string, err error)
	gone() <-chan struct{} // closed if it ended by itself; nil: nobody can tell
	stop() error           // nil if it ended well
	logs() string
}

// test is the accounts, the sidecar before them and a client of it.
type test struct {
	backends []*routertest.Upstream
	client   *routertest.Client
}

func main() {
	binary := flag.String("signalbox", "bin/signalbox", "the `program` to run")
	backends := flag.Int("backends", 3, "`number` of scripted accounts, at least 2")
	stack := flag.Bool("stack", false, "run the service of docker-compose.yaml in place of the program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	begun := time.Now()
	err := run(ctx, os.Stdout, *binary, *backends, *stack)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v\n", err)
		os.Exit(1) //nolint:forbidigo // this is func main
	}
	fmt.Fprintf(os.Stdout, "e2e: passed in %.1f s\n", time.Since(begun).Seconds())
}

func run(ctx context.Context, w io.Writer, binary string, backends int, stack bool) (err error) {
	if backends < 2 {
		return errors.New("a failover needs two backends at least")
	}
	var s sidecar = &child{binary: binary}
	listen, host := "127.0.0.1:0", "127.0.0.1"
	if stack {
		if s, err = newContainer(ctx); err != nil {
			return err
		}
		listen, host = ":0", "host.docker.internal" // a container cannot reach the host's loopback
	}
	t := &test{}
	defer t.close()
	var urls []string
	for range backends {
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return err
		}
		t.backends = append(t.backends, routertest.NewUpstreamOn(l))
		_, port, _ := net.SplitHostPort(l.Addr().String())
		urls = append(urls, "http://"+net.JoinHostPort(host, port))
	}
	defer func() {
		if stopped := s.stop(); stopped != nil && err == nil {
			err = fmt.Errorf("after SIGTERM: %w", stopped)
		}
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, s.logs())
		}
	}()
	url, err := s.start(ctx, configuration(urls))
	if err != nil {
		return err
	}
	t.client = routertest.NewClient(url)
	if err := ready(ctx, url, s.gone()); err != nil {
		return err
	}
	return t.checks(ctx, w)
}

func (t *test) close() {
	if t.client != nil {
		t.client.Close()
	}
	for _, b := range t.backends {
		b.Close()
	}
}

// configuration has all accounts behind two models: one that spreads, one that goes by the order.
func configuration(urls []string) string {
	var text strings.Builder
	text.WriteString(`
server {
  listen = env("SIGNALBOX_LISTEN")
}
auth {
  key "agents" {
    secret = env("SIGNALBOX_KEY")
  }
  key "operator" {
    secret = env("SIGNALBOX_ADMIN_KEY")
    scope  = "admin"
  }
}
`)
	var targets strings.Builder
	for i, url := range urls {
		fmt.Fprintf(&text, "upstream %q {\n  base_url = %q\n  wires    = [\"%s\"]\n  api_key  = env(\"OPENAI_API_KEY\")\n}\n",
			name(i), url, strings.Join(routertest.Wires, `", "`))
		fmt.Fprintf(&targets, "  target %q {}\n", name(i))
	}
	fmt.Fprintf(&text, "model \"spread\" {\n  strategy = \"least_busy\"\n%s}\nmodel \"order\" {\n  strategy = \"failover\"\n%s}\n", &targets, &targets)
	return text.String()
}

func name(backend int) string { return fmt.Sprintf("backend-%d", backend) }

// ready waits until the sidecar says that it is.
func ready(ctx context.Context, url string, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-gone:
			return errors.New("the sidecar ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("the sidecar does not become ready: %w", context.Cause(ctx))
		}
	}
}
