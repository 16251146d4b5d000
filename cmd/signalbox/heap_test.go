package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGrowth(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		live, all uint64
		want      int
	}{
		{0, 0, heapFloor * 100 / emptyHeap},
		{1 * mb, 1 * mb, (heapFloor - 1*mb) * 100 / emptyHeap / 25 * 25}, // Go takes no heap for smaller than emptyHeap
		{heapFloor / 2, heapFloor / 2, 100},
		{heapFloor / 2, heapFloor, leastGrowth}, // stacks grow with it
		{heapFloor, heapFloor, leastGrowth},
		{100 * heapFloor, 110 * heapFloor, leastGrowth},
	} {
		if got := growth(c.live, c.all); got != c.want {
			t.Errorf("growth(%d, %d) = %d, want %d", c.live, c.all, got, c.want)
		}
	}
}

// churn is a process of its own for the script heap_floor: it says how often it was collected while it left a lot of
// garbage, and what growth it has once a lot is alive.
func churn() {
	const megabytes = 512
	keepFloor()
	for range megabytes {
		sink = make([]byte, 1<<20)
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	most := uint32(megabytes * (1 << 20) / heapFloor * 3 / 2)
	fmt.Printf("few collections: %v\n", stats.NumGC <= most)
	sink = make([]byte, heapFloor)
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for range 100 {
		runtime.GC()
		if metrics.Read(now); now[0].Value.Uint64() == leastGrowth {
			break
		}
		time.Sleep(10 * time.Millisecond) // the growth is set after the collection, on another goroutine
	}
	fmt.Printf("growth: %d\n", now[0].Value.Uint64())
	runtime.KeepAlive(sink)
	os.Exit(0)
}

var sink []byte
