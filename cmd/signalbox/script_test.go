package main

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets scripts call the command as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"signalbox": func() { os.Exit(run(context.Background(), env{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])) },
	})
}

// TestScripts runs each script in a folder of its own, with nothing in the environment but what it sets.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata/script"})
}
