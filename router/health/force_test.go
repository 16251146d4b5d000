package health

import (
	"testing"
	"time"
)

func TestOwnPolicyAndForce(t *testing.T) {
	for _, c := range []struct {
		fail Failure
		own  bool
	}{
		{Failure{Reason: ServerError}, true},
		{Failure{Reason: Timeout}, true},
		{Failure{Reason: Connection}, true},
		{Failure{Reason: Unusable}, true},
		{Failure{Reason: Stream}, true},
		{Failure{Reason: ModelMissing}, true},
		{Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"}, true},
		{Failure{Reason: Overloaded}, true},
		{Failure{Reason: Overloaded, Hint: hint(time.Second)}, false},
		{Failure{Reason: RateLimit}, false},
		{Failure{Reason: Quota, Scope: ScopeAccount}, false},
		{Failure{Reason: Auth, Scope: ScopeAccount}, false},
		{Failure{Reason: Billing, Scope: ScopeAccount}, false},
	} {
		t.Run(string(c.fail.Reason), func(t *testing.T) {
			b := newBench(t)
			b.fail(opus, c.fail)
			e, block := b.Begin(b.now, opus, "s", PastOwn)
			if (e != nil) != c.own || b.Check(b.now, opus, "s").OwnPolicy() != c.own {
				t.Errorf("forced: %v, want %v: %+v", e != nil, c.own, block)
			}
		})
	}
}

func TestForceDoesNotProlongAndItsSuccessLifts(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Stream})
	for range 10 {
		e, _ := b.Begin(b.after(time.Second).now, opus, "s", PastOwn)
		if got := e.Fail(b.now, Failure{Reason: ServerError}); got != nil {
			t.Fatalf("a client that keeps calling prolongs: %v", lasted(got))
		}
		e.Release()
	}
	e, _ := b.Begin(b.now, opus, "s", PastOwn)
	e.Success(b.now)
	b.eligible(true, opus)
}

func TestForceDoesNotPassWhatIsMixed(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.Server.Cap = time.Hour })
	limited := b.begin(opus)
	b.fail(opus, Failure{Reason: ServerError})
	limited.Fail(b.now, Failure{Reason: Auth, Scope: ScopeAccount})
	block := b.Check(b.now, opus, "s")
	if block.OwnPolicy() || block.Scope != ScopeAccount || !block.Until.Equal(start.Add(time.Minute)) {
		t.Errorf("%+v", block)
	}
}

func TestFull(t *testing.T) {
	b := newBench(t, func(_ *Policy, u *[]Upstream) { (*u)[0].MaxConcurrent = 2 })
	b.fail(opus, Failure{Reason: ServerError})
	b.after(time.Minute)
	one, two := b.begin(sonnet), b.begin(sonnet)
	if _, block := b.Begin(b.now, opus, "s", PastOwn); !block.Full || block.OwnPolicy() {
		t.Errorf("%+v", block)
	}
	one.Release()
	if e := b.begin(opus); !e.Probe {
		t.Error("a probe lease was lost when there was no room")
	}
	two.Release()
}

func TestPastAll(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*bench)
		want bool
	}{
		{"a cooling", func(b *bench) { b.fail(opus, Failure{Reason: ServerError}) }, true},
		{"a limit", func(b *bench) { b.fail(opus, Failure{Reason: RateLimit, Hint: hint(time.Minute)}) }, true},
		{"a quota", func(b *bench) { b.fail(sonnet, Failure{Reason: Quota, Scope: ScopeAccount}) }, true},
		{"a probe", func(b *bench) {
			b.fail(opus, Failure{Reason: Auth, Scope: ScopeAccount})
			b.after(time.Minute).begin(opus)
		}, true},
		{"an exclusion", func(b *bench) { b.fail(opus, Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"}) }, true},
		{"an ejection", (*bench).eject, true},
		{"an order for the target", func(b *bench) { _ = b.Cool(b.now, "a", "opus", 0) }, false},
		{"an order for the account", func(b *bench) { _ = b.Cool(b.now, "a", "", time.Hour) }, false},
		{"an account switched off", func(b *bench) { b.Configure(rules, []Upstream{{Name: "a", Targets: []string{"opus"}}}) }, false},
		{"an account that is gone", func(b *bench) { b.Configure(rules, nil) }, false},
		{"a full account", func(b *bench) { b.begin(sonnet); b.begin(sonnet) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, checked, func(_ *Policy, u *[]Upstream) { (*u)[0].MaxConcurrent = 2 })
			c.do(b)
			b.eligible(false, opus)
			e, block := b.Begin(b.now, opus, "s", PastAll)
			if (e != nil) != c.want || block.Blocked() == c.want {
				t.Fatalf("let in: %v, %+v", e != nil, block)
			}
			if e != nil && e.Probe {
				t.Error("force took a probe lease")
			}
		})
	}
}

// A client that keeps calling, let past a limit each time, neither prolongs it nor makes the next one longer.
func TestPastAllDoesNotProlong(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: RateLimit})
	for range 29 {
		e, _ := b.Begin(b.after(time.Second).now, opus, "s", PastAll)
		if got := e.Fail(b.now, Failure{Reason: RateLimit}); got != nil {
			t.Fatalf("%v", lasted(got))
		}
		e.Release()
	}
	b.eligible(false, opus)
	b.after(time.Second).eligible(true, opus)
	if got := b.fail(opus, Failure{Reason: RateLimit}); got[0].Duration != time.Minute {
		t.Errorf("%v", lasted(got))
	}
}
