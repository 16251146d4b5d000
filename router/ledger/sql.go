package ledger

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// Table is where the rows are; what else a database holds is not touched.
const Table = "signalbox_usage"

// pruneStep is how many rows one Append lets go at most, so that a much smaller max_rows does not stop the writer.
const pruneStep = 10_000

// Prune is the statement that lets the oldest rows go of those above the number that is its one argument. Ids grow
// without gaps as far as nothing else deletes rows.
var Prune = fmt.Sprintf("DELETE FROM %[1]s WHERE id <= (SELECT MAX(id) FROM %[1]s) - $1 AND id < (SELECT MIN(id) FROM %[1]s) + %[2]d", Table, pruneStep)

// Schema makes the table and the one index that questions need: almost all of them are about a span of time. id is the
// definition of the column that numbers the rows.
func Schema(id string, more ...string) []string {
	columns := append([]string{"id " + id}, more...)
	for _, c := range Columns {
		columns = append(columns, c.Name+" "+c.Type)
	}
	return []string{
		"CREATE TABLE " + Table + " (" + strings.Join(columns, ", ") + ")",
		"CREATE INDEX " + Table + "_at ON " + Table + " (at)",
	}
}

// ColumnNames are the names of Columns.
func ColumnNames() (names []string) {
	for _, c := range Columns {
		names = append(names, c.Name)
	}
	return names
}

// sums are the columns of Sums. PostgreSQL sums BIGINT up to NUMERIC, hence the casts.
var sums = strings.Join([]string{
	total("request"),
	total("COALESCE(uncached_input_tokens, 0) + COALESCE(cache_read_tokens, 0) + COALESCE(cache_write_tokens, 0)"),
	total("uncached_input_tokens"),
	total("cache_read_tokens"),
	total("cache_write_tokens"),
	total("output_tokens"),
	total("reasoning_tokens"),
	money("cost_usd"),
	money(fmt.Sprintf("CASE WHEN outcome NOT IN ('%s', '%s') THEN cost_usd END", telemetry.OutcomeSuccess, telemetry.OutcomeSuccessAfterFailover)),
	money("savings_usd"),
	money("CASE WHEN off_peak_savings_usd > 0 THEN off_peak_savings_usd END"), // as the metric, which cannot count down
	total("CASE WHEN cost_source = '" + CostUnreported + "' THEN request END"),
}, ", ")

func total(expr string) string { return "CAST(COALESCE(SUM(" + expr + "), 0) AS BIGINT)" }

func money(expr string) string { return "COALESCE(SUM(" + expr + "), 0.0)" }

// places are where sums go.
func (s *Sums) places() []any {
	return []any{
		&s.Requests, &s.Input, &s.Uncached, &s.CacheRead, &s.CacheWrite, &s.Output, &s.Reasoning,
		&s.Cost, &s.FailedCost, &s.Savings, &s.OffPeakSavings, &s.Unreported,
	}
}

// where are the conditions of a question; values are arguments, never text of the query.
func (q *Question) where() (string, []any) {
	var conditions []string
	var args []any
	add := func(condition string, value any) {
		args = append(args, value)
		conditions = append(conditions, fmt.Sprintf("%s $%d", condition, len(args)))
	}
	if !q.Since.IsZero() {
		add("at >=", q.Since.UnixMicro())
	}
	if !q.Until.IsZero() {
		add("at <", q.Until.UnixMicro())
	}
	for _, f := range q.Filters {
		add(column(f.Name)+" =", f.Value)
	}
	if len(conditions) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(conditions, " AND "), args
}

// groups sums up by the question's dimensions.
func (q *Question) groups(ctx context.Context, r Reader, a *Answer, where string, args []any) error {
	var by []dimension
	var exprs, places []string
	for i, name := range q.GroupBy {
		d := dimensionOf(name)
		by, exprs, places = append(by, d), append(exprs, d.expr), append(places, fmt.Sprint(i+1))
	}
	a.Groups = []Group{} // none is not null
	n, keys := len(by), strings.Join(places, ", ")
	query := fmt.Sprintf("SELECT %s, %s FROM %s%s GROUP BY %s ORDER BY %d DESC, %d DESC, %s LIMIT %d",
		strings.Join(exprs, ", "), sums, Table, where, keys, n+8, n+1, keys, q.Limit+1) // cost_usd and requests
	return r.Select(ctx, query, args, func(scan func(...any) error) error {
		if len(a.Groups) == q.Limit {
			a.Truncated = true
			return nil
		}
		g, into := Group{Key: map[string]string{}}, make([]any, 0, n+12)
		texts, times := make([]string, n), make([]int64, n)
		for i, d := range by {
			if d.period > 0 {
				into = append(into, &times[i])
			} else {
				into = append(into, &texts[i])
			}
		}
		if err := scan(append(into, g.places()...)...); err != nil {
			return err
		}
		for i, d := range by {
			g.Key[d.name] = texts[i]
			if d.period > 0 {
				g.Key[d.name] = time.Unix(times[i]*int64(d.period/time.Second), 0).UTC().Format(d.layout)
			}
		}
		a.Groups = append(a.Groups, g)
		return nil
	})
}

// requests lists single rows.
func (q *Question) requests(ctx context.Context, r Reader, a *Answer, where string, args []any) error {
	a.Requests = []Request{}
	query := fmt.Sprintf("SELECT %s FROM %s%s ORDER BY at DESC, id DESC LIMIT %d", strings.Join(ColumnNames(), ", "), Table, where, q.Limit+1)
	return r.Select(ctx, query, args, func(scan func(...any) error) error {
		if len(a.Requests) == q.Limit {
			a.Truncated = true
			return nil
		}
		var x Request
		var at, stream, duration, request int64
		var first *int64
		err := scan(&at, &x.Call, &x.TraceID, &x.Key, &x.Agent, &x.SubAgent, &x.Session, &x.Wire, &x.Model, &x.Upstream, &x.UpstreamModel, &x.Decision,
			&x.Outcome, &x.ErrorClass, &x.Status, &x.Attempts, &stream, &duration, &first, &x.Uncached, &x.CacheRead, &x.CacheWrite, &x.CacheWrite1h,
			&x.Output, &x.Reasoning, &x.Cost, &x.CostSource, &x.Savings, &x.OffPeakSavings, &request)
		if err != nil {
			return err
		}
		x.At, x.Stream, x.Request, x.DurationMS = time.UnixMicro(at).UTC(), stream == 1, request == 1, float64(duration)/1000
		if first != nil {
			x.FirstChunkMS = new(float64(*first) / 1000)
		}
		a.Requests = append(a.Requests, x)
		return nil
	})
}
