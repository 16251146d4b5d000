package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestHelp asks every command what it does, which must be told in one way and do nothing.
func TestHelp(t *testing.T) {
	explained := 0
	for _, c := range commands() {
		status, out, errs := invoke(c.name, "-h")
		if status != 0 || errs != "" || !strings.HasPrefix(out, "signalbox "+c.name+": "+c.does+"\n\nusage: signalbox "+c.line()+"\n") {
			t.Errorf("%s: status %d\n%s%s", c.name, status, out, errs)
		}
		if _, again, _ := invoke("help", c.name); again != out {
			t.Errorf("help %s:\n%s", c.name, again)
		}
		for _, word := range words[c.name] {
			if !strings.Contains(out, "\n  "+word[0]+" ") || !strings.Contains(out, word[1]+"\n") {
				t.Errorf("%s: %s is not explained:\n%s", c.name, word[0], out)
			}
			explained++
		}
		for word := range strings.FieldsSeq(c.args) {
			if name, ok := strings.CutPrefix(strings.TrimLeft(word, "["), "-"); ok && name != "]" {
				if name = strings.Trim(name, "-]"); !strings.Contains(out, "\n  -"+name+" ") && !strings.Contains(out, "\n  -"+name+"\n") {
					t.Errorf("%s: no flag %s:\n%s", c.name, name, out)
				}
			}
		}
		status, out, errs = invoke(c.name, "-nonsense")
		if status != 2 || out != "" || !strings.Contains(errs, "-nonsense") || !strings.Contains(errs, "usage: signalbox "+c.name) {
			t.Errorf("%s with a wrong flag: status %d\n%s%s", c.name, status, out, errs)
		}
	}
	all := 0
	for _, list := range words {
		all += len(list)
	}
	if explained != all {
		t.Errorf("%d of %d explained arguments are of a command", explained, all)
	}
}

// TestColoursOfDiagnostics checks that whatever shows mistakes of a configuration minds the wish for colours.
func TestColoursOfDiagnostics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.hcl")
	write(t, file, "nothing = 1\n")
	for _, args := range [][]string{{"check", file}, {"usage", "-config", file}, {"explain", "-config", file, "-path", "/v1/messages", file}, {"serve", "-config", file}} {
		t.Setenv("FORCE_COLOR", "1")
		t.Setenv("NO_COLOR", "")
		if status, _, errs := invoke(args...); status != 1 || !strings.Contains(errs, "\x1b[") {
			t.Errorf("%v: status %d, %q", args, status, errs)
		}
		t.Setenv("NO_COLOR", "1")
		if status, _, errs := invoke(args...); status != 1 || strings.Contains(errs, "\x1b[") {
			t.Errorf("%v: status %d, %q", args, status, errs)
		}
	}
}
