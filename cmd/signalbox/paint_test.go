package main

import (
	"strings"
	"testing"
)

// TestTableObeysNobody draws a name that a client has made up, by way of a glob.
func TestTableObeysNobody(t *testing.T) {
	var out strings.Builder
	painter{w: &out}.table([][]cell{{{text: "\x1b]0;title\a"}, {text: "a\nb"}, {text: "\u202eend"}}})
	if got, want := out.String(), "    ?]0;title?  a?b  ?end\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWithoutUser(t *testing.T) {
	for base, want := range map[string]string{
		"https://me:hunter2@host/v1": "https://redacted@host/v1", "https://host/v1": "https://host/v1", "::": "::",
	} {
		if got := withoutUser(base); got != want {
			t.Errorf("%s: %s, want %s", base, got, want)
		}
	}
}

func TestFixed(t *testing.T) {
	for setting, want := range map[string]bool{"usage.url": true, "telemetry.otlp.headers": true, "server.listen": true, "upstream.a.api_key": false} {
		if fixed(setting) != want {
			t.Errorf("%s: a restart is needed: %v, want %v", setting, !want, want)
		}
	}
}
