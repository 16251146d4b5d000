package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// setup is a configuration of Signalbox: the defaults, but for what is said here.
type setup struct {
	name      string
	telemetry bool // everything: spans, metrics and logs to the sink
	upstreams []string
	models    int // 0 is one
	keys      int // besides those of the bench
	extra     string
	firstByte time.Duration // 0: the default
}

// again keeps a failing upstream from being left alone, so that every request fails over.
const again = "cooling {\n  server {\n    after = 1000000000\n  }\n}\n"

// model is what clients ask for; the upstream is asked for fake-1, so the name in a body is replaced.
const model = "bench"

// write renders the configuration.
func (s setup) write(listen, sink string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server {\n  listen = %q\n}\n", listen)
	fmt.Fprintf(&b, "auth {\n  key \"agents\" {\n    secret = %q\n  }\n  key \"operator\" {\n    secret = %q\n    scope = \"admin\"\n  }\n", clientKey, adminKey)
	for i := range s.keys {
		fmt.Fprintf(&b, "  key \"more-%d\" {\n    secret = \"sk-more-%d\"\n  }\n", i, i)
	}
	b.WriteString("}\n")
	for i, address := range s.upstreams {
		fmt.Fprintf(&b, "upstream \"u%d\" {\n  base_url = \"http://%s/v1\"\n  wires = [\"openai-chat\"]\n  api_key = %q\n", i, address, upstreamKey)
		if s.firstByte > 0 {
			fmt.Fprintf(&b, "  timeouts {\n    first_byte = %q\n  }\n", s.firstByte)
		}
		b.WriteString("}\n")
	}
	for i := range max(s.models, 1) {
		name := model
		if i > 0 {
			name = fmt.Sprintf("%s-%d", model, i)
		}
		fmt.Fprintf(&b, "model %q {\n", name)
		for u := range s.upstreams {
			fmt.Fprintf(&b, "  target \"u%d\" {\n    model = \"fake-1\"\n  }\n", u)
		}
		b.WriteString("}\n")
	}
	if s.telemetry {
		fmt.Fprintf(&b, "telemetry {\n  otlp {\n    endpoint = \"http://%s\"\n  }\n}\n", sink)
	}
	return b.String() + s.extra
}

// startSignalbox starts Signalbox and waits until it listens. Its log, in JSON, goes to a file.
func (f *fleet) startSignalbox(ctx context.Context, s setup) (subject, *process, error) {
	return f.startRouter(ctx, s, f.signalbox, "serve")
}

// startRouter starts a program that takes Signalbox's flag.
func (f *fleet) startRouter(ctx context.Context, s setup, program string, args ...string) (subject, *process, error) {
	address, err := freeAddresses(1)
	if err != nil {
		return subject{}, nil, err
	}
	if s.upstreams == nil {
		s.upstreams = f.upstreams
	}
	path := filepath.Join(f.dir, s.name+".hcl")
	if err := os.WriteFile(path, []byte(s.write(address[0], f.sink)), 0o600); err != nil {
		return subject{}, nil, err
	}
	p, err := f.start(s.name, program, append(args, "-config", path)...)
	if err != nil {
		return subject{}, nil, err
	}
	if err := reachable(ctx, address[0]); err != nil {
		return subject{}, nil, fmt.Errorf("%s: %w\n%s", s.name, err, f.said(s.name))
	}
	return subject{name: s.name, address: address[0], model: model, pid: p.cmd.Process.Pid}, p, nil
}

// startProxy starts httputil.ReverseProxy before an upstream.
func (f *fleet) startProxy(ctx context.Context, upstream string) (subject, *process, error) {
	address, err := freeAddresses(1)
	if err != nil {
		return subject{}, nil, err
	}
	p, err := f.start(reverseProxy, f.self, "proxy", "-listen", address[0], "-to", "http://"+upstream)
	if err != nil {
		return subject{}, nil, err
	}
	return subject{name: reverseProxy, address: address[0], model: "fake-1", pid: p.cmd.Process.Pid}, p, reachable(ctx, address[0])
}

// nginx with as many connections and as large bodies as the others have, and the second upstream as a spare.
const nginxConfig = `worker_processes auto;
daemon off;
pid %[1]s/nginx.pid;
error_log stderr crit;
events { worker_connections 8192; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_max_body_size 32m;
  client_body_buffer_size 4m;
  keepalive_requests 1000000000;
  upstream fake {
    server %[3]s max_fails=0;
    server %[4]s max_fails=0 backup;
    keepalive 2048;
    keepalive_requests 1000000000;
  }
  server {
    listen %[2]s backlog=4096;
    location / {
      proxy_pass http://fake;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Authorization "Bearer %[5]s";
      proxy_buffering off;
      proxy_next_upstream error timeout http_500 non_idempotent;
    }
  }
}
`

// startNginx returns an error that wraps exec.ErrNotFound where there is no nginx.
func (f *fleet) startNginx(ctx context.Context) (subject, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		// Debian keeps it where only root's PATH leads.
		if program, err = exec.LookPath("/usr/sbin/nginx"); err != nil {
			return subject{}, err
		}
	}
	address, err := freeAddresses(1)
	if err != nil {
		return subject{}, err
	}
	path := filepath.Join(f.dir, "nginx.conf")
	text := fmt.Sprintf(nginxConfig, f.dir, address[0], f.upstreams[0], f.upstreams[1], upstreamKey)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return subject{}, err
	}
	p, err := f.start(nginx, program, "-p", f.dir, "-c", path)
	if err != nil {
		return subject{}, err
	}
	if err := reachable(ctx, address[0]); err != nil {
		return subject{}, fmt.Errorf("nginx: %w\n%s", err, f.said(nginx))
	}
	return subject{name: nginx, address: address[0], model: "fake-1", pid: p.cmd.Process.Pid}, nil
}
