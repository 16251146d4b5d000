package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestView(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: RateLimit, Hint: hint(time.Minute), ErrorType: "429", Status: 429})
	b.fail(Target{"a", "asked"}, Failure{Reason: ModelMissing, ErrorType: "404", Status: 404})
	got := b.View(b.after(15 * time.Second).now)
	want := []UpstreamView{
		{Name: "a", State: StateHealthy, LastError: &LastError{"404", 404, start, ModelMissing}, Targets: []TargetView{
			{Model: "opus", State: StateCooling, Reason: RateLimit, Since: start, Until: start.Add(time.Minute), Remaining: 45 * time.Second, Failures: 1, LastError: &LastError{"429", 429, start, RateLimit}},
			{Model: "sonnet", State: StateHealthy},
			{Model: "haiku", State: StateHealthy},
			{Model: "asked", State: StateCooling, Reason: ModelMissing, Since: start, Until: start.Add(5 * time.Minute), Remaining: 285 * time.Second, Failures: 1, LastError: &LastError{"404", 404, start, ModelMissing}},
		}},
		{Name: "b", State: StateHealthy, Targets: []TargetView{{Model: "opus", State: StateHealthy}}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	b.after(time.Minute)
	probe := b.begin(opus)
	if v := b.View(b.now)[0].Targets[0]; v.State != StateProbing || !v.ProbeInFlight || v.Remaining != 0 {
		t.Errorf("%+v", v)
	}
	probe.Success(b.now)
	if v := b.View(b.now)[0]; v.Targets[0].State != StateHealthy || v.LastError == nil {
		t.Errorf("%+v", v)
	}
}
