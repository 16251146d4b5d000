// Package heap says when the process collects its garbage. It must not know what the process does.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Go collects garbage whenever the heap has doubled. A router's live heap is a few MB and its requests leave tens of KB
// each, so that would be dozens of times a second, a fifth of all processor time. So there is a floor: no collection
// before the heap has floor bytes. Where more is alive, as with a thousand streams, the heap may grow by leastGrowth.
const (
	floor       = 64 << 20
	leastGrowth = 50      // per cent
	emptyHeap   = 4 << 20 // what GOGC=100 stands for where nothing is alive
)

// KeepFloor keeps the process from collecting before its heap has 64 MB, for as long as it lives, unless whoever started
// it has chosen with GOGC. GOMEMLIMIT goes before the floor in any case.
func KeepFloor() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(growth(0, emptyHeap))
	afterCollection(growth(0, emptyHeap))
}

// mark is what a collection finds dead. It holds a pointer, so that it shares its memory with nothing else.
type mark struct{ _ *int }

// afterCollection sets the growth anew after each collection.
func afterCollection(now int) {
	runtime.AddCleanup(new(mark), func(was int) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
		metrics.Read(sample)
		live := sample[0].Value.Uint64()
		next := growth(live, live+sample[1].Value.Uint64()+sample[2].Value.Uint64())
		if next != was { // it stops the world for a moment
			debug.SetGCPercent(next)
		}
		afterCollection(next)
	}, now)
}

// growth returns by how many per cent the heap may grow if live bytes of it are in use, for GOGC, which is a share of all
// that is looked through: live, stacks, globals. Steps of 25 keep it from changing each time.
func growth(live, all uint64) int {
	if live >= floor {
		return leastGrowth
	}
	return max(leastGrowth, int((floor-live)*100/max(all, emptyHeap))/25*25)
}
