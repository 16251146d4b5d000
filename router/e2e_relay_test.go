package router_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

func noStreamUsage(cfg *settings.Config) {
	for i := range cfg.Upstreams {
		cfg.Upstreams[i].StreamUsage = false
	}
}

func TestAnswersPassByteForByte(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		w := build(t, upstreams(good.With("X-Request-Id", "r1").With("X-Ratelimit-Limit-Requests", "9")), noStreamUsage)
		req := routertest.NewRequest(wire, "m", stream)
		got := w.Send(t.Context(), req)
		call := w.ups[0].Await(0)
		<-call.Over()
		if got.Status != 200 || got.Err != nil || got.Body != call.Sent() || got.Text() != words {
			t.Errorf("got %d %v\n%s\nsent\n%s", got.Status, got.Err, got.Body, call.Sent())
		}
		if string(call.Body) != req.Body || call.Wire != wire || call.Stream != stream {
			t.Errorf("asked %s, upstream got %+v %s", req.Body, call, call.Body)
		}
		for name, want := range map[string]string{
			"X-Router-Upstream": "a", "X-Router-Upstream-Model": "m", "X-Router-Attempts": "1", "X-Request-Id": "r1", "X-Ratelimit-Limit-Requests": "9",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %q, want %q", name, got.Header.Get(name), want)
			}
		}
		if e := w.completed(); e.Outcome != "success" || e.Call != got.Header.Get("X-Router-Call") || e.Status != 200 || e.Wire != wire {
			t.Errorf("completed: %+v", e)
		}
		w.once()
	})
}

func TestTokenCountsPass(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), nil)
	got := w.Send(t.Context(), routertest.NewCount("m"))
	if got.Status != 200 || got.Body != `{"input_tokens":18}` {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

func estimated(t *testing.T, got routertest.Result) {
	t.Helper()
	if got.Status != http.StatusOK || got.Header.Get("X-Router-Estimate") != "true" || !strings.Contains(got.Body, `"estimated":true`) {
		t.Errorf("%d %v %s", got.Status, got.Header, got.Body)
	}
}

// An upstream of the wire may still not count. That says nothing against it, and another one may.
func TestWhoCannotCountIsNotBlamed(t *testing.T) {
	t.Parallel()
	missing := routertest.Body(404, "application/json", `{"detail":"Not Found"}`)
	for name, c := range map[string]struct {
		replies []routertest.Reply
		guess   bool
	}{
		"the next one can":   {[]routertest.Reply{missing, good}, false},
		"nobody can":         {[]routertest.Reply{missing, routertest.Fail(501, "not implemented")}, true},
		"no such method":     {[]routertest.Reply{routertest.Fail(405, "method not allowed"), missing}, true},
		"counts are limited": {[]routertest.Reply{routertest.Fail(429, "too many requests"), good}, false},
	} {
		w := build(t, upstreams(c.replies...), nil)
		got := w.Send(t.Context(), routertest.NewCount("m"))
		if c.guess {
			estimated(t, got)
		} else if got.Status != 200 || got.Body != `{"input_tokens":18}` {
			t.Errorf("%s: %d %s", name, got.Status, got.Body)
		}
		if e := w.completed(); e.Outcome != telemetry.OutcomeSuccess && e.Outcome != telemetry.OutcomeSuccessAfterFailover {
			t.Errorf("%s: %+v", name, e)
		}
		for _, u := range w.engine.Status().Upstreams {
			if u.State != "healthy" || u.Targets[0].State != "healthy" {
				t.Errorf("%s: %s is benched: %+v", name, u.Name, u)
			}
		}
		w.once()
	}
}

// inBand is an error inside a 200.
func inBand(wire string, stream bool) routertest.Reply {
	body := map[string]string{
		routertest.Chat:      `{"error":{"message":"Overloaded","type":"server_error","code":502}}`,
		routertest.Responses: `{"type":"response.failed","sequence_number":0,"response":{"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"boom"},"output":[]}}`,
		routertest.Messages:  `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		routertest.Gemini:    `{"error":{"code":503,"message":"The model is overloaded","status":"UNAVAILABLE"}}`,
	}[wire]
	if !stream {
		if wire == routertest.Responses {
			body = `{"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"boom"},"output":[]}`
		}
		return routertest.Body(200, "application/json", body)
	}
	name := map[string]string{routertest.Messages: "event: error\n", routertest.Responses: "event: response.failed\n"}[wire]
	return routertest.Body(200, "text/event-stream", name+"data: "+body+"\n\n", "data: [DONE]\n\n")
}

// preOutput is how many events of a stream come before the first output.
var preOutput = map[string]int{routertest.Chat: 1, routertest.Responses: 2, routertest.Messages: 1, routertest.Gemini: 0}

func failures(wire string, stream bool) map[string]routertest.Reply {
	kind, begun := "application/json", routertest.Answer(wire, words, spent).Bytes(40)
	if stream {
		kind, begun = "text/event-stream", routertest.Stream(wire, words, spent).Events(preOutput[wire])
	}
	return map[string]routertest.Reply{
		"429":        routertest.Fail(429, "slow down"),
		"500":        routertest.Fail(500, "boom"),
		"529":        routertest.Fail(529, "overloaded"),
		"401":        routertest.Fail(401, "bad key"),
		"in band":    inBand(wire, stream),
		"HTML":       routertest.Body(200, "text/html", "<html><body>Bad gateway</body></html>"),
		"empty":      routertest.Body(200, kind, ""),
		"no output":  routertest.Body(200, "application/json", "{}"),
		"cut early":  begun.Ending(routertest.Cut),
		"cut at all": routertest.Nothing(routertest.Cut),
		"reset":      routertest.Nothing(routertest.Reset),
	}
}

func TestFailuresBeforeOutputStayInvisible(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for name, bad := range failures(wire, stream) {
			w := build(t, upstreams(bad.With("X-From", "bad"), good), noStreamUsage)
			got := w.ask(wire, stream)
			call := w.ups[1].Await(0)
			if call == nil {
				t.Errorf("%s: no failover: %d %s", name, got.Status, got.Body)
				continue
			}
			<-call.Over()
			if got.Status != 200 || got.Err != nil || got.Body != call.Sent() || got.Header.Get("X-From") != "" {
				t.Errorf("%s: got %d %v %v\n%s", name, got.Status, got.Err, got.Header, got.Body)
			}
			if got.Header.Get("X-Router-Upstream") != "b" || got.Header.Get("X-Router-Attempts") != "2" {
				t.Errorf("%s: headers %v", name, got.Header)
			}
			if e := w.completed(); e.Outcome != "success_after_failover" || e.Attempts != 2 || len(w.ups[0].Calls()) != 1 {
				t.Errorf("%s: %+v, %d calls", name, e, len(w.ups[0].Calls()))
			}
			w.once()
		}
	})
}

func TestLastAnswerIsTheClientsWhenAllFail(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, c := range []struct {
			name   string
			a, b   routertest.Reply
			from   int
			status int
		}{
			{"both answer", routertest.Fail(500, "first"), routertest.Fail(503, "second, overloaded").With("X-Request-Id", "r2"), 1, 503},
			{"last is silent", routertest.Fail(500, "first"), routertest.Nothing(routertest.Cut), 0, 500},
			{"last breaks", routertest.Fail(529, "first"), routertest.Answer(wire, words, spent).Bytes(30).Ending(routertest.Cut), 0, 529},
			{"callers own fault", routertest.Fail(400, "messages: too few"), good, 0, 400},
		} {
			w := build(t, upstreams(c.a, c.b), nil)
			got := w.ask(wire, stream)
			e := w.completed()
			if sent := w.ups[c.from].Await(0).Sent(); got.Status != c.status || got.Body != sent {
				t.Errorf("%s: got %d %s, want %d %s", c.name, got.Status, got.Body, c.status, sent)
			}
			if c.status == 503 && (got.Header.Get("Retry-After") == "" || got.Header.Get("X-Request-Id") != "r2") {
				t.Errorf("%s: headers %v", c.name, got.Header)
			}
			if e.Outcome != "failed" || e.Status != c.status {
				t.Errorf("%s: %+v", c.name, e)
			}
			w.once()
		}
	})
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, c := range []struct {
			end    routertest.End
			status int
			kind   string
		}{
			{routertest.Cut, http.StatusBadGateway, "upstream_error"},
			{routertest.Stall, http.StatusGatewayTimeout, "upstream_timeout"},
		} {
			w := build(t, upstreams(routertest.Nothing(c.end), routertest.Nothing(c.end)), func(cfg *settings.Config) {
				for i := range cfg.Upstreams {
					if c.end == routertest.Stall { // a cut is quick, unless the machine is busy
						cfg.Upstreams[i].Timeouts.FirstByte, cfg.Upstreams[i].Timeouts.Response = 40*time.Millisecond, 40*time.Millisecond
					}
				}
			})
			got := w.ask(wire, stream)
			refused(t, wire, got, c.status, "upstream")
			if _, kind := refusal(wire, got.Body); kind != "" && kind != c.kind {
				t.Errorf("kind %q, want %q", kind, c.kind)
			}
			if strings.Contains(got.Body, "127.0.0.1") {
				t.Errorf("an address is told: %s", got.Body)
			}
			if e := w.completed(); e.Outcome != "failed" || e.Attempts != 2 {
				t.Errorf("%+v", e)
			}
			w.once()
		}
	})
}

// A part of an answer is no answer, however large.
func TestAnswerThatIsTooLongIsNotPassedOn(t *testing.T) {
	t.Parallel()
	var coded bytes.Buffer
	z := gzip.NewWriter(&coded)
	_, _ = z.Write(make([]byte, 65<<20))
	_ = z.Close()
	w := build(t, upstreams(routertest.Body(200, "application/json", coded.String()).With("Content-Encoding", "gzip")), nil)
	req := routertest.NewRequest(routertest.Chat, "m", false).With("Accept-Encoding", "gzip")
	if got := w.Send(t.Context(), req); got.Status != 502 {
		t.Errorf("got %d with %d bytes", got.Status, len(got.Body))
	}
}
