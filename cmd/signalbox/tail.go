package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/signalbox-llm/signalbox/cmd/internal/live"
	"github.com/signalbox-llm/signalbox/router/control"
)

// tail shows the requests of a running router, as serve does on its own terminal.
func tail(ctx context.Context, e env, args []string) error {
	t, err := newTail(e, args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return t.Run(ctx)
}

func newTail(e env, args []string) (*live.Tail, error) {
	from, most := newRemote(true), "infinity"
	if set := os.Getenv("ROUTER_TAIL_MAX_RECONNECTS"); set != "" {
		most = set
	}
	t := &live.Tail{History: 20}
	var urls []string
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") { // flags may stand behind the URL as well as before it
		urls, args = args[:1], args[1:]
	}
	rest, err := parse(e, "tail", args, func(f *flag.FlagSet) {
		from.flags(f)
		f.StringVar(&from.keyFile, "token-file", "", "the same as -key-file; the environment's ROUTER_API_KEY is read, too")
		f.StringVar(&most, "max-reconnects", most, "give up after so many vain `tries` in a row, else ROUTER_TAIL_MAX_RECONNECTS")
		f.IntVar(&t.History, "n", t.History, "show so many `requests` that have ended already")
	})
	if err != nil {
		return nil, err
	}
	switch urls = append(urls, rest...); len(urls) {
	case 0:
	case 1:
		from.url = urls[0]
	default:
		return nil, usageError{errors.New("one URL at most")}
	}
	if t.MaxReconnects, err = reconnects(most); err != nil || t.History < 0 {
		return nil, usageError{errors.New("-max-reconnects is a number or infinity, and -n a number")}
	}
	style := live.Style{Colours: colours(e.stdout)}
	t.Show = func(frames ...control.Frame) {
		for i := range frames {
			fmt.Fprintln(e.stdout, style.Line(&frames[i]))
		}
	}
	t.Say = func(text string) { fmt.Fprintln(e.stderr, live.Printable(text)) }
	t.Open = func(ctx context.Context, path, place string) (*http.Response, error) {
		return follow(ctx, from, path, place)
	}
	t.Final = func(err error) bool {
		_, ok := errors.AsType[refused](err)
		return ok
	}
	return t, nil
}

func reconnects(s string) (int, error) {
	if s == "infinity" {
		return -1, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err
}

// refused is an answer that will be the same at the next try.
type refused struct{ error }

// follow asks for a path of the control plane, from a place in its feed on.
func follow(ctx context.Context, from *remote, path, place string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(from.url, "/")+path, nil)
	if err != nil {
		return nil, refused{err}
	}
	key, err := from.key()
	if err != nil {
		return nil, refused{err}
	}
	if key == "" {
		key = os.Getenv("ROUTER_API_KEY")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if place != "" {
		req.Header.Set("Last-Event-ID", place)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, from.unreached(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // the status says enough
	err = from.refusal(resp.StatusCode, said)
	if resp.StatusCode >= 400 && resp.StatusCode <= 499 && resp.StatusCode != http.StatusTooManyRequests {
		err = refused{err}
	}
	return nil, err
}
