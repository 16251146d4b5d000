package live

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
)

// see is what stands on a terminal, line by line.
func see(term *terminal) (out []string) {
	for line := range strings.SplitSeq(term.String(), "\n") {
		if line != "" {
			out = append(out, brief(line))
		}
	}
	return out
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &routertest.Network{}
		p := startProcess(t, n, 0)
		defer p.stop()
		term := &terminal{width: 200}
		w := Watch{Screen: NewScreen(term, term.columns), Follower: p.plane.Follow(), Status: p.engine.Status}
		done, over := make(chan struct{}), make(chan struct{})
		go func() { defer close(over); w.Run(done) }()
		check := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, see(term)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
		check("in flight 0, queued 0, requests 0, failures 0")
		gate := make(chan struct{})
		p.ups[0].Script(routertest.Fail(429, "slow down").With("Retry-After", "30").HoldStatus(gate))
		end := p.ask("m")
		const start = "[....] /v1/chat/completions strategy #0/a m CALL"
		check(start, "in flight 1, queued 0, requests 0, failures 0")
		time.Sleep(2 * time.Second)
		close(gate)
		end()
		const ended = "[ OK ] /v1/chat/completions failover #1/b 200 2.000 m 10/0/1 CALL"
		check(start, ended, "in flight 0, queued 0, requests 1, failures 0, cooling: a/m 30 s")
		time.Sleep(10 * time.Second)
		check(start, ended, "in flight 0, queued 0, requests 1, failures 0, cooling: a/m 20 s")
		p.ask("nope")()
		const refused = "[FAIL] /v1/chat/completions none -- 404 0.000 _unknown CALL caller_model_unknown"
		check(start, ended, refused, "in flight 0, queued 0, requests 2, failures 1, cooling: a/m 20 s")
		close(done)
		<-over
		check(start, ended, refused)
	})
}

// What happened until it was told to end is shown.
func TestWatchShowsTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := startProcess(t, &routertest.Network{}, 0)
		defer p.stop()
		for range 20 { // what it hears of first is left to chance
			term, done := &terminal{width: 200}, make(chan struct{})
			w := Watch{Screen: NewScreen(term, term.columns), Follower: p.plane.Follow()}
			w.Status = func() router.Status {
				select {
				case <-done:
				default:
					p.serve("nope")
					close(done)
				}
				return p.engine.Status()
			}
			w.Run(done)
			if diff := cmp.Diff([]string{"[FAIL] /v1/chat/completions none -- 404 0.000 _unknown CALL caller_model_unknown"}, see(term)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
	})
}

func TestCoolings(t *testing.T) {
	t.Parallel()
	targets := []router.TargetStatus{{Model: "x", State: "cooling", RemainingMS: 1}, {Model: "y", State: "healthy"}}
	got := coolings([]router.UpstreamStatus{
		{Name: "by-time", State: "cooling", RemainingMS: 29001, Targets: targets},
		{Name: "by-hand", State: "cooling", RemainingMS: -1},
		{Name: "ejected", State: "ejected"},
		{Name: "well", State: "healthy", Targets: targets},
		{Name: "trying", State: "probing"},
		{Name: "off", State: "disabled", Targets: targets},
	})
	if want := "by-time 30 s, by-hand, ejected, well/x 1 s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRequestsAreLoggedOnce(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(WithoutRequests(slog.NewTextHandler(&out, nil)))
	for _, l := range []*slog.Logger{log, log.With("a", 1), log.WithGroup("g")} {
		l.Info("request", "call", "c")
		l.Info("kept", "x", 1)
	}
	if got := out.String(); strings.Contains(got, "request") || strings.Count(got, "kept") != 3 || !strings.Contains(got, "a=1") || !strings.Contains(got, "g.x=1") {
		t.Error(got)
	}
}
