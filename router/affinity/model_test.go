package affinity

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naive does what a store shall do with one slice of entries for each kind, the least recently used first.
type naive struct {
	p      Policy
	now    time.Time
	pins   []naivePin
	caches []naiveCache
	owners []naiveOwner
}

type (
	naivePin struct {
		k     Key
		t     Target
		since time.Time
	}
	naiveCache struct {
		k    Key
		seen map[Target]time.Time
	}
	naiveOwner struct {
		k issue
		t Target
	}
)

// take removes and returns what matches.
func take[E any](from *[]E, match func(E) bool) (e E, ok bool) {
	i := slices.IndexFunc(*from, match)
	if i < 0 {
		return e, false
	}
	e = (*from)[i]
	*from = slices.Delete(slices.Clone(*from), i, i+1)
	return e, true
}

func last[E any](s []E, n int) []E { return s[max(len(s)-n, 0):] }

func (n *naive) trim() {
	n.pins, n.caches, n.owners = last(n.pins, n.p.MaxSessions), last(n.caches, n.p.MaxSessions), last(n.owners, n.p.MaxSessions)
}

func (n *naive) expired(p naivePin) bool { return n.p.PinTTL > 0 && n.now.Sub(p.since) >= n.p.PinTTL }

func (n *naive) pin(k Key) (Target, State) {
	i := slices.IndexFunc(n.pins, func(p naivePin) bool { return p.k == k })
	switch {
	case i < 0:
		return Target{}, Unpinned
	case n.expired(n.pins[i]):
		return Target{}, Expired
	}
	p, _ := take(&n.pins, func(p naivePin) bool { return p.k == k })
	n.pins = append(n.pins, p)
	return p.t, Pinned
}

func (n *naive) bind(k Key, t Target) {
	p, ok := take(&n.pins, func(p naivePin) bool { return p.k == k })
	if !ok || p.t != t || !n.p.FromBinding || n.expired(p) {
		p = naivePin{k, t, n.now}
	}
	n.pins = append(n.pins, p)
	n.trim()
}

func (n *naive) warm(k Key, t Target, ttl time.Duration) bool {
	i := slices.IndexFunc(n.caches, func(c naiveCache) bool { return c.k == k })
	if i < 0 {
		return false
	}
	c := n.caches[i]
	seen, ok := c.seen[t]
	if ok && n.now.Sub(seen) < ttl {
		n.caches = append(slices.Delete(n.caches, i, i+1), c)
		return true
	}
	delete(c.seen, t)
	n.sweep()
	return false
}

func (n *naive) sweep() {
	n.caches = slices.DeleteFunc(n.caches, func(c naiveCache) bool { return len(c.seen) == 0 })
}

func (n *naive) warmed(k Key, t Target) {
	c, ok := take(&n.caches, func(c naiveCache) bool { return c.k == k })
	if !ok {
		c = naiveCache{k, map[Target]time.Time{}}
	}
	c.seen[t] = n.now
	n.caches = append(n.caches, c)
	n.trim()
}

func (n *naive) owner(k issue) (Target, bool) {
	o, ok := take(&n.owners, func(o naiveOwner) bool { return o.k == k })
	if ok {
		n.owners = append(n.owners, o)
	}
	return o.t, ok
}

func (n *naive) issued(k issue, t Target) {
	take(&n.owners, func(o naiveOwner) bool { return o.k == k })
	n.owners = append(n.owners, naiveOwner{k, t})
	n.trim()
}

func (n *naive) forget(upstream string) (live int) {
	n.pins = slices.DeleteFunc(n.pins, func(p naivePin) bool {
		gone := upstream == "" || p.t.Upstream == upstream
		if gone && !n.expired(p) {
			live++
		}
		return gone
	})
	for _, c := range n.caches {
		for t := range c.seen {
			if upstream == "" || t.Upstream == upstream {
				delete(c.seen, t)
			}
		}
	}
	n.sweep()
	return live
}

// TestMemoryIsItsModel goes through the same random days with Memory and with the model. The many limits let one shard
// evict; the great ones split the store and leave room for all, since only one shard evicts in an exact order.
func TestMemoryIsItsModel(t *testing.T) {
	for name, limits := range map[string][]int{"one shard": {0, 1, 2, 3, 5, 9, 50}, "all shards": {shardFrom, 5000}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				policies := rapid.Custom(func(t *rapid.T) Policy {
					return Policy{
						PinTTL:      rapid.SampledFrom([]time.Duration{0, 5, 20}).Draw(t, "pin TTL"),
						FromBinding: rapid.Bool().Draw(t, "from binding"),
						MaxSessions: rapid.SampledFrom(limits).Draw(t, "max sessions"),
					}
				})
				p := policies.Draw(t, "policy")
				day(t, NewMemory(p), &naive{p: p, now: start}, policies)
			})
		})
	}
}

func day(t *rapid.T, m *Memory, n *naive, policies *rapid.Generator[Policy]) {
	keys := rapid.Custom(func(t *rapid.T) Key {
		i := rapid.IntRange(0, 15).Draw(t, "i")
		return Key{[]string{"me", "you"}[i&1], "s" + strconv.Itoa(i>>1&1), []string{"", "child"}[i>>2&1], []string{"m", "n"}[i>>3]}
	})
	// As many targets as a conversation may be warm at: what happens with more has a test of its own.
	targets := rapid.SampledFrom([]Target{a, b, {"a", "haiku"}, {"b", "haiku"}, {"c", "opus"}})
	ids := rapid.Custom(func(t *rapid.T) issue {
		return issue{rapid.SampledFrom([]string{"me", "you"}).Draw(t, "credential"), rapid.StringMatching("[a-f]").Draw(t, "id")}
	})
	same := func(got, want any) {
		t.Helper()
		if got != want {
			t.Fatalf("got %v, the model %v", got, want)
		}
	}
	type pinAnswer struct {
		t Target
		s State
	}
	type ownerAnswer struct {
		t  Target
		ok bool
	}
	t.Repeat(map[string]func(*rapid.T){
		"wait": func(t *rapid.T) { n.now = n.now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "ns"))) },
		"pin": func(t *rapid.T) {
			k := keys.Draw(t, "key")
			var got, want pinAnswer
			got.t, got.s = m.Pin(n.now, k)
			want.t, want.s = n.pin(k)
			same(got, want)
		},
		"bind": func(t *rapid.T) {
			k, to := keys.Draw(t, "key"), targets.Draw(t, "target")
			m.Bind(n.now, k, to)
			n.bind(k, to)
		},
		"warm": func(t *rapid.T) {
			k, at, ttl := keys.Draw(t, "key"), targets.Draw(t, "target"), time.Duration(rapid.IntRange(0, 20).Draw(t, "ttl"))
			same(m.Warm(n.now, k, at, ttl), n.warm(k, at, ttl))
		},
		"warmed": func(t *rapid.T) {
			k, at := keys.Draw(t, "key"), targets.Draw(t, "target")
			m.Warmed(n.now, k, at)
			n.warmed(k, at)
		},
		"owner": func(t *rapid.T) {
			k := ids.Draw(t, "id")
			var got, want ownerAnswer
			got.t, got.ok = m.Owner(k.credential, k.id)
			want.t, want.ok = n.owner(k)
			same(got, want)
		},
		"issued": func(t *rapid.T) {
			k, by := ids.Draw(t, "id"), targets.Draw(t, "target")
			m.Issued(k.credential, k.id, by)
			n.issued(k, by)
		},
		"forget": func(t *rapid.T) {
			upstream := rapid.SampledFrom([]string{"", "a", "b", "nobody"}).Draw(t, "upstream")
			m.Warm(n.now, Key{}, Target{}, 0) // tells the time
			same(m.Forget(upstream), n.forget(upstream))
		},
		"configure": func(t *rapid.T) {
			n.p = policies.Draw(t, "policy")
			m.Configure(n.p)
			n.trim()
		},
		"": func(t *rapid.T) {
			same(m.Count(), Counts{len(n.pins), len(n.caches), len(n.owners)})
			sound(t, m)
		},
	})
}
