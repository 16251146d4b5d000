package router_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestFullUpstreamsAreSkipped(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good, good), func(cfg *settings.Config) {
		cfg.Upstreams[0].MaxConcurrent, cfg.Upstreams[1].MaxConcurrent = 1, 1
	})
	releaseA, releaseB := w.hold(0), w.hold(1)
	defer releaseA()
	defer releaseB()
	first := w.inBackground(turn(""))
	w.ups[0].Await(0)
	second := w.inBackground(turn(""))
	w.ups[1].Await(0)
	for _, wire := range routertest.Wires {
		got := w.Send(t.Context(), routertest.NewRequest(wire, "m", true))
		refused(t, wire, got, 503, "every target of this model is busy")
		_, kind := refusal(wire, got.Body)
		if kind != "targets_busy" || got.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: %s %v", wire, kind, got.Header)
		}
	}
	releaseA()
	releaseB()
	if a, b := <-first, <-second; a != "a" || b != "b" {
		t.Errorf("they went to %s and %s", a, b)
	}
	w.goes(turn(""), "a")
	if n := len(w.ups[0].Calls()) + len(w.ups[1].Calls()); n != 3 {
		t.Errorf("%d dispatches", n)
	}
}

// ceiling holds requests back above n.
func ceiling(n, depth int) func(*settings.Config) {
	return func(cfg *settings.Config) {
		cfg.Server.MaxConcurrentRequests, cfg.Server.MaxQueueDepth = n, depth
	}
}

// queued waits until so many requests wait.
func (w *world) queued(n int64) {
	w.t.Helper()
	eventually(w.t, "the queue's length", func() bool { return w.engine.Status().Queued == n })
}

// behind sends a request and waits until it stands in the queue, as the n-th.
func (w *world) behind(ctx context.Context, n int64, r routertest.Request) <-chan routertest.Result {
	w.t.Helper()
	out := make(chan routertest.Result, 1)
	go func() { out <- w.Send(ctx, r) }()
	w.queued(n)
	return out
}

func TestQueueIsFirstInFirstOut(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good, good), func(cfg *settings.Config) {
		ceiling(1, 10)(cfg)
		cfg.Models = append(cfg.Models, modelNamed("n", "b"))
	})
	if err := w.engine.Cool("b", "", 0); err != nil {
		t.Fatal(err)
	}
	release := w.hold(0)
	defer release()
	ctx := context.WithoutCancel(t.Context())
	running := w.inBackground(turn("first"))
	w.ups[0].Await(0)
	var waiting []<-chan routertest.Result
	for i, model := range []string{"m", "n", "m", "m"} { // what is refused once inside gives its place back, too
		waiting = append(waiting, w.behind(ctx, int64(i+1), asking(model, string(rune('a'+i)))))
	}
	if s := w.engine.Status(); s.Queued != 4 || s.InFlight != 1 {
		t.Errorf("status tells %d queued, %d in flight", s.Queued, s.InFlight)
	}
	if n := len(w.ups[0].Calls()); n != 1 {
		t.Errorf("%d requests are under way", n)
	}
	w.goes(asking("nothing", ""), "404 unknown_model") // which no waiting would change
	if e := w.completed(); e.Model != "_unknown" {
		t.Errorf("%+v", e)
	}
	release()
	<-running
	var got []int
	for _, c := range waiting {
		got = append(got, (<-c).Status)
	}
	if diff := cmp.Diff([]int{200, 503, 200, 200}, got); diff != "" {
		t.Error(diff)
	}
	var ends []string
	for range 5 {
		ends = append(ends, w.completed().Model)
	}
	if diff := cmp.Diff([]string{"m", "m", "n", "m", "m"}, ends); diff != "" {
		t.Error(diff)
	}
	w.queued(0)
}

// Requests are dispatched in the order in which they came.
func TestQueueKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), ceiling(1, 10))
	release := w.hold(0)
	defer release()
	running := w.inBackground(turn(""))
	w.ups[0].Await(0)
	var waiting []<-chan routertest.Result
	for i, mark := range []string{"1", "2", "3", "4", "5"} {
		waiting = append(waiting, w.behind(context.WithoutCancel(t.Context()), int64(i+1), turn("").With("X-Mark", mark)))
	}
	release()
	<-running
	for _, c := range waiting {
		<-c
	}
	var marks []string
	for _, c := range w.ups[0].Calls()[1:] {
		marks = append(marks, c.Header.Get("X-Mark"))
	}
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5"}, marks); diff != "" {
		t.Error(diff)
	}
}

func TestQueueHasAnEnd(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{0, 2} {
		w := build(t, upstreams(good), ceiling(1, depth))
		release := w.hold(0)
		defer release()
		running := w.inBackground(turn(""))
		w.ups[0].Await(0)
		var waiting []<-chan routertest.Result
		for i := range depth {
			waiting = append(waiting, w.behind(context.WithoutCancel(t.Context()), int64(i+1), turn("")))
		}
		for _, wire := range routertest.Wires {
			got := w.Send(t.Context(), routertest.NewRequest(wire, "m", false))
			refused(t, wire, got, 503, "too many requests are waiting")
			if _, kind := refusal(wire, got.Body); kind != "queue_full" || got.Header.Get("Retry-After") != "1" {
				t.Errorf("depth %d, %s: %s %v", depth, wire, kind, got.Header)
			}
		}
		release()
		<-running
		for _, c := range waiting {
			if got := <-c; got.Status != 200 {
				t.Errorf("who waited got %d", got.Status)
			}
		}
		w.goes(turn(""), "a")
		w.once()
	}
}

func TestQueueForgetsWhoLeaves(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), ceiling(1, 2))
	release := w.hold(0)
	defer release()
	running := w.inBackground(turn(""))
	w.ups[0].Await(0)
	ctx, leave := context.WithCancel(t.Context())
	gone := w.behind(ctx, 1, turn("gone"))
	stays := w.behind(context.WithoutCancel(t.Context()), 2, turn("stays"))
	leave()
	if got := <-gone; got.Err == nil {
		t.Errorf("who left got %d", got.Status)
	}
	w.queued(1)
	if e := w.completed(); e.Outcome != "cancelled" {
		t.Errorf("its outcome is %s", e.Outcome)
	}
	last := w.behind(context.WithoutCancel(t.Context()), 2, turn("last")) // in its place
	release()
	<-running
	if a, b := <-stays, <-last; a.Status != 200 || b.Status != 200 {
		t.Errorf("the others got %d and %d", a.Status, b.Status)
	}
	if n := len(w.ups[0].Calls()); n != 3 {
		t.Errorf("%d dispatches", n)
	}
	w.once()
}

func TestTokenCountsPassTheQueueBy(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good, good), func(cfg *settings.Config) {
		ceiling(1, 0)(cfg)
		cfg.Models = append(cfg.Models, modelNamed("n", "b"))
	})
	release := w.hold(0)
	defer release()
	running := w.inBackground(turn(""))
	w.ups[0].Await(0)
	w.goes(asking("n", ""), "503 queue_full")
	w.goes(routertest.NewCount("n"), "b", "b")
	release()
	<-running
	w.goes(asking("n", ""), "b") // and they gave back no place that they had not taken
	release = w.hold(0)
	defer release()
	running = w.inBackground(turn(""))
	w.ups[0].Await(1)
	w.goes(asking("n", ""), "503 queue_full")
	release()
	<-running
}

func TestReloadRaisesTheCeiling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, want int }{{2, 2}, {0, 3}, {1, 1}} {
		w := build(t, upstreams(good, good), func(cfg *settings.Config) {
			ceiling(1, 10)(cfg)
			cfg.Models = append(cfg.Models, modelNamed("n", "b"))
		})
		releaseA, releaseB := w.hold(0), w.hold(1)
		running := w.inBackground(turn(""))
		w.ups[0].Await(0)
		var waiting []<-chan routertest.Result
		for i := range 3 {
			waiting = append(waiting, w.behind(context.WithoutCancel(t.Context()), int64(i+1), asking("n", "")))
		}
		err := w.engine.Load(w.config(func(cfg *settings.Config) {
			ceiling(c.limit, 10)(cfg)
			cfg.Models = append(cfg.Models, modelNamed("n", "b"))
		}))
		if err != nil {
			t.Fatal(err)
		}
		releaseA()
		<-running
		w.queued(int64(3 - c.want))
		for i := range c.want {
			if w.ups[1].Await(i) == nil {
				t.Errorf("with a ceiling of %d only %d are under way", c.limit, i)
			}
		}
		releaseB()
		for _, c := range waiting {
			if got := <-c; got.Status != 200 {
				t.Errorf("who waited got %d", got.Status)
			}
		}
		w.queued(0)
	}
}

func TestRequestTimeoutInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, end := inBubble(t, []routertest.Reply{good.Pace(time.Minute)}, func(cfg *settings.Config) { ceiling(1, 10)(cfg) })
		defer end()
		ctx, leave := context.WithCancel(context.Background())
		first := make(chan routertest.Result, 1)
		go func() { first <- b.send(ctx, turn("")) }()
		synctest.Wait()
		err := b.engine.Load(b.config(func(cfg *settings.Config) {
			ceiling(1, 10)(cfg)
			cfg.Server.RequestTimeout = 10 * time.Second // for those that come now
		}))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		got := b.send(context.Background(), turn(""))
		refused(t, routertest.Chat, got, 503, "until its time was over")
		if _, kind := refusal(routertest.Chat, got.Body); kind != "queue_timeout" || got.Header.Get("Retry-After") != "1" || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %s %v", time.Since(start), kind, got.Header)
		}
		if n := b.engine.Status().Queued; n != 0 || len(b.ups[0].Calls()) != 1 {
			t.Errorf("%d wait, %d dispatches", n, len(b.ups[0].Calls()))
		}
		leave()
		<-first
	})
}
