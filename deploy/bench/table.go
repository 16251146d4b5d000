package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table is rows of cells, the first of which are the headings.
type table [][]string

// String renders Markdown that can be read as it is.
func (t table) String() string {
	width := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for n, row := range t {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", width[i]-len([]rune(cell))))
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, w := range width {
				b.WriteString("|" + strings.Repeat("-", w+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// comparison is the table of all trials. Ratios and added delays are taken within a round, then the median over the rounds.
func comparison(wanted []trial, results []result, starts []start) string {
	t := table{{"scenario", "subject", "CPU each", "ratio", "goal", "added p50", "added p99", "per second", "RSS MB", "errors"}}
	for _, tr := range wanted {
		title := tr.title
		for _, name := range tr.who {
			if rs := of(results, tr.name, name); len(rs) > 0 {
				t = append(t, tr.row(title, name, rs, results))
				title = ""
			}
		}
	}
	title := "start to first answer, then idle"
	for _, name := range []string{reverseProxy, telemetryOn, telemetryOff} {
		goal := ""
		if name != reverseProxy {
			goal = fmt.Sprintf("%s, %d MB", short(coldGoal), idleGoal/megabyte)
		}
		one := leastOf(starts, name)
		t = append(t, []string{title, name, short(one.worked), "", goal, short(one.served), "", "", fmt.Sprintf("%.1f", float64(one.rss)/megabyte), ""})
		title = ""
	}
	others := medianOf(results, func(r result) float64 { return r.others })
	return t.String() + fmt.Sprintf("\nOther work on this machine took %.1f processors meanwhile.\n", others)
}

func (tr trial) row(title, name string, rs, all []result) []string {
	ratio := against(all, rs, reverseProxy, func(r, o result) float64 { return float64(r.each()) / float64(max(o.each(), 1)) })
	added := func(p func(result) time.Duration) string {
		return short(time.Duration(against(all, rs, direct, func(r, o result) float64 { return float64(p(r) - p(o)) })))
	}
	row := []string{
		title, name, short(time.Duration(medianOf(rs, func(r result) float64 { return float64(r.each()) }))), fmt.Sprintf("%.2f", ratio), tr.goal(name),
		added(func(r result) time.Duration { return r.p50 }), added(func(r result) time.Duration { return r.p99 }),
		fmt.Sprintf("%.0f", medianOf(rs, func(r result) float64 { return float64(r.units()) / r.took.Seconds() })),
		fmt.Sprintf("%.0f", medianOf(rs, func(r result) float64 { return float64(r.rss) / megabyte })), faults(rs),
	}
	if name == direct {
		row[2], row[3], row[8] = "", "", ""
		row[5] = "(" + short(time.Duration(medianOf(rs, func(r result) float64 { return float64(r.p50) }))) + ")"
		row[6] = "(" + short(time.Duration(medianOf(rs, func(r result) float64 { return float64(r.p99) }))) + ")"
	}
	return row
}

// against compares results with those of another subject in the same round, and returns the median.
func against(all, rs []result, other string, f func(r, o result) float64) float64 {
	var found []float64
	for _, r := range rs {
		for _, o := range of(all, r.scenario, other) {
			if o.round == r.round {
				found = append(found, f(r, o))
			}
		}
	}
	return median(found)
}

// goal is what a subject is asked for.
func (tr trial) goal(name string) string {
	var goals []string
	switch {
	case name == telemetryOn && tr.on > 0:
		goals = append(goals, fmt.Sprintf("%.2f", tr.on))
	case name == telemetryOff && tr.off > 0:
		goals = append(goals, fmt.Sprintf("%.2f", tr.off))
	case name == againOn && tr.each > 0:
		goals = append(goals, short(tr.each))
	}
	if name == telemetryOn && tr.rss > 0 {
		goals = append(goals, fmt.Sprintf("%d MB", tr.rss/megabyte))
	}
	return strings.Join(goals, ", ")
}

// of returns the results of one subject in one scenario.
func of(all []result, scenario, subject string) (found []result) {
	for _, r := range all {
		if r.scenario == scenario && r.subject == subject {
			found = append(found, r)
		}
	}
	return found
}

// leastOf is the least of all starts of a subject: other work on the machine can only add.
func leastOf(all []start, subject string) (least start) {
	for _, s := range all {
		if s.subject != subject {
			continue
		}
		if least.subject == "" {
			least = s
		}
		least.served, least.worked, least.rss = min(least.served, s.served), min(least.worked, s.worked), min(least.rss, s.rss)
	}
	return least
}

// faults adds up what went wrong in all rounds.
func faults(rs []result) string {
	sum := map[string]int64{}
	for _, r := range rs {
		for kind, n := range r.faults {
			sum[kind] += n
		}
	}
	if len(sum) == 0 {
		return "0"
	}
	return strings.TrimPrefix(fmt.Sprint(sum), "map")
}

func medianOf(rs []result, f func(result) float64) float64 {
	var v []float64
	for _, r := range rs {
		v = append(v, f(r))
	}
	return median(v)
}

// median is 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// short is a duration with three digits or so.
func short(d time.Duration) string {
	size := max(d, -d)
	for _, unit := range []struct {
		name string
		is   time.Duration
	}{{"s", time.Second}, {"ms", time.Millisecond}, {"µs", time.Microsecond}} {
		if size < unit.is {
			continue
		}
		v, digits := float64(d)/float64(unit.is), 0
		if size < 100*unit.is {
			digits++
		}
		if size < 10*unit.is {
			digits++
		}
		return fmt.Sprintf("%.*f %s", digits, v, unit.name)
	}
	return fmt.Sprintf("%d ns", d)
}
