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
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/ledger/postgres"
	"github.com/signalbox-llm/signalbox/router/ledger/sqlite"
)

// spending is what the command line of usage says.
type spending struct {
	router *remote
	db     string // a SQLite file instead of a running router
	config string // the store of this configuration instead
	by     string
	listed bool // by was given
	limit  int
	format string
	query  url.Values
}

// byRequest has single requests listed.
const byRequest = "request"

// showUsage tells what was used and what it cost: by a running router, or by its store.
func showUsage(ctx context.Context, e env, args []string) error {
	s := spending{router: newRemote(false), by: "model", format: "table", query: url.Values{}}
	rest, err := parse(e, "usage", args, s.flags)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("unexpected %q", rest[0])}
	}
	if !slices.Contains([]string{"table", "json", "csv"}, s.format) {
		return usageError{errors.New("-format is table, json or csv")}
	}
	if s.db != "" && s.config != "" {
		return usageError{errors.New("-db or -config, not both")}
	}
	if s.one() {
		s.by = byRequest
	}
	if s.by != byRequest {
		s.query.Set("group_by", s.by)
	}
	if s.limit > ledger.LimitMax {
		return usageError{fmt.Errorf("-limit is %d at most", ledger.LimitMax)}
	}
	if s.limit != 0 {
		s.query.Set("limit", strconv.Itoa(s.limit))
	}
	answer, err := s.ask(ctx, e)
	if err != nil {
		return err
	}
	return s.show(e.stdout, answer)
}

// one reports whether a single request is wanted, in full.
func (s *spending) one() bool { return s.query.Has("call") && !s.listed }

func (s *spending) flags(f *flag.FlagSet) {
	s.router.flags(f)
	f.StringVar(&s.db, "db", "", "read this SQLite `file` instead of asking a running router")
	f.StringVar(&s.config, "config", "", "read the store of this configuration `file` instead of asking a running router")
	f.Func("by", "one or two `names`, with a comma between, to group by, of "+strings.Join(ledger.Dimensions(), ", ")+"; or "+byRequest+
		", for single ones (default model)", func(names string) error {
		s.by, s.listed = names, true
		return nil
	})
	f.IntVar(&s.limit, "limit", 0, "at most so `many` lines, 100 if not given and 1000 at most")
	f.StringVar(&s.format, "format", s.format, "`how`: table, json or csv")
	for name, does := range map[string]string{
		"since": "from this `time` (2026-11-30T08:00:00Z), day (2026-11-30, today; UTC) or age (90m, 24h, 7d) on", "until": "before this `time`, day or age",
		"model": "only this configured `id`", "upstream": "only this `account`", "upstream-model": "only this `model` of an upstream",
		"key": "only the caller's key of this `name`", "agent": "only this `type` of agent", "session": "only this `session`: its hash or its full id",
		"call": "only the request with this call `id`; without -by all that is known of it", "outcome": "only requests that ended like this `word`: success, failed, ...",
		"cost-source": "only costs from this `source`: reported, calculated, unreported, none", "wire": "only this `wire` of the client",
	} {
		f.Func(name, does, func(value string) error {
			s.query.Set(strings.ReplaceAll(name, "-", "_"), value)
			return nil
		})
	}
}

// ask puts the question where the flags say.
func (s *spending) ask(ctx context.Context, e env) (*ledger.Answer, error) {
	q, err := ledger.ParseQuestion(s.query, time.Now())
	if err != nil {
		return nil, usageError{err}
	}
	if s.db == "" && s.config == "" {
		raw, err := s.router.ask(ctx, http.MethodGet, "/usage?"+s.query.Encode(), nil)
		if err != nil {
			return nil, err
		}
		var a ledger.Answer
		if err := json.Unmarshal(raw, &a); err != nil {
			return nil, fmt.Errorf("the answer is none to this question: %w", err)
		}
		return &a, nil
	}
	store, err := s.open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return ledger.Ask(ctx, store, q)
}

// openStore is a store to read.
type openStore interface {
	ledger.Reader
	io.Closer
}

func (s *spending) open(ctx context.Context, e env) (openStore, error) {
	if s.db != "" {
		return sqlite.OpenReadOnly(ctx, s.db)
	}
	file, diags := config.Load(s.config)
	if diags.HasErrors() {
		if err := config.Write(e.stderr, diags, file, colours(e.stderr)); err != nil {
			return nil, err
		}
		return nil, errSaid
	}
	u := file.Config.Usage
	switch {
	case u == nil:
		return nil, fmt.Errorf("%s has no usage block: nothing is kept", s.config)
	case !u.URL.IsZero():
		return postgres.Open(ctx, u.URL.Reveal(), "", slog.New(slog.NewTextHandler(e.stderr, nil)))
	}
	return sqlite.OpenReadOnly(ctx, u.Path)
}

func (s *spending) show(w io.Writer, a *ledger.Answer) error {
	switch s.format {
	case "csv":
		return a.CSV(w)
	case "json":
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetIndent("", "  ")
		if err := enc.Encode(a); err != nil {
			return err
		}
		_, err := b.WriteTo(w)
		return err
	}
	p := newPainter(w)
	if !s.one() {
		p.spent(a)
		return nil
	}
	if len(a.Requests) == 0 {
		return fmt.Errorf("no request with the call %s is kept", s.query.Get("call"))
	}
	for i := range a.Requests {
		p.request(&a.Requests[i])
	}
	return nil
}

// spent draws an answer: what was asked, the lines, the sum, and what is missing in it.
func (p painter) spent(a *ledger.Answer) {
	since := "the first row"
	if a.Since != nil {
		since = a.Since.Format(time.DateTime)
	}
	p.line(bold, "usage from %s to %s UTC", since, a.Until.UTC().Format(time.DateTime))
	if len(a.GroupBy) > 0 {
		p.table(groupRows(a))
	} else {
		p.table(requestRows(a))
	}
	t := &a.Totals
	var notes []string
	if a.Truncated {
		notes = append(notes, "there are more lines than the limit, and TOTAL counts them all")
	}
	if t.FailedCost > 0 {
		notes = append(notes, usd(&t.FailedCost)+" of it for attempts that failed, failed over or were left by the client")
	}
	if t.OffPeakSavings > 0 {
		notes = append(notes, usd(&t.OffPeakSavings)+" saved by cheap hours")
	}
	if t.Unreported > 0 {
		notes = append(notes, counted(t.Unreported, "request of unknown cost is", "requests of unknown cost are")+" not in it")
	}
	if a.Dropped > 0 {
		notes = append(notes, counted(a.Dropped, "row was", "rows were")+" lost since the router started")
	}
	for _, n := range notes {
		p.line(dim, "%s", n)
	}
}

// groupRows are the lines of groups, with the total last.
func groupRows(a *ledger.Answer) [][]cell {
	var head []cell
	for _, name := range a.GroupBy {
		head = append(head, cell{text: strings.ToUpper(strings.ReplaceAll(name, "_", " ")), colour: dim})
	}
	for _, name := range []string{"REQUESTS", "INPUT", "OF IT CACHED", "OUTPUT", "CACHE SAVED", "COST"} {
		head = append(head, cell{text: name, colour: dim, right: true})
	}
	line := func(names []string, s *ledger.Sums, c colour) (row []cell) {
		for _, name := range names {
			row = append(row, cell{text: name, colour: c})
		}
		for _, text := range []string{grouped(s.Requests), grouped(s.Input), grouped(s.CacheRead), grouped(s.Output), usd(&s.Savings), usd(&s.Cost)} {
			row = append(row, cell{text: text, colour: c, right: true})
		}
		return row
	}
	rows := [][]cell{head}
	for i := range a.Groups {
		var names []string
		for _, by := range a.GroupBy {
			names = append(names, orDash(a.Groups[i].Key[by]))
		}
		rows = append(rows, line(names, &a.Groups[i].Sums, plain))
	}
	total := make([]string, len(a.GroupBy))
	total[0] = "TOTAL"
	return alignLast(append(rows, line(total, &a.Totals, bold)))
}

// requestRows are the lines of single requests.
func requestRows(a *ledger.Answer) [][]cell {
	var head []cell
	for i, name := range []string{"TIME (UTC)", "CALL", "SESSION", "MODEL", "UPSTREAM", "OUTCOME", "TOOK", "INPUT", "OF IT CACHED", "OUTPUT", "COST"} {
		head = append(head, cell{text: name, colour: dim, right: i > 5})
	}
	head = append(head, cell{text: "WHY", colour: dim})
	rows := [][]cell{head}
	for i := range a.Requests {
		r := &a.Requests[i]
		var row []cell
		for _, text := range []string{r.At.UTC().Format(time.DateTime), r.Call, orDash(r.Session), r.Model, orDash(r.Upstream), r.Outcome} {
			row = append(row, cell{text: text})
		}
		took := duration(time.Duration(r.DurationMS * float64(time.Millisecond)))
		for _, text := range []string{took, orNone(inputOf(r)), orNone(r.CacheRead), orNone(r.Output), usd(r.Cost)} {
			row = append(row, cell{text: text, right: true})
		}
		rows = append(rows, append(row, cell{text: whyOf(r)}))
	}
	t := &a.Totals
	total := make([]cell, 6, len(head))
	total[0] = cell{text: "TOTAL of " + grouped(t.Requests), colour: bold}
	for _, text := range []string{"", grouped(t.Input), grouped(t.CacheRead), grouped(t.Output), usd(&t.Cost)} {
		total = append(total, cell{text: text, colour: bold, right: true})
	}
	return append(rows, append(total, cell{}))
}

// whyOf says why the first target of a request was chosen, and what went wrong with it.
func whyOf(r *ledger.Request) string {
	var said []string
	if !r.Request {
		said = append(said, fmt.Sprintf("attempt %d of the request", r.Attempts))
	}
	for _, text := range []string{whyText(r.Decision), r.ErrorClass} {
		if text != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, ", ")
}

// request draws all that is known of one request, or of an attempt before its last.
func (p painter) request(r *ledger.Request) {
	title := "call " + r.Call
	if !r.Request {
		title += fmt.Sprintf(", attempt %d, which was not the last", r.Attempts)
	}
	p.line(bold, "%s", title)
	var rows [][]cell
	for _, fact := range slices.Concat(courseOf(r), spentOn(r)) {
		if fact[1] != "" {
			rows = append(rows, []cell{{text: fact[0], colour: dim}, {text: fact[1]}})
		}
	}
	p.table(rows)
}

// courseOf tells who served a request, why, and how it went.
func courseOf(r *ledger.Request) [][2]string {
	ms := func(f float64) string { return duration(time.Duration(f * float64(time.Millisecond))) }
	who, by := "served by", "nobody"
	if r.Upstream != "" {
		by = place{r.Upstream, r.UpstreamModel}.String()
	}
	switch {
	case !r.Request:
		who = "asked"
	case r.ErrorClass != "" && r.Upstream != "":
		who = "asked last"
	}
	model := r.Model + " (wire " + r.Wire
	if r.Stream {
		model += ", streamed"
	}
	took, outcome, attempts := ms(r.DurationMS), r.Outcome, ""
	if r.FirstChunkMS != nil {
		took += ", the first chunk after " + ms(*r.FirstChunkMS)
	}
	if r.Status != 0 {
		outcome += fmt.Sprintf(", status %d", r.Status)
	}
	if r.Request {
		attempts = strconv.FormatInt(r.Attempts, 10)
	}
	return [][2]string{
		{"ended at", r.At.UTC().Format(time.DateTime) + " UTC"},
		{"model", model + ")"},
		{who, by},
		{"why", whyText(r.Decision)},
		{"outcome", outcome},
		{"error", r.ErrorClass},
		{"attempts", attempts},
		{"took", took},
		{"key", r.Key},
		{"agent", r.Agent},
		{"sub-agent", r.SubAgent},
		{"session", r.Session},
		{"trace", r.TraceID},
	}
}

// spentOn tells what a request used and cost, as far as it is known.
func spentOn(r *ledger.Request) [][2]string {
	cost := r.CostSource
	if r.Cost != nil {
		cost = usd(r.Cost) + " (" + cost + ")"
	}
	return [][2]string{
		{"input tokens", amount(inputOf(r))},
		{"of it cached", amount(r.CacheRead)},
		{"of it written", amount(r.CacheWrite)},
		{"output tokens", amount(r.Output)},
		{"of it reasoning", amount(r.Reasoning)},
		{"cost", cost},
		{"cache saved", money(r.Savings)},
		{"cheap hours saved", money(r.OffPeakSavings)},
	}
}

// inputOf is the whole input, nil if nobody told any of it.
func inputOf(r *ledger.Request) *int64 {
	var sum *int64
	for _, n := range []*int64{r.Uncached, r.CacheRead, r.CacheWrite} {
		switch {
		case n == nil:
		case sum == nil:
			sum = new(*n)
		default:
			*sum += *n
		}
	}
	return sum
}

// alignLast pads the last column, which a table leaves as it is.
func alignLast(rows [][]cell) [][]cell {
	for i := range rows {
		rows[i] = append(rows[i], cell{})
	}
	return rows
}
