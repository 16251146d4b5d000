package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slow is a reader of stderr: it counts what comes, and may be stuck.
type slow struct {
	output
	mu     sync.Mutex
	writes int
}

func (s *slow) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	return s.output.Write(p)
}

func (s *slow) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

func spooling(t *testing.T) (*slow, *spool, *slog.Logger) {
	t.Helper()
	var to slow
	s := newSpool(&to)
	return &to, s, slog.New(spooled{slog.NewJSONHandler(s, nil), s})
}

func TestSpoolWritesManyLinesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, s, log := spooling(t)
		defer s.close()
		for i := range 100 {
			log.Info("request", "i", i)
		}
		time.Sleep(spoolDelay - time.Millisecond)
		if to.count() != 0 {
			t.Errorf("%d writes before the delay is over", to.count())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := strings.Count(to.String(), "\n"); n != 100 || to.count() != 1 {
			t.Errorf("%d lines in %d writes, want 100 in one", n, to.count())
		}
		log.With("a", 1).WithGroup("g").Warn("look", "b", 2)
		synctest.Wait()
		if got := to.String(); !strings.HasSuffix(got, `"a":1,"g":{"b":2}}`+"\n") || to.count() != 2 {
			t.Errorf("a warning waits; %d writes", to.count())
		}
		log.Info("later")
		log.Info("large", "text", strings.Repeat("x", spoolSize))
		synctest.Wait()
		if got := to.String(); !strings.Contains(got, "later") || !strings.Contains(got, "large") {
			t.Error("a full buffer waits")
		}
	})
}

func TestSpoolEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, s, log := spooling(t)
		log.Info("one")
		s.close()
		if got := to.String(); strings.Count(got, "\n") != 1 {
			t.Errorf("written at the end: %q", got)
		}
		log.Info("two")
		if got := to.String(); strings.Count(got, "\n") != 2 {
			t.Errorf("written after the end: %q", got)
		}
		s.close()
	})
}

// However many log and warn at a time, each line arrives whole, once, and in the order of its writer.
func TestSpoolKeepsOrder(t *testing.T) {
	to, s, log := spooling(t)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 500 {
				log.Log(t.Context(), slog.Level(i%2*4), "line", "is", fmt.Sprintf("%d/%d", w, i))
			}
		})
	}
	all.Wait()
	s.close()
	last := map[int]int{}
	for line := range strings.Lines(to.String()) {
		_, rest, _ := strings.Cut(line, `"is":"`)
		var w, i int
		if _, err := fmt.Sscanf(rest, "%d/%d", &w, &i); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if i != last[w] {
			t.Fatalf("writer %d: line %d, want %d", w, i, last[w])
		}
		last[w]++
	}
	for w := range 8 {
		if last[w] != 500 {
			t.Errorf("writer %d: %d lines", w, last[w])
		}
	}
}

// A stuck reader of stderr delays nobody and takes no more memory than is said.
func TestSpoolWithAStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		s := newSpool(write)
		log := slog.New(spooled{slog.NewJSONHandler(s, nil), s})
		line := strings.Repeat("x", 10000)
		begun := time.Now()
		for range 1000 {
			log.Warn(line)
		}
		synctest.Wait()
		if took := time.Since(begun); took > 0 {
			t.Errorf("logging took %v", took)
		}
		if n := cap(s.waiting) + cap(s.spare); n > 3*spoolLimit {
			t.Errorf("%d bytes wait", n)
		}
		var got output
		copied := make(chan struct{})
		go func() {
			defer close(copied)
			_, _ = io.Copy(&got, read)
		}()
		s.close()
		_ = write.Close()
		<-copied
		text, lost := got.String(), 0
		for _, after := range strings.Split(text, `lines of the log are lost","lines":`)[1:] { // as often as some were
			var n int
			_, _ = fmt.Sscanf(after, "%d", &n)
			lost += n
		}
		if n := strings.Count(text, line); lost == 0 || n+lost != 1000 {
			t.Errorf("%d lines arrived and %d are said to be lost, of 1000", n, lost)
		}
	})
}

func BenchmarkSpool(b *testing.B) {
	for name, handler := range map[string]func() (slog.Handler, func()){
		"direct":  func() (slog.Handler, func()) { return slog.NewJSONHandler(io.Discard, nil), func() {} },
		"spooled": func() (slog.Handler, func()) { return stderrHandler(env{stderr: io.Discard}, nil) },
	} {
		b.Run(name, func(b *testing.B) {
			h, end := handler()
			defer end()
			log := slog.New(h)
			b.ReportAllocs()
			for b.Loop() {
				log.Info("request", "model", "opus", "status", 200)
			}
		})
	}
}
