package affinity

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	a     = Target{"a", "opus"}
	b     = Target{"b", "opus"}
)

func key(i int) Key { return Key{Credential: "me", Session: "s" + strconv.Itoa(i), Model: "m"} }

// bench is a store with a clock.
type bench struct {
	testing.TB
	*Memory
	now time.Time
}

func newBench(t testing.TB, p Policy) *bench { return &bench{t, NewMemory(p), start} }

func (b *bench) after(d time.Duration) *bench { b.now = b.now.Add(d); return b }

func (b *bench) bind(i int, t Target) { b.Bind(b.now, key(i), t) }

// pinned checks the pin of a session.
func (b *bench) pinned(i int, want Target, state State) {
	b.Helper()
	got, s := b.Pin(b.now, key(i))
	if got != want || s != state {
		b.Errorf("session %d after %v: %v %d, want %v %d", i, b.now.Sub(start), got, s, want, state)
	}
}

func (b *bench) counts(want Counts) {
	b.Helper()
	if diff := cmp.Diff(want, b.Count()); diff != "" {
		b.Error(diff)
	}
	sound(b, b.Memory)
}

// sound checks that rings, maps, counters and shards agree, and that the limit holds.
func sound(t interface {
	Helper()
	Errorf(format string, args ...any)
}, m *Memory,
) {
	t.Helper()
	var pins, caches, owners int
	for i := range m.shards {
		s := &m.shards[i]
		for n := range s.pins.all {
			if pins++; s.pins.at[n.key] != n || m.shardOf(m.mask.Load(), n.key.name()) != s {
				t.Errorf("the pin of %v is not where it belongs", n.key)
			}
		}
		for n := range s.caches.all {
			if caches++; s.caches.at[n.key] != n || m.shardOf(m.mask.Load(), n.key.name()) != s || len(n.val) < 1 || len(n.val) > maxWarm {
				t.Errorf("the warmth of %v is not where it belongs, or there is none: %v", n.key, n.val)
			}
		}
		for n := range s.owners.all {
			if owners++; s.owners.at[n.key] != n || m.shardOf(m.mask.Load(), n.key.name()) != s {
				t.Errorf("the owner of %v is not where it belongs", n.key)
			}
		}
		if inMaps := len(s.pins.at) + len(s.caches.at) + len(s.owners.at); i > 0 && m.mask.Load() == 0 && inMaps > 0 {
			t.Errorf("%d entries where nobody looks", inMaps)
		}
	}
	if got := m.Count(); got != (Counts{pins, caches, owners}) || max(pins, caches, owners) > max(m.policy.MaxSessions, 0) {
		t.Errorf("counted %+v; there are %d, %d and %d, and may be %d", got, pins, caches, owners, m.policy.MaxSessions)
	}
}

func TestTheLeastRecentlyUsedGoes(t *testing.T) {
	x := newBench(t, Policy{MaxSessions: 3})
	for i := range 3 {
		x.bind(i, a)
	}
	x.pinned(0, a, Pinned) // a look is a use
	x.bind(1, b)
	x.bind(3, a)
	x.pinned(2, Target{}, Unpinned)
	x.bind(4, a)
	x.pinned(0, Target{}, Unpinned)
	x.pinned(1, b, Pinned)
	x.pinned(3, a, Pinned)
	x.pinned(4, a, Pinned)
	x.counts(Counts{Sessions: 3})
}

func TestHowLongPinsLast(t *testing.T) {
	const ttl = time.Hour
	for _, c := range []struct {
		name string
		p    Policy
		then func(*bench)
		want [3]State // at 1 h - 1 ns, at 1.5 h, at 3 h
	}{
		{"from the binding when nothing follows", Policy{PinTTL: ttl}, func(*bench) {}, [3]State{Pinned, Expired, Expired}},
		{"from the last use", Policy{PinTTL: ttl}, func(x *bench) { x.bind(0, a) }, [3]State{Pinned, Pinned, Expired}},
		{"a look is no use", Policy{PinTTL: ttl}, func(x *bench) { x.pinned(0, a, Pinned) }, [3]State{Pinned, Expired, Expired}},
		{"from the binding", Policy{PinTTL: ttl, FromBinding: true}, func(x *bench) { x.bind(0, a) }, [3]State{Pinned, Expired, Expired}},
		{"another target is a new binding", Policy{PinTTL: ttl, FromBinding: true}, func(x *bench) { x.bind(0, b); x.bind(0, a) }, [3]State{Pinned, Pinned, Expired}},
		{"for ever", Policy{}, func(*bench) {}, [3]State{Pinned, Pinned, Pinned}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.MaxSessions = 10
			x := newBench(t, c.p)
			x.bind(0, a)
			c.then(x.after(50 * time.Minute))
			for i, d := range []time.Duration{ttl - 1, ttl + 30*time.Minute, 3 * ttl} {
				x.now = start.Add(d)
				want := a
				if c.want[i] != Pinned {
					want = Target{}
				}
				x.pinned(0, want, c.want[i])
			}
		})
	}
}

func TestAnExpiredPinIsBoundAnew(t *testing.T) {
	x := newBench(t, Policy{PinTTL: time.Hour, FromBinding: true, MaxSessions: 10})
	x.bind(0, a)
	x.after(time.Hour).bind(0, a) // nobody looked
	x.after(time.Hour-1).pinned(0, a, Pinned)
	x.after(1).pinned(0, Target{}, Expired)
	x.counts(Counts{Sessions: 1})
	x.pinned(0, Target{}, Expired) // whoever looked first may have been somebody else, such as explain
}

func TestWhoIsWarm(t *testing.T) {
	x := newBench(t, Policy{MaxSessions: 10})
	warm := func(tgt Target, ttl time.Duration, want bool) {
		t.Helper()
		if got := x.Warm(x.now, key(0), tgt, ttl); got != want {
			t.Errorf("%v after %v: %v", tgt, x.now.Sub(start), got)
		}
	}
	warm(a, time.Hour, false)
	x.Warmed(x.now, key(0), a)
	x.Warmed(x.now, key(0), b)
	x.after(4*time.Minute).Warmed(x.now, key(0), a)
	x.after(time.Minute)
	warm(b, 5*time.Minute, false)
	warm(a, 5*time.Minute, true)
	warm(Target{"a", "haiku"}, 5*time.Minute, false)
	if x.Warm(x.now, key(1), a, time.Hour) {
		t.Error("one conversation's cache is another's")
	}
	x.counts(Counts{Caches: 1})
	x.after(time.Hour)
	warm(a, 5*time.Minute, false)
	x.counts(Counts{})
}

func TestOneConversationHasFewWarmTargets(t *testing.T) {
	x := newBench(t, Policy{MaxSessions: 10})
	at := func(i int) Target { return Target{"u" + strconv.Itoa(i), "m"} }
	for i := range maxWarm {
		x.Warmed(x.now, key(0), at(i))
	}
	x.Warmed(x.now, key(0), at(0)) // so that 1 is the oldest
	x.Warmed(x.now, key(0), at(maxWarm))
	for i := range maxWarm + 1 {
		if got := x.Warm(x.now, key(0), at(i), time.Hour); got != (i != 1) {
			t.Errorf("target %d: %v", i, got)
		}
	}
	x.counts(Counts{Caches: 1})
}

func TestForgetting(t *testing.T) {
	for _, limit := range []int{100, 10000} {
		x := newBench(t, Policy{PinTTL: time.Hour, MaxSessions: limit})
		x.bind(0, a) // will have expired
		x.after(time.Hour)
		for i := 1; i <= 30; i++ {
			x.bind(i, []Target{a, b, {"a", "haiku"}}[i%3])
			x.Warmed(x.now, key(i), a)
			if i%2 == 0 {
				x.Warmed(x.now, key(i), b)
			}
		}
		x.Issued("me", "resp_1", a)
		x.counts(Counts{31, 30, 1})
		if n := x.Forget("a"); n != 20 {
			t.Errorf("%d pins to a, want 20", n)
		}
		x.counts(Counts{10, 15, 1})
		x.pinned(0, Target{}, Unpinned)
		x.pinned(1, b, Pinned)
		if x.Warm(x.now, key(2), a, time.Hour) || !x.Warm(x.now, key(2), b, time.Hour) {
			t.Error("forgot the wrong warmth")
		}
		if n := x.Forget("nobody"); n != 0 {
			t.Errorf("%d pins to nobody", n)
		}
		if n := x.Forget(""); n != 10 {
			t.Errorf("%d pins, want 10", n)
		}
		x.counts(Counts{Responses: 1})
		if got, ok := x.Owner("me", "resp_1"); !ok || got != a {
			t.Errorf("the owner is %v, %v", got, ok)
		}
		if _, ok := x.Owner("you", "resp_1"); ok {
			t.Error("an id belongs to another credential")
		}
	}
}

func TestEveryKindIsBounded(t *testing.T) {
	for _, limit := range []int{-1, 0, 1, 7, shardFrom - 1, shardFrom} {
		x := newBench(t, Policy{MaxSessions: limit})
		for i := range 2*shardFrom + 1 {
			x.bind(i, a)
			x.Warmed(x.now, key(i), a)
			x.Issued("me", strconv.Itoa(i), a)
		}
		n := max(limit, 0)
		x.counts(Counts{n, n, n})
	}
}

func TestAsManyAsMayBeFit(t *testing.T) {
	const limit = 10000
	x := newBench(t, Policy{MaxSessions: limit})
	for i := range limit {
		x.bind(i, a)
	}
	for i := range limit {
		x.pinned(i, a, Pinned)
	}
}

func TestConfigureShrinks(t *testing.T) {
	x := newBench(t, Policy{MaxSessions: 50})
	for i := range 50 {
		x.bind(i, a)
		x.Warmed(x.now, key(i), a)
		x.Issued("me", strconv.Itoa(i), a)
	}
	x.pinned(0, a, Pinned)
	x.Configure(Policy{MaxSessions: 3, PinTTL: time.Hour})
	x.counts(Counts{3, 3, 3})
	for i, want := range map[int]State{0: Pinned, 47: Unpinned, 48: Pinned, 49: Pinned} {
		got := Target{}
		if want == Pinned {
			got = a
		}
		x.pinned(i, got, want)
	}
	x.after(time.Hour)
	x.pinned(0, Target{}, Expired)
	x.Configure(Policy{MaxSessions: 0})
	x.counts(Counts{})
}

func TestConfigureMovesBetweenShards(t *testing.T) {
	x := newBench(t, Policy{MaxSessions: 5000})
	for i := range 1000 {
		x.bind(i, a)
		x.Warmed(x.now, key(i), a)
		x.Issued("me", strconv.Itoa(i), a)
	}
	for _, limit := range []int{1500, 1000, shardFrom, 9000} {
		x.Configure(Policy{MaxSessions: limit})
		x.counts(Counts{1000, 1000, 1000})
	}
	for i := range 1000 {
		x.pinned(i, a, Pinned)
		if _, ok := x.Owner("me", strconv.Itoa(i)); !ok || !x.Warm(x.now, key(i), a, time.Hour) {
			t.Fatalf("lost %d", i)
		}
	}
	x.Configure(Policy{MaxSessions: 500})
	x.counts(Counts{500, 500, 500})
	kept := 0
	for i := 500; i < 1000; i++ {
		if _, s := x.Pin(x.now, key(i)); s == Pinned {
			kept++
		}
	}
	if kept < 350 { // 250 would be chance
		t.Errorf("only %d of the 500 used last were kept", kept)
	}
}

func TestManyAtOnce(t *testing.T) {
	m := NewMemory(Policy{PinTTL: time.Second, MaxSessions: 60})
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 300 {
				k, id, tgt := key((g*7+i)%100), strconv.Itoa((g*3+i)%100), Target{"u" + strconv.Itoa(i%5), "m"}
				now := start.Add(time.Duration(i) * 10 * time.Millisecond)
				m.Bind(now, k, tgt)
				m.Warmed(now, k, tgt)
				m.Issued("me", id, tgt)
				if got, s := m.Pin(now, k); (s == Pinned) != (got != Target{}) {
					t.Errorf("%v is %d", got, s)
				}
				m.Warm(now, k, tgt, time.Second)
				if got, ok := m.Owner("me", id); ok && got.Upstream == "" {
					t.Error("nobody is an owner")
				}
				m.Count()
				switch {
				case i%50 == 0 && g%8 == 0:
					m.Forget(tgt.Upstream)
				case i%50 == 25 && g%8 == 1:
					m.Configure(Policy{PinTTL: time.Second, MaxSessions: []int{60, shardFrom, 30}[i/50%3]})
				}
			}
		})
	}
	wg.Wait()
	sound(t, m)
}

func TestOffRemembersNothing(t *testing.T) {
	var s Store = Off{}
	s.Configure(Policy{MaxSessions: 10})
	s.Bind(start, key(0), a)
	s.Warmed(start, key(0), a)
	s.Issued("me", "id", a)
	_, pin := s.Pin(start, key(0))
	_, owned := s.Owner("me", "id")
	if pin != Unpinned || owned || s.Warm(start, key(0), a, time.Hour) || s.Forget("") != 0 || s.Count() != (Counts{}) {
		t.Error("it remembers")
	}
}
