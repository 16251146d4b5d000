package routertest

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ask sends one request straight to a new upstream.
func ask(t *testing.T, r Request, script ...Reply) (Result, *Call) {
	t.Helper()
	u := NewUpstream(script...)
	defer u.Close()
	c := NewClient(u.URL)
	defer c.Close()
	got := c.Send(t.Context(), r)
	call := u.Await(0)
	if call == nil {
		t.Fatal("no call came")
	}
	<-call.Over()
	return got, call
}

func TestGoodAnswersEveryWire(t *testing.T) {
	u := Usage{Input: 7, CacheRead: 5, CacheWrite: 3, Output: 4, Reasoning: 1}
	for _, w := range Wires {
		for _, stream := range []bool{false, true} {
			got, call := ask(t, NewRequest(w, "m/1", stream).With("X-Who", "me"), Good("Hello there, you.", u).With("X-Id", "7"))
			if got.Status != 200 || got.Err != nil || got.Text() != "Hello there, you." || got.Header.Get("X-Id") != "7" {
				t.Errorf("%s stream=%v: %+v, text %q", w, stream, got, got.Text())
			}
			if got.Body != call.Sent() {
				t.Errorf("%s stream=%v: sent %q, came %q", w, stream, call.Sent(), got.Body)
			}
			if call.Wire != w || call.Stream != stream || call.Model != "m/1" || call.Header.Get("X-Who") != "me" || call.Method != "POST" || call.HungUp() {
				t.Errorf("%s stream=%v: %+v", w, stream, call)
			}
			if isStream := len(got.Events()) > 1; isStream != stream {
				t.Errorf("%s stream=%v: %d events", w, stream, len(got.Events()))
			}
			for _, ev := range got.Events() {
				if ev.Data != "[DONE]" && !json.Valid([]byte(ev.Data)) {
					t.Errorf("%s: no JSON: %s", w, ev.Data)
				}
			}
			if !stream && !json.Valid([]byte(got.Body)) {
				t.Errorf("%s: no JSON: %s", w, got.Body)
			}
		}
	}
}

func TestUsageIsToldInTheWiresOwnWords(t *testing.T) {
	u := Usage{Input: 7, CacheRead: 5, CacheWrite: 3, Output: 4, Reasoning: 1}
	for wire, want := range map[string]string{
		Chat:      `"prompt_tokens":15,"completion_tokens":4,`,
		Responses: `"input_tokens":15,`,
		Messages:  `"input_tokens":7,"cache_creation_input_tokens":3,"cache_read_input_tokens":5,"output_tokens":4`,
		Gemini:    `"promptTokenCount":15,"cachedContentTokenCount":5,"candidatesTokenCount":3,"thoughtsTokenCount":1,`,
	} {
		if got, _ := ask(t, NewRequest(wire, "m", false), Answer(wire, "x", u)); !strings.Contains(got.Body, want) {
			t.Errorf("%s: %s", wire, got.Body)
		}
		if got, _ := ask(t, NewRequest(wire, "m", false), Answer(wire, "x", Usage{})); strings.Contains(strings.ToLower(got.Body), "usage") {
			t.Errorf("%s tells usage though there is none: %s", wire, got.Body)
		}
		if got, _ := ask(t, NewRequest(wire, "m", false), Stream(wire, "x", Usage{Input: 1, Output: 77})); !strings.Contains(got.Body, "77") {
			t.Errorf("%s: the stream tells no usage: %s", wire, got.Body)
		}
	}
	if got, _ := ask(t, NewRequest(Chat, "m", true), Good("x", u)); strings.Contains(got.Body, "usage") {
		t.Errorf("a chat stream told usage unasked: %s", got.Body)
	}
	if got, _ := ask(t, NewRequest(Chat, "m", true).Field("stream_options", `{"include_usage": true}`), Good("x", u)); !strings.Contains(got.Body, "usage") {
		t.Errorf("a chat stream did not tell usage: %s", got.Body)
	}
	if got, call := ask(t, NewCount("m"), Good("x", u)); got.Body != `{"input_tokens":15}` || !call.CountTokens {
		t.Errorf("count: %s", got.Body)
	}
}

func TestFailSpeaksTheWireOfTheCall(t *testing.T) {
	for wire, want := range map[string]string{
		Chat:      `{"error":{"message":"no \"more\"","type":"rate_limit_exceeded","param":null,"code":"rate_limit_exceeded"}}`,
		Responses: `{"error":{"message":"no \"more\"","type":"rate_limit_exceeded","param":null,"code":"rate_limit_exceeded"}}`,
		Messages:  `{"type":"error","error":{"type":"rate_limit_error","message":"no \"more\""}}`,
		Gemini:    `{"error":{"code":429,"message":"no \"more\"","status":"RESOURCE_EXHAUSTED"}}`,
	} {
		got, _ := ask(t, NewRequest(wire, "m", true), Fail(429, `no "more"`).With("Retry-After", "30"))
		if got.Status != 429 || got.Body != want || got.Header.Get("Retry-After") != "30" || got.Err != nil {
			t.Errorf("%s: %+v", wire, got)
		}
	}
}

func TestScriptGoesByCallNumber(t *testing.T) {
	u := NewUpstream(Fail(500, "a"), Good("b", Usage{}))
	defer u.Close()
	c := NewClient(u.URL)
	defer c.Close()
	statuses := func(n int) (all []int) {
		for range n {
			all = append(all, c.Send(t.Context(), NewRequest(Chat, "m", false)).Status)
		}
		return all
	}
	got := statuses(3)
	u.Script(Fail(503, "c"))
	got = append(got, statuses(2)...)
	u.Script()
	got = append(got, statuses(1)...)
	if diff := cmp.Diff([]int{500, 200, 200, 503, 503, 200}, got); diff != "" {
		t.Error(diff)
	}
	if calls := u.Calls(); len(calls) != 6 || calls[5].N != 5 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestEnds(t *testing.T) {
	hello := Stream(Messages, "Hello there.", Usage{Input: 1, Output: 1})
	for _, c := range []struct {
		name   string
		reply  Reply
		events int
		err    error
	}{
		{"clean", hello, 7, nil},
		{"clean but early", hello.Events(3), 3, nil},
		{"nothing of it", hello.Events(0), 0, nil},
		{"cut", hello.Events(3).Ending(Cut), 3, io.ErrUnexpectedEOF},
		{"reset", hello.Events(3).Ending(Reset), 3, syscall.ECONNRESET},
		{"in the middle of a frame", hello.Bytes(300).Ending(Cut), 1, io.ErrUnexpectedEOF},
		{"more bytes than there are", hello.Bytes(1 << 20), 7, nil},
		{"a whole answer cut", Answer(Chat, "Hello", Usage{}).Bytes(20).Ending(Cut), 0, io.ErrUnexpectedEOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, call := ask(t, NewRequest(Messages, "m", true), c.reply)
			if got.Status != 200 || !errors.Is(got.Err, c.err) || len(got.Events()) != c.events || got.Body != call.Sent() {
				t.Errorf("%d events, error %v, body %q", len(got.Events()), got.Err, got.Body)
			}
		})
	}
	if got, _ := ask(t, NewRequest(Chat, "m", true), Nothing(Reset)); got.Status != 0 || !errors.Is(got.Err, syscall.ECONNRESET) {
		t.Errorf("nothing, reset: %+v", got)
	}
	if got, _ := ask(t, NewRequest(Chat, "m", true), Nothing(Clean)); got.Status != 0 || !errors.Is(got.Err, io.EOF) {
		t.Errorf("nothing: %+v", got)
	}
}

func TestGatesAndHangUp(t *testing.T) {
	status, second := make(chan struct{}), make(chan struct{})
	u := NewUpstream(Stream(Chat, "one two three", Usage{}).HoldStatus(status).Hold(2, second).Hold(4, nil))
	defer u.Close()
	c := NewClient(u.URL)
	defer c.Close()
	go func() {
		u.Await(0)
		close(status)
	}()
	seen := 0
	got := c.Watch(t.Context(), NewRequest(Chat, "m", true), func(r Result) bool {
		if n := len(r.Events()); n == 2 && seen < 2 {
			close(second)
		}
		seen = len(r.Events())
		return true
	})
	if got.Text() != "one two three" || got.Err != nil || u.Calls()[0].HungUp() {
		t.Errorf("%+v", got)
	}

	u.Script(Stream(Chat, "one two three", Usage{}).Events(2).Ending(Stall))
	got = c.Watch(t.Context(), NewRequest(Chat, "m", true), func(r Result) bool { return r.Text() != "one " })
	if !errors.Is(got.Err, ErrHungUp) || !u.Await(1).HungUp() {
		t.Errorf("%+v", got)
	}
}

func TestCloseEndsWhatStalls(t *testing.T) {
	u := NewUpstream(Stream(Chat, "one two", Usage{}).Events(1).Ending(Stall))
	front := Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := NewClient(u.URL)
		defer c.Close()
		_, _ = io.WriteString(w, c.Send(r.Context(), NewRequest(Chat, "m", true)).Body)
	}))
	go func() {
		u.Await(0)
		u.Close()
	}()
	got := front.Send(t.Context(), NewRequest(Chat, "m", true))
	if got.Status != 200 || got.Err != nil {
		t.Errorf("%+v", got)
	}
	front.Close()
	if got := front.Send(t.Context(), NewRequest(Chat, "m", true)); got.Status != 0 || got.Err == nil {
		t.Errorf("a closed front answered: %+v", got)
	}
}

func TestBodyIsLeftAsItIs(t *testing.T) {
	got, call := ask(t, NewRequest(Chat, "m", true), Body(207, "text/event-stream", ": hi\n\n", "data: {\"a\":1}\n\n"))
	if got.Status != 207 || got.Body != ": hi\n\ndata: {\"a\":1}\n\n" || got.Text() != "" {
		t.Errorf("%+v", got)
	}
	if call.Path != "/v1/chat/completions" || call.Query != "" {
		t.Errorf("path %q, query %q", call.Path, call.Query)
	}
	if _, call := ask(t, NewRequest(Gemini, "m", true)); call.Path != "/v1beta/models/m:streamGenerateContent" || call.Query != "alt=sse" {
		t.Errorf("path %q, query %q", call.Path, call.Query)
	}
}

// TestPaceInABubble shows an upstream on a listener without a network, where time costs nothing.
func TestPaceInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n Network
		u := NewUpstreamOn(n.Listen("upstream.test:80"), Good("one two", Usage{}).Pace(time.Minute))
		c := NewClient(u.URL)
		c.http.Transport = &http.Transport{DialContext: n.Dial}
		from := time.Now()
		got := c.Send(t.Context(), NewRequest(Chat, "m", true))
		if took := time.Since(from); got.Text() != "one two" || took != 6*time.Minute {
			t.Errorf("%q after %s, %v", got.Text(), took, got.Err)
		}
		c.Close()
		u.Close()
		u.Close() // does nothing
	})
}

func TestAwaitGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := NewUpstreamOn(new(Network).Listen("upstream.test:80"))
		defer u.Close()
		if c := u.Await(0); c != nil {
			t.Errorf("a call came: %+v", c)
		}
		if (&Call{over: make(chan struct{})}).HungUp() {
			t.Error("nobody hung up")
		}
	})
}

func TestClock(t *testing.T) {
	from := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := NewClock(from)
	c.Advance(time.Hour)
	if got := c.Now().Sub(from); got != time.Hour {
		t.Errorf("moved by %s", got)
	}
}

func TestClientTellsWhatWentWrong(t *testing.T) {
	if got := NewClient("http://%").Send(t.Context(), NewRequest(Chat, "m", false)); got.Err == nil {
		t.Errorf("%+v", got)
	}
}
