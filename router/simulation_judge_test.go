package router_test

import (
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// set is a set of upstreams.
type set [simCount]bool

// conversation is what the judge knows of a session's main thread or of a sub-agent.
type conversation struct {
	id    string
	owner int           // who served its last turn, -1 = nobody yet
	until time.Duration // when that turn ended
	turns []simTurn     // that were served
}

// simTurn is one turn that was served.
type simTurn struct {
	from, to time.Duration
	by       int
	hit      bool // the prompt was in the cache
	could    set  // upstreams that would have served it when it came
}

// request is one request under way.
type request struct {
	of     *conversation
	from   time.Duration
	looked bool
	out    set // could not be tried when it came, says Status
	late   set // nor could these when an attempt had failed
	failed set // was tried, and failed
	up     set // the script had nothing against it
	probe  bool
	began  time.Duration // the attempt
	ended  int           // completions
	ok     bool
	usage  telemetry.Usage
	by     int
}

// watched is what the judge knows of one upstream.
type watched struct {
	upstreamResult
	closed time.Duration // asked to be left alone until then
	quota  time.Duration // is over its usage limit, and not to be tried before
	probe  string        // call of the probe in flight
	rests  time.Time     // end of the newest cooling
	busy   int           // attempts in flight
}

// upstreamResult is what became of an upstream.
type upstreamResult struct {
	served, limited, failed, coolings int
	cooling                           time.Duration
}

// simResult is what became of a run.
type simResult struct {
	requests, served, failedOver, refused, moves, probes, badProbes int

	turns, hits, best int // that were served, found their cache, and could have
	digest            uint64
	real              time.Duration
	upstreams         [simCount]upstreamResult
	faults            []string
}

// judge sees every event and holds it against the script and against what Status tells at that moment.
type judge struct {
	s *simulation

	mu            sync.Mutex
	conversations []*conversation
	requests      map[string]*request
	ups           [simCount]watched
	out           simResult
	digest        interface{ Sum64() uint64 }
	note          func(format string, args ...any)
}

func newJudge(s *simulation) *judge {
	h := fnv.New64a()
	return &judge{s: s, requests: map[string]*request{}, digest: h, note: func(format string, args ...any) { _, _ = fmt.Fprintf(h, format, args...) }}
}

func (j *judge) conversation(id string) *conversation {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &conversation{id: id, owner: -1}
	j.conversations = append(j.conversations, c)
	return c
}

func (j *judge) asks(call string, of *conversation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.requests[call] = &request{of: of, by: -1}
}

func (j *judge) fault(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.faultLocked(format, args...)
}

func (j *judge) faultLocked(format string, args ...any) {
	j.out.faults = append(j.out.faults, fmt.Sprintf("%s: ", j.s.now())+fmt.Sprintf(format, args...))
}

// event is called by the engine in the request's own goroutine, before it goes on.
func (j *judge) event(e *router.Event) {
	now := j.s.now()
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.requests[e.Call]
	if r == nil {
		j.faultLocked("event %s of an unknown call %q", e.Phase, e.Call)
		return
	}
	switch e.Phase {
	case router.PhaseReceived:
		r.from = now
	case router.PhaseAttemptStart:
		j.begun(e.Call, r, now, int(e.Upstream[0]-'a'))
	case router.PhaseAttemptEnd:
		j.note("%d %s %s %s\n", now, e.Call, e.Upstream, e.ErrorClass)
		j.ended(e, r, now, int(e.Upstream[0]-'a'))
	case router.PhaseCompleted:
		j.note("%d %s %s %d\n", now, e.Call, e.Outcome, e.Status)
		j.completed(e, r, now)
	default:
	}
}

// status is what the engine says of all upstreams now.
func (j *judge) status() []router.UpstreamStatus { return j.s.engine.Status().Upstreams }

// well reports whether nothing is known against an upstream, neither the account nor its one target.
func well(u *router.UpstreamStatus) bool {
	return u.State == "healthy" && u.Targets[0].State == "healthy"
}

// probing reports whether what is known against it is being found out about.
func probing(u *router.UpstreamStatus) bool { return u.ProbeInFlight || u.Targets[0].ProbeInFlight }

// finding reports whether all that is known against it is being found out about.
func finding(u *router.UpstreamStatus) bool {
	return (u.State == "healthy" || u.ProbeInFlight) && (u.Targets[0].State == "healthy" || u.Targets[0].ProbeInFlight)
}

func full(i int, u *router.UpstreamStatus) bool { return i == simCount-1 && u.InFlight >= simCeiling }

// out tells who may not be tried.
func out(status []router.UpstreamStatus) (out set) {
	for i := range status {
		u := &status[i]
		out[i] = u.State == "cooling" || u.Targets[0].State == "cooling" || probing(u) || full(i, u)
	}
	return out
}

// look notes how things stand for a request that has come at this very moment, and that has just been sent to own; -1 if it
// has not been sent to anybody.
func (j *judge) look(r *request, now time.Duration, status []router.UpstreamStatus, own int) {
	if r.looked {
		return
	}
	r.looked, r.out = true, out(status)
	for i := range status {
		r.up[i] = j.s.ups[i].trouble(now) == nil && (i == own || !full(i, &status[i]))
	}
	if own >= 0 {
		r.out[own] = false
	}
}

// begun holds a dispatch against (a): who rests is left alone by all but one probe, and what a provider asked for is kept.
func (j *judge) begun(call string, r *request, now time.Duration, i int) {
	w, status := &j.ups[i], j.status()
	u := &status[i]
	j.look(r, now, status, i)
	r.began, r.probe = now, false
	w.busy++
	if now < w.closed || now < w.quota {
		j.faultLocked("%s was sent to %s, which had asked to be left alone until %s", call, u.Name, max(w.closed, w.quota))
	}
	if u.InFlight != w.busy || i == simCount-1 && w.busy > simCeiling {
		j.faultLocked("%s has %d requests in flight, Status says %d", u.Name, w.busy, u.InFlight)
	}
	if well(u) {
		return
	}
	if !finding(u) || w.probe != "" {
		j.faultLocked("%s was sent to %s, which is %s/%s (%s %s), with a probe in flight: %q", call, u.Name, u.State, u.Targets[0].State,
			u.Reason, u.Targets[0].Reason, w.probe)
	}
	w.probe, r.probe = call, true
	j.out.probes++
}

// ended holds the end of an attempt against (c): who is well again is found so by the first request and is let in at once,
// and probes that fail are as rare as the schedule says.
func (j *judge) ended(e *router.Event, r *request, now time.Duration, i int) {
	w, trouble := &j.ups[i], j.s.ups[i].trouble(r.began)
	w.busy--
	if w.probe == e.Call {
		w.probe = ""
	}
	if e.ErrorClass == "" {
		w.served++
		if trouble != nil {
			j.faultLocked("%s served %s during %s", e.Upstream, e.Call, trouble.kind)
		}
		if r.probe {
			j.proved(w, &j.status()[i])
		}
		return
	}
	status := j.status()
	u := &status[i]
	r.failed[i], r.late = true, out(status)
	if e.ErrorClass == telemetry.ClassRateLimited || e.ErrorClass == telemetry.ClassQuotaExhausted {
		w.limited++
	} else {
		w.failed++
	}
	if trouble == nil {
		j.faultLocked("%s was well and failed %s: %s", u.Name, e.Call, e.ErrorClass)
		return
	}
	switch trouble.kind {
	case simLimit:
		w.closed = max(w.closed, now+trouble.hint)
	case simQuota:
		if now >= w.quota { // others that were under way tell nothing new
			w.quota = min(now+simProbeEvery, trouble.to)
		}
	default:
	}
	if r.probe {
		j.out.badProbes++
		if trouble.seen { // else it probed for another trouble, and found this one
			trouble.failed++
		}
	}
	trouble.seen = true
	j.cooled(w, u)
}

// proved holds a probe that went well against (c).
func (j *judge) proved(w *watched, u *router.UpstreamStatus) {
	if !well(u) {
		j.faultLocked("%s proved itself, but is %s/%s", u.Name, u.State, u.Targets[0].State)
	}
	if now := j.s.clock(); w.rests.After(now) {
		w.cooling -= w.rests.Sub(now)
		w.rests = now
	}
}

// cooled counts coolings, and the time in which one holds.
func (j *judge) cooled(w *watched, u *router.UpstreamStatus) {
	for _, until := range []*time.Time{u.Until, u.Targets[0].Until} {
		if until == nil || !until.After(w.rests) {
			continue
		}
		w.coolings++
		from := j.s.clock()
		if w.rests.After(from) {
			from = w.rests
		}
		w.cooling += until.Sub(from)
		w.rests = *until
	}
}

// completed holds the end of a request against (e): one end, and a failure only if nobody was there.
func (j *judge) completed(e *router.Event, r *request, now time.Duration) {
	r.ended++
	r.usage, r.ok = e.Usage, e.ErrorClass == ""
	j.out.requests++
	if r.ok {
		r.by = int(e.Upstream[0] - 'a')
		j.out.served++
		if e.Outcome == telemetry.OutcomeSuccessAfterFailover {
			j.out.failedOver++
		}
		j.learn(e.Call, r, now)
		return
	}
	j.out.refused++
	if !r.looked {
		j.look(r, now, j.status(), -1)
	}
	for i := range simCount {
		if !r.out[i] && !r.late[i] && !r.failed[i] {
			j.faultLocked("%s failed with %d %s, and %c was not tried", e.Call, e.Status, e.ErrorClass, 'a'+i)
		}
	}
}

// learn takes in who served a turn, and holds it against (b): a conversation leaves the upstream of its last turn only if
// that one could not be tried when the turn came, or was tried and failed. Since this holds for a stand-in as for an owner,
// a conversation cannot go to and fro while its owner is out.
func (j *judge) learn(call string, r *request, now time.Duration) {
	c := r.of
	if was := c.owner; was >= 0 && was != r.by {
		j.out.moves++
		if !r.out[was] && !r.failed[was] && r.from-c.until < simPinTTL {
			j.faultLocked("%s moved from %c to %c without a reason", call, 'a'+was, 'a'+r.by)
		}
	}
	c.owner, c.until = r.by, now
	r.up[r.by] = true // whatever the script said when the request came, it was so when its turn came
	c.turns = append(c.turns, simTurn{from: r.from, to: now, by: r.by, hit: r.usage.CacheRead >= 1000, could: r.up})
}

const simPinTTL = 2 * time.Hour // the default of affinity.pin_ttl

// answered holds what the client saw against (e).
func (j *judge) answered(call string, status int, whole bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.requests[call]
	delete(j.requests, call)
	if r.ended != 1 {
		j.faultLocked("%s has %d completions", call, r.ended)
	}
	if r.ok != whole {
		j.faultLocked("%s ended well: the client says %v (status %d), the engine %v", call, whole, status, r.ok)
	}
}

// result closes the books.
func (j *judge) result() simResult {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := &j.out
	for i := range j.ups {
		w := &j.ups[i]
		out.upstreams[i] = w.upstreamResult
		if w.busy != 0 || w.probe != "" {
			j.faultLocked("%c: %d requests in flight and probe %q at the end", 'a'+i, w.busy, w.probe)
		}
		for _, t := range j.s.ups[i].windows {
			if t.failed > t.probes() {
				j.faultLocked("%c: %d probes failed during %s from %s to %s, not more than %d should", 'a'+i, t.failed, t.kind, t.from, t.to, t.probes())
			}
		}
	}
	for _, c := range j.conversations {
		out.turns += len(c.turns)
		for i := range c.turns {
			if c.turns[i].hit {
				out.hits++
			}
		}
		out.best += bestHits(c.turns, simCacheTTL)
	}
	out.digest = j.digest.Sum64()
	return *out
}
