package live

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

const (
	begun  = "[....] /v1/chat/completions strategy #0/a m CALL"
	served = "[ OK ] /v1/chat/completions strategy #0/a 200 0.000 m 10/0/1 CALL"
	none   = "[FAIL] /v1/chat/completions none -- 404 0.000 _unknown CALL caller_model_unknown"
	hole   = "-- gap: some requests are not shown --"
	ended  = "-- not connected (the router ended the stream); next try in 1s --"
)

// A tail lives through restarts and says what it cannot know.
func TestTail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, term := &routertest.Network{}, &terminal{width: 200}
		p := startProcess(t, n, 10)
		p.ask("m")()
		p.ask("nope")()
		tail, client := newTestTail(n, term)
		tail.History = 1
		open, between := tail.Open, true
		tail.Open = func(ctx context.Context, path, place string) (*http.Response, error) {
			if strings.HasSuffix(path, "/stream") && between {
				between = false
				p.serve("nope") // between the list and the stream
			}
			return open(ctx, path, place)
		}
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- tail.Run(ctx) }()
		var want []string
		check := func(more ...string) {
			t.Helper()
			synctest.Wait()
			want = append(want, more...)
			if diff := cmp.Diff(want, see(term)); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}
		check(none, none)
		p.ask("m")()
		check(begun, served)
		time.Sleep(10 * time.Minute) // in silence, but for signs of life
		check()
		p.stop()
		check(ended)
		time.Sleep(time.Second)
		check("-- not connected (unreachable); next try in 2s --")
		p = startProcess(t, n, 10)
		p.ask("nope")()
		time.Sleep(2 * time.Second)
		check(hole, none)

		// Without a restart, what is kept is all there is to tell.
		p.plane.SetReady(false)
		check(ended)
		p.ask("m")()
		p.plane.SetReady(true)
		time.Sleep(time.Second)
		check(served)
		stop()
		if err := <-over; err != nil {
			t.Errorf("ended by hand: %v", err)
		}
		client.CloseIdleConnections()
		p.stop()
	})
}

// A stream is dead when there is no sign of life on it, and so is a list that does not come.
func TestTailLeavesDeadConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		term := &terminal{width: 200}
		tail, _ := newTestTail(nil, term)
		asked := map[string]int{}
		tail.MaxReconnects = 2
		tail.Open = func(ctx context.Context, path, _ string) (*http.Response, error) {
			asked[path]++
			if strings.HasPrefix(path, "/_router/logs/recent") {
				if asked[path] == 1 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return &http.Response{Body: io.NopCloser(strings.NewReader("[]"))}, nil
			}
			r, w := io.Pipe()
			context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
			if asked[path] > 1 {
				return nil, errRefused
			}
			return &http.Response{Body: r}, nil
		}
		begin := time.Now()
		if err := tail.Run(t.Context()); !errors.Is(err, errRefused) {
			t.Errorf("%v", err)
		}
		const dead = "-- not connected (there was no sign of life); next try in 1s --"
		if diff := cmp.Diff([]string{dead, dead}, see(term)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if d := time.Since(begin); d != 2*silence+2*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}

func TestTailGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		term := &terminal{width: 200}
		for most, took := range map[int]time.Duration{0: 0, 1: time.Second, 7: (1 + 2 + 4 + 8 + 16 + 30 + 30) * time.Second} {
			tail, _ := newTestTail(&routertest.Network{}, term)
			tail.MaxReconnects = most
			begin := time.Now()
			if err := tail.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "unreachable; given up") {
				t.Errorf("%v", err)
			}
			if d := time.Since(begin); d != took {
				t.Errorf("%d reconnects took %v, want %v", most, d, took)
			}
		}
	})
}

// What a stream says beside what is known is passed over.
func TestTailReadsStreams(t *testing.T) {
	t.Parallel()
	term := &terminal{width: 200}
	tail, _ := newTestTail(nil, term)
	tail.MaxReconnects = 0
	tail.Open = func(_ context.Context, path, place string) (*http.Response, error) {
		body := "[]"
		if strings.HasSuffix(path, "/stream") {
			body = ":\n\nid: e-1\n\nevent:start\r\nid:e-2\r\ndata:{\"path\":\"/x\",\"kind\":\"none\"}\r\n\r\n" +
				"event: news\ndata: {\"path\":\"/y\"}\n\nevent: end\ndata: no JSON\n\nretry: 5\n\n" +
				"event: gap\ndata: {}\n\nid: e-3\nevent: end\ndata: {\"path\":\"/z\"}\n"
		}
		return &http.Response{Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	if err := tail.Run(t.Context()); err == nil || tail.place != "e-2" {
		t.Errorf("%v at %q", err, tail.place)
	}
	if diff := cmp.Diff([]string{"[....] /x none --", hole}, see(term)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
