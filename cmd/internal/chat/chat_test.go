package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "key-of-agents"

const configuration = `
auth {
  key "agents" {
    secret = "key-of-agents"
  }
}
upstream "work" {
  base_url = "WORK"
  wires    = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
  api_key  = "sk-1"
}
upstream "home" {
  base_url = "HOME"
  wires    = ["openai-chat"]
  api_key  = "sk-2"
}
model "sonnet" {
  price {
    input      = 1
    output     = 10
    cache_read = 0.1
  }
  target "work" { model = "sonnet-1" }
}
model "gpt" {
  target "home" {}
}
`

// world is a router, the accounts behind it, and what clients sent to it.
type world struct {
	*testing.T
	work, home *routertest.Upstream
	front      *routertest.Front

	mu    sync.Mutex
	asked []*http.Request // of inference
}

// lab builds one.
func lab(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, work: routertest.NewUpstream(), home: routertest.NewUpstream()}
	t.Cleanup(w.work.Close)
	t.Cleanup(w.home.Close)
	text := strings.NewReplacer("WORK", w.work.URL, "HOME", w.home.URL).Replace(configuration)
	file, diags := config.Parse([]byte(text), "chat.hcl", func(string) (string, bool) { return "", false })
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	engine, err := router.New(file.Config, router.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	next := control.New(engine, control.Options{}).Or(engine.Handler())
	w.front = routertest.Serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.mu.Lock()
			w.asked = append(w.asked, r.Clone(context.Background()))
			w.mu.Unlock()
		}
		next.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.front.Close)
	return w
}

// script is one conversation and where it is shown.
type script struct {
	*Chat
	out, notes *bytes.Buffer
}

// chat begins a conversation. Each look at its clock takes 100 ms.
func (w *world) chat(change func(*Options)) *script {
	w.Helper()
	var mu sync.Mutex
	now := time.Unix(1_700_000_000, 0)
	s := &script{out: &bytes.Buffer{}, notes: &bytes.Buffer{}}
	o := Options{
		URL: w.front.URL, Key: key, KeyFrom: "SIGNALBOX_KEY", Version: "v9", Models: []string{"sonnet"}, Wire: wire.Chat,
		Out: s.out, Notes: s.notes, Interruptible: context.WithCancel,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(100 * time.Millisecond)
			return now
		},
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	s.Chat = c
	return s
}

// shows fails unless the texts stand in what was written, in this order.
func shows(t *testing.T, got string, wanted ...string) {
	t.Helper()
	rest := got
	for _, want := range wanted {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Errorf("%q is missing, or not where it should be:\n%s", want, got)
			return
		}
		rest = after
	}
}

var usage = routertest.Usage{Input: 12, CacheRead: 30, Output: 50}

func TestOnceInEveryWire(t *testing.T) {
	for _, name := range routertest.Wires {
		t.Run(name, func(t *testing.T) {
			w := lab(t)
			w.work.Script(routertest.Good("hello to you", usage))
			s := w.chat(func(o *Options) { o.Wire = wire.Name(name) })
			if err := s.Once(t.Context(), "hello"); err != nil {
				t.Fatal(err)
			}
			if got := s.out.String(); got != "hello to you\n" {
				t.Errorf("the answer is %q", got)
			}
			shows(t, s.notes.String(), "── work as sonnet-1 · 1 attempt · first token 100 ms · 200 ms · 42 in (30 cached) 50 out · ~$0.000515 · call ")
			h := w.asked[0].Header
			if h.Get("User-Agent") != "signalbox-chat/v9" || h.Get("X-Session-Id") != s.session || len(s.session) < 20 {
				t.Errorf("headers: %v", h)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	o := &Options{System: "be brief", Effort: "high", Max: 7}
	talk := []message{{"user", "a"}, {"assistant", "b"}, {"user", "c"}}
	const said = `[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`
	for name, want := range map[wire.Name]string{
		wire.Chat: `{"model":"m","stream":true,"stream_options":{"include_usage":true},"reasoning_effort":"high","max_completion_tokens":7,
			"messages":[{"role":"system","content":"be brief"},` + said[1:] + `}`,
		wire.Responses: `{"model":"m","stream":true,"store":false,"instructions":"be brief","reasoning":{"effort":"high","summary":"auto"},
			"max_output_tokens":7,"input":` + said + `}`,
		wire.Messages: `{"model":"m","stream":true,"system":"be brief","thinking":{"type":"adaptive"},"output_config":{"effort":"high"},
			"max_tokens":7,"messages":` + said + `}`,
		wire.Gemini: `{"systemInstruction":{"parts":[{"text":"be brief"}]},
			"generationConfig":{"thinkingConfig":{"thinkingLevel":"high","includeThoughts":true},"maxOutputTokens":7},
			"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]},{"role":"user","parts":[{"text":"c"}]}]}`,
	} {
		body, err := json.Marshal(dialects[name].body(o, "m", talk))
		if err != nil {
			t.Fatal(err)
		}
		var got, wanted any
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// thoughtful are streams that think before they speak.
var thoughtful = map[wire.Name][]string{
	wire.Chat: {
		`data: {"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"hm "}}]}`,
		`data: {"choices":[{"index":0,"delta":{"reasoning":"so"}}]}`,
		`data: {"choices":[{"index":0,"delta":{"content":"yes"}}]}`,
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `data: [DONE]`,
	},
	wire.Responses: {
		`data: {"type":"response.created","response":{"id":"r","model":"m"}}`,
		`data: {"type":"response.reasoning_summary_text.delta","delta":"hm so"}`,
		`data: {"type":"response.output_text.delta","delta":"yes"}`,
		`data: {"type":"response.completed","response":{"id":"r","status":"completed"}}`,
	},
	wire.Messages: {
		`data: {"type":"message_start","message":{"id":"m","model":"m"}}`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm so"}}`,
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"yes"}}`,
		`data: {"type":"message_stop"}`,
	},
	wire.Gemini: {
		`data: {"candidates":[{"content":{"parts":[{"text":"hm so","thought":true},{"text":"yes"}]}}]}`,
		`data: {"candidates":[{"content":{"parts":[]},"finishReason":"STOP"}]}`,
	},
}

func TestThoughtsAreShownApart(t *testing.T) {
	for name, events := range thoughtful {
		for _, colours := range []bool{false, true} {
			w := lab(t)
			w.work.Script(routertest.Body(200, "text/event-stream", strings.Join(events, "\n\n")+"\n\n"))
			s := w.chat(func(o *Options) { o.Wire, o.Colours = name, colours })
			if err := s.Once(t.Context(), "well?"); err != nil {
				t.Fatal(name, err)
			}
			if s.out.String() != "yes\n" {
				t.Errorf("%s: the answer is %q", name, s.out)
			}
			plain := strings.NewReplacer("\x1b[2m", "", "\x1b[0m", "").Replace(s.notes.String())
			if colours {
				shows(t, s.notes.String(), "\x1b[2mhm ", "so\x1b[0m\n\n")
				shows(t, plain, "hm so\n\n")
			} else {
				shows(t, plain, "thinking\nhm so\nanswer\n── work")
			}
		}
	}
}

func TestSeveralModelsOneAfterTheOther(t *testing.T) {
	w, gate := lab(t), make(chan struct{})
	w.work.Script(routertest.Good("I am work", usage).Hold(3, gate))
	w.home.Script(routertest.Good("I am home", usage))
	s := w.chat(func(o *Options) { o.Models = []string{"sonnet", "gpt", "nobody"} })
	ended := make(chan error)
	go func() { ended <- s.Once(t.Context(), "who?") }()
	<-w.home.Await(0).Over() // the second one is ready before the first
	close(gate)
	if err := <-ended; err == nil || err.Error() != "1 of 3 answers failed" {
		t.Errorf("error %v", err)
	}
	if got := s.out.String(); got != "I am work\nI am home\n" {
		t.Errorf("the answers are %q", got)
	}
	shows(t, s.notes.String(), "── sonnet\n", "── work as", "── gpt\n", "── home ·", "── nobody\n", "404 unknown_model", "sonnet, gpt",
		"MODEL", "TOK/S", "\nsonnet  work", "  42  30      50   ~$0.000515  ok\ngpt     home", "  42  30      50   -           ok\nnobody  - ", "refused 404\n")
}

func TestSeveralModelsSideBySide(t *testing.T) {
	w := lab(t)
	w.work.Script(routertest.Body(200, "text/event-stream", strings.Join(thoughtful[wire.Chat], "\n\n")+"\n\n"))
	w.home.Script(routertest.Good("one two three four five six seven eight nine", usage))
	s := w.chat(func(o *Options) { o.Models, o.Terminal, o.Width = []string{"sonnet", "gpt"}, true, 63 })
	if err := s.Once(t.Context(), "who?"); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"sonnet                         | gpt",
		"------------------------------ | ------------------------------",
		"thinking                       | one two three four five six",
		"hm so                          | seven eight nine",
		"                               |",
		"answer                         |",
		"yes                            |", "", "",
	}, "\n")
	if diff := cmp.Diff(want, s.out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	shows(t, s.notes.String(), "── work", "── home", "MODEL")
}

func TestTrouble(t *testing.T) {
	w := lab(t)
	nobody := routertest.Serve(nil)
	nobody.Close()
	for name, c := range map[string]struct {
		reply  routertest.Reply
		change func(*Options)
		want   string
	}{
		"not running":   {want: "start the sidecar with: signalbox serve", change: func(o *Options) { o.URL = nobody.URL }},
		"no key":        {want: "no key was sent: put one into SIGNALBOX_KEY", change: func(o *Options) { o.Key = "" }},
		"wrong key":     {want: "the key that was sent is from a-file", change: func(o *Options) { o.Key, o.KeyFrom = "wrong", "a-file" }},
		"unknown model": {want: "sonnet, gpt", change: func(o *Options) { o.Models = []string{"gtp"} }},
		"which model":   {want: "which model? There are: sonnet, gpt", change: func(o *Options) { o.Models = nil }},
		"refused":       {want: "400 invalid_request_error: no", reply: routertest.Fail(400, "no")},
		"their key":     {want: "it was work that did not accept its api_key", reply: routertest.Fail(401, "bad key")},
		"cut":           {want: "the stream broke: ", reply: routertest.Good("a b c", usage).Events(3).Ending(routertest.Cut)},
		"no end mark":   {want: "the stream broke: ", reply: routertest.Good("a b c", usage).Events(3)},
		"no stream":     {want: `no stream of events but "text/plain"`, reply: routertest.Body(200, "text/plain", "hello", "you")},
	} {
		t.Run(name, func(t *testing.T) {
			w.work.Script(c.reply)
			if name == "no end mark" || name == "no stream" || name == "their key" || name == "refused" { // the router knows better
				bare := routertest.NewUpstream(c.reply.With("X-Router-Upstream", "work"))
				defer bare.Close()
				c.change = func(o *Options) { o.URL = bare.URL }
			}
			s := w.chat(c.change)
			err := s.Once(t.Context(), "hello")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %s; notes:\n%s", err, c.want, s.notes)
			}
			if err != nil && strings.Contains(err.Error()+s.notes.String(), key) {
				t.Error("the key is shown")
			}
		})
	}
}

func TestNewRefusesWrongUse(t *testing.T) {
	for _, o := range []Options{{URL: "127.0.0.1:4141", Wire: wire.Chat}, {URL: "ftp://x", Wire: wire.Chat}, {URL: "http://x", Wire: "morse"}} {
		if c, err := New(o); err == nil {
			c.Close()
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestModelsCannotCommandTheTerminal(t *testing.T) {
	w := lab(t)
	w.work.Script(routertest.Good("a\x1b[2Jb\u009bc\rd", usage))
	s := w.chat(func(o *Options) { o.Terminal = true })
	if err := s.Once(t.Context(), "hello"); err != nil || s.out.String() != "a[2Jbcd\n" {
		t.Errorf("%q %v", s.out, err)
	}
}

func TestExport(t *testing.T) {
	w, dir := lab(t), t.TempDir()
	w.work.Script(routertest.Good("hello to you", usage), routertest.Fail(400, "you sent "+key))
	file := filepath.Join(dir, "talk.json")
	s := w.chat(func(o *Options) { o.Export, o.System = file, "be brief" })
	if err := s.Once(t.Context(), "hello"); err != nil {
		t.Fatal(err)
	}
	if err := s.Once(t.Context(), "again"); err == nil {
		t.Fatal("there should be an error")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	var got struct {
		Session, Wire, System string
		Turns                 []turn
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if got.Session != s.session || got.Wire != "openai-chat" || got.System != "be brief" || len(got.Turns) != 2 {
		t.Errorf("%s", raw)
	}
	want := &Answer{
		Model: "sonnet", Status: 200, Upstream: "work", UpstreamModel: "sonnet-1", Attempts: 1, Call: got.Turns[0].Answers[0].Call,
		Text: "hello to you", TTFTMS: 100, DurationMS: 200, Usage: &Tokens{Input: new(int64(42)), CacheRead: new(int64(30)), CacheWrite: new(int64(0)), Output: new(int64(50)), Reasoning: new(int64(0))},
		CostUSD: new(0.000515), CostFrom: "price",
	}
	if diff := cmp.Diff(want, got.Turns[0].Answers[0], cmp.AllowUnexported(Answer{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := s.export(filepath.Join(dir, "talk.md")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "talk.md"))
	if err != nil {
		t.Fatal(err)
	}
	shows(t, string(text), "## System\n\nbe brief\n", "## User\n\nhello\n\n## sonnet\n\nhello to you\n\n_work as sonnet-1", "again", "**400 ")
	if bytes.Contains(raw, []byte(key)) || bytes.Contains(text, []byte(key)) {
		t.Error("the key is exported")
	}
}
