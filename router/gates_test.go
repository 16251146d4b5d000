package router_test

import (
	"fmt"
	"testing"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
)

// TestAllocationsPerRequest holds what a small request may allocate, the test's own request of about 20 included. A change that
// needs more has to say why; one that needs less lowers the numbers.
func TestAllocationsPerRequest(t *testing.T) {
	if router.RaceEnabled {
		t.Skip("the race detector allocates")
	}
	for telemetry, most := range map[bool]float64{false: 105, true: 187} {
		t.Run(fmt.Sprintf("telemetry=%t", telemetry), func(t *testing.T) {
			p := newPeer(t, wholeAnswer(200, goodChat), "", "")
			p.tail = nil
			h := benchEngine(t, telemetry, false, routertest.Chat, p).Handler()
			ask := padded(routertest.NewRequest(routertest.Chat, "small", false), 1<<10)
			for range 20 {
				serveOnce(t, h, ask, nil)
			}
			if n := testing.AllocsPerRun(500, func() { serveOnce(t, h, ask, nil) }); n > most {
				t.Errorf("%v allocations, want %v at most", n, most)
			} else {
				t.Logf("%v allocations", n)
			}
		})
	}
}
