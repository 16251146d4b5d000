package router_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestEveryRequestIsCompletedOnce(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, c := range []struct {
			name           string
			reply          routertest.Reply
			model          string
			outcome, class string
			status         int
		}{
			{"success", good, "m", "success", "", 200},
			{"rejected", good, "nope", "rejected", "caller_model_unknown", 404},
			{"failed", routertest.Fail(500, "boom"), "m", "failed", "provider_server_error", 500},
			{"caller's fault", routertest.Fail(400, "too few messages"), "m", "failed", "caller_invalid_request", 400},
			{"limited", routertest.Fail(429, "slow down"), "m", "failed", "provider_rate_limited", 429},
			{"silent", routertest.Nothing(routertest.Cut), "m", "failed", "provider_connection_failed", 502},
		} {
			w := build(t, upstreams(c.reply), nil)
			w.engine.OnEvent(func(*router.Event) { panic("an observer's own fault") })
			got := w.Send(t.Context(), routertest.NewRequest(wire, c.model, stream))
			e := w.completed()
			if got.Status != c.status || e.Status != c.status || e.Outcome != c.outcome || e.ErrorClass != c.class {
				t.Errorf("%s: got %d, %+v", c.name, got.Status, e)
			}
			if st := w.engine.Status(); st.InFlight != 0 || len(st.Recent) != 1 || st.Upstreams[0].InFlight != 0 {
				t.Errorf("%s: %+v", c.name, st)
			}
			w.once()
		}
	})
}

func TestClientsLeave(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		// Before anything came.
		w := build(t, upstreams(routertest.Nothing(routertest.Stall), good), nil)
		ctx, leave := context.WithCancel(t.Context())
		var client sync.WaitGroup
		client.Go(func() { w.Send(ctx, routertest.NewRequest(wire, "m", stream)) })
		call := w.ups[0].Await(0)
		leave()
		client.Wait()
		left(t, w, call, "cancelled", 0)
		if !stream {
			return
		}
		// In the middle of the stream.
		w = build(t, upstreams(routertest.Stream(wire, words, spent).Events(7).Ending(routertest.Stall), good), nil)
		w.Watch(t.Context(), routertest.NewRequest(wire, "m", true), func(r routertest.Result) bool { return r.Body == "" })
		left(t, w, w.ups[0].Await(0), "cancelled", 200)
		// When all has come, as Codex does.
		w = build(t, upstreams(routertest.Stream(wire, words, spent).Ending(routertest.Stall), good), nil)
		w.Watch(t.Context(), routertest.NewRequest(wire, "m", true), func(r routertest.Result) bool { return !strings.Contains(r.Body, last[wire]) })
		left(t, w, w.ups[0].Await(0), "success", 200)
	})
}

// last is what the last event of a stream has.
var last = map[string]string{
	routertest.Chat: "[DONE]", routertest.Responses: "event: response.completed", routertest.Messages: "event: message_stop", routertest.Gemini: `"STOP"`,
}

// left checks what is known of a request whose client has left: its end, and that nobody is blamed.
func left(t *testing.T, w *world, call *routertest.Call, outcome string, status int) {
	t.Helper()
	if !call.HungUp() {
		t.Error("the upstream was not let go")
	}
	e := w.completed()
	if e.Outcome != outcome || e.Status != status || (e.ErrorClass == "") != (outcome == "success") {
		t.Errorf("%+v", e)
	}
	if u := w.engine.Status().Upstreams[0]; u.State != "healthy" || u.LastError != nil || u.InFlight != 0 || len(w.ups[1].Calls()) != 0 {
		t.Errorf("%+v, %d calls of the other", u, len(w.ups[1].Calls()))
	}
	w.once()
}

// A fault of the router's own is a 500 in the caller's wire, and booked as one.
func TestPanicsAreContained(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		w := build(t, upstreams(good), nil, router.WithSession(func(*http.Request) string { panic("fault") }))
		refused(t, wire, w.ask(wire, stream), 500, "router failed")
		if e := w.completed(); e.Outcome != "failed" || e.ErrorClass != "router_internal" || e.Status != 500 {
			t.Errorf("%+v", e)
		}
		w.once()
	})
}

// Wherever the router fails at a request, the place at the target is given back.
func TestPanicsGiveTheTargetBack(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		var left atomic.Int64 // calls of the clock until it fails; below zero it does not
		left.Store(-1)
		w := build(t, upstreams(good), func(cfg *settings.Config) { cfg.Upstreams[0].MaxConcurrent = 1 }, router.WithClock(func() time.Time {
			if left.Load() >= 0 && left.Add(-1) == 0 {
				left.Store(-1)
				panic("fault")
			}
			return time.Now()
		}))
		for n := int64(1); ; n++ {
			left.Store(n)
			w.ask(wire, stream)
			served := left.Swap(-1) >= 0 // with fewer calls
			for deadline := time.Now().Add(routertest.Patience); w.engine.Status().Upstreams[0].InFlight > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the place is not given back after the clock's call %d", n)
				}
			}
			if served {
				if n < 10 {
					t.Errorf("only %d calls", n)
				}
				return
			}
		}
	})
}

func TestReloads(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	held := routertest.Stream(routertest.Chat, words, spent).Hold(6, gate)
	w := build(t, upstreams(held, routertest.Fail(401, "bad key"), good), func(cfg *settings.Config) { noStreamUsage(cfg) })
	names := func(cfg *settings.Config, order ...int) {
		all := cfg.Models[0].Targets
		cfg.Models[0].Targets = nil
		for _, i := range order {
			cfg.Models[0].Targets = append(cfg.Models[0].Targets, all[i])
		}
		noStreamUsage(cfg)
	}
	var got routertest.Result
	var client sync.WaitGroup
	begun := make(chan struct{})
	var once sync.Once
	client.Go(func() {
		got = w.Watch(t.Context(), routertest.NewRequest(routertest.Chat, "m", true), func(r routertest.Result) bool {
			if r.Body != "" {
				once.Do(func() { close(begun) })
			}
			return true
		})
	})
	<-begun
	// Upstream a leaves the model while its stream runs; b fails for its key, and c serves.
	load := func(change func(*settings.Config)) {
		t.Helper()
		if err := w.engine.Load(w.config(change)); err != nil {
			t.Fatal(err)
		}
	}
	load(func(cfg *settings.Config) { names(cfg, 1, 2); cfg.Upstreams = cfg.Upstreams[1:] })
	close(gate)
	client.Wait()
	if got.Err != nil || got.Text() != words {
		t.Errorf("the stream did not survive: %v %s", got.Err, got.Body)
	}
	serves := func(want string, why string) {
		t.Helper()
		if r := w.ask(routertest.Chat, true); r.Header.Get("X-Router-Upstream") != want {
			t.Errorf("%s: served by %q: %d %s", why, r.Header.Get("X-Router-Upstream"), r.Status, r.Body)
		}
	}
	serves("c", "b has a bad key")
	w.ups[1].Script(good)
	load(func(cfg *settings.Config) { names(cfg, 1, 2) })
	serves("c", "the cooling of b survives a reload")
	load(func(cfg *settings.Config) {
		names(cfg, 1, 2)
		cfg.Upstreams[1].APIKey = settings.NewSecret("sk-new", "")
	})
	serves("b", "a new key lifts what the old one got")
	bad := w.config(func(cfg *settings.Config) { cfg.Models[0].Targets[0].Upstream = "nobody" })
	if err := w.engine.Load(bad); err == nil {
		t.Error("a wrong configuration was loaded")
	}
	serves("b", "a refused configuration changes nothing")
	if rev := w.engine.Status().ConfigRevision; rev != 4 {
		t.Errorf("revision %d", rev)
	}
	w.once()
}

func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := build(t, []*routertest.Upstream{
		routertest.NewUpstream(good, routertest.Fail(500, "boom"), good, routertest.Nothing(routertest.Cut), routertest.Fail(429, "slow").With("Retry-After", "1"), good),
		routertest.NewUpstream(good),
	}, nil)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			for j := range 8 {
				wire, stream := routertest.Wires[(i+j)%4], (i+j)%3 != 0
				req := routertest.NewRequest(wire, "m", stream).With("Session-Id", string(rune('a'+i%7)))
				switch j {
				case 6: // leaves early
					w.Watch(t.Context(), req, func(r routertest.Result) bool { return r.Body == "" })
				case 7:
					if i%10 == 0 {
						_ = w.engine.Load(w.config(nil))
						w.engine.Status()
					}
					req.Body = "{"
					if got := w.Send(t.Context(), req); got.Status != 400 {
						t.Errorf("%s: got %d", wire, got.Status)
					}
				default:
					if got := w.Send(t.Context(), req); got.Status != 200 || got.Text() != words {
						t.Errorf("%s stream=%v: got %d %v %q", wire, stream, got.Status, got.Err, got.Body)
					}
				}
			}
		})
	}
	all.Wait()
	w.once()
	for _, u := range w.engine.Status().Upstreams {
		if u.InFlight != 0 || u.ProbeInFlight {
			t.Errorf("%+v", u)
		}
	}
}

// Clients hang up at an error that a stream tells. It is the upstream's all the same.
func TestClientsLeaveAtAnError(t *testing.T) {
	t.Parallel()
	for client, other := range across {
		for _, upstream := range []string{client, other} {
			bad := routertest.Body(http.StatusOK, "text/event-stream", firstEvents(t, upstream, 5), toldInBand[upstream]).Ending(routertest.Stall)
			w := bilingual(t, client, func(cfg *settings.Config) { cfg.Upstreams[0].Wires = []string{upstream} }, bad, good)
			w.Watch(t.Context(), routertest.NewRequest(client, "m", true), func(r routertest.Result) bool { return !strings.Contains(r.Body, "verloaded") })
			if e := w.completed(); e.Outcome != "failed" || e.ErrorClass != "provider_overloaded" {
				t.Errorf("%s to %s: %+v", client, upstream, e)
			}
			w.once()
		}
	}
}

// toldInBand is an error that each wire's streams tell as an event.
var toldInBand = map[string]string{
	routertest.Chat:     "data: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\",\"code\":503}}\n\n",
	routertest.Messages: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
}

// firstEvents are the first events of a good stream, as one chunk.
func firstEvents(t *testing.T, wire string, n int) string {
	t.Helper()
	events := strings.SplitAfter(raw(t, wire, true), "\n\n")
	return strings.Join(events[:n], "")
}

// What nobody told of a request is not in its log line.
func TestLogLeavesOutWhatNobodyTold(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]string{
		`,"usage":{"prompt_tokens":9,"completion_tokens":3}`:                                             `"input_tokens":9,"output_tokens":3}`,
		`,"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}`: `"input_tokens":9,"cache_read_tokens":0,"output_tokens":3}`,
		`,"usage":{"completion_tokens":3}`:                                                               `"output_tokens":3}`,
		"":                                                                                               "",
	} {
		r := record(t, upstreams(routertest.Body(200, "application/json",
			`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]`+usage+`}`)), nil)
		r.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", false))
		r.completed()
		r.close()
		line := r.text.String()
		if _, got, _ := strings.Cut(line, `"upstream_model":"m",`); strings.TrimSpace(got) != want && (want != "" || strings.Contains(line, "_tokens")) {
			t.Errorf("%s: %s", usage, line)
		}
	}
}
