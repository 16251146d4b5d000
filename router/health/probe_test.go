package health

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestOneProbeWhenACoolingEnds(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: RateLimit, Hint: hint(time.Second)})
	b.after(time.Second).eligible(true, opus)
	probe := b.begin(opus)
	if !probe.Probe {
		t.Fatal("no probe")
	}
	if block := b.Check(b.now, opus, "s"); !block.Probing || !block.Until.IsZero() || block.Reason != RateLimit || block.OwnPolicy() {
		t.Errorf("others are told %+v", block)
	}
	if e, _ := b.Begin(b.now, opus, "s", PastOwn); e != nil {
		t.Error("force went past a limit that the provider set")
	}
	b.eligible(true, sonnet)
	probe.Release()
	probe.Release()
	again := b.begin(opus)
	if !again.Probe {
		t.Fatal("the lease of a probe that found out nothing was lost")
	}
	again.Success(b.now)
	if e := b.begin(opus); e.Probe {
		t.Error("a probe after the recovery")
	}
	if n := b.View(b.now)[0].InFlight; n != 2 {
		t.Errorf("%d in flight, want 2", n)
	}
}

func TestAFailedProbeCoolsAgainForLonger(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	b.after(30 * time.Second)
	probe := b.begin(opus)
	if got := probe.Fail(b.now, Failure{Reason: ServerError}); got[0].Duration != time.Minute || got[0].Streak != 2 {
		t.Fatalf("%+v", got)
	}
	if block := b.Check(b.now, opus, "s"); block.Probing || !block.Until.Equal(b.now.Add(time.Minute)) {
		t.Errorf("before the release: %+v", block)
	}
	probe.Release()
	b.eligible(false, opus)
}

func TestForcedBesideAProbeDoesNotTakeItsLease(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	b.after(time.Minute)
	probe := b.begin(opus)
	forced, _ := b.Begin(b.now, opus, "s", PastOwn)
	if forced == nil || forced.Probe {
		t.Fatalf("forced: %+v", forced)
	}
	forced.Fail(b.now, Failure{Reason: ServerError})
	forced.Release()
	if block := b.Check(b.now, opus, "s"); !block.Probing {
		t.Errorf("the probe lost its lease: %+v", block)
	}
	probe.Success(b.now)
	b.eligible(true, opus)
}

func TestASuccessThatBeganBeforeTheCoolingDoesNotEndIt(t *testing.T) {
	b := newBench(t)
	long, short := b.begin(opus), b.begin(opus)
	short.Fail(b.now, Failure{Reason: RateLimit, Hint: hint(time.Minute)})
	long.Success(b.after(10 * time.Second).now)
	b.eligible(false, opus)
}

func TestSuccessLiftsTargetAndAccount(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Auth, Scope: ScopeAccount})
	b.after(time.Minute)
	b.succeed(sonnet)
	b.eligible(true, opus, sonnet, haiku)
	if e := b.begin(opus); e.Probe {
		t.Error("the account is still on probation")
	}
}

// A stream may run for minutes: its first output is enough to know that a limit is over.
func TestAdmittedEndsLimitsButNotServerTrouble(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: RateLimit, Scope: ScopeAccount})
	b.fail(Target{"b", "opus"}, Failure{Reason: ServerError})
	b.after(time.Minute)
	b.begin(opus).Admitted(b.now)
	b.eligible(true, opus, sonnet)
	b.begin(Target{"b", "opus"}).Admitted(b.now)
	b.eligible(false, Target{"b", "opus"})
}

func TestLongCoolingIsProbedNowAndThen(t *testing.T) {
	b := newBench(t)
	quota := Failure{Reason: Quota, Scope: ScopeAccount, Hint: Hint{140 * time.Hour, SourceBody}}
	b.fail(opus, quota)
	if got := b.Check(b.now, sonnet, "s").Until; !got.Equal(start.Add(time.Hour)) {
		t.Errorf("the next may be at %v", got)
	}
	b.after(59*time.Minute).eligible(false, opus, sonnet)
	b.after(time.Minute).eligible(true, opus, sonnet)
	left := b.begin(opus)
	left.Release() // the client went away: the turn is not used up
	if got := b.fail(opus, quota); got[0].Until.Sub(b.now) != 140*time.Hour {
		t.Errorf("%v", lasted(got))
	}
	b.after(59*time.Minute).eligible(false, opus)
	b.after(time.Minute)
	b.fail(opus, Failure{Reason: Unusable}) // tells nothing of the quota, and the turn is used up
	b.eligible(false, sonnet)
	b.after(time.Hour)
	b.succeed(sonnet)
	b.eligible(true, sonnet, haiku)
}

func TestLongCoolingIsNeverProbedIfTurnedOff(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.ProbeEvery = 0 })
	b.fail(opus, Failure{Reason: Quota, Scope: ScopeAccount})
	b.after(167*time.Hour).eligible(false, opus)
	b.after(time.Hour).eligible(true, opus)
}

// However many come at once when a cooling ends, or when the turn of a long one has come, one of them finds out.
func TestManyRequestsOneProbe(t *testing.T) {
	for _, c := range []struct {
		name string
		fail Failure
		wait time.Duration
	}{
		{"target", Failure{Reason: ServerError}, 30 * time.Second},
		{"account", Failure{Reason: Auth, Scope: ScopeAccount}, time.Minute},
		{"turn of a long cooling", Failure{Reason: Quota, Scope: ScopeAccount}, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.fail(opus, c.fail)
			b.after(c.wait)
			var won, probing atomic.Int64
			var all sync.WaitGroup
			gate := make(chan struct{})
			for range 1000 {
				all.Go(func() {
					<-gate
					e, block := b.Begin(b.now, opus, "s", NoForce)
					switch {
					case e != nil && e.Probe:
						won.Add(1)
					case block.Probing:
						probing.Add(1)
					}
					b.Check(b.now, sonnet, "s")
					b.View(b.now)
				})
			}
			close(gate)
			all.Wait()
			if won.Load() != 1 || probing.Load() != 999 {
				t.Errorf("%d probes, %d were told", won.Load(), probing.Load())
			}
		})
	}
}

// All levers at once, for the race detector; whatever the order, nothing is left in flight.
func TestManyHands(t *testing.T) {
	b := newBench(t, checked)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			target := []Target{opus, sonnet, haiku, {"b", "opus"}}[i%4]
			if e, _ := b.Begin(b.now, target, "s", Force(i%3)); e != nil {
				defer e.Release()
				e.Admitted(b.now)
				if i%5 == 0 {
					e.Fail(b.now, Failure{Reason: allReasons[i%len(allReasons)]})
				} else {
					e.Success(b.now)
				}
			}
			switch i % 10 {
			case 0:
				b.Clear(b.now, []Target{target}, "s")
			case 1:
				b.Checked(b.now, "a", i%4 != 0, 1)
			case 2:
				_ = b.Cool(b.now, "b", "", time.Second)
			case 3:
				_, _ = b.Uncool(b.now, "b", "")
			case 4:
				b.Reset(b.now)
			case 5:
				b.Configure(rules, []Upstream{
					{Name: "a", Enabled: true, Checked: true, Fingerprint: "2", Targets: []string{"opus", "haiku"}},
					{Name: "b", Enabled: true},
				})
			}
		})
	}
	all.Wait()
	for _, name := range []string{"a", "b"} {
		if n := b.InFlight(name); n != 0 {
			t.Errorf("%d in flight at %s", n, name)
		}
	}
}
