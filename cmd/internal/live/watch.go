package live

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// Watch shows the requests of the router in this process.
type Watch struct {
	Screen   *Screen
	Style    Style
	Follower *control.Follower
	Status   func() router.Status

	requests, failures int64
}

// refresh is how often the footer is brought up to date while nothing happens.
const refresh = time.Second

// Run shows what happens until done is closed, then what is left, and takes the footer away.
func (w *Watch) Run(done <-chan struct{}) {
	defer w.Follower.Close()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		w.Screen.Show(w.lines(), w.footer())
		select {
		case <-w.Follower.Ready():
		case <-tick.C:
		case <-done:
			w.Screen.Show(w.lines(), "")
			return
		}
	}
}

func (w *Watch) lines() []string {
	frames := w.Follower.Take()
	lines := make([]string, len(frames))
	for i := range frames {
		f := &frames[i]
		lines[i] = w.Style.Line(f)
		if f.Type != control.FrameEnd {
			continue
		}
		w.requests++
		if f.Outcome == telemetry.OutcomeFailed || f.Outcome == telemetry.OutcomeRejected {
			w.failures++
		}
	}
	return lines
}

func (w *Watch) footer() string {
	if w.Screen.Width == nil {
		return ""
	}
	s := w.Status()
	text := fmt.Sprintf("in flight %d, queued %d, requests %d, failures %d", s.InFlight, s.Queued, w.requests, w.failures)
	if cooling := coolings(s.Upstreams); cooling != "" {
		text += ", cooling: " + cooling
	}
	return text
}

// coolings are the upstreams that are out of use, or single models at them, each with the seconds until it comes back, or
// without if it is not known when.
func coolings(upstreams []router.UpstreamStatus) string {
	var all []string
	add := func(state, name string, left int64) bool {
		if state != health.StateCooling && state != health.StateEjected {
			return false
		}
		if name = clean(name); left > 0 {
			name += fmt.Sprintf(" %d s", (left+999)/1000)
		}
		all = append(all, name)
		return true
	}
	for i := range upstreams {
		u := &upstreams[i]
		if add(u.State, u.Name, u.RemainingMS) || u.State == health.StateDisabled {
			continue
		}
		for _, t := range u.Targets {
			add(t.State, u.Name+"/"+t.Model, t.RemainingMS)
		}
	}
	return strings.Join(all, ", ")
}

// WithoutRequests leaves out the engine's record of each request, for where a Watch shows it.
func WithoutRequests(h slog.Handler) slog.Handler { return withoutRequests{h} }

type withoutRequests struct{ slog.Handler }

// Handle implements slog.Handler.
func (h withoutRequests) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "request" {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h withoutRequests) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutRequests{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h withoutRequests) WithGroup(name string) slog.Handler {
	return withoutRequests{h.Handler.WithGroup(name)}
}

var _ slog.Handler = withoutRequests{}
