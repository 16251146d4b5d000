package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// profileCommand leaves profiles of Signalbox, with telemetry, under three loads in a folder, and prints the top of each.
func profileCommand(ctx context.Context, args []string) error {
	var o options
	fs := flag.NewFlagSet("profile", flag.ContinueOnError)
	o.define(fs)
	program := fs.String("profiler", "bin/profile", "the `binary` that runs the engine and profiles it")
	to := fs.String("to", "bin/profiles", "the `folder` for profiles")
	if err := fs.Parse(args); err != nil {
		return err
	}
	wanted, err := pick("small-64,agent-200k,stream-16", o.measured)
	if err != nil {
		return err
	}
	f, err := newFleet(ctx, *program, 2)
	if err != nil {
		return err
	}
	defer f.close()
	for _, t := range wanted {
		dir, err := filepath.Abs(filepath.Join(*to, t.name))
		if err != nil {
			return err
		}
		if err := f.profiled(ctx, t, dir); err != nil {
			return err
		}
		for _, top := range []struct{ file, sample, title string }{
			{"cpu.pprof", "cpu", "processor time"},
			{"allocs.pprof", "alloc_space", "bytes allocated"},
			{"mutex.pprof", "delay", "time spent waiting for locks"},
		} {
			fmt.Printf("\n## %s: %s\n\n", t.title, top.title)
			show := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=15", "-sample_index="+top.sample, f.signalbox, filepath.Join(dir, top.file))
			show.Stdout, show.Stderr = os.Stdout, os.Stderr
			if err := show.Run(); err != nil {
				return err
			}
		}
	}
	return nil
}

// profiled runs one load against an instance that profiles itself, and ends it, which is when it writes.
func (f *fleet) profiled(ctx context.Context, t trial, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s, p, err := f.startRouter(ctx, setup{name: t.name, telemetry: true}, f.signalbox, "-to", dir)
	if err != nil {
		return err
	}
	r, err := f.measure(ctx, s, t.scenario)
	progress(r)
	f.end(p)
	return err
}
