package health

import (
	"testing"
	"time"
)

// Whatever a session is kept away by, clearing leaves nothing of it but orders and ceilings.
func TestClear(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*bench)
		want int
		open bool
	}{
		{"nothing", func(*bench) {}, 0, true},
		{"a cooling of the target", func(b *bench) { b.fail(opus, Failure{Reason: ServerError}) }, 1, true},
		{"a limit", func(b *bench) { b.fail(opus, Failure{Reason: Quota}) }, 1, true},
		{"a cooling of the account", func(b *bench) { b.fail(sonnet, Failure{Reason: Auth, Scope: ScopeAccount}) }, 1, true},
		{"both", func(b *bench) {
			b.fail(sonnet, Failure{Reason: ServerError})
			b.fail(opus, Failure{Reason: ServerError})
		}, 2, true},
		{"an exclusion", func(b *bench) { b.fail(opus, Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"}) }, 1, true},
		{"a cooling that is over", func(b *bench) {
			b.fail(opus, Failure{Reason: ServerError})
			b.after(time.Minute)
		}, 0, true},
		{"a cooling of the account that is over", func(b *bench) {
			b.fail(sonnet, Failure{Reason: Auth, Scope: ScopeAccount})
			b.after(time.Minute)
		}, 0, true},
		{"a probe", func(b *bench) {
			b.fail(opus, Failure{Reason: ServerError})
			b.after(time.Minute).begin(opus)
		}, 1, true},
		{"an order", func(b *bench) { _ = b.Cool(b.now, "a", "opus", 0) }, 0, false},
		{"an order for the account over a cooling", func(b *bench) {
			b.fail(opus, Failure{Reason: ServerError})
			_ = b.Cool(b.now, "a", "", time.Hour)
		}, 0, false},
		{"a full account that was cooling", func(b *bench) {
			b.begin(sonnet)
			b.fail(opus, Failure{Reason: ServerError})
			b.begin(sonnet)
		}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(_ *Policy, u *[]Upstream) { (*u)[0].MaxConcurrent = 2 })
			c.do(b)
			if got := b.Clear(b.now, []Target{opus, opus, {"gone", "opus"}, {"a", "asked"}}, "s"); got != c.want {
				t.Errorf("lifted %d, want %d", got, c.want)
			}
			b.eligible(c.open, opus)
			if got := b.Clear(b.now, []Target{opus}, "s"); got != 0 {
				t.Errorf("lifted %d once more", got)
			}
		})
	}
}

func TestClearLeavesOthersAlone(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Rejected, Scope: ScopeSession, Session: "other"})
	b.fail(sonnet, Failure{Reason: Stream})
	b.fail(Target{"b", "opus"}, Failure{Reason: Auth, Scope: ScopeAccount})
	b.fail(haiku, Failure{Reason: Stream})
	if n := b.Clear(b.now, []Target{opus, haiku}, "s"); n != 1 {
		t.Errorf("lifted %d", n)
	}
	b.eligible(true, opus, haiku)
	b.eligible(false, sonnet, Target{"b", "opus"})
	if !b.Check(b.now, opus, "other").Blocked() {
		t.Error("the exclusion of another session was lifted")
	}
}

// Only one of the account's targets is held by hand: the order stands while the account is let in for the others.
func TestClearBesideAnOrder(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Auth, Scope: ScopeAccount})
	_ = b.Cool(b.now, "a", "opus", 0)
	if n := b.Clear(b.now, []Target{opus, sonnet}, "s"); n != 1 {
		t.Errorf("lifted %d", n)
	}
	b.eligible(true, sonnet)
	b.eligible(false, opus)
}

// What flaps rests for longer each time, however often it was let in before its time.
func TestClearKeepsTheStreak(t *testing.T) {
	b := newBench(t)
	for _, want := range []time.Duration{30, 60, 120, 240, 300} {
		if got := b.fail(opus, Failure{Reason: ServerError}); got[0].Duration != want*time.Second {
			t.Fatalf("%v, want %d s", lasted(got), int(want))
		}
		b.Clear(b.now, []Target{opus}, "s")
	}
	b.succeed(opus)
	if got := b.fail(opus, Failure{Reason: ServerError}); got[0].Streak != 1 {
		t.Errorf("%+v", got)
	}
}

// The probe whose cooling was cleared is an attempt as any other.
func TestClearBesideAProbe(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	probe := b.after(30 * time.Second).begin(opus)
	b.Clear(b.now, []Target{opus}, "s")
	if e := b.begin(opus); e.Probe {
		t.Error("a probe of nothing")
	}
	if got := probe.Fail(b.now, Failure{Reason: ServerError}); got[0].Duration != time.Minute {
		t.Errorf("%v", lasted(got))
	}
	probe.Release()
	b.after(time.Minute)
	if e := b.begin(opus); !e.Probe {
		t.Error("the lease of the next probe is lost")
	}
}
