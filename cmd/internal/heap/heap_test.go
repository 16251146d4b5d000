package heap

import (
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the script start a process that leaves garbage.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"churn": churn}) }

func TestFloor(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{Dir: "testdata"})
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, c := range []struct {
		live, all uint64
		want      int
	}{
		{0, 0, floor * 100 / emptyHeap},
		{1 * mb, 1 * mb, (floor - 1*mb) * 100 / emptyHeap / 25 * 25}, // Go takes no heap for smaller than emptyHeap
		{floor / 2, floor / 2, 100},
		{floor / 2, floor, leastGrowth}, // stacks grow with it
		{floor, floor, leastGrowth},
		{100 * floor, 110 * floor, leastGrowth},
	} {
		if got := growth(c.live, c.all); got != c.want {
			t.Errorf("growth(%d, %d) = %d, want %d", c.live, c.all, got, c.want)
		}
	}
}

// churn is a process of its own for the script floor: it says how often it was collected while it left a lot of
// garbage, and what growth it has once a lot is alive.
func churn() {
	const megabytes = 512
	KeepFloor()
	for range megabytes {
		sink = make([]byte, 1<<20)
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	most := uint32(megabytes * (1 << 20) / floor * 3 / 2)
	fmt.Printf("few collections: %v\n", stats.NumGC <= most)
	sink = make([]byte, floor)
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
