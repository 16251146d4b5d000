package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// TestChat is about the command line; package chat has tests of its own.
func TestChat(t *testing.T) {
	quiet(t)
	up := routertest.NewUpstream(routertest.Good("hello to you", routertest.Usage{Input: 9, Output: 3}))
	defer up.Close()
	t.Setenv("SIGNALBOX_URL", up.URL)
	t.Setenv("SIGNALBOX_KEY", "key-of-environment")
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	write(t, file, "key-of-file\n")
	for _, c := range []struct {
		args, stdin string
		status      int
		key, says   string
	}{
		{"-model m hi", "", 0, "key-of-environment", "hello to you"},
		{"-model m -key-file " + file + " -wire anthropic-messages -", "hi", 0, "key-of-file", "9 in (0 cached) 3 out"},
		{"-model m", "hi", 0, "key-of-environment", "hello to you"},
		{"-model m", " \n", 1, "", "there is no prompt"},
		{"-model m -url http://127.0.0.1:1 hi", "", 1, "", "signalbox serve"},
		{"-model m -key-file " + file + ".none hi", "", 1, "", "key.none"},
		{"-model m -export " + filepath.Join(dir, "none", "talk.md") + " hi", "", 1, "key-of-environment", "talk.md"},
		{"-key secret hi", "", 2, "", "not defined: -key"},
		{"-wire morse hi", "", 2, "", "openai-responses"},
		{"-max -1 hi", "", 2, "", "negative"},
		{"hi there", "", 2, "", "quotation marks"},
	} {
		before := len(up.Calls())
		var out, errs console
		status := run(t.Context(), env{strings.NewReader(c.stdin), &out, &errs}, append([]string{"chat"}, strings.Fields(c.args)...))
		if said := out.String() + errs.String(); status != c.status || !strings.Contains(said, c.says) || strings.Contains(said, "key-of-") {
			t.Errorf("%s: status %d\n%s", c.args, status, said)
		}
		calls := up.Calls()[before:]
		if c.key == "" {
			if len(calls) != 0 {
				t.Errorf("%s: %d calls", c.args, len(calls))
			}
			continue
		}
		var got []string
		for _, call := range calls {
			if call.Model == "m" {
				got = append(got, call.Header.Get("Authorization"))
			}
		}
		if want := "Bearer " + c.key; len(got) != 1 || got[0] != want {
			t.Errorf("%s: keys %q, want %q", c.args, got, want)
		}
	}
}
