package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/router/config"
)

// TestReadmeConfigurationsLoad reads all configurations of the README as one file, since some build on others.
func TestReadmeConfigurationsLoad(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	blocks := regexp.MustCompile("(?s)```hcl\n(.*?)```").FindAllSubmatch(readme, -1)
	for _, b := range blocks {
		all.Write(b[1])
	}
	if len(blocks) == 0 {
		t.Error("the README has no configuration")
	}
	_, diags := config.Parse([]byte(all.String()), "README.md", demoEnv)
	for _, l := range config.Lines(diags) {
		if !l.Warning {
			t.Error(l)
		}
	}
}
