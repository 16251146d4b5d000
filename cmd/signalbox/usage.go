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
	if s.by != byRequest {
		s.query.Set("group_by", s.by)
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

func (s *spending) flags(f *flag.FlagSet) {
	s.router.flags(f)
	f.StringVar(&s.db, "db", "", "read this SQLite `file` instead of asking a running router")
	f.StringVar(&s.config, "config", "", "read the store of this configuration `file` instead of asking a running router")
	f.StringVar(&s.by, "by", s.by, "one or two `names`, with a comma between, to group by, of "+strings.Join(ledger.Dimensions(), ", ")+"; or "+byRequest+", for single ones")
	f.IntVar(&s.limit, "limit", 0, "at most so `many` lines, 100 if not given and 1000 at most")
	f.StringVar(&s.format, "format", s.format, "`how`: table, json or csv")
	for name, does := range map[string]string{
		"since": "from this `time` (2026-11-30T08:00:00Z) or age (90m, 24h, 7d) on", "until": "before this `time` or age",
		"model": "only this configured `id`", "upstream": "only this `account`", "upstream-model": "only this `model` of an upstream",
		"key": "only the caller's key of this `name`", "agent": "only this `type` of agent", "session": "only this `session`: its hash or its full id",
		"call": "only the request with this call `id`", "outcome": "only requests that ended like this `word`: success, failed, ...",
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
		if err := config.Write(e.stderr, diags, file, isTerminal(e.stderr)); err != nil {
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
	newPainter(w).spent(a)
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
		notes = append(notes, grouped(t.Unreported)+" requests of unknown cost are not in it")
	}
	if a.Dropped > 0 {
		notes = append(notes, grouped(a.Dropped)+" rows were lost since the router started")
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
		rows = append(rows, row)
	}
	t := &a.Totals
	total := make([]cell, 6, len(head))
	total[0] = cell{text: "TOTAL of " + grouped(t.Requests), colour: bold}
	for _, text := range []string{"", grouped(t.Input), grouped(t.CacheRead), grouped(t.Output), usd(&t.Cost)} {
		total = append(total, cell{text: text, colour: bold, right: true})
	}
	return alignLast(append(rows, total))
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

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func orNone(n *int64) string {
	if n == nil {
		return "-"
	}
	return grouped(*n)
}

// usd is an amount with the digits that tell something.
func usd(f *float64) string {
	switch {
	case f == nil:
		return "-"
	case *f != 0 && *f < 1 && *f > -1:
		return fmt.Sprintf("$%.4f", *f)
	}
	whole, cents, _ := strings.Cut(fmt.Sprintf("%.2f", *f), ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return "$" + whole + "." + cents
	}
	return "$" + grouped(n) + "." + cents
}

// grouped writes a number with a comma at every thousand.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(text) - 3; i > start; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
