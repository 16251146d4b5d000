package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// step is one size of what grows.
type step struct {
	what, size string
	setup      setup // its own instance of Signalbox, unless it has no name
	proxy      bool  // ReverseProxy is measured, as something to compare with
	scenario   scenario
}

// growthCommand prints what a request costs as everything grows.
func growthCommand(ctx context.Context, args []string) error {
	var o options
	fs := flag.NewFlagSet("growth", flag.ContinueOnError)
	o.define(fs)
	minutes := fs.Int("minutes", 10, "how long processor time and memory are watched; 0: not")
	if err := fs.Parse(args); err != nil {
		return err
	}
	f, err := newFleet(ctx, o.signalbox, 2)
	if err != nil {
		return err
	}
	defer f.close()
	all := f.steps(o.measured)
	results, err := f.grow(ctx, o.rounds, all)
	if err != nil {
		return err
	}
	fmt.Print(growthTable(all, results))
	if *minutes == 0 {
		return nil
	}
	drift, err := f.drift(ctx, *minutes)
	if err != nil {
		return err
	}
	fmt.Print("\n" + drift)
	return nil
}

// steps are all sizes of everything.
func (f *fleet) steps(d time.Duration) (all []step) {
	small := scenario{size: 1 << 10, workers: 16, sessions: 100, warm: d / 4, measured: d}
	add := func(what string, n int, s setup, sc scenario) {
		size := fmt.Sprint(n)
		sc.name = what + " " + size
		if s.name != "" {
			s.name, s.telemetry = sc.name, true
		}
		all = append(all, step{what: what, size: size, setup: s, scenario: sc})
	}
	const own = "own"
	for _, n := range []int{2, 10, 100} {
		add("upstreams", n, setup{name: own, upstreams: slices.Repeat(f.upstreams, n/2)}, small)
	}
	for _, n := range []int{2, 100, 1000} {
		add("models", n, setup{name: own, models: n}, small)
	}
	for _, n := range []int{2, 100, 1000} {
		add("keys", n, setup{name: own, keys: n - 2}, small)
	}
	for _, n := range []int64{1, 1000, 10_000} {
		sc := small
		sc.sessions, sc.warm = n, d
		add("sessions", int(n), setup{name: own}, sc)
	}
	for _, n := range []int{1, 100, 1000, 2000} {
		sc := scenario{
			size: 1 << 10, workers: n, chunks: 100, sessions: 100, ramp: 1500 * time.Millisecond, warm: 2 * time.Second, measured: d,
			upstream: []string{"chunks=100&delay=50ms"},
		}
		add("streams in flight", n, setup{name: own}, sc)
	}
	for _, kb := range []int{1, 64, 256, 1024, 4096} {
		sc := scenario{size: kb << 10, workers: 4, sessions: 100, warm: d / 4, measured: d}
		add("body, KB", kb, setup{}, sc)
		all = append(all, step{what: "the same, " + reverseProxy, size: fmt.Sprint(kb), proxy: true, scenario: sc})
		all[len(all)-1].scenario.name = fmt.Sprint("proxy ", kb)
	}
	return all
}

// grow measures all steps in turns.
func (f *fleet) grow(ctx context.Context, rounds int, all []step) (results []result, err error) {
	proxy, _, err := f.startProxy(ctx, f.upstreams[0])
	if err != nil {
		return nil, err
	}
	shared, _, err := f.startSignalbox(ctx, setup{name: "shared", telemetry: true})
	if err != nil {
		return nil, err
	}
	for round := range rounds {
		order := rand.Perm(len(all))
		for _, i := range order {
			r, err := f.growOnce(ctx, all[i], proxy, shared)
			if err != nil {
				return nil, err
			}
			r.round = round
			results = append(results, r)
			progress(r)
		}
	}
	return results, nil
}

func (f *fleet) growOnce(ctx context.Context, s step, proxy, shared subject) (result, error) {
	if s.proxy {
		return f.measure(ctx, proxy, s.scenario)
	}
	if s.setup.name == "" {
		return f.measure(ctx, shared, s.scenario)
	}
	own, p, err := f.startSignalbox(ctx, s.setup)
	if err != nil {
		return result{}, err
	}
	defer f.end(p)
	return f.measure(ctx, own, s.scenario)
}

// growthTable shows medians, and each against the first of its kind.
func growthTable(all []step, results []result) string {
	t := table{{"what grows", "size", "CPU each", "to the first", "ns per byte more", "p50", "p99", "per second", "RSS MB", "errors"}}
	first := map[string]float64{}
	least := map[string]int{}
	said := ""
	for _, s := range all {
		var rs []result
		for _, r := range results {
			if r.scenario == s.scenario.name {
				rs = append(rs, r)
			}
		}
		cost := medianOf(rs, func(r result) float64 { return float64(r.each()) })
		if _, known := first[s.what]; !known {
			first[s.what], least[s.what] = cost, s.scenario.size
		}
		perByte := ""
		if more := s.scenario.size - least[s.what]; more > 0 {
			perByte = fmt.Sprintf("%.2f", (cost-first[s.what])/float64(more))
		}
		what := s.what
		if what == said {
			what = ""
		}
		said = s.what
		t = append(t, []string{
			what, s.size, short(time.Duration(cost)), fmt.Sprintf("%.2f", cost/max(first[s.what], 1)), perByte,
			short(time.Duration(medianOf(rs, func(r result) float64 { return float64(r.p50) }))),
			short(time.Duration(medianOf(rs, func(r result) float64 { return float64(r.p99) }))),
			fmt.Sprintf("%.0f", medianOf(rs, func(r result) float64 { return float64(r.units()) / r.took.Seconds() })),
			fmt.Sprintf("%.0f", medianOf(rs, func(r result) float64 { return float64(r.rss) / megabyte })), faults(rs),
		})
	}
	return t.String()
}

// drift watches one instance under an even load.
func (f *fleet) drift(ctx context.Context, minutes int) (string, error) {
	s, _, err := f.startSignalbox(ctx, setup{name: "drift", telemetry: true})
	if err != nil {
		return "", err
	}
	t := table{{"minute", "CPU each", "to the first", "p50", "p99", "per second", "RSS MB", "errors"}}
	var first float64
	for i := range minutes {
		r, err := f.measure(ctx, s, scenario{name: "drift", size: 1 << 10, workers: 8, sessions: 1000, measured: time.Minute})
		if err != nil {
			return "", err
		}
		cost := float64(r.each())
		if i == 0 {
			first = max(cost, 1)
		}
		fmt.Fprintf(os.Stderr, "minute %d: %v each, %d MB\n", i+1, r.each(), r.rss/megabyte)
		t = append(t, []string{
			fmt.Sprint(i + 1), short(r.each()), fmt.Sprintf("%.2f", cost/first), short(r.p50), short(r.p99),
			fmt.Sprintf("%.0f", float64(r.units())/r.took.Seconds()), fmt.Sprint(r.rss / megabyte), faults([]result{r}),
		})
	}
	return t.String(), nil
}
