package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Subjects of a comparison.
const (
	direct       = "(no proxy)"
	reverseProxy = "ReverseProxy"
	telemetryOn  = "Signalbox, telemetry"
	telemetryOff = "Signalbox, none"
	againOn      = "Signalbox, telemetry, each time"
	againOff     = "Signalbox, none, each time"
	nginx        = "nginx"
)

// trial is a scenario of the comparison, and what Signalbox must not exceed in it. Zeros are no goal.
type trial struct {
	scenario
	title   string
	on, off float64       // cost as a ratio to ReverseProxy, with telemetry and without
	each    time.Duration // or cost of one request
	rss     int64
	who     []string // subjects; nil: all that need no special configuration
}

const (
	slowStreams = "slow-1000"
	megabyte    = 1 << 20
)

func trials() []trial {
	ordinary := []string{direct, reverseProxy, telemetryOn, telemetryOff, nginx}
	failing := append(slices.Clone(ordinary), againOn, againOff)
	return []trial{
		{scenario: scenario{name: "small-64", size: 1 << 10, workers: 64}, title: "1 KB of JSON, 64 connections", on: 1.20, off: 0.75, who: ordinary},
		{scenario: scenario{name: "agent-200k", size: 200 << 10, workers: 16}, title: "200 KB of an agent, 16 connections", on: 1.30, who: ordinary},
		{scenario: scenario{name: "agent-2m", size: 2 << 20, workers: 4}, title: "2 MB of an agent, 4 connections", on: 1.20, who: ordinary},
		{scenario: scenario{name: "stream-16", size: 1 << 10, workers: 16, chunks: 100}, title: "streams of 100 chunks at once, 16 connections", on: 1.15, who: ordinary},
		{
			scenario: scenario{
				name: slowStreams, size: 1 << 10, workers: 1000, chunks: 100, ramp: 1500 * time.Millisecond, warm: 2 * time.Second,
				upstream: []string{"chunks=100&delay=50ms"},
			},
			title: "1,000 streams, a chunk each 50 ms", on: 1.10, rss: 90 * megabyte, who: ordinary,
		},
		{
			scenario: scenario{name: "failover-500", size: 1 << 10, workers: 1, upstream: []string{"mode=500", ""}},
			title:    "first upstream 500, then good, 1 connection", each: 220 * time.Microsecond, who: failing,
		},
	}
}

// pick returns the trials of these names, in their own order; all if there are none. Those without a time of their own get d.
func pick(names string, d time.Duration) ([]trial, error) {
	all := trials()
	known := make([]string, len(all))
	for i := range all {
		t := &all[i]
		known[i] = t.name
		t.measured = d
		if t.warm == 0 {
			t.warm = d / 4
		}
	}
	if names == "" {
		return all, nil
	}
	wanted := strings.Split(names, ",")
	for _, n := range wanted {
		if !slices.Contains(known, n) {
			return nil, fmt.Errorf("there is no scenario %q, only %s", n, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(t trial) bool { return !slices.Contains(wanted, t.name) }), nil
}
