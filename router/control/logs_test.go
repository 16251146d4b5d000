package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// bubble is an engine in a synctest bubble with one upstream a, model m, and a key that may do all.
type bubble struct {
	t      *testing.T
	engine *router.Router
	plane  *control.Handler
	up     *routertest.Upstream
	cfg    settings.Config
}

func inBubble(t *testing.T, do func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &routertest.Network{}
		b := &bubble{t: t, up: routertest.NewUpstreamOn(n.Listen("a.test:80")), cfg: settings.Defaults()}
		defer b.up.Close()
		a, m, target, key := settings.DefaultUpstream(), settings.DefaultModel(), settings.DefaultTarget(), settings.DefaultKey()
		a.Name, a.BaseURL, a.Wires, a.APIKey = "a", "http://a.test:80", routertest.Wires, settings.NewSecret("sk-of-a", "")
		target.Upstream, target.Model = "a", "up/m"
		m.ID, m.Price, m.Targets = "m", &settings.Price{Input: 1, Output: 5}, []settings.Target{target}
		key.Name, key.Scope, key.Secret = "ops", router.ScopeAdmin, settings.NewSecret("key-of-ops", "")
		b.cfg.Upstreams, b.cfg.Models, b.cfg.Auth.Keys = []settings.Upstream{a}, []settings.Model{m}, []settings.Key{key}
		engine, err := router.New(b.cfg, router.WithLogger(slog.New(slog.DiscardHandler)), router.WithDialer(n.Dial))
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		b.engine, b.plane = engine, control.New(engine, control.Options{})
		do(b)
	})
}

// answer is what a request has got, so far or in the end.
type answer struct {
	*httptest.ResponseRecorder
	leave func()
	over  chan struct{}
}

// send sends a request, and lets everything go on until it waits for the time.
func (b *bubble) send(method, path, place, body string) *answer {
	ctx, leave := context.WithCancel(b.t.Context())
	a := &answer{httptest.NewRecorder(), leave, make(chan struct{})}
	req := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer key-of-ops")
	if place != "" {
		req.Header.Set("Last-Event-ID", place)
	}
	go func() {
		defer close(a.over)
		b.plane.Or(b.engine.Handler()).ServeHTTP(a, req)
	}()
	synctest.Wait()
	return a
}

// ask sends a request for a model, of which only m is known.
func (b *bubble) ask(model string) {
	b.t.Helper()
	<-b.send("POST", "/v1/chat/completions", "", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"a secret"}]}`, model)).over
	synctest.Wait()
}

// events are those of a stream, as "type id call" with the epoch and the call ids left out.
func (a *answer) events() (out []string, place string) {
	for block := range strings.SplitSeq(a.Body.String(), "\n\n") {
		var kind, data string
		for line := range strings.SplitSeq(block, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			switch name {
			case "id":
				place = value
			case "event":
				kind = value
			case "data":
				data = value
			case ":":
				out = append(out, "alive")
			}
		}
		var f control.Frame
		if kind == "" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &f); err != nil || f.Type != kind {
			out = append(out, "not a frame: "+data)
			continue
		}
		_, number, _ := strings.Cut(place, "-")
		out = append(out, strings.TrimSpace(kind+" "+number+" "+f.Reason))
	}
	return out, place
}

func (a *answer) shows(t *testing.T, what string, want ...string) (place string) {
	t.Helper()
	got, place := a.events()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
	return place
}

func TestStream(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		s := b.send("GET", "/_router/logs/stream", "", "")
		s.shows(t, "at first")
		b.ask("m")
		b.ask("nope")
		time.Sleep(16 * time.Second)
		synctest.Wait()
		place := s.shows(t, "live", "start 1", "end 2", "end 3", "alive")
		if kind := s.Header().Get("Content-Type"); kind != "text/event-stream" || s.Code != http.StatusOK {
			t.Errorf("%d %s", s.Code, kind)
		}
		if text := s.Body.String(); strings.Contains(text, "a secret") || strings.Contains(text, "-of-") {
			t.Errorf("it shows too much: %s", text)
		}
		s.leave()
		<-s.over
		b.ask("m")
		resumed := b.send("GET", "/_router/logs/stream", place, "")
		resumed.shows(t, "resumed", "end 5")
		elsewhere := b.send("GET", "/_router/logs/stream", "another-3", "")
		elsewhere.shows(t, "after a restart", "gap 0 restarted", "end 2", "end 3", "end 5")

		b.cfg.Server.RecentRequests = 1
		if err := b.engine.Load(b.cfg); err != nil {
			t.Fatal(err)
		}
		b.send("GET", "/_router/logs/stream", place, "").shows(t, "the last is kept", "end 5")
		b.ask("nope")
		b.send("GET", "/_router/logs/stream", place, "").shows(t, "too little is kept", "gap 5 dropped", "end 6")
		resumed.shows(t, "still live", "end 5", "end 6")
		b.plane.SetReady(false)
		<-resumed.over // and all others, or the bubble would not end
	})
}

func TestStreamKeepsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		b.cfg.Server.RecentRequests = 0
		if err := b.engine.Load(b.cfg); err != nil {
			t.Fatal(err)
		}
		s := b.send("GET", "/_router/logs/stream", "", "")
		b.ask("m")
		place := s.shows(t, "live", "start 1", "end 2")
		place = b.send("GET", "/_router/logs/stream", place, "").shows(t, "back", "gap 2 dropped")
		b.send("GET", "/_router/logs/stream", place, "").shows(t, "back again", "gap 2 dropped")
		list := b.send("GET", "/_router/logs/recent", "", "")
		if got := list.Body.String(); got != "[]\n" || list.Header().Get("Last-Event-ID") != "" {
			t.Errorf("kept: %s %v", got, list.Header())
		}
		b.plane.SetReady(false)
	})
}

// A server that drains is not held up by those who watch, before it has begun to serve nor after.
func TestStreamEndsWithTheServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		before := b.send("GET", "/_router/logs/stream", "", "")
		b.plane.SetReady(true)
		within := b.send("GET", "/_router/logs/stream", "", "")
		b.plane.SetReady(false)
		<-before.over
		<-within.over
		after := b.send("GET", "/_router/logs/stream", "", "")
		<-after.over
		if after.Code != http.StatusServiceUnavailable {
			t.Errorf("while it drains: %d", after.Code)
		}
		if got := b.send("GET", "/_router/logs/recent", "", ""); got.Code != http.StatusOK {
			t.Errorf("the list while it drains: %d", got.Code)
		}
		b.plane.SetReady(true)
		again := b.send("GET", "/_router/logs/stream", "", "")
		b.ask("m")
		again.shows(t, "ready again", "start 1", "end 2")
		again.leave()
		<-again.over
	})
}

func TestRecent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bubble) {
		b.ask("m")
		b.up.Script(routertest.Fail(500, "boom"))
		b.ask("m")
		b.ask("nope")
		list := func(query string) (got []map[string]any, place string) {
			t.Helper()
			a := b.send("GET", "/_router/logs/recent"+query, "", "")
			if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil {
				t.Fatalf("%d %s", a.Code, a.Body)
			}
			for _, f := range got {
				if call, _ := f["call"].(string); call == "" {
					t.Errorf("no call id: %v", f)
				}
				delete(f, "call")
				delete(f, "session")
			}
			return got, a.Header().Get("Last-Event-ID")
		}
		at := time.Now().UTC().Format(time.RFC3339Nano)
		base := func(id float64, more map[string]any) map[string]any {
			f := map[string]any{
				"id": id, "type": "end", "at": at, "wire": "openai-chat", "path": "/v1/chat/completions", "key": "ops", "stream": false, "duration_ms": 0.0,
			}
			maps.Copy(f, more)
			return f
		}
		served := base(2, map[string]any{
			"model": "m", "kind": "strategy", "upstream": "a", "index": 0.0, "upstream_model": "up/m", "status": 200.0, "outcome": "success",
			"attempts": 1.0, "input_tokens": 10.0, "output_tokens": 1.0, "cache_read_tokens": 0.0, "cost_usd": 15e-6,
		})
		failed := base(4, map[string]any{
			"model": "m", "kind": "sticky", "upstream": "a", "index": 0.0, "upstream_model": "up/m", "status": 500.0, "outcome": "failed",
			"error_class": "provider_server_error", "attempts": 1.0,
		})
		refused := base(5, map[string]any{
			"model": "_unknown", "kind": "none", "status": 404.0, "outcome": "rejected", "error_class": "caller_model_unknown", "attempts": 0.0,
		})
		got, place := list("")
		if diff := cmp.Diff([]map[string]any{refused, failed, served}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !strings.HasSuffix(place, "-5") {
			t.Errorf("the list goes up to %q", place)
		}
		if got, _ = list("?limit=1"); len(got) != 1 || got[0]["id"] != 5.0 {
			t.Errorf("one: %v", got)
		}
		if got, _ = list("?limit=0"); len(got) != 0 {
			t.Errorf("none: %v", got)
		}
		for _, limit := range []string{"-1", "x", "1.5"} {
			if a := b.send("GET", "/_router/logs/recent?limit="+limit, "", ""); a.Code != http.StatusBadRequest {
				t.Errorf("limit %s: %d", limit, a.Code)
			}
		}
	})
}

func TestWhoMayWatch(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct {
		key, method, path string
		want              int
	}{
		{"", "GET", "recent", 401},
		{"agents", "GET", "recent", 403},
		{"ops", "POST", "recent", 405},
		{"", "GET", "stream", 401},
		{"agents", "GET", "stream", 403},
		{"ops", "POST", "stream", 405},
	} {
		if got, _ := d.ask(c.key, c.method, "/_router/logs/"+c.path, ""); got != c.want {
			t.Errorf("%s %s with key %q: %d, want %d", c.method, c.path, c.key, got, c.want)
		}
	}
}
