// Package ledger keeps what each request used and cost, in a store, and answers questions about it. It must not know how a
// request is routed, nor which database the store is.
package ledger

import (
	"time"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// Row is one request of a client, refused ones included. A request that was given up on by an upstream which reports what
// that had used has a row of its own for it (Extra), so that sums of tokens and money are those of the metrics.
type Row struct {
	At            time.Time // when it ended
	Call          string    // call id
	TraceID       string    // 32 hex digits, empty without tracing
	Key           string    // name of the caller's key
	Agent         string    // type of the agent, by the configuration's client rules
	SubAgent      string    // id of the sub-agent, by its client
	Session       string    // 8 hex digits, see HashSession
	Wire          string    // of the client
	Model         string    // configured id or pattern
	Upstream      string    // that served, or that was tried last
	UpstreamModel string
	Decision      string        // why the first target tried was chosen; empty in an extra row
	Outcome       string        // of the request; in an extra row failed_over
	ErrorClass    string        // empty when all went well
	Status        int           // what the client saw, 0 if it left before or in an extra row
	Attempts      int           // dispatches; in an extra row the number of this one
	Stream        bool          //
	Duration      time.Duration // of the request, in an extra row of the attempt
	FirstChunk    time.Duration // 0: there was no stream
	Usage         telemetry.Usage
	Cost          telemetry.Cost
	Free          bool // nothing was to be paid: no upstream was asked, it failed, or it counted tokens only
	Extra         bool // the row is of an attempt before the last one, and counts as no request
}

// The values of cost_source beside telemetry's reported and calculated.
const (
	CostUnreported = "unreported" // nobody said: the upstream told no usage, or the target has no price
	CostFree       = "none"       // see Row.Free
)

// costSource says where the cost comes from.
func (r *Row) costSource() string {
	switch {
	case r.Cost.Known:
		return r.Cost.Source
	case r.Free:
		return CostFree
	}
	return CostUnreported
}

// Columns are those of a row, in the order of Values, with types that SQLite and PostgreSQL both have. Times are
// microseconds of Unix time in UTC, spans are microseconds, and what nobody reported is NULL, never 0.
var Columns = []struct{ Name, Type string }{
	{"at", "BIGINT NOT NULL"},
	{"call", "TEXT NOT NULL"},
	{"trace_id", "TEXT NOT NULL"},
	{"key_name", "TEXT NOT NULL"},
	{"agent", "TEXT NOT NULL"},
	{"sub_agent", "TEXT NOT NULL"},
	{"session", "TEXT NOT NULL"},
	{"wire", "TEXT NOT NULL"},
	{"model", "TEXT NOT NULL"},
	{"upstream", "TEXT NOT NULL"},
	{"upstream_model", "TEXT NOT NULL"},
	{"decision", "TEXT NOT NULL"},
	{"outcome", "TEXT NOT NULL"},
	{"error_class", "TEXT NOT NULL"},
	{"status", "BIGINT NOT NULL"},
	{"attempts", "BIGINT NOT NULL"},
	{"stream", "BIGINT NOT NULL"},
	{"duration_us", "BIGINT NOT NULL"},
	{"first_chunk_us", "BIGINT"},
	{"uncached_input_tokens", "BIGINT"},
	{"cache_read_tokens", "BIGINT"},
	{"cache_write_tokens", "BIGINT"},
	{"cache_write_1h_tokens", "BIGINT"},
	{"output_tokens", "BIGINT"},
	{"reasoning_tokens", "BIGINT"},
	{"cost_usd", "DOUBLE PRECISION"},
	{"cost_source", "TEXT NOT NULL"},
	{"savings_usd", "DOUBLE PRECISION"},
	{"off_peak_savings_usd", "DOUBLE PRECISION"},
	{"request", "BIGINT NOT NULL"},
}

// Values appends the row's columns to dst: int64, float64, string or nil.
func (r *Row) Values(dst []any) []any {
	u, c := &r.Usage, &r.Cost
	return append(
		dst,
		r.At.UnixMicro(), r.Call, r.TraceID, r.Key, r.Agent, r.SubAgent, r.Session, r.Wire, r.Model, r.Upstream, r.UpstreamModel, r.Decision,
		r.Outcome, r.ErrorClass, int64(r.Status), int64(r.Attempts), number(r.Stream), r.Duration.Microseconds(),
		known(r.FirstChunk.Microseconds(), r.FirstChunk > 0), count(u.Input), count(u.CacheRead), count(u.TotalCacheWrite()), count(u.CacheWrite1h),
		count(u.Output), count(u.Reasoning), known(c.USD, c.Known), r.costSource(), known(c.Savings, c.Known), known(c.OffPeak, c.Known), number(!r.Extra),
	)
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func count(tokens int64) any { return known(tokens, tokens >= 0) }

// known is v, or NULL.
func known[T any](v T, ok bool) any {
	if !ok {
		return nil
	}
	return v
}
