package router

import (
	"log/slog"
	"time"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// Phase is a point in a request's life at which an Event is told.
type Phase string

// The phases, in order. PhaseAttemptStart to PhaseFailover repeat for every dispatch; PhaseCompleted comes exactly once for every
// request that entered the corridor, refusals included.
const (
	PhaseReceived     Phase = "received"
	PhaseAttemptStart Phase = "attempt_start"
	PhaseCommitted    Phase = "committed"
	PhaseAttemptEnd   Phase = "attempt_end"
	PhaseFailover     Phase = "failover"
	PhaseCompleted    Phase = "completed"
)

// Event tells an embedding program what happens. Fields that a phase does not know are empty.
type Event struct {
	Phase         Phase
	Time          time.Time
	Call          string // call id, the same on every event of a request
	Wire          string
	Model         string // configured id or glob
	Stream        bool
	Upstream      string
	UpstreamModel string
	Attempt       int           // from 1
	Attempts      int           // dispatches of the whole request
	Outcome       string        // of the request, on PhaseCompleted; of the attempt, on PhaseAttemptEnd
	Status        int           // what the client saw
	ErrorClass    string        // signalbox.error.class, empty when all went well
	Duration      time.Duration // of the request or the attempt
	FirstChunk    time.Duration
	Usage         telemetry.Usage
}

// OnEvent has f called for every event, in the request's own goroutine and before it goes on, so f must be quick. A
// panic of f is logged and goes no further.
func (r *Router) OnEvent(f func(Event)) {
	for {
		old := r.observers.Load()
		var list []func(Event)
		if old != nil {
			list = append(list, *old...)
		}
		list = append(list, f)
		if r.observers.CompareAndSwap(old, &list) {
			return
		}
	}
}

func (r *Router) emit(e Event) {
	list := r.observers.Load()
	if list == nil {
		return
	}
	for _, f := range *list {
		r.tell(f, e)
	}
}

func (r *Router) tell(f func(Event), e Event) {
	defer func() {
		if p := recover(); p != nil {
			r.opts.logger.Error("an observer of events failed", slog.Any("panic", p))
		}
	}()
	f(e)
}
