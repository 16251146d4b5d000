package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"
)

// What is asked of Signalbox beside the ratios.
const (
	coldGoal   = 30 * time.Millisecond
	idleGoal   = 20 * megabyte
	binaryGoal = 25 * megabyte
	manyStream = 10_000
)

// check is something that must hold.
type check struct {
	what, goal, got string
	ok              bool
}

// verdicts is the table of all checks.
func verdicts(all []check) string {
	t := table{{"what must hold", "goal", "found", ""}}
	for _, c := range all {
		verdict := "FAIL"
		if c.ok {
			verdict = "pass"
		}
		t = append(t, []string{c.what, c.goal, c.got, verdict})
	}
	return t.String()
}

// checks looks at what was measured, and at what happens when upstreams fail or the machine is busy.
func (f *fleet) checks(ctx context.Context, binary string, results []result, starts []start) ([]check, error) {
	all := ratios(results)
	all = append(all, slowChecks(results)...)
	full, bare := leastOf(starts, telemetryOn), leastOf(starts, telemetryOff)
	info, err := os.Stat(binary)
	if err != nil {
		return nil, err
	}
	mb := func(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/megabyte) }
	all = append(all,
		check{"start to first answer", short(coldGoal), short(full.served), full.served <= coldGoal},
		check{"idle, with telemetry", mb(idleGoal), mb(full.rss), full.rss <= idleGoal},
		check{"idle, without", mb(idleGoal), mb(bare.rss), bare.rss <= idleGoal},
		check{"size of the binary", mb(binaryGoal), mb(info.Size()), info.Size() <= binaryGoal},
	)
	for _, more := range []func(context.Context) ([]check, error){f.refused, f.limited, f.blackHole, f.contended} {
		found, err := more(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// ratios are the goals of the comparison.
func ratios(results []result) (all []check) {
	for _, t := range trials() {
		for name, goal := range map[string]float64{telemetryOn: t.on, telemetryOff: t.off} {
			rs := of(results, t.name, name)
			if goal == 0 || len(rs) == 0 {
				continue
			}
			ratio := against(results, rs, reverseProxy, func(r, o result) float64 { return float64(r.each()) / float64(max(o.each(), 1)) })
			all = append(all, check{t.title + ": " + name, fmt.Sprintf("%.2f", goal), fmt.Sprintf("%.2f", ratio), ratio <= goal})
		}
		if rs := of(results, t.name, againOn); t.each > 0 && len(rs) > 0 {
			each := time.Duration(medianOf(rs, func(r result) float64 { return float64(r.each()) }))
			all = append(all, check{t.title + ": CPU of a failover", short(t.each), short(each), each <= t.each})
		}
	}
	return all
}

// slowChecks are what many slow streams must not do.
func slowChecks(results []result) (all []check) {
	rs := of(results, slowStreams, telemetryOn)
	if len(rs) == 0 {
		return nil
	}
	const slack = float64(time.Millisecond)
	p99 := medianOf(rs, func(r result) float64 { return float64(r.p99) })
	goal := medianOf(of(results, slowStreams, reverseProxy), func(r result) float64 { return float64(r.p99) }) + slack
	all = append(all, check{"1,000 streams: p99 of a chunk's delay", "ReverseProxy's and 1 ms: " + short(time.Duration(goal)), short(time.Duration(p99)), p99 <= goal})
	for _, t := range trials() {
		if t.rss > 0 {
			rss := medianOf(rs, func(r result) float64 { return float64(r.rss) / megabyte })
			limit := float64(t.rss) / megabyte
			all = append(all, check{"1,000 streams: memory", fmt.Sprintf("%.0f MB", limit), fmt.Sprintf("%.0f MB", rss), rss <= limit})
		}
	}
	return all
}

// failures sends pairs of requests: the first fails over, the second finds that the upstream rests. It returns what the
// fastest first one took more than the fastest second one: other work on the machine can only add to either.
func (f *fleet) failures(ctx context.Context, s setup, sc scenario, pairs int) (added time.Duration, _ error) {
	if err := f.behave(ctx, sc.upstream); err != nil {
		return 0, err
	}
	sub, p, err := f.startSignalbox(ctx, s)
	if err != nil {
		return 0, err
	}
	defer f.end(p)
	w := f.lone(sub, sc)
	defer w.close()
	var slow, fast time.Duration
	for range pairs {
		if err := f.post(ctx, "http://"+sub.address+"/admin/reset-health", "{}"); err != nil {
			return 0, err
		}
		over, straight := w.send(ctx, f.numbers.Add(1)), w.send(ctx, f.numbers.Add(1))
		if over == 0 || straight == 0 {
			return 0, fmt.Errorf("%s: %v", s.name, w.seen.faults)
		}
		if slow == 0 {
			slow, fast = over, straight
		}
		slow, fast = min(slow, over), min(fast, straight)
	}
	return slow - fast, nil
}

// refused asks an upstream that nobody listens for.
func (f *fleet) refused(ctx context.Context) ([]check, error) {
	const goal = time.Millisecond
	free, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	added, err := f.failures(ctx, setup{name: "refused", telemetry: true, upstreams: []string{free[0], f.upstreams[1]}}, scenario{size: 1 << 10}, 100)
	return []check{{"a refused connection adds", short(goal), short(added), added < goal}}, err
}

// limited asks an upstream that says 429 after a while, and counts who is asked once it rests.
func (f *fleet) limited(ctx context.Context) ([]check, error) {
	const wait, slack, pairs = 20 * time.Millisecond, 2 * time.Millisecond, 50
	before, err := f.asked(ctx, 0)
	if err != nil {
		return nil, err
	}
	sc := scenario{size: 1 << 10, upstream: []string{"mode=429&wait=" + wait.String(), "wait=" + wait.String()}}
	added, err := f.failures(ctx, setup{name: "limited", telemetry: true}, sc, pairs)
	if err != nil {
		return nil, err
	}
	after, err := f.asked(ctx, 0)
	more := after - before - pairs
	return []check{
		{"a 429 after 20 ms adds", "one round trip: " + short(wait+slack), short(added), added < wait+slack},
		{"requests to an upstream that rests", fmt.Sprintf("0 of %d", pairs), fmt.Sprint(more), more == 0},
	}, err
}

// blackHole asks an upstream that takes requests and says nothing.
func (f *fleet) blackHole(ctx context.Context) ([]check, error) {
	const limit, slack = 300 * time.Millisecond, 5 * time.Millisecond
	sc := scenario{size: 1 << 10, chunks: 10, upstream: []string{"mode=hang", "chunks=10"}}
	added, err := f.failures(ctx, setup{name: "hole", telemetry: true, firstByte: limit}, sc, 10)
	return []check{{"a black hole adds", "its limit: " + short(limit) + " to " + short(limit+slack), short(added), added > limit-slack && added < limit+slack}}, err
}

// contended counts streams that are not whole while everything fights for the processors.
func (f *fleet) contended(ctx context.Context) ([]check, error) {
	s, p, err := f.startSignalbox(ctx, setup{name: "contended", telemetry: true})
	if err != nil {
		return nil, err
	}
	defer f.end(p)
	busy, quiet := context.WithCancel(ctx)
	defer quiet()
	for range 2 * runtime.NumCPU() {
		go func() {
			for busy.Err() == nil { // it is the work
			}
		}()
	}
	r, err := f.measure(ctx, s, scenario{
		name: "contended", size: 64 << 10, workers: 64, chunks: 100, total: manyStream, measured: 10 * time.Minute,
	})
	progress(r)
	short := manyStream - r.good
	return []check{{"streams cut short on a busy machine", fmt.Sprintf("0 of %d", manyStream), fmt.Sprint(short, " ", faults([]result{r})), short == 0}}, err
}
