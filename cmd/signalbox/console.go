package main

import (
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/signalbox-llm/signalbox/cmd/internal/live"
	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/control"
)

// requests is what people see of the requests of this process. A nil one shows nothing.
type requests struct {
	screen  *live.Screen
	style   live.Style
	done    chan struct{}
	running sync.WaitGroup
}

// newRequests returns nil where w is read by machines.
func newRequests(w io.Writer) *requests {
	if !isTerminal(w) && !colours(w) {
		return nil
	}
	r := &requests{screen: live.NewScreen(w, nil), style: live.Style{Colours: colours(w)}, done: make(chan struct{})}
	if isTerminal(w) && os.Getenv("TERM") != "dumb" {
		r.screen.Width = func() int { return terminalWidth(w) }
	}
	return r
}

// stderrHandler logs as text to people, at once and above the footer, and as JSON to machines, a moment later. The function
// writes what is still to be written.
func stderrHandler(e env, r *requests) (slog.Handler, func()) {
	if r != nil {
		return live.WithoutRequests(slog.NewTextHandler(r.screen, nil)), func() {}
	}
	s := newSpool(e.stderr)
	return spooled{slog.NewJSONHandler(s, nil), s}, s.close
}

// show begins to show requests; stop must be called in the end.
func (r *requests) show(engine *router.Router, plane *control.Handler) {
	if r == nil {
		return
	}
	w := live.Watch{Screen: r.screen, Style: r.style, Follower: plane.Follow(), Status: engine.Status}
	r.running.Go(func() { w.Run(r.done) })
}

// stop shows what is left and takes the footer away.
func (r *requests) stop() {
	if r == nil {
		return
	}
	close(r.done)
	r.running.Wait()
}
