package router_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// stoppable is a world whose requests end when its program does. Those under way are cancelled when stop returns.
func stoppable(t *testing.T, script routertest.Reply, change func(*settings.Config)) (w *world, stop func()) {
	w = build(t, upstreams(script, good), change)
	var mu sync.Mutex
	var ends []context.CancelCauseFunc
	front := routertest.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancelCause(r.Context())
		defer end(nil)
		mu.Lock()
		ends = append(ends, end)
		mu.Unlock()
		w.engine.Handler().ServeHTTP(rw, r.WithContext(ctx))
	}))
	w.Close()
	w.Front = front
	return w, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, end := range ends {
			end(router.ErrStopping)
		}
	}
}

// stopped fails unless a request was booked as one that the router's own end has overtaken, and its upstream is well.
func (w *world) stopped(attempts int) {
	w.t.Helper()
	if e := w.completed(); e.ErrorClass != "router_stopping" || e.Outcome != map[bool]string{true: "failed", false: "rejected"}[attempts > 0] || e.Attempts != attempts {
		w.t.Errorf("booked as %s %s with %d attempts", e.Outcome, e.ErrorClass, e.Attempts)
	}
	for _, u := range w.engine.Status().Upstreams {
		if u.State != "healthy" || u.LastError != nil || u.InFlight != 0 {
			w.t.Errorf("%s is %s with %d in flight, blamed for %v", u.Name, u.State, u.InFlight, u.LastError)
		}
	}
}

func TestStoppingIsToldBeforeOutput(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		gate := make(chan struct{})
		defer close(gate)
		w, stop := stoppable(t, good.HoldStatus(gate), nil)
		go func() { w.ups[0].Await(0); stop() }()
		got := w.ask(wire, stream)
		refused(t, wire, got, 503, "being ended")
		if got.Header.Get("Retry-After") == "" {
			t.Error("it is not said when to come back")
		}
		w.stopped(1)
	})
}

func TestStoppingIsToldInAStream(t *testing.T) {
	t.Parallel()
	for _, translated := range []bool{false, true} {
		for _, wire := range routertest.Wires {
			if translated && wire != routertest.Chat && wire != routertest.Messages {
				continue
			}
			gate := make(chan struct{})
			w, stop := stoppable(t, good.Hold(5, gate), func(cfg *settings.Config) {
				if translated {
					cfg.Upstreams[0].Wires = []string{map[string]string{routertest.Chat: routertest.Messages, routertest.Messages: routertest.Chat}[wire]}
				}
			})
			got := w.Watch(t.Context(), routertest.NewRequest(wire, "m", true), func(r routertest.Result) bool {
				if r.Body != "" {
					stop()
				}
				return true
			})
			close(gate)
			events := got.Events()
			if got.Status != 200 || got.Err == nil || len(events) == 0 || !strings.Contains(events[len(events)-1].Data, "router is being ended") {
				t.Errorf("%s: got %d %v %s", wire, got.Status, got.Err, got.Body)
			}
			w.stopped(1)
		}
	}
}

func TestStoppingEndsTheQueue(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	w, stop := stoppable(t, good.Hold(5, gate), func(cfg *settings.Config) { cfg.Server.MaxConcurrentRequests, cfg.Server.MaxQueueDepth = 1, 1 })
	first := make(chan routertest.Result)
	go func() { first <- w.ask(routertest.Chat, true) }()
	w.ups[0].Await(0)
	second := make(chan routertest.Result)
	go func() { second <- w.ask(routertest.Chat, true) }()
	eventually(t, "the queue", func() bool { return w.engine.Status().Queued == 1 })
	stop()
	refused(t, routertest.Chat, <-second, 503, "being ended")
	close(gate)
	<-first
}

// A connection that is closed on an upload is the router's doing, too.
func TestStoppingEndsAnUpload(t *testing.T) {
	t.Parallel()
	w, stop := stoppable(t, good, nil)
	body, upload := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/v1/chat/completions", body)
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	_, _ = upload.Write([]byte(`{"model":`))
	eventually(t, "the upload", func() bool { return w.engine.Status().InFlight == 1 })
	stop()
	_ = upload.CloseWithError(io.ErrClosedPipe)
	<-over
	w.stopped(0)
}

// Who has left has left, also when the router ends.
func TestStoppingAfterTheClientLeft(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	w, stop := stoppable(t, good.Hold(5, gate), nil)
	w.Watch(t.Context(), routertest.NewRequest(routertest.Chat, "m", true), func(r routertest.Result) bool { return r.Body == "" })
	e := w.completed()
	stop()
	if e.Outcome != "cancelled" || e.ErrorClass != "caller_cancelled" {
		t.Errorf("booked as %s %s", e.Outcome, e.ErrorClass)
	}
}

// The router's own limit is not told as the upstream's fault.
func TestRequestTimeoutIsTold(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, pace := range []time.Duration{time.Hour, 2 * time.Second} { // before a status, and within a stream
			if begun := pace < time.Minute; !begun || stream {
				synctest.Test(t, func(t *testing.T) {
					b, end := inBubble(t, []routertest.Reply{good.Pace(pace), good}, func(cfg *settings.Config) {
						cfg.Server.RequestTimeout = 15 * time.Second
					})
					defer end()
					outOfTime(t, b, wire, stream, begun)
				})
			}
		}
	})
}

func outOfTime(t *testing.T, b *bubble, wire string, stream, begun bool) {
	start := time.Now()
	got := b.send(t.Context(), routertest.NewRequest(wire, "m", stream))
	if took := time.Since(start); took != 15*time.Second {
		t.Errorf("it took %v", took)
	}
	if events := got.Events(); begun && (got.Err == nil || len(events) == 0 || !strings.Contains(events[len(events)-1].Data, "server.request_timeout")) {
		t.Errorf("got %d %v %s", got.Status, got.Err, got.Body)
	}
	if !begun {
		refused(t, wire, got, 504, "server.request_timeout")
	}
	if e, u := b.completed(), b.engine.Status().Upstreams[0]; e.Outcome != "failed" || e.ErrorClass != "provider_timeout" || u.State != "healthy" || u.LastError != nil {
		t.Errorf("booked as %s %s, the upstream is %s, blamed for %v", e.Outcome, e.ErrorClass, u.State, u.LastError)
	}
}
