package telemetry

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const deployed = "../deploy"

// board is what is checked of a dashboard.
type board struct {
	UID, Title, Description string
	Tags                    []string
	Templating              struct{ List []variable }
	Annotations             struct{ List []struct{ Expr string } }
	Links                   []struct{ URL string }
	Panels                  []panel
}

type variable struct {
	Name, Type string
	Query      json.RawMessage
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Datasource               struct{ Type, UID string }
	Targets                  []struct {
		Expr, LegendFormat string
		Datasource         struct{ Type, UID string }
	}
	FieldConfig struct {
		Defaults struct {
			Unit  string
			Links []struct{ Title, URL string }
		}
	}
}

// Units and types of panel that the dashboards use; Grafana takes any text, and shows a wrong one as it is.
var (
	panelUnits   = []string{"Bps", "bytes", "cps", "currencyUSD", "none", "percentunit", "reqps", "s", "short"}
	panelTypes   = []string{"state-timeline", "stat", "timeseries"}
	inLegend     = regexp.MustCompile(`\{\{(\w+)\}\}`)
	inLink       = regexp.MustCompile(`\$\{__field\.labels\.(\w+)\}`)
	inVariable   = regexp.MustCompile(`\$\{?(\w+)`)
	labelValues  = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	fromGrafana  = []string{"__rate_interval", "__range", "__from", "__to", "__field"}
	inAnnotation = regexp.MustCompile(`\$labels\.(\w+)`)
)

func TestDashboardsKeepTheContract(t *testing.T) {
	t.Parallel()
	all, uids := exposed(t), map[string]bool{}
	files, err := filepath.Glob(filepath.Join(deployed, "grafana", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var b board
			if err := json.Unmarshal(raw, &b); err != nil {
				t.Fatal(err)
			}
			var tidy bytes.Buffer
			if err := json.Indent(&tidy, raw, "", "  "); err != nil || !bytes.Equal(tidy.Bytes(), raw) {
				t.Error("not indented by two spaces", err)
			}
			if b.UID == "" || uids[b.UID] || b.Title == "" || b.Description == "" || !slices.Contains(b.Tags, "signalbox") {
				t.Error("a dashboard needs a uid of its own, a title, a description and the tag signalbox")
			}
			uids[b.UID] = true
			b.checkVariables(t, all)
			for _, a := range b.Annotations.List {
				report(t, "annotation", all.faults(readQuery(a.Expr)))
			}
			ids, cells := map[int]bool{}, map[[2]int]bool{}
			for _, p := range b.Panels {
				if ids[p.ID] {
					t.Errorf("%s: its id is taken", p.Title)
				}
				ids[p.ID] = true
				p.checkPlace(t, cells)
				if p.Type != "row" {
					p.check(t, all)
				}
			}
		})
	}
}

func report(t *testing.T, where string, faults []string) {
	t.Helper()
	for _, f := range faults {
		t.Errorf("%s: %s", where, f)
	}
}

// checkVariables sees to it that variables are declared, and that each of them does something.
func (b board) checkVariables(t *testing.T, all series) {
	t.Helper()
	var text strings.Builder
	for _, p := range b.Panels {
		text.WriteString(p.Datasource.UID)
		for _, q := range p.Targets {
			text.WriteString(q.Expr)
		}
		for _, l := range p.FieldConfig.Defaults.Links {
			text.WriteString(l.URL)
		}
	}
	for _, l := range b.Links {
		text.WriteString(l.URL)
	}
	used := map[string]bool{}
	for _, v := range inVariable.FindAllStringSubmatch(text.String(), -1) {
		used[v[1]] = true
	}
	for _, v := range b.Templating.List {
		if !used[v.Name] {
			t.Errorf("variable %s does nothing", v.Name)
		}
		delete(used, v.Name)
		var values struct{ Query string }
		if v.Type != "query" {
			continue
		}
		if err := json.Unmarshal(v.Query, &values); err != nil {
			t.Fatal(err)
		}
		m := labelValues.FindStringSubmatch(values.Query)
		if m == nil {
			t.Errorf("variable %s: %s", v.Name, values.Query)
			continue
		}
		q := readQuery(m[1])
		q.grouped = []string{m[2]}
		report(t, "variable "+v.Name, all.faults(q))
	}
	for name := range used {
		if !slices.Contains(fromGrafana, name) {
			t.Errorf("variable %s is not declared", name)
		}
	}
}

func (p panel) checkPlace(t *testing.T, cells map[[2]int]bool) {
	t.Helper()
	g := p.GridPos
	if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
		t.Errorf("%s: its place is outside of the grid", p.Title)
	}
	for x := range g.W {
		for y := range g.H {
			cell := [2]int{g.X + x, g.Y + y}
			if cells[cell] {
				t.Fatalf("%s: lies over another panel", p.Title)
			}
			cells[cell] = true
		}
	}
}

func (p panel) check(t *testing.T, all series) {
	t.Helper()
	if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
		t.Errorf("panel %q needs a title, a description and a query", p.Title)
	}
	if !slices.Contains(panelUnits, p.FieldConfig.Defaults.Unit) || !slices.Contains(panelTypes, p.Type) {
		t.Errorf("%s: unit %q or type %q is not one of those in use", p.Title, p.FieldConfig.Defaults.Unit, p.Type)
	}
	var grouped []string
	for _, target := range p.Targets {
		if target.Datasource != p.Datasource || p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: the data source is not the variable", p.Title)
		}
		q := readQuery(target.Expr)
		report(t, p.Title, all.faults(q))
		grouped = append(grouped, q.grouped...)
		for _, l := range inLegend.FindAllStringSubmatch(target.LegendFormat, -1) {
			if !slices.Contains(q.grouped, l[1]) {
				t.Errorf("%s: the legend has %s, the query does not", p.Title, l[1])
			}
		}
	}
	for _, link := range p.FieldConfig.Defaults.Links {
		for _, l := range inLink.FindAllStringSubmatch(link.URL, -1) {
			if !slices.Contains(grouped, l[1]) {
				t.Errorf("%s: a link has %s, no query does", p.Title, l[1])
			}
		}
	}
}

// What the data sources ask has the same names; tags are put where the variable is.
func TestDataSourcesKeepTheContract(t *testing.T) {
	t.Parallel()
	all, asked := exposed(t), 0
	var tags []matcher
	for _, line := range read(t, "grafana/provisioning/datasources/signalbox.yaml") {
		if tag, ok := strings.CutPrefix(strings.TrimSpace(line), "value: "); ok {
			tags = append(tags, matcher{tag, "=", "a"})
		}
		expr, ok := strings.CutPrefix(strings.TrimSpace(line), "query: ")
		if !ok {
			continue
		}
		asked++
		if !strings.Contains(expr, "{$$__tags}") {
			t.Errorf("%s does not use the tags of the span", expr)
		}
		q := readQuery(strings.ReplaceAll(expr, "$$__tags", ""))
		for i := range q.selectors {
			q.selectors[i].matchers = append(q.selectors[i].matchers, tags...)
		}
		report(t, expr, all.faults(q))
	}
	if asked == 0 || len(tags) == 0 {
		t.Error("traces do not lead to metrics")
	}
}

func read(t *testing.T, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(deployed, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}

// rule is one alert or recorded series.
type rule struct {
	name, expr string
	alert      bool
	fields     map[string]string // of labels and annotations
}

// readRules reads a file of rules in the layout that ours have, which is little of YAML: expressions are blocks.
func readRules(t *testing.T, name string) []rule {
	t.Helper()
	var all []rule
	inExpr := false
	for _, line := range read(t, name) {
		text := strings.TrimLeft(line, " ")
		indent, key, value := len(line)-len(text), "", ""
		if k, v, ok := strings.Cut(strings.TrimPrefix(text, "- "), ":"); ok {
			key, value = k, strings.Trim(strings.TrimSpace(v), "'")
		}
		switch {
		case text == "" || text[0] == '#':
		case indent == 6 && (key == "alert" || key == "record"):
			all = append(all, rule{name: value, alert: key == "alert", fields: map[string]string{}})
		case indent == 8:
			if inExpr = key == "expr"; inExpr && value != "|-" {
				t.Fatalf("an expression is no block: %s", text)
			}
		case indent >= 10 && inExpr:
			all[len(all)-1].expr += text + "\n"
		case indent == 10:
			all[len(all)-1].fields[key] = value
		}
	}
	return all
}

func TestAlertsKeepTheContract(t *testing.T) {
	t.Parallel()
	all := exposed(t)
	var alerts []string
	for _, r := range readRules(t, "prometheus/rules/signalbox.yaml") {
		q := readQuery(r.expr)
		report(t, r.name, all.faults(q))
		if !r.alert {
			all[r.name] = q.grouped
			continue
		}
		if slices.Contains(alerts, r.name) {
			t.Errorf("%s is there twice", r.name)
		}
		alerts = append(alerts, r.name)
		if r.fields["severity"] != "page" && r.fields["severity"] != "warning" {
			t.Errorf("%s: severity %q", r.name, r.fields["severity"])
		}
		if want := "deploy/ALERTS.md#" + strings.ToLower(r.name); r.fields["runbook"] != want {
			t.Errorf("%s: runbook %q, want %q", r.name, r.fields["runbook"], want)
		}
		for _, field := range []string{"summary", "description"} {
			if r.fields[field] == "" {
				t.Errorf("%s: no %s", r.name, field)
			}
			for _, l := range inAnnotation.FindAllStringSubmatch(r.fields[field], -1) {
				if !slices.Contains(q.grouped, l[1]) {
					t.Errorf("%s: the %s has %s, the expression does not", r.name, field, l[1])
				}
			}
		}
	}
	var sections []string
	for _, line := range read(t, "ALERTS.md") {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			sections = append(sections, name)
		}
	}
	if diff := cmp.Diff(alerts, sections); diff != "" {
		t.Errorf("sections of ALERTS.md differ from the alerts (-alerts +sections):\n%s", diff)
	}
}

// promtool runs the tests of the rules. Here it is seen to that each alert has one that fires and one that does not, and that they
// are given series that there can be.
func TestAlertsAreTested(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(deployed, "prometheus", "tests", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	all, fires, quiet := exposed(t), map[string]bool{}, map[string]bool{}
	for _, file := range files {
		lines := read(t, "prometheus/tests/"+filepath.Base(file))
		for i, line := range lines {
			if given, ok := strings.CutPrefix(strings.TrimSpace(line), "- series: "); ok && !strings.Contains(given, "otel") {
				report(t, filepath.Base(file), all.faults(readQuery(strings.Trim(given, "'"))))
			}
			name, ok := strings.CutPrefix(strings.TrimSpace(line), "alertname: ")
			if !ok {
				continue
			}
			switch strings.TrimSpace(lines[i+1]) {
			case "exp_alerts: []":
				quiet[name] = true
			case "exp_alerts:":
				fires[name] = true
			}
		}
	}
	for _, r := range readRules(t, "prometheus/rules/signalbox.yaml") {
		if r.alert && (!fires[r.name] || !quiet[r.name]) {
			t.Errorf("%s: a test that fires %v, one that does not %v", r.name, fires[r.name], quiet[r.name])
		}
		delete(fires, r.name)
		delete(quiet, r.name)
	}
	if len(fires)+len(quiet) > 0 {
		t.Errorf("tests of alerts that are not there: %v %v", fires, quiet)
	}
}
