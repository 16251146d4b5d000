package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router"
)

// status shows how the accounts of a running router are, and who served the last requests.
func status(ctx context.Context, e env, args []string) error {
	r, recent, raw := newRemote(true), 10, false
	rest, err := parse(e, "status", args, func(f *flag.FlagSet) {
		r.flags(f)
		f.IntVar(&recent, "n", recent, "how many of the last requests are shown")
		f.BoolVar(&raw, "json", false, "print the answer as the router gives it")
	})
	if err != nil {
		return err
	}
	if len(rest) > 0 || recent < 0 {
		return usageError{errors.New("it takes no arguments but flags")}
	}
	answer, err := r.ask(ctx, http.MethodGet, "/_router/status", nil)
	if err != nil {
		return err
	}
	if raw {
		_, err := fmt.Fprintf(e.stdout, "%s\n", strings.TrimSpace(string(answer)))
		return err
	}
	var s router.Status
	if err := json.Unmarshal(answer, &s); err != nil {
		return fmt.Errorf("the answer is not what a Signalbox gives: %w", err)
	}
	p := newPainter(e.stdout)
	p.line(bold, "since %s · configuration %d · %d in flight · %d queued", s.StartedAt.Local().Format(time.DateTime), s.ConfigRevision, s.InFlight, s.Queued)
	p.accounts(s.Upstreams)
	if s.Recent = s.Recent[:min(recent, len(s.Recent))]; len(s.Recent) > 0 {
		p.line(plain, "")
		p.requests(s.Recent)
	}
	return nil
}

// stateColours tell states from afar.
var stateColours = map[string]colour{"healthy": green, "cooling": yellow, "probing": cyan, "ejected": red, "disabled": dim}

// accounts draws each upstream with its targets below it.
func (p painter) accounts(all []router.UpstreamStatus) {
	rows := [][]cell{headings("UPSTREAM", "STATE", "REASON", "BACK IN", "IN FLIGHT", "LAST ERROR")}
	for _, u := range all {
		last := ""
		if e := u.LastError; e != nil {
			last = e.At.Local().Format(time.TimeOnly) + " " + e.Type
		}
		rows = append(rows, []cell{
			{text: u.Name, colour: bold},
			stateCell(u.State, u.ProbeInFlight),
			{text: reasonText(u.Reason)},
			{text: backIn(u.RemainingMS)},
			{text: strconv.Itoa(u.InFlight), right: true},
			{text: last},
		})
		for _, t := range u.Targets {
			last := ""
			if t.Failures > 0 {
				last = "failures in a row: " + strconv.Itoa(t.Failures)
			}
			rows = append(rows, []cell{
				{text: "  " + t.Model}, stateCell(t.State, t.ProbeInFlight), {text: reasonText(t.Reason)}, {text: backIn(t.RemainingMS)}, {}, {text: last},
			})
		}
	}
	p.table(rows)
}

// whys say why the first target of a request was chosen.
var whys = map[string]string{
	"pinned": "the path named it", "sticky": "the conversation lives there", "cache": "it held the prompt cache", "strategy": "by the strategy",
	"failover": "others had failed", "passthrough": "passed on as it was", "none": "nobody could",
}

// whyText is the router's word for a decision, or a plainer one.
func whyText(decision string) string {
	if text := whys[decision]; text != "" {
		return text
	}
	return decision
}

// requests draws the newest requests first.
func (p painter) requests(all []router.Recent) {
	rows := [][]cell{headings("AT", "CALL", "MODEL", "SERVED BY", "STATUS", "ATTEMPTS", "TOOK", "WHY")}
	for _, q := range all {
		by, colour := "nobody", plain
		if q.Upstream != "" {
			by = place{q.Upstream, q.UpstreamModel}.String()
		}
		if q.Status < 200 || q.Status > 299 {
			colour = red
		}
		rows = append(rows, []cell{
			{text: q.At.Local().Format(time.TimeOnly)},
			{text: q.Call},
			{text: q.Model},
			{text: by},
			{text: strconv.Itoa(q.Status), colour: colour},
			{text: strconv.Itoa(q.Attempts), right: true},
			{text: duration(time.Duration(q.DurationMS * float64(time.Millisecond))), right: true},
			{text: whyText(q.Kind)},
		})
	}
	p.table(rows)
}

func stateCell(state string, probed bool) cell {
	c := cell{text: state, colour: stateColours[state]}
	if probed {
		c.text += ", being tried"
	}
	return c
}

// reasonText is the router's word for a reason, or a plainer one.
func reasonText(reason string) string {
	if reason == "operator" {
		return "by hand"
	}
	return strings.ReplaceAll(reason, "_", " ")
}

func backIn(ms int64) string {
	switch {
	case ms < 0:
		return "when uncooled"
	case ms == 0:
		return ""
	}
	return duration(time.Duration(ms) * time.Millisecond)
}

func headings(names ...string) []cell {
	row := make([]cell, len(names))
	for i, name := range names {
		row[i] = cell{text: name, colour: dim}
	}
	return row
}
