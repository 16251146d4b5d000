package main

import (
	"context"
	"flag"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// proxyCommand runs the yardstick until it is told to end: httputil.ReverseProxy, which flushes at once, with connections
// enough. It is the least that a proxy in Go can be without giving up net/http.
func proxyCommand(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("proxy", flag.ContinueOnError)
	listen := f.String("listen", "", "`address`")
	to := f.String("to", "", "base `URL` of the upstream")
	if err := f.Parse(args); err != nil {
		return err
	}
	target, err := url.Parse(*to)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true, IdleConnTimeout: 90 * time.Second},
		FlushInterval: -1,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Header.Set("Authorization", "Bearer "+upstreamKey)
		},
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without it a server closes the request's body when the answer begins, and cuts streams (go.dev/issue/40747).
		_ = http.NewResponseController(w).EnableFullDuplex()
		proxy.ServeHTTP(w, r)
	})
	l, err := listenLocally(*listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 15 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	_ = srv.Serve(l) // ends when it is closed
	return nil
}
