package strategy_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/strategy"
)

func known(x float64) strategy.Measure { return strategy.Measure{Value: x, Known: true} }

func TestStatsSumUp(t *testing.T) {
	s := strategy.NewStats(time.Minute)
	s.Record(noon, sample{OK: true, FirstToken: time.Second, OutputTokens: 100, Generation: 2 * time.Second})
	s.Record(noon.Add(20*time.Second), sample{OK: true, FirstToken: 2 * time.Second, OutputTokens: 200, Generation: time.Second})
	s.Record(noon.Add(30*time.Second), sample{OK: true, OutputTokens: 7}) // a plain answer: no speed
	s.Record(noon.Add(30*time.Second), sample{Generation: time.Hour})     // broke off without output
	want := strategy.Summary{Success: known(0.75), FirstToken: known(1.5), Speed: known(100)}
	if diff := cmp.Diff(want, s.Read(noon.Add(40*time.Second))); diff != "" {
		t.Error(diff)
	}
	// The first is too old, the second is not yet.
	want = strategy.Summary{Success: known(2.0 / 3), FirstToken: known(2), Speed: known(200)}
	if diff := cmp.Diff(want, s.Read(noon.Add(61*time.Second))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(strategy.Summary{}, s.Read(noon.Add(time.Hour))); diff != "" {
		t.Error(diff)
	}
}

func TestStatsOfNobody(t *testing.T) {
	var s *strategy.Stats
	s.Record(noon, sample{OK: true})
	for _, s := range []*strategy.Stats{s, strategy.NewStats(time.Minute), strategy.NewStats(0)} {
		if got := s.Read(noon); got != (strategy.Summary{}) {
			t.Errorf("%+v", got)
		}
	}
}

// The youngest nine tenths of a window always count, and nothing older than the window ever does, in whatever order the
// samples come.
func TestStatsKeepToTheirWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const window = 100 * time.Second
		s, latest := strategy.NewStats(window), time.Duration(-1<<62)
		ages := map[time.Duration]bool{} // offset from noon: ok
		for range rapid.IntRange(0, 30).Draw(t, "samples") {
			at := time.Duration(rapid.IntRange(-300_000, 300_000).Draw(t, "at")) * time.Millisecond
			if _, ok := ages[at]; ok {
				continue
			}
			ages[at] = rapid.Bool().Draw(t, "ok")
			latest = max(latest, at)
			s.Record(noon.Add(at), sample{OK: ages[at]})
		}
		now := max(latest, 0) + time.Duration(rapid.IntRange(0, 150_000).Draw(t, "later"))*time.Millisecond
		certainly, possibly, certainlyOK, possiblyOK := 0, 0, 0, 0
		for at, ok := range ages {
			one := 0
			if ok {
				one = 1
			}
			if now-at < window {
				possibly, possiblyOK = possibly+1, possiblyOK+one
			}
			if now-at < window*9/10 {
				certainly, certainlyOK = certainly+1, certainlyOK+one
			}
		}
		got := s.Read(noon.Add(now)).Success
		switch {
		case !got.Known && certainly > 0, got.Known && possibly == 0:
			t.Fatalf("%+v with %d to %d samples", got, certainly, possibly)
		case got.Known && (got.Value < float64(certainlyOK)/float64(certainlyOK+possibly-possiblyOK) ||
			got.Value > float64(possiblyOK)/float64(possiblyOK+certainly-certainlyOK)):
			t.Fatalf("%+v with %d to %d of %d to %d", got, certainlyOK, possiblyOK, certainly, possibly)
		}
	})
}

func TestStatsAreSharedSafely(t *testing.T) {
	s := strategy.NewStats(time.Minute)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := range 500 {
				s.Record(noon.Add(time.Duration(w)*time.Millisecond), sample{OK: i%2 == 0})
				s.Read(noon)
			}
		})
	}
	wg.Wait()
	if got := s.Read(noon).Success; got != known(0.5) {
		t.Errorf("%+v", got)
	}
}

func TestStatsAllocateNothing(t *testing.T) {
	s, now := strategy.NewStats(time.Minute), noon
	if n := testing.AllocsPerRun(100, func() {
		now = now.Add(time.Second)
		s.Record(now, sample{OK: true, FirstToken: time.Second, OutputTokens: 1, Generation: time.Second})
		s.Read(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkStats(b *testing.B) {
	s, now := strategy.NewStats(time.Minute), noon
	b.Run("Record", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(time.Millisecond)
			s.Record(now, sample{OK: true, FirstToken: time.Second, OutputTokens: 1, Generation: time.Second})
		}
	})
	b.Run("Read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Read(now)
		}
	})
}
