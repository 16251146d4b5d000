// Package ledgertest has what tests of the usage store share: rows, what every store must answer, and a PostgreSQL server
// of their own. It must not know which store it looks at.
package ledgertest

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// Epoch is when the first row ended.
var Epoch = time.Date(2030, 1, 2, 23, 30, 0, 0, time.UTC)

// Row is a usual request, number i of one a second.
func Row(i int) ledger.Row {
	return ledger.Row{
		At: Epoch.Add(time.Duration(i) * time.Second), Call: fmt.Sprintf("0123456789ab%04d", i), TraceID: "0123456789abcdef0123456789abcdef", Key: "alice",
		Agent: "claude-code", Session: "deadbeef", Wire: "anthropic-messages", Model: "sonnet", Upstream: "team", UpstreamModel: "claude-sonnet-4-5",
		Decision: telemetry.DecisionSticky, Outcome: telemetry.OutcomeSuccess, Status: 200, Attempts: 1, Stream: true,
		Duration: 1234567 * time.Microsecond, FirstChunk: 321 * time.Millisecond,
		Usage: telemetry.Usage{Input: 10, CacheRead: 20_000, CacheWrite: 512, CacheWrite5m: telemetry.Unknown, CacheWrite1h: telemetry.Unknown, Output: 321, Reasoning: telemetry.Unknown},
		Cost:  telemetry.Cost{Known: true, Source: telemetry.CostCalculated, USD: 0.25, Savings: 0.5, OffPeak: -0.125},
	}
}

// rows are a request that went well, one that cost nothing, one of unknown cost, one that failed over with its extra row,
// and one that its client left.
func rows() []ledger.Row {
	refused := ledger.Row{
		At: Epoch.Add(time.Minute), Call: "refused", Wire: "openai-chat", Model: "_other", Decision: telemetry.DecisionNone, Outcome: telemetry.OutcomeRejected,
		ErrorClass: telemetry.ClassModelUnknown, Status: 404, Usage: telemetry.NoUsage(), Free: true,
	}
	silent := Row(120)
	silent.Call, silent.Model, silent.Usage, silent.Cost, silent.Stream, silent.FirstChunk = "silent", "haiku", telemetry.NoUsage(), telemetry.Cost{}, false, 0
	lost := Row(1800) // the next day
	lost.Call, lost.Extra, lost.Outcome, lost.Decision, lost.Status, lost.Upstream = "moved", true, telemetry.AttemptFailedOver, "", 0, "spare"
	lost.Usage, lost.Cost.OffPeak, lost.Cost.Source = telemetry.Usage{Input: 7, CacheRead: -1, CacheWrite: -1, CacheWrite5m: 3, CacheWrite1h: 2, Output: 0, Reasoning: -1}, 1, telemetry.CostReported
	moved := Row(1801)
	moved.Call, moved.Outcome, moved.Attempts, moved.Session = "moved", telemetry.OutcomeSuccessAfterFailover, 2, ledger.HashSession("a conversation")
	left := Row(1802)
	left.Call, left.Outcome, left.Key = "left", telemetry.OutcomeCancelled, "bob\x00\xff'; DROP TABLE signalbox_usage; --"
	return []ledger.Row{Row(0), refused, silent, lost, moved, left}
}

// Check asks a store that is empty, and fills it.
func Check(t *testing.T, s ledger.Store) {
	t.Helper()
	if _, err := s.Append(t.Context(), rows(), 0); err != nil {
		t.Fatal(err)
	}
	ask := func(query string) *ledger.Answer {
		t.Helper()
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ledger.ParseQuestion(values, Epoch.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		a, err := ledger.Ask(t.Context(), s, q)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return a
	}
	all := ask("")
	want := ledger.Sums{
		Requests: 5, Input: 3*20_522 + 12, Uncached: 37, CacheRead: 60_000, CacheWrite: 3*512 + 5, Output: 3 * 321,
		Cost: 1, FailedCost: 0.5, Savings: 2, OffPeakSavings: 1, Unreported: 1,
	}
	if diff := cmp.Diff(want, all.Totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if all.Store.Rows != 6 || all.Store.Size <= 0 || all.Store.Kind != s.Kind() || all.Since != nil {
		t.Errorf("store %+v, since %v", all.Store, all.Since)
	}
	checkRequests(t, all.Requests)
	for query, want := range map[string]string{
		"group_by=model":                      "sonnet 3 1, haiku 1 0, _other 1 0",
		"group_by=day,outcome":                "2030-01-03 success_after_failover 1 0.25, 2030-01-02 success 2 0.25, 2030-01-03 cancelled 1 0.25, 2030-01-03 failed_over 0 0.25, 2030-01-02 rejected 1 0",
		"group_by=hour":                       "2030-01-03T00:00Z 2 0.75, 2030-01-02T23:00Z 3 0.25",
		"group_by=cost_source":                "calculated 3 0.75, reported 0 0.25, none 1 0, unreported 1 0",
		"group_by=upstream&since=30m":         "team 2 0.5, spare 0 0.25",
		"group_by=upstream&until=30m":         "team 2 0.25,  1 0",
		"group_by=model&limit=1":              "sonnet 3 1",
		"group_by=session&session=deadbeef":   "deadbeef 3 0.75",
		"group_by=key&session=a+conversation": "alice 1 0.25",
		"group_by=model&call=moved":           "sonnet 1 0.5",
		"group_by=model&alias=haiku":          "haiku 1 0",
		"group_by=wire&key=nobody":            "",
	} {
		a, text := ask(query), ""
		for _, g := range a.Groups {
			text += ", "
			for _, by := range a.GroupBy {
				text += g.Key[by] + " "
			}
			text += strconv.FormatInt(g.Requests, 10) + " " + strconv.FormatFloat(g.Cost, 'f', -1, 64)
		}
		if text = strings.TrimPrefix(text, ", "); !sameGroups(want, text) || a.Truncated != (query == "group_by=model&limit=1") || a.Groups == nil {
			t.Errorf("%s: %q, want %q (truncated %v)", query, text, want, a.Truncated)
		}
	}
	checkPrune(t, s)
}

// sameGroups compares lists of groups. Those of the same cost and count stand by name, and databases order names differently.
func sameGroups(want, got string) bool {
	a, b := strings.Split(want, ", "), strings.Split(got, ", ")
	first := a[0] == b[0] || strings.Count(want, " 0.25") > 1
	slices.Sort(a)
	slices.Sort(b)
	return first && slices.Equal(a, b)
}

func checkRequests(t *testing.T, got []ledger.Request) {
	t.Helper()
	if len(got) != 6 || got[0].Call != "left" || got[2].Request || got[2].Call != "moved" || !got[1].Request || got[5].Call != Row(0).Call {
		t.Fatalf("requests %+v", got)
	}
	n, f := func(n int64) *int64 { return &n }, func(f float64) *float64 { return &f }
	want := ledger.Request{
		At: Epoch, Call: "0123456789ab0000", TraceID: "0123456789abcdef0123456789abcdef", Key: "alice", Agent: "claude-code", Session: "deadbeef",
		Wire: "anthropic-messages", Model: "sonnet", Upstream: "team", UpstreamModel: "claude-sonnet-4-5", Decision: "sticky", Outcome: "success", Status: 200,
		Attempts: 1, Stream: true, DurationMS: 1234.567, FirstChunkMS: f(321), Uncached: n(10), CacheRead: n(20_000), CacheWrite: n(512), Output: n(321),
		Cost: f(0.25), CostSource: "calculated", Savings: f(0.5), OffPeakSavings: f(-0.125), Request: true,
	}
	if diff := cmp.Diff(want, got[5]); diff != "" {
		t.Errorf("the usual (-want +got):\n%s", diff)
	}
	want = ledger.Request{
		At: Epoch.Add(time.Minute), Call: "refused", Wire: "openai-chat", Model: "_other", Decision: "none", Outcome: "rejected", ErrorClass: "caller_model_unknown",
		Status: 404, CostSource: "none", Request: true,
	}
	if diff := cmp.Diff(want, got[4]); diff != "" {
		t.Errorf("what nobody reported is null (-want +got):\n%s", diff)
	}
}

// checkPrune lets all but the newest three go, and then keeps to it.
func checkPrune(t *testing.T, s ledger.Store) {
	t.Helper()
	for i, want := range []int64{4, 1, 1} {
		gone, err := s.Append(t.Context(), []ledger.Row{Row(5000 + i)}, 3)
		if err != nil || gone != want {
			t.Errorf("append %d: %d went, want %d (%v)", i, gone, want, err)
		}
	}
	a, err := ledger.Ask(t.Context(), s, ledger.Question{Limit: 10})
	if err != nil || a.Store.Rows != 3 || len(a.Requests) != 3 || a.Requests[2].Call != Row(5000).Call {
		t.Errorf("left: %+v %v", a, err)
	}
}
