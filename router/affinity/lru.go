package affinity

import "sync/atomic"

// lru is a map whose entries also stand in a ring by their last use; root.next is the newest, root.prev the oldest.
type lru[K comparable, V any] struct {
	at    map[K]*node[K, V]
	root  node[K, V]
	total *atomic.Int64 // entries of this kind in all shards
}

type node[K comparable, V any] struct {
	key        K
	val        V
	prev, next *node[K, V]
}

func (n *node[K, V]) unlink() { n.prev.next, n.next.prev = n.next, n.prev }

func (n *node[K, V]) link(after *node[K, V]) {
	n.prev, n.next = after, after.next
	n.prev.next, n.next.prev = n, n
}

// reset empties the map and returns the newest of what was in it; the old entries still lead from one to the next, and
// from the oldest to root.
func (l *lru[K, V]) reset() *node[K, V] {
	newest := l.root.next
	if n := len(l.at); n > 0 {
		l.total.Add(int64(-n))
	}
	l.at = map[K]*node[K, V]{}
	l.root.prev, l.root.next = &l.root, &l.root
	return newest
}

func (l *lru[K, V]) use(n *node[K, V]) {
	if l.root.next != n {
		n.unlink()
		n.link(&l.root)
	}
}

// add takes in what is not there yet. Each addition beyond the limit of all shards together costs this shard its oldest
// entry, so that the limit holds without any shard having to look at another.
func (l *lru[K, V]) add(k K, v V, limit int) {
	n := &node[K, V]{key: k, val: v}
	l.at[k] = n
	n.link(&l.root)
	if l.total.Add(1) > int64(limit) {
		l.remove(l.root.prev)
	}
}

// append takes an entry in as the oldest.
func (l *lru[K, V]) append(n *node[K, V]) {
	l.at[n.key] = n
	n.link(l.root.prev)
	l.total.Add(1)
}

func (l *lru[K, V]) remove(n *node[K, V]) {
	n.unlink()
	delete(l.at, n.key)
	l.total.Add(-1)
}

// all yields the entries, newest first; the one at hand may be removed.
func (l *lru[K, V]) all(yield func(*node[K, V]) bool) {
	for n := l.root.next; n != &l.root; {
		next := n.next
		if !yield(n) {
			return
		}
		n = next
	}
}
