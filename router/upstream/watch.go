package upstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Phase is what a Watch is waiting for.
type Phase uint8

// The phases, in the order in which an answer passes through them.
const (
	Off        Phase = iota // nothing is waited for: before a send and between sends
	FirstByte               // streams: the response headers
	FirstEvent              // streams: the first event that is no comment or ping, counted from the send
	Idle                    // streams: the next byte, counted from the last one
	Response                // plain answers: the whole, counted from the send
	Stream                  // the cap on a whole stream, running beside the others
)

var phaseNames = [...]string{"off", "first_byte", "first_event", "idle", "response", "stream"}

// String returns the name the phase has in the configuration.
func (p Phase) String() string { return phaseNames[p] }

// Timeout is the cause with which a Watch cancels its attempt.
type Timeout struct{ Phase Phase }

// Error names the phase; it holds nothing of the request.
func (t *Timeout) Error() string { return "upstream timeout: " + t.Phase.String() }

// Timeout makes it a timeout to those who ask for this method.
func (*Timeout) Timeout() bool { return true }

// Watch is the one timer of an attempt: it cancels the attempt with a *Timeout as the cause. Phases move on as the answer
// does. It is safe for concurrent use.
type Watch struct {
	cancel  context.CancelCauseFunc
	born    time.Time
	touched atomic.Int64 // nanoseconds after born; written by Touch alone, read when the timer goes off
	fired   atomic.Uint32

	mu      sync.Mutex
	timer   *time.Timer
	phase   Phase
	from    time.Duration // start of the phase, after born
	limit   time.Duration // length of the phase, 0 = unlimited
	end     time.Duration // of the whole stream, after born, 0 = unlimited
	stopped bool
}

// NewWatch returns a watch that waits for nothing yet, and the context that it cancels. Stop must be called in the end.
func NewWatch(ctx context.Context) (context.Context, *Watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &Watch{cancel: cancel, born: time.Now()}
}

// Arm enters a phase that may last d from now; d <= 0 leaves it unlimited.
func (w *Watch) Arm(phase Phase, d time.Duration) { w.arm(phase, w.now(), d) }

// Cap limits everything to d from now, whatever the phase; d <= 0 takes the limit away.
func (w *Watch) Cap(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = 0
	if d > 0 {
		w.end = w.now() + d
	}
	w.schedule()
}

// Touch tells that bytes have come: Idle starts again from now. The other phases are deadlines and cannot be drawn out, so
// it may be called for every chunk, also while a first event is awaited. It costs one atomic store.
func (w *Watch) Touch() { w.touched.Store(int64(w.now())) }

// Stop ends the watch and releases its context; what is still being read from the attempt fails.
func (w *Watch) Stop() {
	w.mu.Lock()
	w.stopped = true
	w.schedule()
	w.mu.Unlock()
	w.cancel(nil)
}

// Fired tells which phase took too long, if one did.
func (w *Watch) Fired() (Phase, bool) {
	p := Phase(w.fired.Load())
	return p, p != Off
}

func (w *Watch) now() time.Duration { return time.Since(w.born) }

// arm enters a phase that began at an earlier moment.
func (w *Watch) arm(phase Phase, from, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase, w.from, w.limit = phase, from, max(d, 0)
	w.schedule()
}

// next returns the earliest deadline and its phase, Off if there is none.
func (w *Watch) next() (at time.Duration, phase Phase) {
	if w.limit > 0 {
		at, phase = w.from+w.limit, w.phase
		if phase == Idle {
			at = max(w.from, time.Duration(w.touched.Load())) + w.limit
		}
	}
	if w.end > 0 && (phase == Off || w.end < at) {
		at, phase = w.end, Stream
	}
	return at, phase
}

// schedule sets the timer to the earliest deadline. Touch does not come here: the timer finds out when it goes off.
func (w *Watch) schedule() {
	at, phase := w.next()
	switch {
	case w.stopped || phase == Off:
		if w.timer != nil {
			w.timer.Stop()
		}
	case w.timer == nil:
		w.timer = time.AfterFunc(at-w.now(), w.expire)
	default:
		w.timer.Reset(at - w.now())
	}
}

// expire runs when the timer goes off, which may be early because of a Touch or late because of an Arm.
func (w *Watch) expire() {
	w.mu.Lock()
	at, phase := w.next()
	if w.stopped || phase == Off || w.now() < at {
		w.schedule()
		w.mu.Unlock()
		return
	}
	w.stopped = true
	w.fired.Store(uint32(phase))
	w.mu.Unlock()
	w.cancel(&Timeout{Phase: phase})
}
