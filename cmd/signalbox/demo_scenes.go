package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// demoConfig is a configuration as a real one would be; the words in capitals are replaced by addresses.
const demoConfig = `server {
  listen = "LISTEN_ADDRESS"
}

# Three accounts. A real one has a base_url such as "https://api.anthropic.com". The keys are made up here.
upstream "steady" {
  base_url = "STEADY_URL"
  wires    = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
  api_key  = env("STEADY_KEY")
}

upstream "busy" {
  base_url = "BUSY_URL"
  wires    = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
  api_key  = env("BUSY_KEY")
}

upstream "shaky" {
  base_url = "SHAKY_URL"
  wires    = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
  api_key  = env("SHAKY_KEY")
}

# What agents ask for, which accounts serve it, first choice first, and what a million tokens cost in USD.
model "small" {
  target "steady" { model = "llm-small" }
  price {
    input      = 1.0
    cache_read = 0.1
    output     = 5.0
  }
}

model "large" {
  target "busy"   { model = "llm-large" }
  target "steady" { model = "llm-large" }
  price {
    input      = 5.0
    cache_read = 0.5
    output     = 25.0
    off_peak {
      hours  = "22-06"
      factor = 0.5
    }
  }
}

model "poet" {
  target "shaky"  { model = "llm-poet" }
  target "steady" { model = "llm-poet" }
}

model "novelist" {
  target "shaky"  { model = "llm-novelist" }
  target "steady" { model = "llm-novelist" }
}
`

// demoEnv stands in for the environment, which has the keys of real accounts.
func demoEnv(name string) (string, bool) { return "made-up-" + name, true }

// restSeconds is how long the account that is over its limit asks to be left alone.
const restSeconds = "20"

// scriptedAccounts starts the three accounts. Shaky's first stream breaks before its first word, the others after three.
func scriptedAccounts() (steady, busy, shaky *routertest.Upstream) {
	const tale = "Once upon a time there was a stream."
	u := routertest.Usage{Input: 12, CacheRead: 30, Output: 5}
	return routertest.NewUpstream(routertest.Good("Hello from steady.", u).Pace(time.Millisecond)),
		routertest.NewUpstream(routertest.Fail(http.StatusTooManyRequests, "You are over your limit.").With("Retry-After", restSeconds)),
		routertest.NewUpstream(
			routertest.Good(tale, u).Pace(time.Millisecond).Events(1).Ending(routertest.Cut),
			routertest.Good(tale, u).Pace(time.Millisecond).Events(5).Ending(routertest.Cut))
}

func (s *stage) introduce(text string) {
	s.paint.line(bold, "Signalbox stands between coding agents and LLM accounts.")
	s.paint.line(plain, "When an account fails, the request goes to the next one, and OpenTelemetry tells what happened. Here are three made-up")
	s.paint.line(plain, "accounts on this machine: steady answers, busy is over its limit, shaky breaks off in the middle of its streams.")
	s.paint.line(plain, "No key is needed, and nothing leaves this machine.\n\nThe configuration:\n")
	for line := range strings.Lines(text) {
		s.paint.line(dim, "%s", strings.TrimRight("  "+line, " \n"))
	}
}

// scene is one thing to see.
type scene struct {
	title, why string
	trees      bool // every request's trace is drawn
	steps      []step
}

// step is one request and what must come of it.
type step struct {
	wire, model   string
	stream, count bool

	status  int
	text    string   // what the client gets to read
	tries   []string // the accounts tried, each with the outcome of the attempt
	outcome string
	event   string // that the route span must have
	broken  bool   // the connection is cut
}

const hello = "Hello from steady."

// good is a request that is served at once.
func good(wire, model string, stream bool) step {
	return step{
		wire: wire, model: model, stream: stream, status: http.StatusOK, text: hello, tries: []string{"steady served"},
		outcome: telemetry.OutcomeSuccess,
	}
}

// rescued is a request that is served by the second account, since the first one failed.
func rescued(wire, model, first string) step {
	st := good(wire, model, true)
	st.tries = []string{first + " failed_over", "steady served"}
	st.outcome, st.event = telemetry.OutcomeSuccessAfterFailover, telemetry.EventFailover
	return st
}

// agents are what those call themselves that speak a wire.
var agents = map[string]string{
	routertest.Messages: "claude-cli/2.1.332 (external, cli)", routertest.Responses: "codex_exec/0.171.0",
	routertest.Chat: "opencode/1.18.33", routertest.Gemini: "GeminiCLI/0.61.0",
}

// request is what the agent sends.
func (st step) request() routertest.Request {
	r := routertest.NewRequest(st.wire, st.model, st.stream)
	if st.count {
		r = routertest.NewCount(st.model)
	}
	return r.With("User-Agent", agents[st.wire])
}

func scenes() []scene {
	count := good(routertest.Messages, "small", false)
	count.count, count.text = true, `{"input_tokens":42}`
	skipping := good(routertest.Chat, "large", true)
	skipping.event = telemetry.EventSkipped
	return []scene{
		{
			"A request that simply works",
			"An agent asks for the model \"small\". Below is the trace of it as it was exported: POST is what the agent sent, route what " +
				"Signalbox decided, chat one try at one account, and the POST below it the call over the network.",
			true,
			[]step{good(routertest.Messages, "small", true)},
		},
		{
			"Every agent in its own dialect",
			"OpenAI Chat, OpenAI Responses, Anthropic Messages and Gemini go through as they are, streamed or whole. Token counts, too.",
			false,
			[]step{
				good(routertest.Messages, "small", false), good(routertest.Chat, "small", false), good(routertest.Chat, "small", true),
				good(routertest.Responses, "small", true), good(routertest.Gemini, "small", false), good(routertest.Gemini, "small", true), count,
			},
		},
		{
			"An account is over its limit",
			"The model \"large\" is first looked for at busy, which answers 429 and asks for " + restSeconds + " seconds of rest. The agent must not " +
				"notice: the request goes on to steady, and busy gets its rest.",
			true,
			[]step{rescued(routertest.Messages, "large", "busy")},
		},
		{
			"Nobody knocks at a closed door",
			"The next request for \"large\" comes from another kind of agent. It does not try busy at all: an account that rests costs no time.",
			true,
			[]step{skipping},
		},
		{
			"A stream breaks before its first word",
			"The model \"poet\" is first looked for at shaky, whose stream begins and breaks. The agent has not got a word yet, so that the " +
				"try can be thrown away and steady starts afresh.",
			true,
			[]step{rescued(routertest.Messages, "poet", "shaky")},
		},
		{
			"A stream breaks after its first words",
			"With \"novelist\" some words have reached the agent when shaky breaks off. A second account would begin another answer, so nothing " +
				"is tried again. The agent is told in its own dialect, and the connection is cut: half an answer never looks like a whole one.",
			true,
			[]step{{
				wire: routertest.Messages, model: "novelist", stream: true, status: http.StatusOK, text: "Once upon a ",
				tries: []string{"shaky failed"}, outcome: telemetry.OutcomeFailed, broken: true,
			}},
		},
		{
			"A model that nobody has",
			"It is refused at once, in the agent's dialect, and no account is asked.",
			true,
			[]step{{wire: routertest.Responses, model: "huge", status: http.StatusNotFound, outcome: telemetry.OutcomeRejected}},
		},
	}
}

// show plays one scene.
func (s *stage) show(ctx context.Context, number int, sc scene) error {
	s.paint.head(fmt.Sprintf("%d. %s", number, sc.title), sc.why)
	for _, st := range sc.steps {
		from := time.Now()
		got := s.front.Send(ctx, st.request())
		took := time.Since(from)
		t, err := s.trace(ctx)
		if err != nil || ctx.Err() != nil {
			return err
		}
		s.sent++
		s.tell(st, got, took)
		if sc.trees {
			s.paint.tree(t)
		}
		for _, d := range st.differences(got, t) {
			s.differed = append(s.differed, fmt.Sprintf("request %d (%s): %s", s.sent, sc.title, d))
			s.paint.line(red, "    %s", d)
		}
	}
	return nil
}

// tell writes one line about a request and its answer.
func (s *stage) tell(st step, got routertest.Result, took time.Duration) {
	form := "whole"
	switch {
	case st.count:
		form = "count"
	case st.stream:
		form = "stream"
	}
	color, said := green, fmt.Sprintf("from %s: %s", got.Header.Get("X-Router-Upstream"), reading(st, got))
	if n := got.Header.Get("X-Router-Attempts"); n != "" && n != "1" {
		said = fmt.Sprintf("at try %s %s", n, said)
	}
	switch {
	case got.Status >= http.StatusBadRequest:
		color, said = yellow, "refused: "+got.Body
	case got.Err != nil:
		color, said = red, strings.TrimSpace(said)+" ... and then an error event, and the connection was cut"
	}
	s.paint.line(color, "  %2d  %-18s  %-6s  %-8s  %d in %s %s", s.sent, st.wire, form, st.model, got.Status, duration(took), said)
}

// reading is what the client gets to read.
func reading(st step, got routertest.Result) string {
	if st.count {
		return got.Body
	}
	return got.Text()
}

// differences compares what was announced with what the client saw and with what was exported.
func (st step) differences(got routertest.Result, t spans) (all []string) {
	compare := func(what string, want, is any) {
		if w, i := fmt.Sprint(want), fmt.Sprint(is); w != i {
			all = append(all, fmt.Sprintf("%s should be %s and is %s", what, w, i))
		}
	}
	compare("the status", st.status, got.Status)
	compare("that the connection is cut", st.broken, got.Err != nil)
	if st.status == http.StatusOK {
		compare("the answer", st.text, reading(st, got))
	}
	if st.broken {
		last := slices.Concat([]routertest.Event{{}}, got.Events())[len(got.Events())]
		compare("the last event", "error", last.Name)
	}
	route, tries := t.route(), t.attempts()
	if route == nil {
		return append(all, "there should be a route span and is none")
	}
	var tried []string
	for _, a := range tries {
		tried = append(tried, attr(a, telemetry.AttrUpstream)+" "+attr(a, telemetry.AttrAttemptOutcome))
	}
	compare("the way", strings.Join(st.tries, ", "), strings.Join(tried, ", "))
	compare(telemetry.AttrOutcome, st.outcome, attr(route, telemetry.AttrOutcome))
	if st.event != "" && !hasEvent(route, st.event) {
		all = append(all, "the route span should have the event "+st.event)
	}
	return all
}

// curls are commands to paste, one for each dialect and one that shows the state of all accounts.
func curls(url string) (all []string) {
	for _, c := range []struct {
		wire, model string
		stream      bool
	}{
		{routertest.Messages, "large", true}, {routertest.Chat, "large", false}, {routertest.Responses, "novelist", true}, {routertest.Gemini, "poet", true},
	} {
		r := routertest.NewRequest(c.wire, c.model, c.stream)
		all = append(all, fmt.Sprintf("curl -sSN '%s%s' -H 'content-type: application/json' -d '%s'", url, r.Path, r.Body))
	}
	return append(all, "curl -sS "+url+"/_router/status")
}
