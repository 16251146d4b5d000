package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Store is where rows are kept.
type Store interface {
	// Append adds rows, all or none, and then lets the oldest go of what is more than keep (0: none); of those it returns how
	// many went. One call may let only some of them go.
	Append(ctx context.Context, rows []Row, keep int) (pruned int64, err error)
	Reader
	// Close is called once, when no other call runs.
	Close() error
}

// Options say how a ledger is kept.
type Options struct {
	MaxRows int          // 0 = all are kept
	Logger  *slog.Logger // nil: slog.Default
}

// What is measured to lose nothing at full speed, and to lose no more than 250 ms when the process is killed.
const (
	batch     = 2048                   // rows that are written at once, without waiting for more
	interval  = 200 * time.Millisecond // how long a row waits for others
	queued    = 8192                   // rows that wait at most; a row is about 450 bytes
	patience  = 30 * time.Second       // how long one write may take
	retrySoon = 250 * time.Millisecond // after a write that failed, doubled each time
	retryLate = 30 * time.Second
	quiet     = time.Minute // between two lines in the log about the same trouble
)

// Ledger writes rows to a store behind the back of those who add them.
type Ledger struct {
	store Store
	opts  Options

	mu      sync.Mutex
	waiting []Row
	some    chan struct{} // rows wait
	full    chan struct{} // a whole batch of them

	dropped, pruned atomic.Int64
	last            time.Time // that trouble was logged; of run's goroutine
	told            int64     // dropped when that was

	cancel context.CancelFunc // of the write in progress
	done   chan struct{}      // no more rows
	ended  chan struct{}      // run has returned
}

// New starts writing to a store, which Close closes.
func New(store Store, opts Options) *Ledger {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	l := &Ledger{
		store: store, opts: opts, some: make(chan struct{}, 1), full: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.run(ctx)
	return l
}

// Add has a row written soon. It never waits: a row for which there is no room is dropped, and counted.
func (l *Ledger) Add(r *Row) {
	l.mu.Lock()
	n := len(l.waiting)
	if n < queued {
		l.waiting = append(l.waiting, *r)
	}
	l.mu.Unlock()
	switch n {
	case 0:
		signal(l.some)
	case batch - 1:
		signal(l.full)
	case queued:
		l.dropped.Add(1)
	}
}

// Dropped is how many rows were lost since the start.
func (l *Ledger) Dropped() int64 { return l.dropped.Load() }

// Close writes what waits, for as long as ctx lasts, and closes the store. No row may be added any more.
func (l *Ledger) Close(ctx context.Context) error {
	before := l.Dropped()
	close(l.done)
	select {
	case <-l.ended:
	case <-ctx.Done():
		l.cancel()
		<-l.ended
	}
	l.cancel()
	err := l.store.Close()
	if n := l.Dropped() - before; n > 0 {
		err = errors.Join(fmt.Errorf("the last %d rows are lost", n), err)
	}
	return err
}

// run writes batches until there are no more rows.
func (l *Ledger) run(ctx context.Context) {
	defer close(l.ended)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	var rows []Row
	for more := true; more; {
		select {
		case <-l.some:
			timer.Reset(interval)
			select {
			case <-timer.C:
			case <-l.full:
			case <-l.done:
				more = false
			}
		case <-l.done:
			more = false
		}
		rows = l.take(rows)
		l.write(ctx, rows)
		clear(rows)
	}
}

// take takes what waits and leaves room for more: that of rows, unless a rush has made it large.
func (l *Ledger) take(room []Row) []Row {
	if cap(room) > 4*batch {
		room = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := l.waiting
	l.waiting = room[:0]
	return rows
}

// write has the store take rows. While it cannot they are kept, until the queue is full behind them: newer ones are worth
// more then, and one that no store could take would otherwise stop all others.
func (l *Ledger) write(ctx context.Context, rows []Row) {
	if len(rows) == 0 {
		return
	}
	for delay := retrySoon; ; delay = min(2*delay, retryLate) {
		err := l.append(ctx, rows)
		if err == nil {
			l.complain(nil)
			return
		}
		if l.isFull() || l.isClosing() {
			l.dropped.Add(int64(len(rows)))
			l.complain(err)
			return
		}
		l.complain(err)
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-l.done: // one last time
			timer.Stop()
		}
	}
}

func (l *Ledger) append(ctx context.Context, rows []Row) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pruned, err := l.store.Append(ctx, rows, l.opts.MaxRows)
	l.pruned.Add(pruned)
	return err
}

func (l *Ledger) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) >= queued
}

func (l *Ledger) isClosing() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// complain logs that rows cannot be written or were lost, now and then.
func (l *Ledger) complain(err error) {
	lost := l.dropped.Load() - l.told
	now := time.Now()
	if err == nil && lost == 0 || !l.last.IsZero() && now.Sub(l.last) < quiet && !l.isClosing() {
		return
	}
	l.last, l.told = now, l.told+lost
	attrs := []any{"dropped", lost}
	if err != nil {
		attrs = append(attrs, "problem", err)
	}
	l.opts.Logger.Warn("the usage store does not take rows", attrs...)
}

// signal wakes who waits, now or later.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
