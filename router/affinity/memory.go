package affinity

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	shardCount = 16
	shardFrom  = 1600 // MaxSessions from which all shards are used: below it, one shard keeps the order exactly
	maxWarm    = 8    // warm targets of one conversation
)

// Memory is the store of one process; it is gone when the process ends. With a MaxSessions of 1600 or more it is split, and
// what goes at the limit is then the least recently used entry of the newcomer's shard.
type Memory struct {
	seed   maphash.Seed
	mask   atomic.Uint64 // picks the shard of a hash: all bits 0 with one shard; changes under all locks
	policy Policy        // read under any shard's lock, written under all of them
	shards [shardCount]shard

	pins, caches, owners atomic.Int64
}

type shard struct {
	mu     sync.Mutex
	now    int64 // the time that a caller told last, for Forget, which is not told any
	pins   lru[Key, pin]
	caches lru[Key, []warmth] // the target seen last stands last
	owners lru[issue, Target]
}

// Times are nanoseconds of the wall clock: a monotonic clock may stand still while a machine sleeps, but providers'
// caches end all the same.
type pin struct {
	target Target
	since  int64 // when PinTTL began to run
}

type warmth struct {
	target Target
	seen   int64
}

type issue struct{ credential, id string }

// NewMemory returns an empty store.
func NewMemory(p Policy) *Memory {
	m := &Memory{seed: maphash.MakeSeed()}
	for i := range m.shards {
		s := &m.shards[i]
		s.pins.total, s.caches.total, s.owners.total = &m.pins, &m.caches, &m.owners
		s.pins.reset()
		s.caches.reset()
		s.owners.reset()
	}
	m.Configure(p)
	return m
}

// Configure replaces the policy. Where MaxSessions shrinks, the least recently used entries go; if the store was split,
// that order is not exact.
func (m *Memory) Configure(p Policy) {
	m.lockAll()
	defer m.unlockAll()
	old := m.policy
	m.policy = p
	if old.MaxSessions == p.MaxSessions {
		return
	}
	m.mask.Store(0)
	if p.MaxSessions >= shardFrom {
		m.mask.Store(shardCount - 1)
	}
	redistribute(m, func(s *shard) *lru[Key, pin] { return &s.pins })
	redistribute(m, func(s *shard) *lru[Key, []warmth] { return &s.caches })
	redistribute(m, func(s *shard) *lru[issue, Target] { return &s.owners })
}

// redistribute moves the entries of one kind to the shards where they belong now, as many as there may be. It goes by
// rank: the newest of each shard, then the second of each, which is near their true order since shards are alike.
func redistribute[K named, V any](m *Memory, of func(*shard) *lru[K, V]) {
	var rest [shardCount]*node[K, V]
	for i := range m.shards {
		rest[i] = of(&m.shards[i]).reset()
	}
	for kept, more := 0, true; more && kept < m.policy.MaxSessions; {
		more = false
		for i, n := range rest {
			if n == &of(&m.shards[i]).root || kept >= m.policy.MaxSessions {
				continue
			}
			more, kept = true, kept+1
			rest[i] = n.next
			of(m.shardOf(m.mask.Load(), n.key.name())).append(n)
		}
	}
}

// named is a key whose name picks the shard. That is the part in which keys differ most: to hash a whole key twice, here and
// in the map, would take longer than all the rest.
type named interface {
	comparable
	name() string
}

func (k Key) name() string   { return k.Session }
func (k issue) name() string { return k.id }

func (m *Memory) shardOf(mask uint64, name string) *shard {
	if mask == 0 {
		return &m.shards[0]
	}
	return &m.shards[maphash.String(m.seed, name)&mask]
}

// lock returns the shard of a name, locked.
func (m *Memory) lock(name string) *shard {
	for {
		mask := m.mask.Load()
		s := m.shardOf(mask, name)
		s.mu.Lock()
		if m.mask.Load() == mask {
			return s
		}
		s.mu.Unlock() // Configure came between
	}
}

func (m *Memory) lockAll() {
	for i := range m.shards {
		m.shards[i].mu.Lock()
	}
}

func (m *Memory) unlockAll() {
	for i := range m.shards {
		m.shards[i].mu.Unlock()
	}
}

// Pin returns the target that a conversation is pinned to.
func (m *Memory) Pin(now time.Time, k Key) (Target, State) {
	s := m.lock(k.Session)
	defer s.mu.Unlock()
	s.now = now.UnixNano()
	n := s.pins.at[k]
	switch {
	case n == nil:
		return Target{}, Unpinned
	case m.expired(&n.val, s.now):
		return Target{}, Expired
	}
	s.pins.use(n)
	return n.val.target, Pinned
}

func (m *Memory) expired(p *pin, now int64) bool {
	return m.policy.PinTTL > 0 && now-p.since >= int64(m.policy.PinTTL)
}

// Bind pins a conversation to a target, or prolongs the pin.
func (m *Memory) Bind(now time.Time, k Key, t Target) {
	s := m.lock(k.Session)
	defer s.mu.Unlock()
	s.now = now.UnixNano()
	n := s.pins.at[k]
	if n == nil {
		s.pins.add(k.clone(), pin{t.clone(), s.now}, m.policy.MaxSessions)
		return
	}
	s.pins.use(n)
	switch p := &n.val; {
	case p.target != t:
		*p = pin{t.clone(), s.now}
	case !m.policy.FromBinding || m.expired(p, s.now):
		p.since = s.now
	}
}

// Warm reports whether a target holds the prompt cache of a conversation. It forgets what is not younger than ttl.
func (m *Memory) Warm(now time.Time, k Key, t Target, ttl time.Duration) bool {
	s := m.lock(k.Session)
	defer s.mu.Unlock()
	s.now = now.UnixNano()
	n := s.caches.at[k]
	if n == nil {
		return false
	}
	i := find(n.val, t)
	if i < 0 {
		return false
	}
	if s.now-n.val[i].seen >= int64(ttl) {
		n.val = slices.Delete(n.val, i, i+1)
		if len(n.val) == 0 {
			s.caches.remove(n)
		}
		return false
	}
	s.caches.use(n)
	return true
}

func find(ws []warmth, t Target) int {
	return slices.IndexFunc(ws, func(w warmth) bool { return w.target == t })
}

// Warmed notes that a target reported cache reads or writes. At most 8 targets are known of a conversation, those seen last.
func (m *Memory) Warmed(now time.Time, k Key, t Target) {
	s := m.lock(k.Session)
	defer s.mu.Unlock()
	s.now = now.UnixNano()
	n := s.caches.at[k]
	if n == nil {
		s.caches.add(k.clone(), []warmth{{t.clone(), s.now}}, m.policy.MaxSessions)
		return
	}
	s.caches.use(n)
	if i := find(n.val, t); i >= 0 {
		t = n.val[i].target
		n.val = slices.Delete(n.val, i, i+1)
	} else {
		t = t.clone()
		if len(n.val) == maxWarm {
			n.val = slices.Delete(n.val, 0, 1)
		}
	}
	n.val = append(n.val, warmth{t, s.now})
}

// Owner returns who issued an id.
func (m *Memory) Owner(credential, id string) (Target, bool) {
	k := issue{credential, id}
	s := m.lock(id)
	defer s.mu.Unlock()
	n := s.owners.at[k]
	if n == nil {
		return Target{}, false
	}
	s.owners.use(n)
	return n.val, true
}

// Issued notes who issued an id.
func (m *Memory) Issued(credential, id string, t Target) {
	k := issue{credential, id}
	s := m.lock(id)
	defer s.mu.Unlock()
	if n := s.owners.at[k]; n != nil {
		s.owners.use(n)
		n.val = t.clone()
		return
	}
	s.owners.add(issue{strings.Clone(credential), strings.Clone(id)}, t.clone(), m.policy.MaxSessions)
}

// Forget drops pins and warmth. Which pins had expired is judged by the latest time that any caller told.
func (m *Memory) Forget(upstream string) (live int) {
	m.lockAll()
	defer m.unlockAll()
	now := m.shards[0].now
	for i := range m.shards {
		now = max(now, m.shards[i].now)
	}
	for i := range m.shards {
		s := &m.shards[i]
		for n := range s.pins.all {
			if upstream != "" && n.val.target.Upstream != upstream {
				continue
			}
			if !m.expired(&n.val, now) {
				live++
			}
			s.pins.remove(n)
		}
		s.chill(upstream)
	}
	return live
}

func (s *shard) chill(upstream string) {
	for n := range s.caches.all {
		n.val = slices.DeleteFunc(n.val, func(w warmth) bool { return upstream == "" || w.target.Upstream == upstream })
		if len(n.val) == 0 {
			s.caches.remove(n)
		}
	}
}

// Count returns how many entries of each kind are held.
func (m *Memory) Count() Counts {
	return Counts{Sessions: int(m.pins.Load()), Caches: int(m.caches.Load()), Responses: int(m.owners.Load())}
}

// What is kept is cloned: the strings may be pieces of a request, which would stay in memory with them.

func (k Key) clone() Key {
	return Key{strings.Clone(k.Credential), strings.Clone(k.Session), strings.Clone(k.Agent), strings.Clone(k.Model)}
}

func (t Target) clone() Target { return Target{strings.Clone(t.Upstream), strings.Clone(t.Model)} }

var _ Store = (*Memory)(nil)
