package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// labels is one attribute set in the forms that recording takes, built ahead: an option made for each record would cost
// four allocations, and so would the slice around it.
type labels struct {
	add     []metric.AddOption
	record  []metric.RecordOption
	observe []metric.ObserveOption
}

func newLabels(attrs ...attribute.KeyValue) labels {
	o := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return labels{[]metric.AddOption{o}, []metric.RecordOption{o}, []metric.ObserveOption{o}}
}

// sets keeps what was built for a key. Reading takes no lock and allocates nothing; building copies the map. It stays as
// small as the closed vocabularies, since close is applied before a key is kept.
type sets[K comparable, V any] struct {
	close func(K) K // maps a key to the one that stands for it
	build func(K) V
	known atomic.Pointer[map[K]V]
	write sync.Mutex
}

func newSets[K comparable, V any](shut func(K) K, build func(K) V) *sets[K, V] {
	s := &sets[K, V]{close: shut, build: build}
	s.known.Store(&map[K]V{})
	return s
}

// get returns what belongs to key, and builds it at first use.
func (s *sets[K, V]) get(key K) V {
	known := *s.known.Load()
	if v, ok := known[key]; ok {
		return v
	}
	if v, ok := known[s.close(key)]; ok {
		return v
	}
	return s.all([]K{key})[0]
}

// all returns what belongs to keys, and builds what is missing: the map is copied once.
func (s *sets[K, V]) all(keys []K) []V {
	s.write.Lock()
	defer s.write.Unlock()
	next, list := maps.Clone(*s.known.Load()), make([]V, len(keys))
	for i, key := range keys {
		key = s.close(key)
		v, ok := next[key]
		if !ok {
			v = s.build(key)
			next[key] = v
		}
		list[i] = v
	}
	s.known.Store(&next)
	return list
}
