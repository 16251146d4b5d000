package router_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// A program that has a router inside: two accounts, of which the first is over its limit.
func Example() {
	busy := routertest.NewUpstream(routertest.Fail(http.StatusTooManyRequests, "slow down").With("Retry-After", "30"))
	defer busy.Close()
	steady := routertest.NewUpstream(routertest.Good("Hello.", routertest.Usage{Input: 9, Output: 2}))
	defer steady.Close()

	cfg := settings.Defaults()
	model := settings.DefaultModel()
	model.ID = "large"
	for name, url := range map[string]string{"busy": busy.URL, "steady": steady.URL} {
		account := settings.DefaultUpstream()
		account.Name, account.BaseURL, account.Wires = name, url, []string{"openai-chat"}
		cfg.Upstreams = append(cfg.Upstreams, account)
	}
	for _, name := range []string{"busy", "steady"} { // in the order in which they are tried
		target := settings.DefaultTarget()
		target.Upstream = name
		model.Targets = append(model.Targets, target)
	}
	cfg.Models = []settings.Model{model}

	engine, err := router.New(cfg, router.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close()
	server := httptest.NewServer(engine.Handler())
	defer server.Close()

	resp, err := http.Post(server.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"large","messages":[]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, "from", resp.Header.Get("X-Router-Upstream"), "at try", resp.Header.Get("X-Router-Attempts"))
	fmt.Println(strings.Contains(string(body), "Hello."))
	// Output:
	// 200 OK from steady at try 2
	// true
}
