package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// checks run in this order: the last one leaves an account dead.
func (t *test) checks(ctx context.Context, w io.Writer) error {
	for _, c := range []struct {
		what string
		run  func(context.Context) error
	}{
		{"a stream arrives byte for byte in every wire, and no key where it does not belong", t.streams},
		{fmt.Sprintf("%d requests in flight are spread evenly over %d backends", 2*len(t.backends), len(t.backends)), t.spread},
		{"who has no key gets 401", t.locked},
		{"a backend that is killed in the middle of a request is replaced", t.failover},
	} {
		begun := time.Now()
		if err := c.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		fmt.Fprintf(w, "ok  %s (%d ms)\n", c.what, time.Since(begun).Milliseconds())
	}
	return nil
}

// request asks a model for a stream, with its usage, which the router otherwise takes out of chat streams.
func request(wire, model string) routertest.Request {
	r := routertest.NewRequest(wire, model, true).With("Authorization", "Bearer "+clientKey)
	if wire == routertest.Chat {
		r = r.Field("stream_options", `{"include_usage":true}`)
	}
	return r
}

// streams compares what clients get with what the account sent.
func (t *test) streams(ctx context.Context) error {
	reply := routertest.Good("one streamed message, with ünicode", routertest.Usage{Input: 12, CacheRead: 30, Output: 5})
	for _, b := range t.backends {
		b.Script(reply)
	}
	for _, wire := range routertest.Wires {
		before := len(t.backends[0].Calls())
		got := t.client.Send(ctx, request(wire, "order"))
		calls := t.backends[0].Calls()[before:]
		if got.Err != nil || got.Status != http.StatusOK || len(calls) != 1 {
			return fmt.Errorf("%s: status %d after %d calls, %s\n%s", wire, got.Status, len(calls), end(got), got.Body)
		}
		if sent := calls[0].Sent(); got.Body != sent || sent == "" {
			return fmt.Errorf("%s: sent\n%s\nand received\n%s", wire, sent, got.Body)
		}
		if err := credentials(calls[0]); err != nil {
			return fmt.Errorf("%s: %w", wire, err)
		}
	}
	return nil
}

// credentials looks for keys in a call: the account's own once, nobody else's.
func credentials(c *routertest.Call) error {
	var header strings.Builder
	if err := c.Header.Write(&header); err != nil {
		return err
	}
	if n := strings.Count(header.String(), upstreamKey); n != 1 {
		return fmt.Errorf("the account's key stands %d times in the headers", n)
	}
	all := header.String() + c.Path + c.Query + string(c.Body)
	for _, key := range []string{clientKey, adminKey} {
		if strings.Contains(all, key) {
			return errors.New("a key of the sidecar's reaches an account")
		}
	}
	return nil
}

// spread holds two requests for each account, and counts where they are.
func (t *test) spread(ctx context.Context) error {
	gate := make(chan struct{})
	open := sync.OnceFunc(func() { close(gate) })
	var asked sync.WaitGroup
	defer asked.Wait()
	defer open()
	var before []int
	for _, b := range t.backends {
		b.Script(routertest.Good("held", routertest.Usage{}).Hold(0, gate))
		before = append(before, len(b.Calls()))
	}
	counts := func() (n []int) {
		for i, b := range t.backends {
			n = append(n, len(b.Calls())-before[i])
		}
		return n
	}
	total := 2 * len(t.backends)
	results := make([]routertest.Result, total)
	for i := range total {
		asked.Go(func() { results[i] = t.client.Send(ctx, request(routertest.Chat, "spread")) })
		if err := until(ctx, func() bool { return sum(counts()) == i+1 }); err != nil {
			return fmt.Errorf("request %d does not arrive: %w", i, err)
		}
	}
	if n := counts(); slices.ContainsFunc(n, func(n int) bool { return n != 2 }) {
		return fmt.Errorf("they are at %v", n)
	}
	s, err := t.status(ctx)
	if err != nil {
		return err
	}
	if s.InFlight != total {
		return fmt.Errorf("the status tells of %d", s.InFlight)
	}
	for _, u := range s.Upstreams {
		if u.InFlight != 2 {
			return fmt.Errorf("the status tells of %d at %s", u.InFlight, u.Name)
		}
	}
	open()
	asked.Wait()
	for _, r := range results {
		if r.Err != nil || r.Status != http.StatusOK || r.Text() != "held" {
			return fmt.Errorf("one has status %d, %s", r.Status, end(r))
		}
	}
	return nil
}

func (t *test) locked(ctx context.Context) error {
	for _, key := range []string{"", "Bearer " + upstreamKey} {
		if got := t.client.Send(ctx, request(routertest.Messages, "order").With("Authorization", key)); got.Status != http.StatusUnauthorized {
			return fmt.Errorf("the status is %d", got.Status)
		}
	}
	return nil
}

// failover kills the first account while it owes an answer.
func (t *test) failover(ctx context.Context) error {
	first, never := t.backends[0], make(chan struct{})
	defer close(never)
	n := len(first.Calls())
	first.Script(routertest.Good("never", routertest.Usage{}).HoldStatus(never))
	for _, b := range t.backends[1:] {
		b.Script(routertest.Good("from another", routertest.Usage{}))
	}
	answer := make(chan routertest.Result, 1)
	go func() { answer <- t.client.Send(ctx, request(routertest.Messages, "order")) }()
	call := first.Await(n)
	first.Close()
	got := <-answer
	if call == nil {
		return errors.New("the first backend was not asked")
	}
	if err := served(got, name(1), "2"); err != nil {
		return err
	}
	if err := served(t.client.Send(ctx, request(routertest.Messages, "order")), name(1), ""); err != nil {
		return fmt.Errorf("after it: %w", err)
	}
	s, err := t.status(ctx)
	if err != nil {
		return err
	}
	if u := s.Upstreams[0]; u.LastError == nil {
		return fmt.Errorf("the status does not tell of it: %s is %s", u.Name, u.State)
	}
	return nil
}

// served checks who answered, and with which attempt if that is told.
func served(r routertest.Result, upstream, attempts string) error {
	by, n := r.Header.Get("X-Router-Upstream"), r.Header.Get("X-Router-Attempts")
	if r.Err != nil || r.Status != http.StatusOK || r.Text() != "from another" || by != upstream || attempts != "" && n != attempts {
		return fmt.Errorf("status %d from %q at attempt %s, %s\n%s", r.Status, by, n, end(r), r.Body)
	}
	return nil
}

// end says how an answer ended.
func end(r routertest.Result) string {
	if r.Err != nil {
		return "which broke: " + r.Err.Error()
	}
	return "which ended well"
}

// status is what /_router/status tells, as far as it is checked.
type status struct {
	InFlight  int `json:"in_flight"`
	Upstreams []struct {
		Name, State string
		InFlight    int             `json:"in_flight"`
		LastError   json.RawMessage `json:"last_error"`
	}
}

func (t *test) status(ctx context.Context) (s status, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.client.URL+"/_router/status", nil)
	if err != nil {
		return s, err
	}
	req.Header.Set("Authorization", "Bearer "+adminKey)
	client := http.Client{Timeout: routertest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		return s, fmt.Errorf("the status answers %s: %w", resp.Status, err)
	}
	if len(s.Upstreams) != len(t.backends) {
		return s, fmt.Errorf("the status answers %s with %d upstreams", resp.Status, len(s.Upstreams))
	}
	return s, nil
}

// until waits for what the sidecar brings about.
func until(ctx context.Context, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, routertest.Patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func sum(all []int) (n int) {
	for _, m := range all {
		n += m
	}
	return n
}
