package control

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router"
)

func newTestFeed(limit *int) *feed {
	return &feed{limit: func() int { return *limit }, epoch: "e", followers: map[*Follower]struct{}{}, draining: make(chan struct{})}
}

// A follower that comes back gets what it missed, or is told that it cannot, whatever becomes of the limit meanwhile. What
// is listed is the newest that has ended.
func TestNobodyMissesARequestUnawares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 5).Draw(t, "limit")
		f := newTestFeed(&limit)
		var ends []uint64
		kept := 0 // how many of ends there must still be: a limit that is raised brings nothing back
		t.Repeat(map[string]func(*rapid.T){
			"start": func(*rapid.T) { f.observe(&router.Event{Phase: router.PhaseAttemptStart, Attempt: 1}) },
			"retry": func(*rapid.T) { f.observe(&router.Event{Phase: router.PhaseAttemptStart, Attempt: 2}) },
			"end": func(*rapid.T) {
				f.observe(&router.Event{Phase: router.PhaseCompleted})
				ends = append(ends, f.last)
				kept = min(kept+1, limit)
			},
			"reload": func(t *rapid.T) {
				limit = rapid.IntRange(0, 5).Draw(t, "limit")
				f.recent(0)
				kept = min(kept, limit)
			},
			"": func(t *rapid.T) {
				want := []uint64{}
				for i := range kept {
					want = append(want, ends[len(ends)-1-i])
				}
				frames, _ := f.recent(10)
				got := []uint64{}
				for _, fr := range frames {
					got = append(got, fr.ID)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("the list (-want +got):\n%s", diff)
				}
				since := rapid.Uint64Range(0, f.last).Draw(t, "since")
				w, _ := f.follow("e-" + strconv.FormatUint(since, 10))
				defer w.Close()
				missed := 0
				for _, id := range ends {
					if id > since {
						missed++
					}
				}
				frames = w.Take()
				gap := len(frames) > 0 && frames[0].Type == FrameGap
				if lost := missed > kept || limit == 0; gap != lost {
					t.Fatalf("since %d of %v with %d kept: gap %v, want %v", since, ends, kept, gap, lost)
				}
				if !gap && len(frames) != missed {
					t.Fatalf("%d frames of %d missed", len(frames), missed)
				}
			},
		})
	})
}

func TestStrangePlacesAreGaps(t *testing.T) {
	t.Parallel()
	f := newTestFeed(new(3))
	for range 5 {
		f.observe(&router.Event{Phase: router.PhaseCompleted})
	}
	for place, want := range map[string]struct {
		reason string
		frames int
		from   string
	}{
		"": {"", 0, "e-5"}, "e-5": {"", 0, "e-5"}, "e-2": {"", 3, "e-2"}, "e-1": {GapDropped, 3, "e-2"}, "e-6": {GapRestarted, 3, "e-2"},
		"d-5": {GapRestarted, 3, "e-2"}, "e": {GapRestarted, 3, "e-2"}, "e-x": {GapRestarted, 3, "e-2"}, "-5": {GapRestarted, 3, "e-2"},
	} {
		w, from := f.follow(place)
		frames, reason := w.Take(), ""
		if len(frames) > 0 && frames[0].Type == FrameGap {
			reason, frames = frames[0].Reason, frames[1:]
		}
		if reason != want.reason || len(frames) != want.frames || from != want.from {
			t.Errorf("%q: %q, %d frames from %s; want %+v", place, reason, len(frames), from, want)
		}
		w.Close()
	}
	if len(f.followers) != 0 {
		t.Errorf("%d followers are left", len(f.followers))
	}
}

// Who does not read holds nobody up, and learns where something is missing.
func TestSlowFollowersGetAGap(t *testing.T) {
	t.Parallel()
	f := newTestFeed(new(10))
	end := func(n int) {
		for range n {
			f.observe(&router.Event{Phase: router.PhaseCompleted})
		}
	}
	end(3)
	w, _ := f.follow("e-0")
	defer w.Close()
	end(buffered + 100)
	frames := w.Take()
	if n := len(frames); n != 3+buffered+1 || frames[n-1].Type != FrameGap || frames[n-1].Reason != GapSlow || frames[n-2].ID != 3+buffered {
		t.Errorf("%d frames, at last %+v", n, frames[n-1])
	}
	end(1)
	if frames = w.Take(); len(frames) != 1 || frames[0].ID != f.last {
		t.Errorf("afterwards: %+v", frames)
	}
}

func BenchmarkFeed(b *testing.B) {
	for _, followers := range []int{0, 1} {
		b.Run(strconv.Itoa(followers), func(b *testing.B) {
			f := newTestFeed(new(500))
			var w *Follower
			for range followers {
				w, _ = f.follow("")
			}
			e := router.Event{Phase: router.PhaseCompleted, Call: "c"}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if f.observe(&e); w != nil && i%64 == 0 {
					w.Take()
				}
			}
		})
	}
}
