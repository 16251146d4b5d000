package ledger

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"
)

// sumNames are the columns of Sums in CSV, as in JSON.
var sumNames = []string{
	"requests", "input_tokens", "uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens",
	"cost_usd", "failed_cost_usd", "savings_usd", "off_peak_savings_usd", "unreported",
}

// requestNames are the columns of a request in CSV, as in JSON.
var requestNames = []string{
	"at", "call", "trace_id", "key", "agent", "sub_agent", "session", "wire", "model", "upstream", "upstream_model", "decision", "outcome", "error_class",
	"status", "attempts", "stream", "duration_ms", "first_chunk_ms", "uncached_input_tokens", "cache_read_tokens", "cache_write_tokens",
	"cache_write_1h_tokens", "output_tokens", "reasoning_tokens", "cost_usd", "cost_source", "savings_usd", "off_peak_savings_usd", "request",
}

// CSV writes the groups or the requests, with a line of names first. What nobody reported is empty. A text that a
// spreadsheet would take for a formula has an apostrophe before it: ids come from clients.
func (a *Answer) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	if len(a.GroupBy) > 0 {
		_ = out.Write(append(append([]string{}, a.GroupBy...), sumNames...)) // Error tells
		for i := range a.Groups {
			_ = out.Write(a.Groups[i].fields(a.GroupBy))
		}
	} else {
		_ = out.Write(requestNames)
		for i := range a.Requests {
			_ = out.Write(a.Requests[i].fields())
		}
	}
	out.Flush()
	return out.Error()
}

func (g *Group) fields(by []string) (line []string) {
	for _, name := range by {
		line = append(line, harmless(g.Key[name]))
	}
	return append(line,
		integer(&g.Requests), integer(&g.Input), integer(&g.Uncached), integer(&g.CacheRead), integer(&g.CacheWrite), integer(&g.Output), integer(&g.Reasoning),
		decimal(&g.Cost), decimal(&g.FailedCost), decimal(&g.Savings), decimal(&g.OffPeakSavings), integer(&g.Unreported))
}

func (r *Request) fields() (line []string) {
	line = append(line, r.At.Format(time.RFC3339Nano))
	for _, text := range []string{
		r.Call, r.TraceID, r.Key, r.Agent, r.SubAgent, r.Session, r.Wire, r.Model, r.Upstream, r.UpstreamModel, r.Decision, r.Outcome, r.ErrorClass,
	} {
		line = append(line, harmless(text))
	}
	return append(line,
		integer(&r.Status), integer(&r.Attempts), strconv.FormatBool(r.Stream), decimal(&r.DurationMS), decimal(r.FirstChunkMS),
		integer(r.Uncached), integer(r.CacheRead), integer(r.CacheWrite), integer(r.CacheWrite1h), integer(r.Output), integer(r.Reasoning),
		decimal(r.Cost), r.CostSource, decimal(r.Savings), decimal(r.OffPeakSavings), strconv.FormatBool(r.Request))
}

func integer(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func decimal(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'f', -1, 64)
}

func harmless(text string) string {
	if text == "" {
		return text
	}
	switch text[0] {
	case '=', '+', '-', '@', '\t', '\r':
		return "'" + text
	}
	return text
}
