package upstream

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// A wait of 8 s passes on the bubble's clock alone.
func TestRetryWaitsVirtually(t *testing.T) {
	outside := time.Now()
	synctest.Test(t, func(t *testing.T) {
		sends := 0
		c, end := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			if sends++; sends == 1 {
				http.Error(w, "overloaded", http.StatusServiceUnavailable)
				return
			}
			_, _ = io.Copy(w, r.Body)
		})
		defer end()
		call := newCall(t, inMemory, "hel", "lo")
		call.Retry = func(int, *http.Response, []byte, error) (bool, time.Duration) { return true, 8 * time.Second }
		start := time.Now()
		a, err := do(t, c, call)
		if got := text(t, a, err); got != "hello" || a.Sends != 2 {
			t.Errorf("got %q after %d sends", got, a.Sends)
		}
		if d := time.Since(start); d != 8*time.Second {
			t.Errorf("%v passed", d)
		}
	})
	if d := time.Since(outside); d >= 8*time.Second {
		t.Errorf("%v really passed", d)
	}
}

// The caller decides each wait and the end; what the last send was answered is the outcome.
func TestRetrySequence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder, spans := tracers()
		start := time.Now()
		var at []time.Duration
		c, end := bubbleOf(t, Config{TracerProvider: recorder}, func(w http.ResponseWriter, r *http.Request) {
			at = append(at, time.Since(start))
			if b, _ := io.ReadAll(r.Body); string(b) != "hello" {
				t.Errorf("send %d carried %q", len(at), b)
			}
			w.Header().Set("Request-Id", fmt.Sprint("req_", len(at)))
			w.Header().Set("Retry-After", "9")
			w.WriteHeader(500 + len(at))
			_, _ = fmt.Fprint(w, "failure ", len(at))
		})
		defer end()
		done := 0
		call := newCall(t, inMemory, "hel", "lo")
		call.Done = func() { done++ }
		waits := []time.Duration{time.Second, 4 * time.Second, 0}
		call.Retry = func(send int, _ *http.Response, _ []byte, _ error) (bool, time.Duration) {
			if send > len(waits) {
				return false, time.Hour // which is not waited for
			}
			return true, waits[send-1]
		}
		ctx, outer := recorder.Tracer("").Start(t.Context(), "outer")
		ctx, w := NewWatch(ctx)
		defer w.Stop()
		a, err := c.Do(ctx, call, w)
		synctest.Wait()
		if err != nil || a.Sends != 4 || a.StatusCode != 504 || string(a.ErrorBody) != "failure 4" ||
			a.Header.Get("Request-Id") != "req_4" || a.Header.Get("Retry-After") != "9" {
			t.Errorf("got %+v, %v", a, err)
		}
		if diff := cmp.Diff([]time.Duration{0, time.Second, 5 * time.Second, 5 * time.Second}, at); diff != "" || time.Since(start) != 5*time.Second {
			t.Errorf("after %v: %s", time.Since(start), diff)
		}
		if done != 1 {
			t.Errorf("Done was called %d times", done)
		}
		var resends []string
		for _, s := range spans.Ended() {
			resends = append(resends, attributes(s)["http.request.resend_count"])
			if s.Parent().SpanID() != outer.SpanContext().SpanID() || s.EndTime() != s.StartTime() || s.SpanKind() != trace.SpanKindClient {
				t.Errorf("the span of send %d is no sibling, or has the wait in it", len(resends))
			}
		}
		if diff := cmp.Diff([]string{"", "1", "2", "3"}, resends); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRetryIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sends := 0
		c, end := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			sends++
			w.Header().Set("Retry-After", "9")
			http.Error(w, fmt.Sprint("overloaded ", sends), 529)
		})
		defer end()
		parent, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(15*time.Second, cancel).Stop()
		ctx, w := NewWatch(parent)
		defer w.Stop()
		done, asked := 0, 0
		call := newCall(t, inMemory, "x")
		call.Done = func() { done++ }
		call.Retry = func(int, *http.Response, []byte, error) (bool, time.Duration) { asked++; return true, 10 * time.Second }
		start := time.Now()
		a, err := c.Do(ctx, call, w)
		if d := time.Since(start); d != 15*time.Second {
			t.Errorf("the end came after %v", d)
		}
		synctest.Wait()
		if err != nil || a.StatusCode != 529 || a.Header.Get("Retry-After") != "9" || string(a.ErrorBody) != "overloaded 2\n" || a.Sends != 2 {
			t.Errorf("got %+v, %v", a, err)
		}
		if sends != 2 || asked != 2 || done != 1 {
			t.Errorf("%d sends, asked %d times, %d times done", sends, asked, done)
		}
	})
}

// Once a stream has begun it is the caller's, however it ends.
func TestRetryLeavesStreamsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sends := 0
		c, end := bubble(t, func(w http.ResponseWriter, r *http.Request) {
			sends++
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: 1\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		})
		defer end()
		call := newCall(t, inMemory, "x")
		call.Stream = true
		call.Retry = func(int, *http.Response, []byte, error) (bool, time.Duration) {
			t.Error("asked for a retry")
			return true, time.Second
		}
		a, err := do(t, c, call)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if b, err := io.ReadAll(a.Body); string(b) != "data: 1\n\n" || Kind(err) != kindTruncated {
			t.Errorf("read %q, %v", b, err)
		}
		if sends != 1 || a.Sends != 1 {
			t.Errorf("%d sends, %d counted", sends, a.Sends)
		}
	})
}

func TestDial(t *testing.T) {
	if New(Config{Base: parse(t, inMemory)}).base.Proxy == nil {
		t.Error("the environment's proxy is not used for the network")
	}
	if New(Config{Base: parse(t, inMemory), Dial: new(routertest.Network).Dial}).base.Proxy != nil {
		t.Error("the environment's proxy stands before an injected dialer")
	}
	synctest.Test(t, func(t *testing.T) {
		var asked string
		c := New(Config{Base: parse(t, inMemory), Connect: 5 * time.Second, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			asked = network + " " + address
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		start := time.Now()
		_, err := do(t, c, newCall(t, inMemory, "x"))
		if Kind(err) != kindTimeout || time.Since(start) != 5*time.Second || asked != "tcp upstream.test:80" {
			t.Errorf("asked for %s, got %v after %v", asked, err, time.Since(start))
		}
	})
}
