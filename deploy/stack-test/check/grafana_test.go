package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"go.yaml.in/yaml/v3"
)

// strictly decodes a dashboard with Grafana's own types, which know the fields of the panels, too. They take anything as a
// panel's fieldConfig, so that it is decoded once more by itself.
func strictly(raw []byte) error {
	var strict dashboard.Dashboard
	errs := []error{mistakes(strict.UnmarshalJSONStrict(raw))}
	var parts struct {
		Panels []struct {
			Title       string
			FieldConfig json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts.Panels {
		if err := strictFields(p.FieldConfig); p.FieldConfig != nil && err != nil {
			errs = append(errs, fmt.Errorf("%s: fieldConfig: %w", p.Title, err))
		}
	}
	return errors.Join(errs...)
}

// strictFields decodes a fieldConfig. The types take its links for those of a dashboard, which have other fields: they are
// looked at apart.
func strictFields(raw json.RawMessage) error {
	var parts struct {
		Defaults  map[string]json.RawMessage `json:"defaults"`
		Overrides json.RawMessage            `json:"overrides"`
	}
	var links []struct {
		Title, URL  string
		TargetBlank bool
	}
	if err := unknownNever(raw, &parts); err != nil {
		return err
	}
	if l := parts.Defaults["links"]; l != nil {
		if err := unknownNever(l, &links); err != nil {
			return err
		}
	}
	delete(parts.Defaults, "links")
	rest, err := json.Marshal(parts)
	if err != nil {
		return err
	}
	var fields dashboard.FieldConfigSource
	return mistakes(fields.UnmarshalJSONStrict(rest))
}

func unknownNever(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// mistakes of a strict decoding; without any it returns a list of none, which is not nil.
func mistakes(err error) error {
	if list := (cog.BuildErrors{}); errors.As(err, &list) && len(list) == 0 {
		return nil
	}
	return err
}

// A decoder that takes anything would find nothing wrong: an unknown field is put into each part of a dashboard in turn.
func TestUnknownFieldsAreRefused(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(deploy, "grafana/dashboards/sessions.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := strictly(raw); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	for name, part := range map[string]func(board, panel object) any{
		"the dashboard":  func(b, _ object) any { return b },
		"its time":       func(b, _ object) any { return b["time"] },
		"a link":         func(b, _ object) any { return b["links"].([]any)[0] },
		"a variable":     func(b, _ object) any { return b["templating"].(object)["list"].([]any)[2] },
		"an annotation":  func(b, _ object) any { return b["annotations"].(object)["list"].([]any)[0] },
		"a panel":        func(_, p object) any { return p },
		"its place":      func(_, p object) any { return p["gridPos"] },
		"a query":        func(_, p object) any { return p["targets"].([]any)[0] },
		"its options":    func(_, p object) any { return p["options"] },
		"a field":        func(_, p object) any { return p["fieldConfig"].(object)["defaults"] },
		"how it looks":   func(_, p object) any { return p["fieldConfig"].(object)["defaults"].(object)["custom"] },
		"a panel's link": func(_, p object) any { return p["fieldConfig"].(object)["defaults"].(object)["links"].([]any)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			var b object
			if err := json.Unmarshal(raw, &b); err != nil {
				t.Fatal(err)
			}
			panels := b["panels"].([]any)
			i := slices.IndexFunc(panels, func(p any) bool { return p.(object)["title"] == "Cost per hour by model" })
			part(b, panels[i].(object)).(object)["nonsense"] = true
			changed, err := json.Marshal(b)
			if err != nil {
				t.Fatal(err)
			}
			if err := strictly(changed); err == nil || !strings.Contains(err.Error(), "nonsense") {
				t.Errorf("it is taken: %v", err)
			}
		})
	}
}

// sources and providers are the files of provisioning, of which Grafana publishes no types: the fields are those that its
// documentation names, as far as ours use them.
type sources struct {
	APIVersion  int `yaml:"apiVersion"`
	Datasources []struct {
		Name, UID, Type, Access, URL string
		IsDefault                    bool `yaml:"isDefault"`
		JSONData                     struct {
			HTTPMethod                  string `yaml:"httpMethod"`
			TimeInterval                string `yaml:"timeInterval"`
			ExemplarTraceIDDestinations []struct {
				Name            string
				DatasourceUID   string `yaml:"datasourceUid"`
				URLDisplayLabel string `yaml:"urlDisplayLabel"`
			} `yaml:"exemplarTraceIdDestinations"`
			NodeGraph       struct{ Enabled bool } `yaml:"nodeGraph"`
			TracesToMetrics struct {
				DatasourceUID      string `yaml:"datasourceUid"`
				SpanStartTimeShift string `yaml:"spanStartTimeShift"`
				SpanEndTimeShift   string `yaml:"spanEndTimeShift"`
				Tags               []struct{ Key, Value string }
				Queries            []struct{ Name, Query string }
			} `yaml:"tracesToMetrics"`
		} `yaml:"jsonData"`
	}
}

type providers struct {
	APIVersion int `yaml:"apiVersion"`
	Providers  []struct {
		Name, Folder, Type    string
		FolderUID             string `yaml:"folderUid"`
		DisableDeletion       bool   `yaml:"disableDeletion"`
		AllowUIUpdates        bool   `yaml:"allowUiUpdates"`
		UpdateIntervalSeconds int    `yaml:"updateIntervalSeconds"`
		Options               struct{ Path string }
	}
}

func provision(raw []byte, into any) error {
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	return d.Decode(into)
}

// TestProvisioningLoads also sees to it that what the files name is there: each other's data sources, those that dashboards
// choose at first, and the folder where docker-compose.yaml mounts them.
func TestProvisioningLoads(t *testing.T) {
	read := func(name string, into any) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(deploy, "grafana/provisioning", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := provision(raw, into); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := provision(append(raw, "\nnonsense: true\n"...), into); err == nil {
			t.Errorf("%s is taken with an unknown field", name)
		}
	}
	var s sources
	var p providers
	read("datasources/signalbox.yaml", &s)
	read("dashboards/signalbox.yaml", &p)
	kinds := map[string]string{}
	for _, d := range s.Datasources {
		kinds[d.UID] = d.Type
	}
	for _, d := range s.Datasources {
		for _, e := range d.JSONData.ExemplarTraceIDDestinations {
			if kinds[e.DatasourceUID] != "jaeger" {
				t.Errorf("exemplars of %s lead to %q", d.Name, e.DatasourceUID)
			}
		}
		if m := d.JSONData.TracesToMetrics; len(m.Queries) > 0 && kinds[m.DatasourceUID] != "prometheus" {
			t.Errorf("traces of %s lead to %q", d.Name, m.DatasourceUID)
		}
	}
	if len(p.Providers) != 1 || s.APIVersion != 1 || p.APIVersion != 1 {
		t.Fatalf("%d providers, versions %d and %d", len(p.Providers), s.APIVersion, p.APIVersion)
	}
	mounted := false
	for _, v := range compose(t).Services["grafana"].Volumes {
		mounted = mounted || v.Target == p.Providers[0].Options.Path && strings.HasSuffix(v.Source, "deploy/grafana/dashboards")
	}
	if !mounted {
		t.Errorf("the dashboards are not mounted at %s", p.Providers[0].Options.Path)
	}
	files, err := filepath.Glob(filepath.Join(deploy, "grafana/dashboards/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var b struct {
			Templating struct {
				List []struct {
					Name, Type string
					Query      any
					Current    struct{ Value any }
				}
			}
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		for _, v := range b.Templating.List {
			if uid, _ := v.Current.Value.(string); v.Type == "datasource" && kinds[uid] != v.Query {
				t.Errorf("%s: variable %s begins with %v, which is no %v", filepath.Base(f), v.Name, v.Current.Value, v.Query)
			}
		}
	}
}
