// Package check holds the assertions of the stack test: that the files of deploy are what the programs that read them take,
// and, where STACK_PROMETHEUS and its like name running ones, that what Signalbox reports arrives. It must not import
// Signalbox: it looks from where an operator looks.
package check

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// deploy is the folder of the files.
const deploy = "../.."

func TestMain(m *testing.M) {
	plugins.RegisterDefaultPlugins()
	os.Exit(m.Run())
}

// compose loads docker-compose.yaml with all of its profiles.
func compose(t *testing.T) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "..", "docker-compose.yaml")},
		cli.WithEnv([]string{"SIGNALBOX_KEY=k"}), cli.WithInterpolation(true), cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeFileLoads(t *testing.T) {
	project := compose(t)
	want := []string{"agent", "alertmanager", "demo", "grafana", "jaeger", "otel-collector", "prometheus", "signalbox", "valkey"}
	if got := project.ServiceNames(); !slices.Equal(got, want) {
		t.Errorf("services %q, want %q", got, want)
	}
	for _, s := range project.Services {
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s beyond loopback", s.Name, p.Published)
			}
		}
		if !strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s: image %q is not pinned", s.Name, s.Image)
		}
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type == "bind" && !strings.HasSuffix(v.Source, "config.hcl") && err != nil {
				t.Errorf("%s mounts what is not there: %v", s.Name, err)
			}
		}
	}
	if len(project.Services["signalbox"].DependsOn) > 0 {
		t.Error("the sidecar waits for something")
	}
	// Every link to a trace leads to Explore, which those who only look do not have otherwise.
	if v := project.Services["grafana"].Environment["GF_USERS_VIEWERS_CAN_EDIT"]; v == nil || *v != "true" {
		t.Error("who opens a dashboard cannot follow its links to Jaeger")
	}
}

// rules are the alert rules by name, each with its expression.
func rules(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "prometheus/rules/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("there are no rules in deploy/prometheus/rules")
	}
	all := map[string]string{}
	for _, f := range files {
		groups, errs := rulefmt.ParseFile(f, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			t.Fatalf("%s: %v", f, errs)
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				if r.Alert != "" {
					all[r.Alert] = r.Expr
				}
			}
		}
	}
	return all
}

func TestRulesParse(t *testing.T) {
	if len(rules(t)) == 0 {
		t.Error("there are rules, and no alert")
	}
}

// query is one PromQL expression of a panel, with Grafana's variables filled in.
type query struct{ dashboard, panel, expr string }

// board is as much of a dashboard as is looked at.
type board struct {
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct{ Name, Type string } `json:"list"`
	} `json:"templating"`
}

type panel struct {
	Type, Title string
	Datasource  *source
	Panels      []panel
	Targets     []struct {
		Expr       string
		Datasource *source
	}
}

type source struct{ Type, UID string }

// queries decodes the dashboards strictly and collects what their panels ask Prometheus.
func queries(t *testing.T) (all []query) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(deploy, "grafana/dashboards/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("there are no dashboards in deploy/grafana/dashboards")
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := strictly(raw); err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
		}
		var b board
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		all = append(all, b.queries(strings.TrimSuffix(filepath.Base(f), ".json"))...)
	}
	return all
}

// queries fills in the variables: a time for Grafana's own, everything for those of the dashboard.
func (b board) queries(name string) (all []query) {
	values := map[string]string{"__rate_interval": "1m", "__interval": "15s", "__interval_ms": "15000", "__range": "5m", "__range_s": "300"}
	for _, v := range b.Templating.List {
		values[v.Name] = ".*"
		if v.Type == "interval" {
			values[v.Name] = "1m"
		}
	}
	var replace []string
	// The longest first: a variable can begin with the name of another one.
	for _, v := range slices.Backward(slices.SortedFunc(maps.Keys(values), func(a, b string) int { return len(a) - len(b) })) {
		replace = append(replace, "${"+v+"}", values[v], "${"+v+":regex}", values[v], "$"+v, values[v])
	}
	filled := strings.NewReplacer(replace...)
	var walk func([]panel)
	walk = func(panels []panel) {
		for _, p := range panels {
			walk(p.Panels)
			for _, q := range p.Targets {
				from := q.Datasource
				if from == nil {
					from = p.Datasource
				}
				if q.Expr != "" && from != nil && from.Type == "prometheus" {
					all = append(all, query{name, p.Title, filled.Replace(q.Expr)})
				}
			}
		}
	}
	walk(b.Panels)
	return all
}

func TestPanelsParse(t *testing.T) {
	all := queries(t)
	if len(all) == 0 {
		t.Error("no panel asks Prometheus anything")
	}
	p := parser.NewParser(parser.Options{})
	for _, q := range all {
		if _, err := p.ParseExpr(q.expr); err != nil {
			t.Errorf("%s, %s: %v\n%s", q.dashboard, q.panel, err, q.expr)
		}
	}
}

// TestReadmeSnippetLoads loads the sidecar beside an agent that deploy/README.md shows.
func TestReadmeSnippetLoads(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(deploy, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), "<!-- checked by deploy/stack-test/check -->\n```yaml\n")
	snippet, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("there is no snippet")
	}
	path := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(path, []byte(snippet), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := cli.NewProjectOptions([]string{path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := options.LoadProject(t.Context()); err != nil {
		t.Error(err)
	}
}
