package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	t.Run("does not count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int32
			c, end := bubble(t, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(40 * time.Second)
				if n.Add(1) < 3 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			})
			defer end()
			call := newCall(t, inMemory, "x")
			call.Stream, call.FirstByte, call.FirstEvent, call.Response = true, 45*time.Second, time.Minute, time.Minute
			call.Retry = func(int, *http.Response, []byte, error) (bool, time.Duration) { return true, time.Hour }
			ctx, w := NewWatch(t.Context())
			defer w.Stop()
			start := time.Now()
			a, err := c.Do(ctx, call, w)
			if err != nil || a.StatusCode != 200 || a.Sends != 3 {
				t.Fatalf("got %+v, %v", a, err)
			}
			defer a.Body.Close()
			if d := time.Since(start); d != 2*time.Hour+2*time.Minute {
				t.Errorf("took %v", d)
			}
			expect(t, ctx, w, 20*time.Second, FirstEvent)
		})
	})
	t.Run("cut short keeps the answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, end := bubble(t, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "overloaded", 529) })
			defer end()
			parent, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			ctx, w := NewWatch(parent)
			defer w.Stop()
			call := newCall(t, inMemory, "x")
			call.Retry = func(int, *http.Response, []byte, error) (bool, time.Duration) { return true, time.Hour }
			a, err := c.Do(ctx, call, w)
			if err != nil || a.StatusCode != 529 || string(a.ErrorBody) != "overloaded\n" || a.Sends != 1 {
				t.Fatalf("got %+v, %v", a, err)
			}
			if ctx.Err() == nil {
				t.Error("the wait was not cut short")
			}
		})
	})
	t.Run("cut short keeps the error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := New(Config{Base: parse(t, inMemory), Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("no route")
			}})
			parent, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			ctx, w := NewWatch(parent)
			defer w.Stop()
			call := newCall(t, inMemory, "x")
			call.Retry = func(_ int, _ *http.Response, _ []byte, err error) (bool, time.Duration) {
				return Kind(err) == kindRefused, time.Hour
			}
			if _, err := c.Do(ctx, call, w); Kind(err) != kindRefused {
				t.Errorf("got %v", err)
			}
		})
	})
}

func TestStalledErrorBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, end := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "bad gate")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		defer end()
		ctx, w := NewWatch(t.Context())
		defer w.Stop()
		call := newCall(t, inMemory, "x")
		call.Response = 10 * time.Minute
		start := time.Now()
		a, err := c.Do(ctx, call, w)
		if err != nil || a.StatusCode != 502 || string(a.ErrorBody) != "bad gate" || time.Since(start) != errorBodyWait {
			t.Fatalf("got %+v, %v after %v", a, err, time.Since(start))
		}
	})
}

func TestLimits(t *testing.T) {
	stream := Call{Stream: true, FirstByte: 45 * time.Second, FirstEvent: 2 * time.Minute, Response: 10 * time.Minute}
	short := stream
	short.FirstEvent = 20 * time.Second
	for _, c := range []struct {
		name        string
		limits      Call
		contentType string
		headers     time.Duration // until the headers
		after       time.Duration // from the send
		phase       Phase
	}{
		{"first byte", stream, "", time.Hour, 45 * time.Second, FirstByte},
		{"first event before the headers", short, "", time.Hour, 20 * time.Second, FirstEvent},
		{"first event counts from the send", stream, "text/event-stream", 30 * time.Second, 2 * time.Minute, FirstEvent},
		{"a stream answered with JSON", stream, "application/json; charset=utf-8", 30 * time.Second, 10 * time.Minute, Response},
		{"plain headers", Call{Response: time.Minute}, "", time.Hour, time.Minute, Response},
		{"plain body", Call{Response: time.Minute}, "application/json", 30 * time.Second, time.Minute, Response},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, end := bubble(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.ReadAll(r.Body) // else the server does not notice that the client leaves
					select {
					case <-time.After(c.headers):
					case <-r.Context().Done():
						return
					}
					w.Header().Set("Content-Type", c.contentType)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				defer end()
				ctx, w := NewWatch(t.Context())
				defer w.Stop()
				call := newCall(t, inMemory, "x")
				call.Stream, call.FirstByte, call.FirstEvent, call.Response = c.limits.Stream, c.limits.FirstByte, c.limits.FirstEvent, c.limits.Response
				call.Retry = func(int, *http.Response, []byte, error) (bool, time.Duration) { return true, 0 }
				start := time.Now()
				a, err := client.Do(ctx, call, w)
				if err == nil {
					_, err = io.ReadAll(a.Body)
					a.Body.Close()
				}
				if time.Since(start) != c.after || Kind(err) != kindTimeout || err.Error() != "upstream timeout: "+c.phase.String() {
					t.Errorf("got %v after %v", err, time.Since(start))
				}
				if p, _ := w.Fired(); p != c.phase {
					t.Errorf("fired %v", p)
				}
			})
		})
	}
}
