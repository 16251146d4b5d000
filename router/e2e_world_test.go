package router_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// epoch is where the clocks of tests begin.
var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// world is an engine between a client and scripted upstreams named a, b, c, ... that model m tries in this order.
type world struct {
	*routertest.Front
	t      *testing.T
	engine *router.Router
	ups    []*routertest.Upstream
	clock  *routertest.Clock

	mu     sync.Mutex
	events []router.Event
	ended  chan router.Event
}

// build makes the world of a test; change has the last word about its configuration.
func build(t *testing.T, ups []*routertest.Upstream, change func(*settings.Config), opts ...router.Option) *world {
	t.Helper()
	w := &world{t: t, ups: ups, clock: routertest.NewClock(epoch), ended: make(chan router.Event, 1000)}
	base := []router.Option{router.WithClock(w.clock.Now), router.WithLogger(slog.New(slog.DiscardHandler))}
	engine, err := router.New(w.config(change), append(base, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	w.engine = engine
	engine.OnEvent(func(e *router.Event) {
		w.mu.Lock()
		w.events = append(w.events, *e)
		w.mu.Unlock()
		if e.Phase == router.PhaseCompleted {
			w.ended <- *e
		}
	})
	w.Front = routertest.Serve(engine.Handler())
	t.Cleanup(w.close)
	return w
}

func (w *world) close() {
	for _, u := range w.ups {
		u.Close()
	}
	w.Close()
	w.engine.Close()
}

// config is made anew each time, so that a test may change it for a reload.
func (w *world) config(change func(*settings.Config)) settings.Config {
	cfg := settings.Defaults()
	cfg.Affinity.PrefixKey = false // all requests of a test begin alike; who wants them tied together says so
	m := settings.DefaultModel()
	m.ID = "m"
	for i, up := range w.ups {
		a := settings.DefaultUpstream()
		a.Name, a.BaseURL, a.Wires = string(rune('a'+i)), up.URL, routertest.Wires
		a.APIKey = settings.NewSecret("sk-of-"+a.Name, "")
		cfg.Upstreams = append(cfg.Upstreams, a)
		t := settings.DefaultTarget()
		t.Upstream = a.Name
		m.Targets = append(m.Targets, t)
	}
	cfg.Models = []settings.Model{m}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func upstreams(scripts ...routertest.Reply) (ups []*routertest.Upstream) {
	for _, s := range scripts {
		ups = append(ups, routertest.NewUpstream(s))
	}
	return ups
}

// ask sends a request of a wire for model m.
func (w *world) ask(wire string, stream bool) routertest.Result {
	w.t.Helper()
	return w.Send(w.t.Context(), routertest.NewRequest(wire, "m", stream))
}

// completed waits for the next request to end.
func (w *world) completed() router.Event {
	w.t.Helper()
	select {
	case e := <-w.ended:
		return e
	case <-time.After(routertest.Patience):
		w.t.Fatal("the request was never completed")
		return router.Event{}
	}
}

// once fails if any request that was received was completed other than once; it ends the world first.
func (w *world) once() {
	w.t.Helper()
	w.close()
	received, ended := map[string]int{}, map[string]int{}
	for _, e := range w.events {
		switch e.Phase {
		case router.PhaseReceived:
			received[e.Call]++
		case router.PhaseCompleted:
			ended[e.Call]++
		default:
		}
	}
	if len(received) != len(ended) {
		w.t.Errorf("%d requests came, %d were completed", len(received), len(ended))
	}
	for call, n := range ended {
		if n != 1 || received[call] != 1 {
			w.t.Errorf("call %s: received %d times, completed %d times", call, received[call], n)
		}
	}
}

// do sends any request and reads the answer.
func (w *world) do(method, path string, header http.Header, body io.Reader) routertest.Result {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	tr := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return routertest.Result{Status: resp.StatusCode, Header: resp.Header, Body: string(text), Err: err}
}

// refusal is what an error says in the shape of a wire: the wire's own word and the router's name for it. It is empty if
// the body does not have that shape.
func refusal(wire, body string) (word, kind string) {
	var e struct {
		Type  string
		Error struct {
			Type, Message, Status string
			Code                  any
			Details               []struct{ Reason string }
		}
	}
	if json.Unmarshal([]byte(body), &e) != nil || e.Error.Message == "" {
		return "", ""
	}
	kind, _ = e.Error.Code.(string)
	switch wire {
	case routertest.Messages:
		if e.Type != "error" {
			return "", ""
		}
	case routertest.Gemini:
		if _, isNumber := e.Error.Code.(float64); !isNumber {
			return "", ""
		}
		if len(e.Error.Details) > 0 {
			kind = e.Error.Details[0].Reason
		}
		return e.Error.Status, kind
	default:
	}
	return e.Error.Type, kind
}

// refused fails unless the answer is an error of the router in the shape of the wire.
func refused(t *testing.T, wire string, got routertest.Result, status int, phrase string) {
	t.Helper()
	word, _ := refusal(wire, got.Body)
	if got.Status != status || word == "" || !strings.Contains(got.Body, phrase) || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: got %d %v %s, want %d with %q", wire, got.Status, got.Header, got.Body, status, phrase)
	}
}

// forms runs f for every wire, with and without a stream.
func forms(t *testing.T, f func(t *testing.T, wire string, stream bool)) {
	for _, wire := range routertest.Wires {
		for _, stream := range []bool{false, true} {
			name := wire + " plain"
			if stream {
				name = wire + " stream"
			}
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t, wire, stream) })
		}
	}
}

// raw is the text of an answer as the provider of that wire gives it.
func raw(t *testing.T, wire string, stream bool) string {
	t.Helper()
	u := routertest.NewUpstream(routertest.Good(words, spent))
	defer u.Close()
	c := routertest.NewClient(u.URL)
	defer c.Close()
	return c.Send(context.Background(), routertest.NewRequest(wire, "m", stream).Field("stream_options", `{"include_usage":true}`)).Body
}

const words = "One two three four five six seven eight nine ten."

var spent = routertest.Usage{Input: 11, CacheRead: 7, CacheWrite: 0, Output: 5, Reasoning: 0}

var good = routertest.Good(words, spent)
