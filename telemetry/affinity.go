package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

type affinityKey struct{ kind, result string }

// affinitySets builds the sets of one model's decisions.
func affinitySets(model attribute.KeyValue) *sets[affinityKey, labels] {
	return newSets(func(k affinityKey) affinityKey {
		return affinityKey{affinityKinds.close(k.kind), affinityResults.close(k.result)}
	}, func(k affinityKey) labels {
		return newLabels(model, attribute.String(AttrKind, k.kind), attribute.String(AttrResult, k.result))
	})
}

// Affinity counts one decision: kind is the Affinity value that it rested on, result the Result value that came of it.
func (r *ModelRecorder) Affinity(ctx context.Context, kind, result string) {
	r.t.affinityDecisions.Add(ctx, 1, r.affinities.get(affinityKey{kind, result}).add...)
}

// alertedAffinities are the series that the alert on affinity churn reads.
func alertedAffinities() []affinityKey {
	return []affinityKey{
		{AffinitySession, ResultHit},
		{AffinitySession, ResultMoved},
		{AffinityCache, ResultHit},
	}
}

// Entries is how many entries of each kind affinity holds at a moment.
type Entries struct{ Sessions, Caches, Responses int }

// entryLabels are the sets of the three kinds of entry.
type entryLabels struct{ sessions, caches, responses labels }

func newEntryLabels() entryLabels {
	kind := func(kind string) labels { return newLabels(attribute.String(AttrKind, kind)) }
	return entryLabels{kind(AffinitySession), kind(AffinityCache), kind(AffinityResponse)}
}

func (w *watcher) observeEntries(o metric.Observer, e Entries) {
	o.ObserveInt64(w.t.affinityEntries, int64(e.Sessions), w.entries.sessions.observe...)
	o.ObserveInt64(w.t.affinityEntries, int64(e.Caches), w.entries.caches.observe...)
	o.ObserveInt64(w.t.affinityEntries, int64(e.Responses), w.entries.responses.observe...)
}
