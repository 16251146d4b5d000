package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// When what was logged is written, and how much may wait: a reader of stderr that is stuck must not take the memory.
const (
	spoolDelay = 100 * time.Millisecond
	spoolSize  = 32 << 10 // bytes that are written without waiting longer
	spoolLimit = 1 << 20  // bytes that may wait; what comes then is counted and lost
)

// spool takes lines and writes many of them at once, so that a request waits neither for a system call nor for whoever reads.
// One goroutine writes; close ends it. A process that is killed loses what it logged in the last spoolDelay.
type spool struct {
	to     io.Writer
	first  chan struct{} // there is something to write
	urgent chan struct{} // it must not wait
	ending chan struct{}
	ended  chan struct{}
	end    sync.Once

	mu      sync.Mutex
	waiting []byte
	spare   []byte // what waiting becomes while the other is written
	lost    int    // lines
	closed  bool
}

func newSpool(to io.Writer) *spool {
	s := &spool{
		to: to, first: make(chan struct{}, 1), urgent: make(chan struct{}, 1), ending: make(chan struct{}), ended: make(chan struct{}),
	}
	go s.run()
	return s
}

// Write implements io.Writer; slog calls it once for each line. After close it writes at once.
func (s *spool) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.to.Write(line)
	}
	if len(s.waiting)+len(line) > spoolLimit {
		s.lost++
		return len(line), nil
	}
	if len(s.waiting) == 0 {
		wake(s.first)
	}
	s.waiting = append(s.waiting, line...)
	if len(s.waiting) >= spoolSize {
		wake(s.urgent)
	}
	return len(line), nil
}

// hurry has what waits written now.
func (s *spool) hurry() { wake(s.urgent) }

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is awake already
	}
}

func (s *spool) run() {
	defer close(s.ended)
	delay := time.NewTimer(spoolDelay)
	defer delay.Stop()
	for {
		select {
		case <-s.first:
			delay.Reset(spoolDelay)
			select {
			case <-delay.C:
			case <-s.urgent:
			case <-s.ending:
			}
		case <-s.urgent:
		case <-s.ending:
			s.flush()
			return
		}
		s.flush()
	}
}

// flush writes what waits. Lines may come meanwhile.
func (s *spool) flush() {
	s.mu.Lock()
	text, lost := s.waiting, s.lost
	s.waiting, s.spare, s.lost = s.spare[:0], nil, 0
	s.mu.Unlock()
	if len(text) > 0 {
		_, _ = s.to.Write(text) // there is nowhere to say that stderr is gone
	}
	if lost > 0 {
		slog.New(slog.NewJSONHandler(s.to, nil)).Warn("stderr was not read in time, and lines of the log are lost", "lines", lost)
	}
	s.mu.Lock()
	if cap(text) <= 4*spoolSize {
		s.spare = text
	}
	s.mu.Unlock()
}

// close ends the goroutine and writes what waits. It may be called again.
func (s *spool) close() {
	s.end.Do(func() { close(s.ending) })
	<-s.ended
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		if len(s.waiting) > 0 {
			_, _ = s.to.Write(s.waiting) // what came after the last flush
		}
		s.waiting, s.spare = nil, nil
	}
}

// spooled logs to a spool, and has it hurry with all that somebody may look for after a crash.
type spooled struct {
	slog.Handler
	spool *spool
}

// Handle implements slog.Handler.
func (h spooled) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		h.spool.hurry()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h spooled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return spooled{h.Handler.WithAttrs(attrs), h.spool}
}

// WithGroup implements slog.Handler.
func (h spooled) WithGroup(name string) slog.Handler {
	return spooled{h.Handler.WithGroup(name), h.spool}
}

var (
	_ io.Writer    = (*spool)(nil)
	_ slog.Handler = spooled{}
)
