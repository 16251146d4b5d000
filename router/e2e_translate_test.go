package router_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// across are the pairs that are translated: what the client speaks, and what upstream a is spoken to in.
var across = map[string]string{routertest.Chat: routertest.Messages, routertest.Messages: routertest.Chat}

// bilingual makes a world in which upstream a speaks only the other wire, and b (if there is one) only the client's.
func bilingual(t *testing.T, client string, change func(*settings.Config), scripts ...routertest.Reply) *world {
	t.Helper()
	return build(t, upstreams(scripts...), func(cfg *settings.Config) {
		for i := range cfg.Upstreams {
			cfg.Upstreams[i].Wires = []string{client}
		}
		cfg.Upstreams[0].Wires = []string{across[client]}
		cfg.Models[0].Targets[0].Model = "theirs"
		if change != nil {
			change(cfg)
		}
	})
}

// translated runs f for each pair, with and without a stream.
func translated(t *testing.T, f func(t *testing.T, client string, stream bool)) {
	for client := range across {
		for _, stream := range []bool{false, true} {
			name := client + " plain"
			if stream {
				name = client + " stream"
			}
			t.Run(name, func(t *testing.T) { t.Parallel(); f(t, client, stream) })
		}
	}
}

// terminator is what a whole stream of a wire ends with.
var terminator = map[string]string{routertest.Chat: "data: [DONE]", routertest.Messages: "event: message_stop"}

func TestTranslatedAnswers(t *testing.T) {
	t.Parallel()
	translated(t, func(t *testing.T, client string, stream bool) {
		w := bilingual(t, client, nil, good)
		got := w.ask(client, stream)
		if got.Status != http.StatusOK || got.Err != nil || got.Header.Get("X-Router-Upstream-Model") != "theirs" {
			t.Fatalf("%d %v %v: %s", got.Status, got.Err, got.Header, got.Body)
		}
		said := strings.NewReplacer(`"text":"`, "\x00", `"content":"`, "\x00").Replace(got.Body)
		text := ""
		for _, part := range strings.Split(said, "\x00")[1:] {
			words, _, _ := strings.Cut(part, `"`)
			text += words
		}
		if !strings.Contains(text, words) {
			t.Errorf("said %q in %s", text, got.Body)
		}
		if strings.Contains(got.Body, "theirs") || !strings.Contains(got.Body, `"model":"m"`) {
			t.Errorf("the client's model is not named: %s", got.Body)
		}
		if stream && strings.Count(got.Body, terminator[client]) != 1 {
			t.Errorf("no single terminator: %s", got.Body)
		}
		call := w.ups[0].Calls()[0]
		if call.Wire != across[client] || call.Stream != stream || !strings.Contains(string(call.Body), `"model":"theirs"`) {
			t.Errorf("asked %s, stream %v: %s", call.Wire, call.Stream, call.Body)
		}
		e := w.completed()
		if e.Usage.Input != int64(spent.Input) || e.Usage.CacheRead != int64(spent.CacheRead) || e.Usage.Output != int64(spent.Output) {
			t.Errorf("used %+v", e.Usage)
		}
		w.once()
	})
}

func TestTranslatedFailuresFailOver(t *testing.T) {
	t.Parallel()
	translated(t, func(t *testing.T, client string, stream bool) {
		for name, bad := range map[string]routertest.Reply{
			"status":  routertest.Fail(http.StatusInternalServerError, "down"),
			"in band": routertest.Body(http.StatusOK, "text/event-stream", toldInBand[across[client]]),
			"html":    routertest.Body(http.StatusOK, "text/html", "<html></html>"),
			"cut":     good.Events(1).Ending(routertest.Cut),
		} {
			if name == "cut" && !stream {
				bad = good.Bytes(10).Ending(routertest.Cut)
			}
			w := bilingual(t, client, nil, bad, good)
			if got := w.ask(client, stream); got.Status != http.StatusOK || got.Header.Get("X-Router-Upstream") != "b" {
				t.Errorf("%s: %d %v %s", name, got.Status, got.Header, got.Body)
			}
			if e := w.completed(); e.Outcome != "success_after_failover" {
				t.Errorf("%s: %+v", name, e)
			}
			w.once()
		}
	})
}

func TestTranslatedErrorsSpeakTheClientsWire(t *testing.T) {
	t.Parallel()
	translated(t, func(t *testing.T, client string, stream bool) {
		for _, status := range []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			w := bilingual(t, client, nil, routertest.Fail(status, "not like this").With("Retry-After", "7").With("Request-Id", "req_1"))
			got := w.ask(client, stream)
			if word, _ := refusal(client, got.Body); got.Status != status || word == "" || !strings.Contains(got.Body, "not like this") {
				t.Errorf("%d: got %d %s", status, got.Status, got.Body)
			}
			if got.Header.Get("Retry-After") != "7" || got.Header.Get("Request-Id") != "req_1" || got.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%d: %v", status, got.Header)
			}
			w.once()
		}
	})
}

// A translated stream that breaks after output is told in the client's wire and never ended as if it were whole.
func TestTranslatedStreamsThatBreak(t *testing.T) {
	t.Parallel()
	for client, upstream := range across {
		for name, bad := range map[string]routertest.Reply{
			"reset":   good.Events(5).Ending(routertest.Reset),
			"cut":     good.Events(5).Ending(routertest.Cut),
			"ended":   good.Events(5),
			"in band": routertest.Body(http.StatusOK, "text/event-stream", firstEvents(t, upstream, 5), toldInBand[upstream]),
		} {
			w := bilingual(t, client, nil, bad, good)
			got := w.ask(client, true)
			if got.Status != http.StatusOK || strings.Contains(got.Body, terminator[client]) || !strings.Contains(got.Body, `"error"`) {
				t.Errorf("%s, %s: %d %s", client, name, got.Status, got.Body)
			}
			if early := strings.Contains(got.Body, "ended its answer before"); early != (name == "ended") {
				t.Errorf("%s, %s: told %s", client, name, got.Body)
			}
			if (got.Err == nil) != (name == "in band") {
				t.Errorf("%s, %s: ended with %v", client, name, got.Err)
			}
			if e := w.completed(); e.Outcome != "failed" || len(w.ups[1].Calls()) != 0 {
				t.Errorf("%s, %s: %+v", client, name, e)
			}
			w.once()
		}
	}
}

func TestTranslationTellsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	for client := range across {
		odd := routertest.NewRequest(client, "m", false).Field("logit_bias", `{"1":2}`).Field("top_k_odd", "3")
		w := bilingual(t, client, nil, good)
		got := w.Send(t.Context(), odd)
		for _, name := range []string{"logit_bias", "top_k_odd"} {
			if got.Status != http.StatusOK || !strings.Contains(got.Header.Get("X-Router-Dropped"), name) {
				t.Errorf("%s: %d, dropped %q, want %s in it", client, got.Status, got.Header.Get("X-Router-Dropped"), name)
			}
		}
		w.once()

		strict := bilingual(t, client, func(cfg *settings.Config) { cfg.Models[0].Targets[0].Translate = "strict" }, good)
		got = strict.Send(t.Context(), odd)
		refused(t, client, got, http.StatusBadRequest, "logit_bias")
		if e := strict.completed(); e.Attempts != 0 || len(strict.ups[0].Calls()) != 0 || e.Outcome != "rejected" {
			t.Errorf("%s: %+v", client, e)
		}
		if got = strict.ask(client, false); got.Status != http.StatusOK {
			t.Errorf("%s: a request that loses nothing got %d %s", client, got.Status, got.Body)
		}
		strict.once()
	}
}

// A token limit that the target's layers give takes the place of the translation's own.
func TestTranslatedLimitComesFromTheLayers(t *testing.T) {
	t.Parallel()
	w := bilingual(t, routertest.Chat, func(cfg *settings.Config) {
		cfg.Upstreams[0].Defaults = settings.Fields{"max_tokens": []byte("777")}
	}, good)
	w.ask(routertest.Chat, false)
	if body := string(w.ups[0].Calls()[0].Body); !strings.Contains(body, `"max_tokens":777`) {
		t.Errorf("sent %s", body)
	}
	w.once()
}

// Counts are not translated, since the other provider's tokens are others; a guess that says so is better than an error.
func TestCountsAreNotTranslated(t *testing.T) {
	t.Parallel()
	w := bilingual(t, routertest.Messages, nil, good)
	got := w.Send(t.Context(), routertest.NewCount("m"))
	estimated(t, got)
	if n := len(w.ups[0].Calls()); n != 0 {
		t.Errorf("the upstream was asked %d times", n)
	}
	w.once()
}

// A query is in the client's wire, as beta=true of Messages is.
func TestTranslationKeepsTheQueryBack(t *testing.T) {
	t.Parallel()
	for client := range across {
		ask := routertest.NewRequest(client, "m", false)
		ask.Path += "?beta=true"
		w := bilingual(t, client, nil, good)
		w.Send(t.Context(), ask)
		if q := w.ups[0].Calls()[0].Query; q != "" {
			t.Errorf("%s: the other wire was asked with %q", client, q)
		}
		w.once()
	}
}

// A conversation that an upstream of another wire has served holds thinking that nobody signed. A provider that signs its
// own refuses such a history, so it goes there without.
func TestUnsignedThinkingStaysAtHome(t *testing.T) {
	t.Parallel()
	const (
		head  = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"a \"signature\":\"\" b"},{"role":"assistant","content":`
		tail  = `},{"role":"user","content":[{"type":"text","text":"go on"}]}]}`
		text  = `{"type":"text","text":"so"}`
		ours  = `{"type":"thinking","thinking":"hm","signature":""}`
		their = `{"type":"thinking", "thinking":"hm","signature":"c2ln"}`
	)
	for sent, want := range map[string]string{
		"[" + ours + " , " + text + "]":             "[" + text + "]",
		"[" + their + "," + ours + "," + text + "]": "[" + their + "," + text + "]",
		"[" + their + " , " + text + "]":            "[" + their + " , " + text + "]",
		"[" + ours + "]":                            "[" + ours + "]",
		`[{"type": "thinking", "thinking": "hm", "signature": ""}, ` + text + "]": "[" + text + "]",
		`"a text"`: `"a text"`,
		"[" + ours + "," + text + "," + their + " ]":    "[" + text + "," + their + "]",
		"[" + text + "," + ours + ",3,\n" + text + " ]": "[" + text + ",3," + text + "]",
	} {
		w := build(t, upstreams(good), nil)
		got := w.do(http.MethodPost, "/v1/messages", http.Header{"Content-Type": {"application/json"}}, strings.NewReader(head+sent+tail))
		if calls := w.ups[0].Calls(); got.Status != http.StatusOK || string(calls[0].Body) != head+want+tail {
			t.Errorf("%d: sent %s\nwent  %s\nwant  %s", got.Status, sent, calls[0].Body, head+want+tail)
		}
		w.once()
	}
}

// What a client tells of its own software is nothing to an upstream of another wire.
func TestTranslatedHeadersStayInTheirWire(t *testing.T) {
	t.Parallel()
	w := bilingual(t, routertest.Messages, nil, good)
	w.Send(t.Context(), routertest.NewRequest(routertest.Messages, "m", false).
		With("Anthropic-Beta", "x").With("X-Stainless-Lang", "js").With("X-Claude-Code-Session-Id", "s").With("X-App", "cli").With("X-Mine", "kept"))
	h := w.ups[0].Calls()[0].Header
	for _, name := range []string{"Anthropic-Beta", "Anthropic-Version", "X-Stainless-Lang", "X-Claude-Code-Session-Id", "X-App"} {
		if h.Get(name) != "" {
			t.Errorf("%s: %s went along", name, h.Get(name))
		}
	}
	if h.Get("X-Mine") != "kept" {
		t.Errorf("%v", h)
	}
	w.once()
}

// The attempt's span names the pair, its event what was left out, and a counter how much.
func TestTranslationIsTold(t *testing.T) {
	t.Parallel()
	o := clocked(t, upstreams(good), func(cfg *settings.Config) {
		cfg.Upstreams[0].Wires = []string{routertest.Messages}
		cfg.Models[0].Targets[0].Model = "theirs"
	})
	o.Send(t.Context(), routertest.NewRequest(routertest.Chat, "m", false).Field("logit_bias", `{"1":2}`))
	o.Send(t.Context(), routertest.NewRequest(routertest.Messages, "m", false))
	o.completed()
	o.completed()
	o.close()
	var pairs, dropped []string
	for _, s := range o.find("chat theirs") {
		pairs = append(pairs, s["signalbox.translated"].AsString())
	}
	for _, s := range o.spans.GetSpans() {
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				if e.Name == "signalbox.translated" && kv.Key == "signalbox.translated.dropped" {
					dropped = append(dropped, kv.Value.AsStringSlice()...)
				}
			}
		}
	}
	if diff := cmp.Diff([]string{"openai-chat>anthropic-messages", ""}, pairs); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(dropped, "logit_bias") {
		t.Errorf("dropped %v", dropped)
	}
	if got := o.points("signalbox.translation.dropped", "signalbox.model", "signalbox.upstream"); got["m a"] != int64(len(dropped)) {
		t.Errorf("counted %v, told %v", got, dropped)
	}
	for _, s := range o.spans.GetSpans() {
		o.inContract(telemetry.Contract(), s)
	}
}

// Where only the translation sees that an answer is none, the client is told an error: so it has to be booked as one, and
// before any output another target takes over.
func TestTranslationsThatFailAreFailures(t *testing.T) {
	t.Parallel()
	const (
		says   = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"so"},"finish_reason":null}]}` + "\n\n"
		broken = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"network_error"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n"
		half   = `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"Bash","arguments":"{\"a\":"}}]},"finish_reason":null}]}` + "\n\n"
		odd    = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"so}` + "\n\n"
		done   = "data: [DONE]\n\n"
	)
	for name, c := range map[string]struct {
		body string
		over bool // Another target takes over.
	}{
		"finish":            {says + broken + done, false},
		"finish first":      {broken + done, true},
		"half a call":       {half + done, false},
		"unreadable":        {says + odd + done, false},
		"unreadable at all": {odd + says + done, true},
	} {
		w := bilingual(t, routertest.Messages, nil, routertest.Body(http.StatusOK, "text/event-stream", c.body), good)
		got := w.ask(routertest.Messages, true)
		e := w.completed()
		if c.over {
			if got.Header.Get("X-Router-Upstream") != "b" || e.Outcome != "success_after_failover" || strings.Contains(got.Body, "event: error") {
				t.Errorf("%s: %v %+v %s", name, got.Header, e, got.Body)
			}
		} else if e.Outcome != "failed" || strings.Count(got.Body, "event: error") != 1 || strings.Contains(got.Body, "message_stop") {
			t.Errorf("%s: %+v %s", name, e, got.Body)
		}
		w.once()
	}
}

// The mark of another wire's end is no end in Messages, and an answer that has nothing else is broken.
func TestTranslatedStreamsThatEndLikeOthers(t *testing.T) {
	t.Parallel()
	const begun = `data: {"type":"message_start","message":{"id":"m"}}` + "\n\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}` + "\n\n"
	w := bilingual(t, routertest.Chat, nil, routertest.Body(http.StatusOK, "text/event-stream", begun+"data: [DONE]\n\n"))
	got := w.ask(routertest.Chat, true)
	if e := w.completed(); e.Outcome != "failed" || strings.Contains(got.Body, "[DONE]") || strings.Count(got.Body, `"error"`) != 1 {
		t.Errorf("%+v %s", e, got.Body)
	}
	w.once()
}

// One limit has two names in chat completions, and Messages knows only one of them: a default must not come to stand
// beside the client's own.
func TestTranslatedRequestsHaveOneLimit(t *testing.T) {
	t.Parallel()
	for client, name := range map[string]string{routertest.Messages: "max_tokens", routertest.Chat: "max_completion_tokens"} {
		w := bilingual(t, client, func(cfg *settings.Config) { cfg.Defaults = settings.Fields{name: []byte("777")} }, good)
		w.ask(client, false)
		body := string(w.ups[0].Calls()[0].Body)
		if strings.Count(body, "max_tokens")+strings.Count(body, "max_completion_tokens") != 1 {
			t.Errorf("%s: sent %s", client, body)
		}
		if strings.Contains(body, "777") != (client == routertest.Chat) {
			t.Errorf("%s: sent %s", client, body)
		}
		w.once()
	}
}

// What comes in a coding that the router cannot look into cannot be translated either: another target has to answer.
func TestUnknownCodingIsNotTranslated(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"application/json", "text/event-stream"} {
		w := build(t, upstreams(routertest.Body(200, kind, "odd").With("Content-Encoding", "br"), good), func(cfg *settings.Config) {
			cfg.Upstreams[0].Wires = []string{routertest.Messages}
		})
		if got := w.ask(routertest.Chat, kind == "text/event-stream"); got.Status != 200 || got.Header.Get("X-Router-Upstream") != "b" {
			t.Errorf("%s: got %d %s", kind, got.Status, got.Body)
		}
		w.completed()
		for _, e := range w.events {
			if e.Phase == router.PhaseAttemptEnd && e.Attempt == 1 && e.ErrorClass != "provider_invalid_response" {
				t.Errorf("%s: booked as %s", kind, e.ErrorClass)
			}
		}
	}
}
