package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/config"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	hclBlock = regexp.MustCompile("(?s)```hcl\n(.*?)```")
	onlyOnce = regexp.MustCompile(`(?ms)^server \{\n(.*?)^\}\n`) // what the README shows in parts
)

// TestReadmeConfigurationsLoad reads all configurations of the README as one file, since some build on others.
func TestReadmeConfigurationsLoad(t *testing.T) {
	var all, server strings.Builder
	blocks := hclBlock.FindAllStringSubmatch(readme(t), -1)
	for _, b := range blocks {
		for _, part := range onlyOnce.FindAllStringSubmatch(b[1], -1) {
			server.WriteString(part[1])
		}
		all.WriteString(onlyOnce.ReplaceAllString(b[1], ""))
	}
	if len(blocks) == 0 || server.Len() == 0 {
		t.Error("the README has no configuration")
	}
	_, diags := config.Parse([]byte(all.String()+"server {\n"+server.String()+"}\n"), "README.md", demoEnv)
	for _, l := range config.Lines(diags) {
		if !l.Warning {
			t.Error(l)
		}
	}
}

var explained = regexp.MustCompile("(?s)```sh\nprintf '([^']*)' \\| go run \\./cmd/signalbox explain ([^\n]*) -\n```\n\n```\n(.*?)```")

// TestReadmeExplains runs the questions of the README that need no running router.
func TestReadmeExplains(t *testing.T) {
	quiet(t)
	for _, name := range []string{"SIGNALBOX_KEY", "SIGNALBOX_LISTEN"} {
		t.Setenv(name, "")
	}
	questions := explained.FindAllStringSubmatch(readme(t), -1)
	if len(questions) < 2 {
		t.Errorf("the README has %d questions", len(questions))
	}
	t.Chdir("../..")
	for _, q := range questions {
		var out, errs output
		status := run(t.Context(), env{strings.NewReader(q[1]), &out, &errs}, append([]string{"explain"}, append(strings.Fields(q[2]), "-")...))
		if diff := cmp.Diff(q[3], out.String()); status != 0 || diff != "" {
			t.Errorf("%s: status %d %s (-README +got):\n%s", q[2], status, errs.String(), diff)
		}
	}
}
