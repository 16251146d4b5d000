package router_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestStreamUsageIsAskedForAndTakenOutAgain(t *testing.T) {
	t.Parallel()
	const asked = `"stream_options":{"include_usage":true}`
	for _, c := range []struct {
		name, options string // what the client sends
		want          string // what the upstream gets
		kept          bool
	}{
		{"not mentioned", "", asked, false},
		{"refused", `{"include_usage":false}`, asked, false},
		{"null", `null`, asked, false},
		{"another option", `{"include_obfuscation":false}`, `"stream_options":{"include_obfuscation":false,"include_usage":true}`, false},
		{"asked for", `{ "include_usage":true , "x":1}`, `"stream_options":{ "include_usage":true , "x":1}`, true},
	} {
		w := build(t, upstreams(good), nil)
		req := routertest.NewRequest(routertest.Chat, "m", true)
		if c.options != "" {
			req = req.Field("stream_options", c.options)
		}
		got := w.Send(t.Context(), req)
		call := w.ups[0].Await(0)
		<-call.Over()
		if !strings.Contains(string(call.Body), c.want) || strings.Count(string(call.Body), "stream_options") != 1 {
			t.Errorf("%s: upstream got %s", c.name, call.Body)
		}
		want := call.Sent()
		if c.kept && string(call.Body) != req.Body {
			t.Errorf("%s: body changed to %s", c.name, call.Body)
		}
		if !c.kept {
			want = withoutUsage(want)
		}
		if got.Body != want || got.Err != nil || !strings.HasSuffix(got.Body, "data: [DONE]\n\n") {
			t.Errorf("%s: got %v\n%s\nwant\n%s", c.name, got.Err, got.Body, want)
		}
		if e := w.completed(); e.Usage.Input != 11 || e.Usage.CacheRead != 7 || e.Usage.Output != 5 {
			t.Errorf("%s: usage %+v", c.name, e.Usage)
		}
	}
}

// withoutUsage takes the events out of a chat stream that carry only usage.
func withoutUsage(stream string) (out string) {
	for _, ev := range strings.SplitAfter(stream, "\n\n") {
		if !strings.Contains(ev, `"choices":[],"usage"`) {
			out += ev
		}
	}
	return out
}

func TestStreamUsageLeavesOtherRequestsAlone(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		if wire == routertest.Chat && stream {
			return
		}
		w := build(t, upstreams(good), nil)
		req := routertest.NewRequest(wire, "m", stream)
		got := w.Send(t.Context(), req)
		if call := w.ups[0].Await(0); string(call.Body) != req.Body || got.Body != call.Sent() {
			t.Errorf("body %s, answer %s", call.Body, got.Body)
		}
		if e := w.completed(); e.Usage.Input != 11 || e.Usage.CacheRead != 7 || e.Usage.Output != 5 {
			t.Errorf("usage %+v", e.Usage)
		}
	})
}

// A dropped stream_options is what a provider that refuses it needs.
func TestStreamUsageYieldsToDrop(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), func(cfg *settings.Config) { cfg.Upstreams[0].Drop = []string{"stream_options"} })
	w.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", true).Field("stream_options", `{"include_usage":true}`))
	if call := w.ups[0].Await(0); strings.Contains(string(call.Body), "stream_options") {
		t.Errorf("upstream got %s", call.Body)
	}
}

func TestBrokenStreamsAreTold(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		part := routertest.Stream(wire, words, spent).Events(7)
		for _, c := range []struct {
			name, mode string
			reply      routertest.Reply
			told       bool
		}{
			{"cut between events", "event", part.Ending(routertest.Cut), true},
			{"clean end too early", "event", part, true},
			{"stalled", "event", part.Ending(routertest.Stall), true},
			{"cut within an event", "event", part.Bytes(len(prefix(t, wire)) + 9).Ending(routertest.Cut), false},
			{"only cut", "cut", part.Ending(routertest.Cut), false},
		} {
			t.Run(wire+" "+c.name, func(t *testing.T) {
				t.Parallel()
				w := build(t, upstreams(c.reply, good), func(cfg *settings.Config) {
					cfg.Failover.StreamError = c.mode
					cfg.Upstreams[0].Timeouts.Idle = 60 * time.Millisecond
					noStreamUsage(cfg)
				})
				got := w.ask(wire, true)
				sent := w.ups[0].Await(0).Sent()
				rest, ok := strings.CutPrefix(got.Body, sent)
				if !ok || got.Status != 200 || got.Err == nil || len(w.ups[1].Calls()) != 0 {
					t.Errorf("got %d %v\n%s\nsent\n%s", got.Status, got.Err, got.Body, sent)
				}
				if !c.told && rest != "" || c.told && !tellsError(wire, rest) {
					t.Errorf("after the break: %q", rest)
				}
				if e := w.completed(); e.Outcome != "failed" || e.ErrorClass != "provider_stream_truncated" {
					t.Errorf("%+v", e)
				}
				w.once()
			})
		}
	}
}

// prefix is a stream up to some event after output has begun.
func prefix(t *testing.T, wire string) string {
	t.Helper()
	u := routertest.NewUpstream(routertest.Stream(wire, words, spent).Events(6))
	defer u.Close()
	c := routertest.NewClient(u.URL)
	defer c.Close()
	return c.Send(t.Context(), routertest.NewRequest(wire, "m", true)).Body
}

// tellsError reports whether a stream goes on with one error event of that wire, and nothing else.
func tellsError(wire, rest string) bool {
	events := routertest.Result{Body: rest}.Events()
	if len(events) != 1 {
		return false
	}
	ev := events[0]
	switch word, _ := refusal(wire, ev.Data); wire {
	case routertest.Responses:
		return ev.Name == "error" && strings.Contains(ev.Data, `"type":"error"`) || ev.Name == "response.failed" && strings.Contains(ev.Data, `"error":{`)
	case routertest.Messages:
		return ev.Name == "error" && word != ""
	default:
		return ev.Name == "" && word != ""
	}
}

// An error that the upstream tells itself after output is relayed, without a second one.
func TestErrorsInBandAfterOutputAreRelayed(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		text := prefix(t, wire) + map[string]string{
			routertest.Chat:      `data: {"error":{"message":"boom","type":"server_error"}}`,
			routertest.Responses: "event: error\ndata: " + `{"type":"error","code":"server_error","message":"boom"}`,
			routertest.Messages:  "event: error\ndata: " + `{"type":"error","error":{"type":"api_error","message":"boom"}}`,
			routertest.Gemini:    `data: {"error":{"code":500,"message":"boom","status":"INTERNAL"}}`,
		}[wire] + "\n\n"
		w := build(t, upstreams(routertest.Body(200, "text/event-stream", text), good), nil)
		got := w.ask(wire, true)
		if got.Body != text || got.Err != nil || len(w.ups[1].Calls()) != 0 {
			t.Errorf("%s: got %v\n%s\nwant\n%s", wire, got.Err, got.Body, text)
		}
		if e := w.completed(); e.Outcome != "failed" {
			t.Errorf("%s: %+v", wire, e)
		}
		w.once()
	}
}

func TestNoneEligible(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, c := range []struct {
			name   string
			bad    routertest.Reply
			mode   string
			status int
			after  string // Retry-After
			at     time.Duration
		}{
			{"server error", routertest.Fail(500, "boom"), "auto", 200, "", 0},
			{"unusable", routertest.Body(200, "application/json", "{}"), "auto", 200, "", 0},
			{"cut", routertest.Nothing(routertest.Cut), "auto", 200, "", 0},
			{"overloaded", routertest.Fail(529, "overloaded"), "auto", 200, "", 0},
			{"limited", routertest.Fail(429, "slow down").With("Retry-After", "20"), "auto", 429, "20", 20 * time.Second},
			{"limited for long", routertest.Fail(429, "slow down").With("Retry-After", "600"), "auto", 429, "30", 10 * time.Minute},
			{"bad key", routertest.Fail(401, "bad key"), "auto", 503, "30", time.Minute},
			{"no money", routertest.Fail(402, "pay"), "auto", 503, "30", 30 * time.Second},
			{"strict", routertest.Fail(500, "boom"), "reject", 503, "30", 30 * time.Second},
		} {
			w := build(t, upstreams(c.bad), func(cfg *settings.Config) { cfg.Cooling.NoneEligible = c.mode })
			w.ask(wire, stream)
			w.completed()
			w.ups[0].Script(good)
			got := w.ask(wire, stream)
			if got.Status != c.status || got.Header.Get("Retry-After") != c.after {
				t.Errorf("%s: got %d %v %s", c.name, got.Status, got.Header, got.Body)
			}
			if c.status == 200 {
				continue
			}
			refused(t, wire, got, c.status, "target")
			at := epoch.Add(c.at).Format(time.RFC3339)
			if got.Header.Get("X-Router-Retry-At") != at || !strings.Contains(got.Body, at) || len(w.ups[0].Calls()) != 1 {
				t.Errorf("%s: retry at %q, want %q; %s", c.name, got.Header.Get("X-Router-Retry-At"), at, got.Body)
			}
			if e := w.completed(); e.Outcome != "rejected" || e.ErrorClass != "router_none_eligible" || e.Attempts != 0 {
				t.Errorf("%s: %+v", c.name, e)
			}
			w.clock.Advance(c.at)
			if got := w.ask(wire, stream); got.Status != 200 {
				t.Errorf("%s: not tried again when the rest is over: %d %s", c.name, got.Status, got.Body)
			}
		}
	})
}

func TestCooledByHand(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		w := build(t, upstreams(good), nil)
		if err := w.engine.Cool("a", "", 0); err != nil {
			t.Fatal(err)
		}
		got := w.ask(wire, true)
		refused(t, wire, got, http.StatusServiceUnavailable, "uncool to restore")
		if got.Header.Get("Retry-After") != "" || got.Header.Get("X-Router-Retry-At") != "" || len(w.ups[0].Calls()) != 0 {
			t.Errorf("%s: %v", wire, got.Header)
		}
		if n, err := w.engine.Uncool("a", ""); n != 1 || err != nil {
			t.Errorf("lifted %d, %v", n, err)
		}
		if got := w.ask(wire, true); got.Status != 200 {
			t.Errorf("%s: got %d %s", wire, got.Status, got.Body)
		}
	}
}
