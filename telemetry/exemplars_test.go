package telemetry

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Exemplars are kept for those metrics that a dashboard shows them of, and for no others.
func TestPanelsHaveTheirExemplars(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(deployed, "grafana", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no dashboards", err)
	}
	bucket := regexp.MustCompile(`(\w+?)(?:_seconds)?_bucket\b`)
	asked, kept := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b struct {
			Panels []struct {
				Targets []struct {
					Expr     string
					Exemplar bool
				}
			}
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatal(err)
		}
		for _, p := range b.Panels {
			for _, q := range p.Targets {
				if m := bucket.FindStringSubmatch(q.Expr); q.Exemplar && m != nil {
					asked[m[1]] = true
				}
			}
		}
	}
	for name := range linked {
		if Linked(name) {
			kept[strings.ReplaceAll(name, ".", "_")] = true
		}
	}
	if diff := cmp.Diff(asked, kept); diff != "" {
		t.Errorf("metrics with exemplars (-asked for +kept):\n%s", diff)
	}
}
