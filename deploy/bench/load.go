package main

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// subject is something that is measured.
type subject struct {
	name    string
	address string
	model   string // what to ask it for
	pid     int    // 0: none of its own
}

// scenario is one load.
type scenario struct {
	name     string
	size     int           // of the request's body, in bytes
	workers  int           // each sends one request after the other
	chunks   int           // of each streamed answer; 0: the answer is whole
	sessions int64         // so many conversations in turn; 0: each request is the first of its own
	ramp     time.Duration // over which the workers begin
	warm     time.Duration // before anything counts
	measured time.Duration
	total    int64    // so many requests and no more; 0: until the time is over
	upstream []string // behaviour of each upstream; the last one is that of all others
}

// result is what one measurement has found.
type result struct {
	subject, scenario string
	round             int
	took              time.Duration
	requests, chunks  int64
	good              int64 // answers, also those outside of the window
	faults            map[string]int64
	p50, p99          time.Duration // of whole answers, or of the delay of chunks
	cpu               time.Duration // of the subject
	others            float64       // processors that were busy with none of this
	rss               int64         // the most, in bytes
}

// unit is what costs are counted by: chunks of a stream, or requests.
func (r result) units() int64 {
	if r.chunks > 0 {
		return r.chunks
	}
	return r.requests
}

// each is the cost of one request or chunk.
func (r result) each() time.Duration {
	if r.units() == 0 {
		return 0
	}
	return r.cpu / time.Duration(r.units())
}

func (r result) failed() (sum int64) {
	for _, n := range r.faults {
		sum += n
	}
	return sum
}

// grace is how long requests may go on after a measurement before they are cut.
const grace = time.Second

// measure puts a load on a subject and watches what it does.
func (f *fleet) measure(ctx context.Context, s subject, sc scenario) (result, error) {
	r := result{subject: s.name, scenario: sc.name}
	if err := f.behave(ctx, sc.upstream); err != nil {
		return r, err
	}
	crew := f.hire(ctx, s, sc)
	defer crew.cut()
	pause(ctx, sc.warm)

	var pids []int
	if s.pid > 0 {
		pids = family(s.pid)
	}
	helpers := append([]int{os.Getpid()}, f.aid...)
	cpu, rest, all, start := cpuOf(pids), cpuOf(helpers), busy(), time.Now()
	crew.seen.counting.Store(true)
	r.rss = watch(ctx, pids, sc.measured, crew.ended)
	crew.seen.counting.Store(false)
	r.took = time.Since(start)
	r.cpu = cpuOf(pids) - cpu
	r.others = (busy() - all - r.cpu - (cpuOf(helpers) - rest)).Seconds() / r.took.Seconds()
	r.requests, r.chunks = crew.seen.requests.Load(), crew.seen.chunks.Load()
	crew.dismiss()

	of := &crew.seen.latency
	if sc.chunks > 0 {
		of = &crew.seen.delay
	}
	r.good = crew.seen.good.Load()
	r.p50, r.p99, r.faults = of.quantile(0.5), of.quantile(0.99), crew.seen.faults
	return r, ctx.Err()
}

// watch returns the most memory that processes held until the time is over or the work has ended.
func watch(ctx context.Context, pids []int, d time.Duration, ended <-chan struct{}) (most int64) {
	tick, limit := time.NewTicker(250*time.Millisecond), time.NewTimer(d)
	defer tick.Stop()
	defer limit.Stop()
	for {
		most = max(most, memoryOf(pids))
		select {
		case <-tick.C:
			continue
		case <-limit.C:
		case <-ended:
		case <-ctx.Done():
		}
		return max(most, memoryOf(pids))
	}
}

// crew is the workers of a measurement.
type crew struct {
	seen  *records
	over  atomic.Bool        // nobody begins another request
	cut   context.CancelFunc // those that run are cut
	ended chan struct{}
}

// hire starts the workers. Whoever calls it must call dismiss or cut.
func (f *fleet) hire(ctx context.Context, s subject, sc scenario) *crew {
	ctx, cut := context.WithCancel(ctx)
	c := &crew{seen: &records{faults: map[string]int64{}}, cut: cut, ended: make(chan struct{})}
	var all sync.WaitGroup
	left := &atomic.Int64{}
	left.Store(sc.total)
	first := newMessage(s, sc)
	for i := range sc.workers {
		w := &worker{address: s.address, message: first.clone(), chunks: sc.chunks, seen: c.seen}
		all.Go(func() {
			defer context.AfterFunc(ctx, w.interrupt)()
			defer w.close()
			pause(ctx, sc.ramp*time.Duration(i)/time.Duration(sc.workers))
			for ctx.Err() == nil && !c.over.Load() && (sc.total == 0 || left.Add(-1) >= 0) {
				w.send(ctx, f.numbers.Add(1))
			}
		})
	}
	go func() {
		all.Wait()
		close(c.ended)
	}()
	return c
}

// dismiss ends the work, and returns when all workers are gone.
func (c *crew) dismiss() {
	c.over.Store(true)
	limit := time.AfterFunc(grace, c.cut)
	<-c.ended
	limit.Stop()
	c.cut()
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
