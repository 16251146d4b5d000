package control

import (
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/signalbox-llm/signalbox/router"
)

// buffered is how many frames wait for a follower that does not read before some are left out.
const buffered = 256

// feed tells followers what happens to requests, and keeps the newest that have ended. It never waits for anybody.
type feed struct {
	limit func() int // of ended requests that are kept
	epoch string     // tells this process from those before and after it

	mu        sync.Mutex
	last      uint64 // id of the newest frame
	lost      uint64 // id of the newest end that is not kept any more
	ring      []kept // in the order of their ids, from oldest on
	oldest    int
	followers map[*Follower]struct{}
	draining  chan struct{} // closed as soon as nobody is to be kept waiting for the end of a stream
}

// kept is a request that has ended. Its frame is made when somebody asks.
type kept struct {
	id    uint64
	event router.Event
}

// newFeed follows an engine for as long as that lives.
func newFeed(engine *router.Router) *feed {
	f := &feed{
		limit: func() int { return engine.Snapshot().Server.RecentRequests }, epoch: strings.ToLower(rand.Text()[:8]),
		followers: map[*Follower]struct{}{}, draining: make(chan struct{}),
	}
	engine.OnEvent(f.observe)
	return f
}

// observe takes what the engine tells. It runs within requests, so it does little.
func (f *feed) observe(e *router.Event) {
	ended := e.Phase == router.PhaseCompleted
	if !ended && (e.Phase != router.PhaseAttemptStart || e.Attempt != 1) {
		return
	}
	limit := f.limit()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	if ended {
		f.keep(limit, kept{f.last, *e})
	}
	if len(f.followers) == 0 {
		return
	}
	frame := newFrame(f.last, e)
	for w := range f.followers {
		w.put(frame)
	}
}

// keep puts a request into the ring, in the place of the oldest if there is no other.
func (f *feed) keep(limit int, k kept) {
	f.fit(limit)
	switch {
	case limit == 0:
		f.lost = k.id
	case len(f.ring) < limit:
		f.ring = append(f.ring, k)
	default:
		f.lost = f.ring[f.oldest].id
		f.ring[f.oldest] = k
		f.oldest = (f.oldest + 1) % limit
	}
}

// fit makes the ring follow a limit that a reload has changed.
func (f *feed) fit(limit int) {
	if len(f.ring) == limit || len(f.ring) < limit && f.oldest == 0 {
		return
	}
	all := slices.Concat(f.ring[f.oldest:], f.ring[:f.oldest])
	if over := len(all) - limit; over > 0 {
		f.lost = all[over-1].id
		all = slices.Clone(all[over:])
	}
	f.ring, f.oldest = all, 0
}

// recent lists what is kept, newest first and at most n, and the place in the feed that the list goes up to, "" if nothing
// is kept.
func (f *feed) recent(n int) (frames []Frame, place string) {
	limit := f.limit()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fit(limit)
	frames = []Frame{}
	for i := range min(n, len(f.ring)) {
		k := &f.ring[(f.oldest+len(f.ring)-1-i)%len(f.ring)]
		frames = append(frames, newFrame(k.id, &k.event))
	}
	if limit > 0 {
		place = f.place(f.last)
	}
	return frames, place
}

// place names a frame, across restarts.
func (f *feed) place(id uint64) string { return f.epoch + "-" + strconv.FormatUint(id, 10) }

// follow begins with what came after a place, as far as it is kept, or with "" now. from is where that is.
func (f *feed) follow(after string) (w *Follower, from string) {
	limit := f.limit()
	w = &Follower{feed: f, ready: make(chan struct{}, 1), room: buffered}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fit(limit)
	f.followers[w] = struct{}{}
	if after == "" {
		return w, f.place(f.last)
	}
	since, reason := f.since(after, limit)
	if reason != "" {
		w.queue = append(w.queue, gap(reason))
	}
	for i := range f.ring {
		if k := &f.ring[(f.oldest+i)%len(f.ring)]; k.id > since {
			w.queue = append(w.queue, newFrame(k.id, &k.event))
		}
	}
	if w.room += len(w.queue); len(w.queue) > 0 {
		w.ready <- struct{}{}
	}
	return w, f.place(since)
}

// since is the id after which everything is kept that happened after a place; a reason says what makes that untrue.
func (f *feed) since(place string, limit int) (id uint64, reason string) {
	epoch, number, _ := strings.Cut(place, "-")
	id, err := strconv.ParseUint(number, 10, 64)
	switch {
	case epoch != f.epoch || err != nil || id > f.last:
		return f.lost, GapRestarted
	case limit == 0:
		return f.last, GapDropped
	case id < f.lost:
		return f.lost, GapDropped
	}
	return id, ""
}

// serve says whether streams may last. When they may not, those that there are end.
func (f *feed) serve(ready bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.draining:
		if ready {
			f.draining = make(chan struct{})
		}
	default:
		if !ready {
			close(f.draining)
		}
	}
}

// drain is closed when streams must end.
func (f *feed) drain() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.draining
}

// Follower gets the frames of requests as they happen. Who does not read in time gets a gap instead of the newest ones, and
// nothing waits for it.
type Follower struct {
	feed  *feed
	ready chan struct{}
	queue []Frame // under feed.mu
	room  int     // frames that queue may have
}

// Follow begins to follow requests. Close must be called in the end.
func (h *Handler) Follow() *Follower {
	w, _ := h.feed.follow("")
	return w
}

// Ready has a value when there is something to take.
func (w *Follower) Ready() <-chan struct{} { return w.ready }

// Take returns what has come since it was called last.
func (w *Follower) Take() []Frame {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	out := w.queue
	w.queue = nil
	return out
}

// Close ends it. What has come until then can still be taken.
func (w *Follower) Close() {
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	delete(w.feed.followers, w)
}

// put adds a frame, or a gap when there is no room. The lock is held.
func (w *Follower) put(f Frame) {
	n := len(w.queue)
	switch {
	case n < w.room:
		w.queue = append(w.queue, f)
	case w.queue[n-1].Type != FrameGap:
		w.queue = append(w.queue, gap(GapSlow))
	}
	select {
	case w.ready <- struct{}{}:
	default:
	}
}
