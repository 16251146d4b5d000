package health

import (
	"testing"
	"time"
)

// probing is a bench with a probe that is just due.
func probing(t *testing.T, change ...func(*Policy, *[]Upstream)) *bench {
	b := newBench(t, change...)
	b.fail(opus, Failure{Reason: ServerError})
	return b.after(30 * time.Second)
}

// due checks that the next request is the probe, and that it is alone.
func (b *bench) due() {
	b.Helper()
	e := b.begin(opus)
	if !e.Probe {
		b.Error("the probe lease is lost")
	}
	if block := b.Check(b.now, opus, "s"); !block.Probing {
		b.Errorf("a second probe is let in: %+v", block)
	}
	e.Release()
}

func TestLeaseComesBackWhenTheClientLeaves(t *testing.T) {
	b := probing(t)
	e := b.begin(opus)
	e.Release() // nothing was booked
	b.due()
	if v := b.View(b.now)[0].Targets[0]; v.Failures != 1 {
		t.Errorf("somebody was blamed: %+v", v)
	}
}

func TestLeaseComesBackFromAPanic(t *testing.T) {
	b := probing(t)
	func() {
		defer func() { _ = recover() }()
		e := b.begin(opus)
		defer e.Release()
		panic("broken")
	}()
	b.due()
	if n := b.InFlight("a"); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestLeaseIsNotTakenWithoutAPlace(t *testing.T) {
	b := probing(t, func(_ *Policy, u *[]Upstream) { (*u)[0].MaxConcurrent = 1 })
	other := b.begin(sonnet)
	for _, force := range []Force{NoForce, PastOwn, PastAll} {
		if e, block := b.Begin(b.now, opus, "s", force); e != nil || !block.Full {
			t.Errorf("force %d: %+v", force, block)
		}
	}
	if v := b.View(b.now)[0].Targets[0]; v.ProbeInFlight {
		t.Error("a refused request holds the lease")
	}
	other.Release()
	b.due()
}

func TestLeaseComesBackAfterAnExclusion(t *testing.T) {
	b := probing(t)
	e := b.begin(opus)
	e.Fail(b.now, Failure{Reason: Rejected, Scope: ScopeSession, Session: "other"})
	e.Release()
	b.due()
}

// One lease may span several sends: it books once, for the last of them.
func TestLeaseIsHeldForLong(t *testing.T) {
	b := newBench(t)
	held := b.begin(opus)
	for _, want := range []time.Duration{30, 60, 120} { // others fail meanwhile, recover and fail again
		got := b.fail(opus, Failure{Reason: ServerError})
		if got[0].Duration != want*time.Second {
			t.Fatalf("%v", lasted(got))
		}
		b.after(got[0].Duration)
	}
	b.fail(opus, Failure{Reason: ServerError})
	if got := held.Fail(b.after(time.Second).now, Failure{Reason: ServerError}); got != nil {
		t.Errorf("a straggler prolonged what began after it: %v", lasted(got))
	}
	held.Success(b.now) // too late: it has booked
	if got := held.Fail(b.now, Failure{Reason: Quota}); got != nil {
		t.Errorf("booked twice: %v", lasted(got))
	}
	b.eligible(false, opus)
	if n := b.InFlight("a"); n != 1 {
		t.Errorf("%d in flight", n)
	}
	held.Release()
	held.Release()
	if n := b.InFlight("a"); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

// A probe may run for longer than the turn of a long cooling, and than the cooling itself.
func TestProbeIsHeldForLong(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Quota, Hint: Hint{3 * time.Hour, SourceBody}})
	probe := b.after(time.Hour).begin(opus)
	for range 4 {
		if block := b.Check(b.after(time.Hour).now, opus, "s"); !block.Probing {
			t.Fatalf("after %v: %+v", b.now.Sub(start), block)
		}
	}
	probe.Success(b.now)
	probe.Release()
	b.eligible(true, opus)
	if e := b.begin(opus); e.Probe {
		t.Error("a probe after the recovery")
	}
}

func TestSuccessAfterAFailureIsNotHeard(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.Server.After = 2 })
	e := b.begin(opus)
	e.Fail(b.now, Failure{Reason: ServerError})
	e.Success(b.now)
	e.Release()
	if got := b.fail(opus, Failure{Reason: ServerError}); len(got) != 1 {
		t.Error("the failure was forgotten")
	}
}

func TestInFlight(t *testing.T) {
	b := newBench(t)
	one, two := b.begin(opus), b.begin(sonnet)
	b.begin(Target{"b", "opus"})
	for _, c := range []struct {
		do   func()
		want int
	}{
		{func() {}, 2},
		{func() { one.Success(b.now) }, 2},
		{one.Release, 1},
		{one.Release, 1},
		{func() { b.Reset(b.now) }, 1},
		{func() { b.Configure(rules, []Upstream{{Name: "a"}}) }, 1},
		{two.Release, 0},
	} {
		if c.do(); b.InFlight("a") != c.want {
			t.Errorf("%d in flight, want %d", b.InFlight("a"), c.want)
		}
	}
	if n := b.InFlight("gone"); n != 0 {
		t.Errorf("%d in flight at nobody", n)
	}
}
