package ledger

import (
	"context"
	"time"
)

// Answer is what a store says to a question.
type Answer struct {
	Since     *time.Time `json:"since"` // null: from the first row on
	Until     time.Time  `json:"until"`
	GroupBy   []string   `json:"group_by,omitzero"`
	Totals    Sums       `json:"totals"`
	Groups    []Group    `json:"groups,omitzero"`    // the dearest first, then those of most requests
	Requests  []Request  `json:"requests,omitzero"`  // the newest first
	Truncated bool       `json:"truncated,omitzero"` // there are more groups or requests than the limit
	Dropped   int64      `json:"dropped_records"`    // lost since the process started
	Store     State      `json:"store"`
}

// Sums are those of some rows. USD are as far as they are known: Unreported says how many requests are not in them.
type Sums struct {
	Requests       int64   `json:"requests"`
	Input          int64   `json:"input_tokens"` // cached ones included, as in the metric
	Uncached       int64   `json:"uncached_input_tokens"`
	CacheRead      int64   `json:"cache_read_tokens"`
	CacheWrite     int64   `json:"cache_write_tokens"`
	Output         int64   `json:"output_tokens"` // reasoning included
	Reasoning      int64   `json:"reasoning_tokens"`
	Cost           float64 `json:"cost_usd"`
	FailedCost     float64 `json:"failed_cost_usd"`      // of Cost: attempts that failed, failed over or were left by the client
	Savings        float64 `json:"savings_usd"`          // that cached input would have cost more uncached
	OffPeakSavings float64 `json:"off_peak_savings_usd"` // that cheap hours have saved
	Unreported     int64   `json:"unreported"`           // requests of which nobody said what they cost
}

// Group is the sum of the rows that have the same key.
type Group struct {
	Key map[string]string `json:"key"` // by the names in group_by
	Sums
}

// Request is one row. Numbers that nobody reported are null.
type Request struct {
	At             time.Time `json:"at"`
	Call           string    `json:"call"`
	TraceID        string    `json:"trace_id"`
	Key            string    `json:"key"`
	Agent          string    `json:"agent"`
	SubAgent       string    `json:"sub_agent"`
	Session        string    `json:"session"`
	Wire           string    `json:"wire"`
	Model          string    `json:"model"`
	Upstream       string    `json:"upstream"`
	UpstreamModel  string    `json:"upstream_model"`
	Decision       string    `json:"decision"`
	Outcome        string    `json:"outcome"`
	ErrorClass     string    `json:"error_class"`
	Status         int64     `json:"status"`
	Attempts       int64     `json:"attempts"`
	Stream         bool      `json:"stream"`
	DurationMS     float64   `json:"duration_ms"`
	FirstChunkMS   *float64  `json:"first_chunk_ms"`
	Uncached       *int64    `json:"uncached_input_tokens"`
	CacheRead      *int64    `json:"cache_read_tokens"`
	CacheWrite     *int64    `json:"cache_write_tokens"`
	CacheWrite1h   *int64    `json:"cache_write_1h_tokens"`
	Output         *int64    `json:"output_tokens"`
	Reasoning      *int64    `json:"reasoning_tokens"`
	Cost           *float64  `json:"cost_usd"`
	CostSource     string    `json:"cost_source"`
	Savings        *float64  `json:"savings_usd"`
	OffPeakSavings *float64  `json:"off_peak_savings_usd"`
	Request        bool      `json:"request"` // false: an attempt before the last one of the request that has the same call
}

// State tells of the store itself.
type State struct {
	Kind    string `json:"kind"`
	Rows    int64  `json:"rows"`
	MaxRows int    `json:"max_rows"` // 0: all are kept
	Pruned  int64  `json:"pruned"`   // let go since the process started
	Size    int64  `json:"size_bytes"`
}

// Reader is a store that is only read.
type Reader interface {
	// Select runs a query, whose arguments stand as $1, $2 and so on, and calls each for every row of the result; scan is as
	// that of database/sql.
	Select(ctx context.Context, query string, args []any, each func(scan func(into ...any) error) error) error
	// Size is how many bytes the store takes.
	Size(ctx context.Context) (int64, error)
	// Kind is the name of the database.
	Kind() string
}

// Ask answers a question; what has come in the last moment may not be in the answer yet.
func (l *Ledger) Ask(ctx context.Context, q Question) (*Answer, error) {
	a, err := Ask(ctx, l.store, q)
	if err != nil {
		return nil, err
	}
	a.Dropped, a.Store.MaxRows, a.Store.Pruned = l.Dropped(), l.opts.MaxRows, l.pruned.Load()
	return a, nil
}

// Ask answers a question from a store that this process does not write to.
func Ask(ctx context.Context, r Reader, q Question) (*Answer, error) {
	a := &Answer{Until: q.Until, GroupBy: q.GroupBy, Store: State{Kind: r.Kind()}}
	if a.Until.IsZero() {
		a.Until = time.Now().UTC().Truncate(time.Microsecond)
	}
	if !q.Since.IsZero() {
		a.Since = new(q.Since.UTC())
	}
	where, args := q.where()
	err := r.Select(ctx, "SELECT "+sums+" FROM "+Table+where, args, func(scan func(...any) error) error {
		return scan(a.Totals.places()...)
	})
	if err != nil {
		return nil, err
	}
	list := q.requests
	if len(q.GroupBy) > 0 {
		list = q.groups
	}
	if err := list(ctx, r, a, where, args); err != nil {
		return nil, err
	}
	err = r.Select(ctx, "SELECT COUNT(*) FROM "+Table, nil, func(scan func(...any) error) error { return scan(&a.Store.Rows) })
	if err != nil {
		return nil, err
	}
	a.Store.Size, err = r.Size(ctx)
	return a, err
}
