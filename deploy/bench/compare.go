package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"
)

// options are the flags that all measurements share.
type options struct {
	signalbox string
	rounds    int
	measured  time.Duration
}

func (o *options) define(f *flag.FlagSet) {
	f.StringVar(&o.signalbox, "signalbox", "bin/signalbox", "the `binary` to measure")
	f.IntVar(&o.rounds, "rounds", 3, "how often each is measured; medians are shown")
	f.DurationVar(&o.measured, "dur", 4*time.Second, "how long each measurement takes")
}

// compareCommand prints Signalbox beside other proxies, and what must hold under load.
func compareCommand(ctx context.Context, args []string) error {
	var o options
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	o.define(fs)
	names := fs.String("scenarios", "", "only these, with commas")
	if err := fs.Parse(args); err != nil {
		return err
	}
	wanted, err := pick(*names, o.measured)
	if err != nil {
		return err
	}
	f, err := newFleet(ctx, o.signalbox, 2)
	if err != nil {
		return err
	}
	defer f.close()
	starts, err := f.starts(ctx, o.rounds)
	if err != nil {
		return err
	}
	subjects, err := f.subjects(ctx, wanted)
	if err != nil {
		return err
	}
	results, err := f.rounds(ctx, o.rounds, wanted, subjects)
	if err != nil {
		return err
	}
	fmt.Print(comparison(wanted, results, starts))
	if *names != "" {
		return nil // whoever picks scenarios is after their numbers
	}
	checks, err := f.checks(ctx, o.signalbox, results, starts)
	if err != nil {
		return err
	}
	fmt.Print("\n" + verdicts(checks))
	return nil
}

// subjects starts all that the trials need.
func (f *fleet) subjects(ctx context.Context, wanted []trial) ([]subject, error) {
	// ReverseProxy has the last upstream, which never fails, so that there is something to compare failovers with.
	last := f.upstreams[len(f.upstreams)-1]
	all := []subject{{name: direct, address: last, model: "fake-1"}}
	proxy, _, err := f.startProxy(ctx, last)
	if err != nil {
		return nil, err
	}
	all = append(all, proxy)
	for _, s := range []setup{
		{name: telemetryOn, telemetry: true},
		{name: telemetryOff},
		{name: againOn, telemetry: true, extra: again},
		{name: againOff, extra: again},
	} {
		if !slices.ContainsFunc(wanted, func(t trial) bool { return slices.Contains(t.who, s.name) }) {
			continue
		}
		s, _, err := f.startSignalbox(ctx, s)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	s, err := f.startNginx(ctx)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "nginx is not installed: left out")
		return all, nil
	}
	return append(all, s), err
}

// rounds measures every subject in every trial, in another order each time, so that what else runs on the machine meets all.
func (f *fleet) rounds(ctx context.Context, n int, wanted []trial, subjects []subject) (all []result, err error) {
	for round := range n {
		for _, t := range wanted {
			order := slices.Clone(subjects)
			rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			for _, s := range order {
				if !slices.Contains(t.who, s.name) {
					continue
				}
				r, err := f.measure(ctx, s, t.scenario)
				if err != nil {
					return nil, err
				}
				r.round = round
				all = append(all, r)
				progress(r)
				f.recover(ctx, s)
				pause(ctx, 300*time.Millisecond)
			}
		}
	}
	return all, nil
}

// recover forgets what a failing upstream has left behind; only Signalbox can.
func (f *fleet) recover(ctx context.Context, s subject) {
	if s.model == model {
		_ = f.post(ctx, "http://"+s.address+"/admin/reset-health", "{}") // the next measurement shows whether it was heard
	}
}

func progress(r result) {
	fmt.Fprintf(os.Stderr, "round %d  %-12s %-32s %8.0f/s  %10v each  p50 %9v  p99 %9v  %4d MB  others %.1f  %v\n", r.round+1, r.scenario, r.subject,
		float64(r.units())/r.took.Seconds(), r.each(), r.p50.Round(time.Microsecond), r.p99.Round(time.Microsecond), r.rss/megabyte, r.others, r.faults)
}

// start is one beginning of a process.
type start struct {
	subject string
	served  time.Duration // from its start to its first answer
	worked  time.Duration // of that, at work
	rss     int64         // when idle
}

// starts begins the subjects that are programs of their own, several times.
func (f *fleet) starts(ctx context.Context, n int) (all []start, err error) {
	for range n {
		for _, name := range []string{reverseProxy, telemetryOn, telemetryOff} {
			at := time.Now()
			s, p, err := f.startAny(ctx, name)
			if err != nil {
				return nil, err
			}
			w := f.lone(s, scenario{size: 1 << 10})
			if w.send(ctx, f.numbers.Add(1)) == 0 {
				return nil, fmt.Errorf("%s does not answer: %v", name, w.seen.faults)
			}
			one := start{subject: name, served: time.Since(at), worked: cpuOf([]int{s.pid})}
			w.close()
			pause(ctx, 2*time.Second)
			one.rss = memoryOf([]int{s.pid})
			f.end(p)
			all = append(all, one)
			fmt.Fprintf(os.Stderr, "%s: first answer after %v, %v of it at work, %.1f MB when idle\n",
				name, one.served.Round(100*time.Microsecond), one.worked.Round(100*time.Microsecond), float64(one.rss)/megabyte)
		}
	}
	return all, nil
}

func (f *fleet) startAny(ctx context.Context, name string) (subject, *process, error) {
	if name == reverseProxy {
		return f.startProxy(ctx, f.upstreams[0])
	}
	return f.startSignalbox(ctx, setup{name: name, telemetry: name == telemetryOn})
}

// lone is a worker of its own.
func (f *fleet) lone(s subject, sc scenario) *worker {
	return &worker{address: s.address, message: newMessage(s, sc), chunks: sc.chunks, seen: &records{faults: map[string]int64{}}}
}
