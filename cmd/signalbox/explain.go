package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/secrets/keyring"
)

// asking is what the command line of explain says.
type asking struct {
	router  *remote
	config  string // a configuration instead of it
	path    string
	headers http.Header
	raw     bool // the answer as it came
}

// explain asks where a request would go: a running router, which knows what rests and who is pinned where, or a
// configuration, with everybody well and nothing remembered.
func explain(ctx context.Context, e env, args []string) error {
	a := asking{router: newRemote(true), headers: http.Header{}}
	rest, err := parse(e, "explain", args, func(f *flag.FlagSet) {
		a.router.flags(f)
		f.StringVar(&a.config, "config", "", "ask this configuration `file` instead of a running router")
		f.StringVar(&a.path, "path", "", "the `path` of the request, such as /v1/messages; not needed if FILE has it")
		f.Func("H", "a `header` of the request, 'NAME: VALUE'; may stand several times", a.addHeader)
		f.BoolVar(&a.raw, "json", false, "print the answer as the router gives it")
	})
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return usageError{errors.New("one file is wanted, or - for standard input")}
	}
	q, err := a.question(e, rest[0])
	if err != nil {
		return err
	}
	ask := a.askRouter
	if a.config != "" {
		ask = a.askConfig
	}
	answer, err := ask(ctx, e, q)
	if err != nil {
		return err
	}
	if a.raw {
		_, err := fmt.Fprintf(e.stdout, "%s\n", bytes.TrimSpace(answer))
		return err
	}
	var x router.Explanation
	if err := json.Unmarshal(answer, &x); err != nil {
		return fmt.Errorf("the answer is no explanation: %w", err)
	}
	newPainter(e.stdout).explanation(&x)
	return nil
}

func (a *asking) addHeader(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || strings.TrimSpace(name) == "" {
		return errors.New("it should be NAME: VALUE")
	}
	a.headers.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	return nil
}

// question reads the request. A file that has path, headers and body as members is a whole one, to which the flags add.
func (a *asking) question(e env, file string) (q router.Question, err error) {
	raw, err := a.read(e, file)
	if err != nil {
		return q, err
	}
	q = router.Question{Header: http.Header{}, Body: raw}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) == nil && members["path"] != nil && members["body"] != nil {
		headers := members["headers"]
		if headers == nil {
			headers = json.RawMessage("{}")
		}
		if q, err = control.ParseQuestion(envelope(members["path"], headers, members["body"])); err != nil {
			return q, fmt.Errorf("%s: %w", file, err)
		}
	}
	if a.path != "" {
		q.Path = a.path
	}
	if q.Path == "" {
		return q, usageError{errors.New("-path is needed: the file is a body, which does not tell its path")}
	}
	maps.Copy(q.Header, a.headers)
	addCaller(q.Header)
	return q, nil
}

func (a *asking) read(e env, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(e.stdin)
	}
	return os.ReadFile(file)
}

// addCaller adds the key that the agent would send, if the environment has it and the request none: groups and pins depend
// on whose request it is. Captured requests have lost theirs.
func addCaller(h http.Header) {
	key := os.Getenv("SIGNALBOX_KEY")
	if key == "" {
		return
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"} {
		if h.Get(name) != "" {
			return
		}
	}
	h.Set("Authorization", "Bearer "+key)
}

// envelope is what POST /_router/explain takes. It is put together by hand, since the encoder would change the body's bytes.
func envelope(path, headers, body []byte) []byte {
	return bytes.Join([][]byte{[]byte(`{"path":`), path, []byte(`,"headers":`), headers, []byte(`,"body":`), body, []byte("}")}, nil)
}

// askRouter sends the question to a running router.
func (a *asking) askRouter(ctx context.Context, _ env, q router.Question) ([]byte, error) {
	path, err := json.Marshal(q.Path)
	if err != nil {
		return nil, err
	}
	headers, err := json.Marshal(q.Header)
	if err != nil {
		return nil, err
	}
	body := q.Body
	if !json.Valid(body) { // the router says what is wrong with it
		if body, err = json.Marshal(string(body)); err != nil {
			return nil, err
		}
	}
	return a.router.ask(ctx, http.MethodPost, "/_router/explain", envelope(path, headers, body))
}

// askConfig asks an engine that is made of a configuration for this question alone. It asks nobody whether they are well.
func (a *asking) askConfig(ctx context.Context, e env, q router.Question) ([]byte, error) {
	file, diags := config.Load(a.config)
	if diags.HasErrors() { // warnings are for check
		if err := config.Write(e.stderr, diags, file, colours(e.stderr)); err != nil {
			return nil, err
		}
		return nil, errSaid
	}
	for i := range file.Config.Upstreams {
		file.Config.Upstreams[i].HealthCheck = nil
	}
	silent := slog.New(slog.DiscardHandler)
	keys := keyring.New(time.Now, silent)
	if err := keys.Use(file.Config.Auth.IssuedKeysFile); err != nil {
		return nil, fmt.Errorf("auth.issued_keys_file: %w", err)
	}
	engine, err := router.New(file.Config, router.WithLogger(silent), router.WithKeyring(keys))
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	x, wrong := engine.Explain(ctx, q)
	if wrong != nil {
		return nil, fmt.Errorf("%d %s: %s", wrong.Status, wrong.Kind, wrong.Msg)
	}
	return json.MarshalIndent(x, "", "  ")
}

// places say why a target that may be tried stands where it does.
var places = map[string]string{
	"pinned":       "the path names it",
	"issued_state": "it issued the response that the request goes on from",
	"session":      "the conversation lives there",
	"cache":        "it holds the conversation's prompt cache",
	"strategy":     "by the strategy",
}

// never says why a target of the model is not in the plan at all.
var never = map[string]string{
	"disabled": "switched off in the configuration",
	"group":    "outside the group of the caller's key",
	"client":   "for other agents",
	"wire":     "does not speak the request's wire",
	"upstream": "the path names another one",
	"owner":    "the request is bound to the target above",
}

// rests say what holds a target of the plan off, where the router's word for it does not.
var rests = map[string]string{
	"operator": "cooled by hand",
	"probing":  "another request is finding out whether it is well",
	"full":     "at its max_concurrent",
	"ejected":  "its health checks fail",
}

// explanation draws the plan.
func (p painter) explanation(x *router.Explanation) {
	p.line(bold, "%s", strings.Join(headline(x), " · "))
	rows := [][]cell{{
		{text: "#", colour: dim, right: true},
		{text: "UPSTREAM", colour: dim},
		{text: "MODEL", colour: dim},
		{text: "MAY BE TRIED", colour: dim},
		{text: "WHY", colour: dim},
		{text: "BACK IN", colour: dim},
	}}
	for i := range x.Plan {
		rows = append(rows, planRow(i+1, &x.Plan[i]))
	}
	p.table(rows)
}

// headline tells what the request is and how it was decided.
func headline(x *router.Explanation) []string {
	facts := []string{"model " + x.Model, "wire " + x.Wire, "strategy " + x.Strategy, "decision " + x.Decision}
	if x.Client != "" {
		facts = append(facts, "client "+x.Client)
	}
	s := &x.Session
	if s.Source == "" {
		return append(facts, "no session ("+s.Kind+")")
	}
	session := "session " + s.Hash + " from " + s.Source
	if s.Agent != "" {
		session += ", agent " + s.Agent
	}
	return append(facts, session+" ("+s.Kind+")")
}

// planRow is one target: its place, unless it is out of the question, and why.
func planRow(place int, s *router.ExplainedStep) []cell {
	at, may, colour, back, why := fmt.Sprint(place), "yes", green, "", s.Reason
	text, barred := never[s.Reason]
	switch {
	case s.Eligible:
		if text = places[s.Reason]; text != "" {
			why = text
		}
	case barred:
		at, may, colour, why = "-", "no", dim, text
	default:
		may, colour = "not now", yellow
		if text = rests[s.Reason]; text != "" {
			why = text
		}
	}
	if s.RetryInMS > 0 {
		back = duration(time.Duration(s.RetryInMS) * time.Millisecond)
	}
	if s.Score != nil {
		why += fmt.Sprintf(", score %.2f", *s.Score)
	}
	return []cell{{text: at, right: true}, {text: s.Upstream}, {text: s.Model}, {text: may, colour: colour}, {text: why}, {text: back}}
}
