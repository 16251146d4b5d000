package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router"
)

// cool takes an account or one of its models out of use.
func cool(ctx context.Context, e env, args []string) error {
	r, d := newRemote(true), time.Duration(0)
	rest, err := parse(e, "cool", args, func(f *flag.FlagSet) {
		r.flags(f)
		f.DurationVar(&d, "for", 0, "how long, such as 10m or 24h; without it until it is uncooled")
	})
	if err != nil {
		return err
	}
	if d < 0 || d > 0 && d < time.Millisecond {
		return usageError{errors.New("-for is at least 1ms; without it, it is until uncooled")}
	}
	at, err := placeOf(rest)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"id": at.upstream, "model": at.model, "action": "cool", "forMs": d.Milliseconds()})
	if err != nil {
		return err
	}
	if _, err := r.ask(ctx, http.MethodPost, "/admin/backend", body); err != nil {
		return err
	}
	until := "until it is uncooled"
	if d > 0 {
		until = "for " + duration(d)
	}
	_, err = fmt.Fprintf(e.stdout, "%s is out of use %s. To bring it back: signalbox uncool %s\n", at, until, at)
	return err
}

// uncool ends whatever holds an account or one of its models off.
func uncool(ctx context.Context, e env, args []string) error {
	r := newRemote(true)
	rest, err := parse(e, "uncool", args, r.flags)
	if err != nil {
		return err
	}
	at, err := placeOf(rest)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"id": at.upstream, "model": at.model, "action": "uncool"})
	if err != nil {
		return err
	}
	var done struct {
		Lifted int `json:"lifted"`
	}
	if err := r.read(ctx, http.MethodPost, "/admin/backend", body, &done); err != nil {
		return err
	}
	what := "nothing held it off"
	if done.Lifted > 0 {
		what = fmt.Sprintf("lifted: %d", done.Lifted)
	}
	_, err = fmt.Fprintf(e.stdout, "%s may be tried (%s). To take it out of use: signalbox cool %s\n", at, what, at)
	return err
}

// reset lifts everything that holds a request off, orders by hand included.
func reset(ctx context.Context, e env, args []string) error {
	r := newRemote(true)
	rest, err := parse(e, "reset", args, r.flags)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{errors.New("it lifts everything; for one upstream there is signalbox uncool UPSTREAM")}
	}
	var done struct {
		Lifted router.Lifted `json:"lifted"`
	}
	if err := r.read(ctx, http.MethodPost, "/admin/reset-health", []byte("{}"), &done); err != nil {
		return err
	}
	l := done.Lifted
	_, err = fmt.Fprintf(e.stdout, "Everything may be tried. Lifted: %d of accounts, %d of models, %d of sessions, %d by hand, %d ejected, %d pins.\n"+
		"What was held by hand has to be taken out again: signalbox cool UPSTREAM[/MODEL]\n", l.Accounts, l.Targets, l.Sessions, l.Manual, l.Ejected, l.Pins)
	return err
}

// place is an account, or with a model one of its targets.
type place struct{ upstream, model string }

func (p place) String() string {
	if p.model == "" {
		return p.upstream
	}
	return p.upstream + "/" + p.model
}

// placeOf reads UPSTREAM[/MODEL]. Models may have slashes in their names, upstreams have none.
func placeOf(args []string) (p place, err error) {
	if len(args) != 1 {
		return p, usageError{errors.New("one upstream is wanted")}
	}
	upstream, model, slash := strings.Cut(args[0], "/")
	if upstream == "" || slash && model == "" {
		return p, usageError{fmt.Errorf("%q is neither UPSTREAM nor UPSTREAM/MODEL", args[0])}
	}
	return place{upstream, model}, nil
}

// read asks and decodes the answer.
func (r *remote) read(ctx context.Context, method, path string, body []byte, into any) error {
	answer, err := r.ask(ctx, method, path, body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("the answer is not what a Signalbox gives: %w", err)
	}
	return nil
}
