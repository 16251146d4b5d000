package router_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// turn is a turn of a conversation, "" for a request that belongs to none.
func turn(session string) routertest.Request {
	r := routertest.NewRequest(routertest.Chat, "m", false)
	if session == "" {
		return r
	}
	return r.With("Session-Id", session)
}

// gist is the name of the upstream that served, else the status and what the router calls the refusal.
func gist(got routertest.Result) string {
	if got.Status == http.StatusOK {
		return got.Header.Get("X-Router-Upstream")
	}
	wire := routertest.Chat
	if strings.HasPrefix(got.Body, `{"type":"error"`) {
		wire = routertest.Messages
	}
	_, kind := refusal(wire, got.Body)
	return strings.TrimSpace(fmt.Sprint(got.Status, " ", kind))
}

// to sends a request and returns its gist.
func (w *world) to(r routertest.Request) string {
	w.t.Helper()
	return gist(w.Send(w.t.Context(), r))
}

// goes fails unless requests, one after the other, have these gists.
func (w *world) goes(r routertest.Request, want ...string) {
	w.t.Helper()
	var got []string
	for range want {
		got = append(got, w.to(r))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("went to %v, want %v", got, want)
	}
}

// spread counts the gists of n requests.
func (w *world) spread(n int, request func(i int) routertest.Request) map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for i := range n {
		counts[w.to(request(i))]++
	}
	return counts
}

// hold has an upstream keep back the next answers until the returned function is called.
func (w *world) hold(up int) (release func()) {
	gate := make(chan struct{})
	w.ups[up].Script(good.HoldStatus(gate))
	return sync.OnceFunc(func() { close(gate); w.ups[up].Script(good) })
}

// inBackground sends requests that are answered in their own time; results come in the order in which they end.
func (w *world) inBackground(rs ...routertest.Request) <-chan string {
	out := make(chan string, len(rs))
	for _, r := range rs {
		go func() { out <- gist(w.Send(context.WithoutCancel(w.t.Context()), r)) }()
	}
	return out
}

// eventually waits for what the test has no other way to wait for.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := time.After(routertest.Patience); !yes(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it never came to this: " + what)
		}
	}
}

// three are upstreams a, b and c, all well.
func three() []*routertest.Upstream { return upstreams(good, good, good) }

// modelNamed makes a model whose targets are "upstream" or "upstream/model".
func modelNamed(id string, targets ...string) settings.Model {
	m := settings.DefaultModel()
	m.ID = id
	for _, name := range targets {
		t := settings.DefaultTarget()
		t.Upstream, t.Model, _ = strings.Cut(name, "/")
		m.Targets = append(m.Targets, t)
	}
	return m
}

func presetNamed(id, strategy string, models ...string) settings.Preset {
	p := settings.DefaultPreset()
	p.ID, p.Strategy, p.Models = id, strategy, models
	return p
}

// bubble is a world within a synctest bubble: its clock is the bubble's. What it holds has to be closed in the test itself.
type bubble struct {
	*world
	client http.Client
}

// inBubble makes the world of a synctest bubble.
func inBubble(t *testing.T, scripts []routertest.Reply, change func(*settings.Config), opts ...router.Option) (*bubble, func()) {
	t.Helper()
	n := &routertest.Network{}
	w := &world{t: t, ended: make(chan router.Event, 1000)}
	for i, s := range scripts {
		w.ups = append(w.ups, routertest.NewUpstreamOn(n.Listen(string(rune('a'+i))+".test:80"), s))
	}
	engine, err := router.New(w.config(change), append([]router.Option{router.WithDialer(n.Dial), router.WithLogger(slog.New(slog.DiscardHandler))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	engine.OnEvent(func(e *router.Event) {
		if e.Phase == router.PhaseCompleted {
			w.ended <- *e
		}
	})
	w.engine, w.Front = engine, routertest.ServeOn(n.Listen("front.test:80"), engine.Handler())
	b := &bubble{world: w, client: http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableCompression: true}}}
	return b, func() {
		b.client.CloseIdleConnections()
		w.close()
	}
}

// send is Send over the bubble's network.
func (b *bubble) send(ctx context.Context, r routertest.Request) routertest.Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://front.test"+r.Path, strings.NewReader(r.Body))
	if err != nil {
		return routertest.Result{Err: err}
	}
	req.Header = r.Header.Clone()
	resp, err := b.client.Do(req)
	if err != nil {
		return routertest.Result{Err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return routertest.Result{Status: resp.StatusCode, Header: resp.Header, Body: string(text), Err: err}
}
