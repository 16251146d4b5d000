package affinity

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// full is a store of 10,000 pinned sessions with session ids as long as UUIDs, and their keys.
func full(tb testing.TB) (*Memory, []Key) {
	tb.Helper()
	m := NewMemory(Policy{PinTTL: 2 * time.Hour, MaxSessions: 10000})
	keys := make([]Key, 10000)
	for i := range keys {
		keys[i] = Key{Credential: "laptop", Session: "0b2c7e1a-5d52-4c1e-9f0a-" + strconv.Itoa(100000000000+i), Model: "sonnet"}
		m.Bind(start, keys[i], a)
		m.Warmed(start, keys[i], a)
		m.Issued("laptop", keys[i].Session, a)
	}
	return m, keys
}

func TestWhatIsAskedOnEveryRequestAllocatesNothing(t *testing.T) {
	m, keys := full(t)
	small := NewMemory(Policy{MaxSessions: 10})
	small.Bind(start, keys[0], a)
	for name, f := range map[string]func(Key){
		"Pin":            func(k Key) { m.Pin(start, k) },
		"Pin, one shard": func(k Key) { small.Pin(start, k) },
		"Pin, unknown":   func(k Key) { k.Agent = "x"; m.Pin(start, k) },
		"Bind":           func(k Key) { m.Bind(start, k, a) },
		"Warm":           func(k Key) { m.Warm(start, k, a, time.Hour) },
		"Warm, elsewhere": func(k Key) {
			m.Warm(start, k, b, time.Hour)
		},
		"Warmed": func(k Key) { m.Warmed(start, k, a) },
		"Owner":  func(k Key) { m.Owner("laptop", k.Session) },
		"Count":  func(Key) { m.Count() },
	} {
		i := 0
		if n := testing.AllocsPerRun(1000, func() { f(keys[i%len(keys)]); i++ }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkPin(b *testing.B) {
	m, keys := full(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, s := m.Pin(start, keys[i*7919%len(keys)]); s != Pinned {
			b.Fatal(s)
		}
	}
}

func BenchmarkPinParallel(b *testing.B) {
	m, keys := full(b)
	b.ReportAllocs()
	var worker atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for i := int(worker.Add(1)) * 1009; pb.Next(); i++ {
			m.Pin(start, keys[i*7919%len(keys)])
		}
	})
}

func BenchmarkBind(b *testing.B) {
	m, keys := full(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Bind(start, keys[i*7919%len(keys)], a)
	}
}

func BenchmarkWarm(b *testing.B) {
	m, keys := full(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Warm(start, keys[i*7919%len(keys)], a, time.Hour)
	}
}

// BenchmarkBindNew is of a full store that drops one session for every new one.
func BenchmarkBindNew(b *testing.B) {
	m, keys := full(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		k := keys[i%len(keys)]
		k.Agent = strconv.Itoa(i)
		m.Bind(start, k, a)
	}
}

// BenchmarkForget drops one of two upstreams out of 10,000 sessions, which the bench binds again.
func BenchmarkForget(x *testing.B) {
	m, keys := full(x)
	x.ReportAllocs()
	for x.Loop() {
		x.StopTimer()
		for i, k := range keys {
			m.Bind(start, k, []Target{a, b}[i&1])
			m.Warmed(start, k, b)
		}
		x.StartTimer()
		if n := m.Forget("b"); n != len(keys)/2 {
			x.Fatal(n)
		}
	}
}

func BenchmarkConfigure(b *testing.B) {
	m, _ := full(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Configure(Policy{MaxSessions: 10000 + i&1})
	}
}
