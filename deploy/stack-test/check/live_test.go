package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// patience is how long anything is waited for: exports, scrapes and decisions on sampling take their time.
const patience = 90 * time.Second

var client = &http.Client{Timeout: 10 * time.Second}

// running is the address of a running program, by the variable that names it.
func running(t *testing.T, variable string) string {
	t.Helper()
	address := os.Getenv(variable)
	if address == "" {
		t.Skip(variable + " is not set: deploy/stack-test/run sets it")
	}
	return address
}

// eventually asks again and again until there is no complaint.
func eventually(t *testing.T, complaint func() string) {
	t.Helper()
	var last string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Second) {
		if last = complaint(); last == "" {
			return
		}
	}
	t.Error(last)
}

// get decodes an answer.
func get(address string, into any) error {
	resp, err := client.Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w: %.300s", resp.Status, err, body)
	}
	return nil
}

// span is one of Jaeger's.
type span struct {
	TraceID, SpanID, OperationName string
	References                     []struct{ RefType, SpanID string }
	Tags                           []tag
	Logs                           []struct{ Fields []tag }
}

type tag struct {
	Key   string
	Value any
}

func (s span) tag(key string) string {
	for _, t := range s.Tags {
		if t.Key == key {
			return fmt.Sprint(t.Value)
		}
	}
	return ""
}

func (s span) event(name string) bool {
	for _, l := range s.Logs {
		for _, f := range l.Fields {
			if f.Key == "event" && f.Value == name {
				return true
			}
		}
	}
	return false
}

// trace is spans of one trace.
type trace struct {
	TraceID string
	Spans   []span
}

// children are in the order in which Jaeger has them: by start.
func (t trace) children(of span) (all []span) {
	for _, s := range t.Spans {
		for _, r := range s.References {
			if r.RefType == "CHILD_OF" && r.SpanID == of.SpanID {
				all = append(all, s)
			}
		}
	}
	return all
}

// traces asks Jaeger for those of a service that have a span with these tags.
func traces(jaeger, service string, tags map[string]string, limit int) ([]trace, error) {
	encoded, err := json.Marshal(tags)
	if err != nil {
		return nil, err
	}
	var answer struct{ Data []trace }
	v := url.Values{"service": {service}, "limit": {fmt.Sprint(limit)}, "lookback": {"1h"}}
	if len(tags) > 0 {
		v.Set("tags", string(encoded))
	}
	err = get(jaeger+"/api/traces?"+v.Encode(), &answer)
	return answer.Data, err
}

// TestFailoverTree looks for a request that a second account saved: what the client asked, the decision, two attempts, and
// the call over the network below each.
func TestFailoverTree(t *testing.T) {
	jaeger := running(t, "STACK_JAEGER")
	eventually(t, func() string {
		found, err := traces(jaeger, "signalbox", map[string]string{"signalbox.outcome": "success_after_failover"}, 50)
		if err != nil {
			return err.Error()
		}
		complaint := "no trace has the outcome success_after_failover"
		for _, tr := range found {
			if complaint = tr.failover(); complaint == "" {
				return ""
			}
		}
		return complaint
	})
}

// failover says what the trace lacks of a failover from a 429.
func (t trace) failover() string {
	for _, root := range t.Spans {
		if root.tag("span.kind") != "server" {
			continue
		}
		routes := t.children(root)
		if len(routes) != 1 || !strings.HasPrefix(routes[0].OperationName, "route ") {
			return fmt.Sprintf("%s: %d spans below %s", t.TraceID, len(routes), root.OperationName)
		}
		route := routes[0]
		if !route.event("signalbox.failover") || route.tag("error") == "true" {
			return t.TraceID + ": the route span has no event signalbox.failover, or is an error"
		}
		tries := t.children(route)
		if len(tries) != 2 {
			return fmt.Sprintf("%s: %d attempts", t.TraceID, len(tries))
		}
		for i, want := range []struct{ outcome, failed, errorType string }{{"failed_over", "true", "429"}, {"served", "", ""}} {
			try := tries[i]
			if try.tag("signalbox.attempt.outcome") != want.outcome || try.tag("error") != want.failed || try.tag("error.type") != want.errorType {
				return fmt.Sprintf("%s: attempt %d is %s, error %q, %q", t.TraceID, i+1, try.tag("signalbox.attempt.outcome"), try.tag("error"), try.tag("error.type"))
			}
			if call := t.children(try); len(call) != 1 || call[0].tag("span.kind") != "client" {
				return t.TraceID + ": an attempt without a call below it"
			}
		}
		return ""
	}
	return t.TraceID + ": no server span"
}

// TestUnusualRequestsAreKept looks for each kind that sampling must not lose.
func TestUnusualRequestsAreKept(t *testing.T) {
	jaeger := running(t, "STACK_JAEGER")
	for _, tags := range []map[string]string{
		{"signalbox.outcome": "failed"},
		{"signalbox.outcome": "rejected"},
		{"signalbox.attempt.outcome": "failed_over"},
		{"signalbox.error.class": "provider_auth_failed"},
		{"signalbox.error.class": "provider_stream_truncated"},
	} {
		eventually(t, func() string {
			if found, err := traces(jaeger, "signalbox", tags, 5); err != nil || len(found) == 0 {
				return fmt.Sprintf("no trace with %v (%v)", tags, err)
			}
			return ""
		})
	}
}

// TestNothingPrivate looks through what has arrived for the keys of the traffic.
func TestNothingPrivate(t *testing.T) {
	jaeger := running(t, "STACK_JAEGER")
	resp, err := client.Get(jaeger + "/api/traces?service=signalbox&lookback=1h&limit=500")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(all, []byte("signalbox.outcome")) {
		t.Fatal("there is no trace to look through")
	}
	for _, secret := range []string{"sk-made-up", "key=", "Bearer"} {
		if i := bytes.Index(all, []byte(secret)); i >= 0 {
			t.Errorf("%q is in a trace: %s", secret, all[max(0, i-100):min(len(all), i+40)])
		}
	}
}

// TestLogsCarryTraces reads what the Collector got as logs.
func TestLogsCarryTraces(t *testing.T) {
	path := running(t, "STACK_LOGS")
	eventually(t, func() string {
		if raw, err := os.ReadFile(path); err != nil || !bytes.Contains(raw, []byte(`"traceId":"`)) || !bytes.Contains(raw, []byte(`signalbox.failover`)) {
			return fmt.Sprintf("no log record with a trace in %s (%v)", path, err)
		}
		return ""
	})
}

// ask returns what a PromQL expression comes to.
func ask(prometheus, expr string) (series []json.RawMessage, err error) {
	var answer struct {
		Status, Error string
		Data          struct{ Result json.RawMessage }
	}
	if err := get(prometheus+"/api/v1/query?query="+url.QueryEscape(expr), &answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	return series, json.Unmarshal(answer.Data.Result, &series)
}

// TestMetricsArrive asks for one series of each way: Signalbox's own, span metrics, and the Collector about itself.
func TestMetricsArrive(t *testing.T) {
	prometheus := running(t, "STACK_PROMETHEUS")
	for _, expr := range []string{
		`sum(rate(signalbox_requests_total{job="signalbox"}[1m])) > 0`,
		`sum(rate(gen_ai_client_inference_duration_seconds_count[1m])) > 0`,
		`signalbox_cooling_remaining_seconds > 0`,
		`sum(traces_span_metrics_calls_total{service_name="signalbox", span_kind="SPAN_KIND_SERVER"}) > 0`,
		`traces_span_metrics_duration_milliseconds_count`,
		`{__name__=~"otelcol_receiver_accepted_spans(_total)?", job="otelcol-self"} > 0`,
	} {
		eventually(t, func() string {
			if got, err := ask(prometheus, expr); err != nil || len(got) == 0 {
				return fmt.Sprintf("nothing for %s (%v)", expr, err)
			}
			return ""
		})
	}
}

// TestExemplarsLeadToTraces wants some exemplar of a request's duration to name a trace that Jaeger has.
func TestExemplarsLeadToTraces(t *testing.T) {
	prometheus, jaeger := running(t, "STACK_PROMETHEUS"), running(t, "STACK_JAEGER")
	eventually(t, func() string {
		var answer struct {
			Data []struct {
				Exemplars []struct{ Labels map[string]string }
			}
		}
		v := url.Values{
			"query": {`signalbox_request_duration_seconds_bucket{signalbox_outcome=~"failed|success_after_failover"}`},
			"start": {fmt.Sprint(time.Now().Add(-10 * time.Minute).Unix())}, "end": {fmt.Sprint(time.Now().Unix())},
		}
		if err := get(prometheus+"/api/v1/query_exemplars?"+v.Encode(), &answer); err != nil {
			return err.Error()
		}
		tried := 0
		for _, s := range answer.Data {
			for _, e := range s.Exemplars {
				var found struct{ Data []trace }
				if id := e.Labels["trace_id"]; id != "" && tried < 50 {
					tried++
					if err := get(jaeger+"/api/traces/"+id, &found); err == nil && len(found.Data) > 0 {
						return ""
					}
				}
			}
		}
		return fmt.Sprintf("none of %d exemplars leads to a trace", tried)
	})
}

// TestMonitorTab asks Jaeger what its Monitor tab asks.
func TestMonitorTab(t *testing.T) {
	jaeger := running(t, "STACK_JAEGER")
	for _, path := range []string{"calls?", "errors?", "latencies?quantile=0.95&"} {
		eventually(t, func() string {
			var answer struct {
				Metrics []struct{ MetricPoints []any }
			}
			err := get(jaeger+"/api/metrics/"+path+"service=signalbox&spanKind=server&lookback=600000&step=5000&ratePer=60000&groupByOperation=true", &answer)
			if err != nil || len(answer.Metrics) == 0 || len(answer.Metrics[0].MetricPoints) == 0 {
				return fmt.Sprintf("no points for %s (%v)", path, err)
			}
			return ""
		})
	}
}

// quiet reports whether a query finds something only when telemetry is lost or a label has too many values, which a run that
// goes well does not show.
func quiet(expr string) bool {
	return strings.Contains(expr, "otel_sdk_") && strings.Contains(expr, `error_type!=""`) || strings.Contains(expr, "otel_metric_overflow")
}

// TestPanelsHaveSeries asks Prometheus what every panel asks. It takes no Grafana: whether a panel then looks right is not
// known.
func TestPanelsHaveSeries(t *testing.T) {
	prometheus := running(t, "STACK_PROMETHEUS")
	open := queries(t)
	total := len(open)
	if total == 0 {
		t.Fatal("no panel asks Prometheus anything")
	}
	eventually(t, func() string {
		var empty []query
		var complaints []string
		for _, q := range open {
			got, err := ask(prometheus, q.expr)
			switch {
			case err == nil && len(got) > 0:
			case err == nil && quiet(q.expr):
				t.Logf("%s, %s: nothing to see", q.dashboard, q.panel)
			default:
				empty = append(empty, q)
				complaints = append(complaints, fmt.Sprintf("%s, %s: nothing for %s (%v)", q.dashboard, q.panel, q.expr, err))
			}
		}
		open = empty
		return strings.Join(complaints, "\n")
	})
	t.Logf("%d of %d queries are answered", total-len(open), total)
}
