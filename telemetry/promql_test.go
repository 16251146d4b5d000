package telemetry

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	prometheusexporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// matcher is one condition on a label.
type matcher struct{ label, op, value string }

// selector is one metric in a query with its conditions; the name is empty where there are only these.
type selector struct {
	metric   string
	matchers []matcher
}

// query is what a PromQL expression names, as far as a contract can be wrong about it.
type query struct {
	selectors []selector
	grouped   []string // labels to group or to join by
	made      []string // strings that may be labels of label_replace
}

var (
	promToken   = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\$\{?\w+\}?|[a-zA-Z_:][\w:]*|[0-9][\w.]*|[=!]~|!=|\S`)
	promWord    = regexp.MustCompile(`^[a-zA-Z_:][\w:]*$`)
	promGroupBy = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	promKeyword = []string{"and", "or", "unless", "bool", "offset"}
)

// readQuery finds the names in an expression. Whether it is PromQL at all is for promtool to say.
func readQuery(expr string) query {
	var q query
	tokens := append(promToken.FindAllString(expr, -1), "")
	until := func(i int, end string) int {
		for i < len(tokens)-1 && tokens[i] != end {
			i++
		}
		return i
	}
	for i := 0; i < len(tokens)-1; i++ {
		token, next := tokens[i], tokens[i+1]
		switch {
		case token == "[":
			i = until(i, "]")
		case token == "{":
			q.selectors = append(q.selectors, selector{"", readMatchers(tokens[i:])})
			i = until(i, "}")
		case token[0] == '"':
			q.made = append(q.made, strings.Trim(token, `"`))
		case slices.Contains(promGroupBy, token):
			end := until(i, ")")
			for _, label := range tokens[i+1 : end] {
				if promWord.MatchString(label) {
					q.grouped = append(q.grouped, label)
				}
			}
			i = end
		case !promWord.MatchString(token), slices.Contains(promKeyword, token), next == "(", slices.Contains(promGroupBy, next):
		case next == "{":
			q.selectors = append(q.selectors, selector{token, readMatchers(tokens[i+1:])})
			i = until(i, "}")
		default:
			q.selectors = append(q.selectors, selector{token, nil})
		}
	}
	return q
}

// readMatchers reads what follows an opening brace.
func readMatchers(tokens []string) []matcher {
	var all []matcher
	for i := 1; i+2 < len(tokens) && tokens[i] != "}"; i++ {
		if promWord.MatchString(tokens[i]) {
			all = append(all, matcher{tokens[i], tokens[i+1], strings.Trim(tokens[i+2], `"`)})
			i += 2
		}
	}
	return all
}

// series are the labels of each metric by its name in Prometheus.
type series map[string][]string

// Labels that Prometheus, the Collector and the SDK give to each series.
var everywhere = []string{"job", "instance", "__name__", "otel_metric_overflow"}

// foreign are metrics of libraries and of the Collector. They are not in the contract, and are as the versions in go.mod have them.
func foreign() series {
	component := []string{"error_type", "otel_component_name", "otel_component_type"}
	server := []string{"http_route", "http_response_status_code"}
	all := series{
		"process_uptime_seconds": nil, "go_goroutine_count": nil, "go_memory_gc_goal_bytes": nil, "go_memory_allocated_bytes_total": nil,
		"go_memory_used_bytes":                       {"go_memory_type"},
		"http_server_request_duration_seconds_count": server, "http_server_request_duration_seconds_bucket": append(server, "le"),
		"otel_sdk_exporter_operation_duration_seconds_count": component, "otel_sdk_exporter_operation_duration_seconds_sum": component,
		"otel_sdk_exporter_metric_data_point_exported_total": component,
	}
	for _, kind := range []string{"span", "log"} {
		for _, name := range []string{"exporter_%s_exported_total", "processor_%s_processed_total", "processor_%s_queue_size", "processor_%s_queue_capacity"} {
			all["otel_sdk_"+fmt.Sprintf(name, kind)] = component
		}
	}
	for _, kind := range []string{"spans", "metric_points", "log_records"} {
		for _, name := range []string{"receiver_refused_", "exporter_enqueue_failed_", "exporter_send_failed_"} {
			all["otelcol_"+name+kind] = nil
		}
	}
	return all
}

// exposed lets the exporter for Prometheus, which names as the Collector does, show everything that the contract has.
func exposed(t *testing.T) series {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := prometheusexporter.New(prometheusexporter.WithRegisterer(registry), prometheusexporter.WithoutScopeInfo())
	if err != nil {
		t.Fatal(err)
	}
	tel, err := New(nil, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), nil)
	if err != nil {
		t.Fatal(err)
	}
	everything(t, tel)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := foreign()
	for _, f := range families {
		var labels []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
		}
		all[f.GetName()] = labels
		if f.GetMetric()[0].GetHistogram() != nil {
			all[f.GetName()+"_bucket"] = append(slices.Clip(labels), "le")
			all[f.GetName()+"_count"], all[f.GetName()+"_sum"] = labels, labels
			delete(all, f.GetName())
		}
	}
	return all
}

// labels returns every label that the metrics of a query have.
func (s series) labels(q query) []string {
	all := slices.Concat(everywhere, q.made)
	for _, sel := range q.selectors {
		all = append(all, s[sel.metric]...)
	}
	return all
}

// faults says what a query names that is not there.
func (s series) faults(q query) []string {
	var all []string
	if len(q.selectors) == 0 {
		all = append(all, "no metric at all")
	}
	for _, sel := range q.selectors {
		own, known := s[sel.metric]
		if !known && sel.metric != "" {
			all = append(all, "no metric "+sel.metric)
			continue
		}
		for _, m := range sel.matchers {
			if !slices.Contains(own, m.label) && !slices.Contains(everywhere, m.label) {
				all = append(all, sel.metric+" has no label "+m.label)
			}
			if values, closed := vocabularies()[m.label]; closed && !m.found(values) {
				all = append(all, m.label+" is never "+m.value)
			}
		}
	}
	for _, label := range q.grouped {
		if !slices.Contains(s.labels(q), label) {
			all = append(all, "no metric in it has the label "+label)
		}
	}
	return all
}

// vocabularies are the values of labels whose values are all known.
func vocabularies() map[string][]string {
	return map[string][]string{
		"signalbox_outcome": outcomes, "signalbox_error_class": classes, "error_type": append(slices.Clip(errorTypes), "500"),
		"signalbox_attempt_reason": attemptReasons, "signalbox_scope": scopes, "signalbox_source": sources, "signalbox_state": states, "signalbox_token_type": tokenTypes,
		"signalbox_reason": slices.Concat(waitReasons, coolReasons), "signalbox_kind": slices.Concat(quotas, affinityKinds),
		"signalbox_result": slices.Concat(reloads, affinityResults),
	}
}

var oneGroup = regexp.MustCompile(`^([^()|]*)\(([^()]*)\)([^()|]*)$`)

// found tells whether each alternative of the condition is a value, or a pattern of one. What a variable stands for is unknown.
func (m matcher) found(values []string) bool {
	if strings.Contains(m.value, "$") {
		return true
	}
	if m.op == "=" || m.op == "!=" {
		return slices.Contains(values, m.value)
	}
	alternatives := strings.Split(m.value, "|")
	if g := oneGroup.FindStringSubmatch(m.value); g != nil {
		alternatives = nil
		for a := range strings.SplitSeq(g[2], "|") {
			alternatives = append(alternatives, g[1]+a+g[3])
		}
	} else if strings.Contains(m.value, "(") {
		alternatives = []string{m.value}
	}
	return !slices.ContainsFunc(alternatives, func(a string) bool {
		return !slices.ContainsFunc(values, regexp.MustCompile("^(?:"+a+")$").MatchString)
	})
}

// A reader that finds nothing would find nothing wrong.
func TestQueriesAreRead(t *testing.T) {
	t.Parallel()
	all := exposed(t)
	for _, c := range []struct {
		expr   string
		faults []string
	}{
		{`sum by (signalbox_model) (rate(signalbox_requests_total{signalbox_outcome="failed"}[5m])) > 0.5`, nil},
		{`histogram_quantile(0.9, sum by (le) (rate(signalbox_overhead_seconds_bucket{signalbox_wire=~"$wire"}[$__rate_interval])))`, nil},
		{`signalbox_target_state offset 5m == bool 1 or signalbox_cooling_remaining_seconds{signalbox_scope=~"account|target"}`, nil},
		{`count by (metric) (label_replace({otel_metric_overflow="true"}, "metric", "$1", "__name__", "(.+)"))`, nil},
		{`rate(gen_ai_client_inference_usage_input_tokens_total[5m]) / on (signalbox_upstream) group_left () signalbox_upstream_quota_utilization_ratio`, nil},
		{`vector(0)`, []string{"no metric at all"}},
		{`sum(signalbox_requests)`, []string{"no metric signalbox_requests"}},
		{`signalbox_overhead_seconds{signalbox_wire="a"}`, []string{"no metric signalbox_overhead_seconds"}},
		{`signalbox_overhead_seconds_sum{signalbox_model="a", le="1"}`, []string{
			"signalbox_overhead_seconds_sum has no label signalbox_model", "signalbox_overhead_seconds_sum has no label le",
		}},
		{`{signalbox_wire="a"}`, []string{" has no label signalbox_wire"}},
		{`sum by (signalbox_wire, le) (go_goroutine_count)`, []string{"no metric in it has the label signalbox_wire", "no metric in it has the label le"}},
		{`signalbox_requests_total{signalbox_outcome!="fail", signalbox_error_class=~"(provider|rooter)_.+"}`, []string{
			"signalbox_outcome is never fail", "signalbox_error_class is never (provider|rooter)_.+",
		}},
		{`signalbox_target_state{signalbox_state=~"healthy|probed"}`, []string{"signalbox_state is never healthy|probed"}},
	} {
		if diff := cmp.Diff(c.faults, all.faults(readQuery(c.expr))); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", c.expr, diff)
		}
	}
}

func TestPrometheusHasEveryInstrument(t *testing.T) {
	t.Parallel()
	all := exposed(t)
	names := slices.Sorted(maps.Keys(all))
	for _, i := range Contract().Instruments {
		name := strings.ReplaceAll(i.Name, ".", "_")
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, name) }) {
			t.Errorf("%s is not exposed", i.Name)
		}
	}
}
