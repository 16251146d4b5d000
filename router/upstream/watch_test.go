package upstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// expect waits until the context ends and checks when and why.
func expect(t *testing.T, ctx context.Context, w *Watch, after time.Duration, phase Phase) {
	t.Helper()
	start := time.Now()
	<-ctx.Done()
	if d := time.Since(start); d != after {
		t.Errorf("fired after %v, want %v", d, after)
	}
	var cause *Timeout
	if p, ok := w.Fired(); !ok || p != phase || !errors.As(context.Cause(ctx), &cause) || cause.Phase != phase {
		t.Errorf("fired %v %v with cause %v, want %v", p, ok, context.Cause(ctx), phase)
	}
	if Kind(context.Cause(ctx)) != kindTimeout {
		t.Errorf("kind %q", Kind(context.Cause(ctx)))
	}
}

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps func(w *Watch)
		after time.Duration // from the end of the steps
		phase Phase
	}{
		{"a phase", func(w *Watch) { w.Arm(FirstByte, time.Second) }, time.Second, FirstByte},
		{"the next phase starts again", func(w *Watch) {
			w.Arm(FirstByte, time.Second)
			time.Sleep(900 * time.Millisecond)
			w.Arm(FirstEvent, time.Second)
		}, time.Second, FirstEvent},
		{"a shorter phase", func(w *Watch) { w.Arm(Response, time.Hour); w.Arm(Idle, time.Second) }, time.Second, Idle},
		{"an earlier start", func(w *Watch) {
			from := w.now()
			time.Sleep(400 * time.Millisecond)
			w.arm(FirstEvent, from, time.Second)
		}, 600 * time.Millisecond, FirstEvent},
		{"a start too long ago", func(w *Watch) {
			from := w.now()
			time.Sleep(2 * time.Second)
			w.arm(FirstEvent, from, time.Second)
		}, 0, FirstEvent},
		{"bytes keep idle alive", func(w *Watch) {
			w.Arm(Idle, time.Second)
			for range 100 {
				time.Sleep(990 * time.Millisecond)
				w.Touch()
			}
		}, time.Second, Idle},
		{"bytes do not draw out the others", func(w *Watch) {
			w.Arm(FirstEvent, 10*time.Second)
			for range 9 {
				time.Sleep(time.Second)
				w.Touch()
			}
		}, time.Second, FirstEvent},
		{"an old touch does not shorten idle", func(w *Watch) {
			w.Touch()
			time.Sleep(time.Minute)
			w.Arm(Idle, time.Second)
		}, time.Second, Idle},
		{"the cap ends a lively stream", func(w *Watch) {
			w.Arm(Idle, time.Second)
			w.Cap(10 * time.Second)
			for range 19 {
				time.Sleep(500 * time.Millisecond)
				w.Touch()
			}
		}, 500 * time.Millisecond, Stream},
		{"the cap outlives a phase", func(w *Watch) { w.Cap(time.Minute); w.Arm(Idle, time.Second); w.Arm(Off, 0) }, time.Minute, Stream},
		{"the cap is taken away", func(w *Watch) { w.Cap(time.Second); w.Cap(0); w.Arm(Response, time.Minute) }, time.Minute, Response},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, w := NewWatch(t.Context())
				defer w.Stop()
				c.steps(w)
				if _, fired := w.Fired(); fired || ctx.Err() != nil {
					t.Fatal("fired too early")
				}
				expect(t, ctx, w, c.after, c.phase)
			})
		})
	}
}

func TestWatchRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := NewWatch(t.Context())
		w.Arm(FirstByte, time.Second)
		w.Arm(Off, 0)
		time.Sleep(time.Hour)
		if ctx.Err() != nil {
			t.Fatal("a disarmed watch fired")
		}
		w.Arm(Idle, time.Second)
		w.Stop()
		w.Stop()
		time.Sleep(time.Hour)
		if _, fired := w.Fired(); fired || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Fatalf("after Stop: fired %v, cause %v", fired, context.Cause(ctx))
		}
	})
}

func TestTouchAllocates(t *testing.T) {
	_, w := NewWatch(t.Context())
	defer w.Stop()
	w.Arm(Idle, time.Hour)
	if n := testing.AllocsPerRun(1000, w.Touch); n != 0 {
		t.Errorf("Touch allocates %v times", n)
	}
}

func BenchmarkTouch(b *testing.B) {
	_, w := NewWatch(b.Context())
	defer w.Stop()
	w.Arm(Idle, time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		w.Touch()
	}
}
