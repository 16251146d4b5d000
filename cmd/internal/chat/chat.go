// Package chat holds a conversation with the models of a running sidecar, as any client of it would; it must not know
// flags, the environment or how the sidecar routes.
package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Options say whom to talk to, and where to show it.
type Options struct {
	URL     string // of the sidecar; a path such as /backends/NAME may follow
	Key     string // empty: none is sent
	KeyFrom string // where Key was found, for those whose key is not accepted
	Version string // of this program, for the User-Agent

	Models []string // all are asked at once; empty: the only one that the sidecar has
	Wire   wire.Name
	System string
	Effort string // how hard the models should think, in the word of the wire; empty: they decide
	Max    int    // output tokens at most; 0: as the model has it
	Export string // file that the conversation is written to after each turn; empty: none

	In       io.Reader // the lines of Loop
	Out      io.Writer // what the models answer
	Notes    io.Writer // everything about it: thoughts, numbers, trouble
	Colours  bool      // of Notes, and of Out if that is a terminal
	Terminal bool      // whether Out is one: what could command it is left out then
	Width    int       // columns of that terminal; 0: unknown

	Now           func() time.Time
	Interruptible func(context.Context) (context.Context, context.CancelFunc) // until when an answer may be cancelled, and how
}

// Chat is one conversation. Close it.
type Chat struct {
	o       Options
	base    *url.URL
	wire    *wire.Wire
	talk    dialect
	http    *http.Client
	session string
	turns   []turn
	prices  map[string]price // by model; nil: not asked yet
}

// turn is a prompt and what every model that was asked made of it.
type turn struct {
	Prompt  string    `json:"prompt"`
	Answers []*Answer `json:"answers"`
}

// New begins a conversation.
func New(o Options) (*Chat, error) {
	base, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be read: %w", err)
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("%q is no URL such as http://127.0.0.1:4141", o.URL)
	}
	w := wire.ByName(o.Wire)
	if w == nil {
		var names []string
		for _, w := range wire.All {
			names = append(names, string(w.Name))
		}
		return nil, fmt.Errorf("there is no wire %q; there are %s", o.Wire, strings.Join(names, ", "))
	}
	return &Chat{
		o: o, base: base, wire: w, talk: dialects[o.Wire], session: rand.Text(),
		http: &http.Client{
			Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close closes the connections to the sidecar.
func (c *Chat) Close() { c.http.CloseIdleConnections() }

// Once asks one thing. It fails if any answer does.
func (c *Chat) Once(ctx context.Context, prompt string) error {
	if strings.TrimSpace(prompt) == "" {
		return errors.New("there is no prompt")
	}
	if err := c.choose(ctx); err != nil {
		return err
	}
	answers := c.ask(ctx, prompt)
	if c.o.Export != "" {
		if err := c.export(c.o.Export); err != nil {
			return err
		}
	}
	failed := 0
	for _, a := range answers {
		if a.err != nil {
			failed++
		}
	}
	switch {
	case failed == 0:
		return nil
	case len(answers) == 1:
		return answers[0].err
	}
	return fmt.Errorf("%d of %d answers failed", failed, len(answers))
}

// choose takes the only model there is if none was named.
func (c *Chat) choose(ctx context.Context) error {
	if len(c.o.Models) > 0 {
		return nil
	}
	ids, err := c.models(ctx)
	switch {
	case err != nil:
		return err
	case len(ids) == 1:
		c.o.Models = ids
		return nil
	}
	return fmt.Errorf("which model? There are: %s", strings.Join(ids, ", "))
}

// ask puts a prompt to all models at once, shows what they answer, and keeps it as a turn.
func (c *Chat) ask(ctx context.Context, prompt string) []*Answer {
	ctx, stop := c.o.Interruptible(ctx)
	defer stop()
	c.askPrices(ctx)
	models := c.o.Models
	answers := make([]*Answer, len(models))
	view := c.view(models)
	var asked sync.WaitGroup
	for i, model := range models {
		talk := append(c.history(model), message{"user", prompt})
		asked.Go(func() {
			a := c.stream(ctx, model, talk, func(p piece) { view.show(i, p) })
			answers[i] = a
			view.end(i, a)
		})
	}
	asked.Wait()
	if len(models) > 1 {
		c.compare(answers)
	}
	c.turns = append(c.turns, turn{prompt, answers})
	return answers
}

// message is one side's part of a turn; the role is user or assistant.
type message struct{ role, text string }

// history is the conversation as a model knows it: its own answers, and where it was not asked, the first one that there
// is. What nobody answered is left out, since roles have to alternate.
func (c *Chat) history(model string) (talk []message) {
	for _, t := range c.turns {
		said := ""
		for _, a := range t.Answers {
			if a.Text != "" && (said == "" || a.Model == model) {
				said = a.Text
			}
		}
		if said != "" {
			talk = append(talk, message{"user", t.Prompt}, message{"assistant", said})
		}
	}
	return talk
}

// reset forgets the conversation. What follows is another session to the sidecar.
func (c *Chat) reset() { c.turns, c.session = nil, rand.Text() }
