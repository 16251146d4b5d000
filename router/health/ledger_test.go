package health

import (
	"fmt"
	"testing"
	"time"
)

func TestConfigure(t *testing.T) {
	b := newBench(t)
	flying := b.begin(haiku)
	b.fail(sonnet, Failure{Reason: ServerError})
	b.fail(opus, Failure{Reason: Billing, Scope: ScopeAccount})
	ups := []Upstream{{Name: "a", Enabled: true, Fingerprint: "1", Targets: []string{"sonnet"}}, {Name: "c", Enabled: false}}
	b.Configure(rules, ups)
	b.eligible(false, sonnet)
	if !b.Check(b.now, Target{"b", "opus"}, "s").Disabled || !b.Check(b.now, Target{"c", "x"}, "s").Disabled {
		t.Error("an upstream that is gone or switched off is eligible")
	}
	ups[0].Fingerprint = "2"
	b.Configure(rules, ups)
	b.eligible(true, haiku)
	b.eligible(false, sonnet) // a server error is not about the key
	v := b.View(b.now)
	if v[0].InFlight != 1 || len(v[0].Targets) != 1 || v[1].State != StateDisabled {
		t.Errorf("%+v", v)
	}
	flying.Release()
	if n := b.View(b.now)[0].InFlight; n != 0 {
		t.Errorf("%d in flight", n)
	}
}

// A reload must not let a second probe in, nor lose the first.
func TestConfigureKeepsLeases(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	probe := b.after(time.Minute).begin(opus)
	b.Configure(rules, []Upstream{{Name: "a", Enabled: true, MaxConcurrent: 1, Fingerprint: "1", Targets: []string{"sonnet", "opus"}}})
	if block := b.Check(b.now, opus, "s"); !block.Probing {
		t.Errorf("%+v", block)
	}
	if block := b.Check(b.now, sonnet, "s"); !block.Full {
		t.Errorf("what is in flight does not count against the new ceiling: %+v", block)
	}
	probe.Success(b.now)
	probe.Release()
	b.eligible(true, opus, sonnet)
}

func TestConfigureWithAnotherKey(t *testing.T) {
	for reason, cleared := range map[Reason]bool{
		Auth: true, Billing: true, Quota: true, RateLimit: false, ServerError: false, Overloaded: false, ModelMissing: false,
	} {
		for _, scope := range []Scope{ScopeAccount, ScopeTarget} {
			b := newBench(t)
			b.fail(opus, Failure{Reason: reason, Scope: scope})
			_ = b.Cool(b.now, "a", "haiku", 0)
			ups := []Upstream{{Name: "a", Enabled: true, Fingerprint: "2", Targets: []string{"opus", "haiku"}}}
			b.Configure(rules, ups)
			if b.Check(b.now, opus, "s").Blocked() == cleared {
				t.Errorf("%s of the %s: cleared is not %v", reason, scope, cleared)
			}
			b.eligible(false, haiku)
		}
	}
}

// A new key ends what was about the old one, and no order.
func TestOrderOutlivesANewKey(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Auth})
	_ = b.Cool(b.now, "a", "opus", 0)
	b.Configure(rules, []Upstream{{Name: "a", Enabled: true, Fingerprint: "2", Targets: []string{"opus"}}})
	if block := b.Check(b.now, opus, "s"); !block.Manual {
		t.Errorf("%+v", block)
	}
}

// What comes back late, refused with the old key, says nothing about the new one.
func TestOldKeyDoesNotCoolTheNewOne(t *testing.T) {
	b := newBench(t)
	old := b.begin(opus)
	b.Configure(rules, []Upstream{{Name: "a", Enabled: true, Fingerprint: "2", Targets: []string{"opus"}}})
	if got := old.Fail(b.now, Failure{Reason: Auth, Scope: ScopeAccount, ErrorType: "401", Status: 401}); got != nil {
		t.Errorf("%v", lasted(got))
	}
	old.Release()
	b.eligible(true, opus)
	if v := b.View(b.now)[0]; v.InFlight != 0 || v.LastError == nil {
		t.Errorf("%+v", v)
	}
	if got := b.fail(opus, Failure{Reason: Auth, Scope: ScopeAccount}); len(got) != 1 {
		t.Errorf("the new key's own failure: %v", lasted(got))
	}
}

// What clients make up must not grow without bound, nor push out what the configuration names.
func TestStrangeModelsAndSessionsAreBounded(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Quota})
	for i := range maxStrange + 50 {
		b.fail(Target{"a", fmt.Sprint("m", i)}, Failure{Reason: ModelMissing})
		b.after(time.Microsecond)
	}
	if n := len(b.View(b.now)[0].Targets); n != maxStrange+3 {
		t.Errorf("%d targets", n)
	}
	b.eligible(false, opus, Target{"a", "m1000"})
	b.eligible(true, Target{"a", "m0"})
	for i := range maxExcluded + 50 {
		b.fail(sonnet, Failure{Reason: Rejected, Scope: ScopeSession, Session: fmt.Sprint(i)})
	}
	if n := b.Reset(b.now).Sessions; n != maxExcluded {
		t.Errorf("%d exclusions", n)
	}
	for i := range maxExcluded {
		b.fail(sonnet, Failure{Reason: Rejected, Scope: ScopeSession, Session: fmt.Sprint(i)})
	}
	b.after(rules.Exclusion)
	if got := b.fail(sonnet, Failure{Reason: Rejected, Scope: ScopeSession, Session: "new"}); len(got) != 1 {
		t.Error("those that are over make no room")
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	b.fail(haiku, Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"})
	for _, target := range []Target{opus, sonnet, haiku} {
		if n := testing.AllocsPerRun(100, func() { b.Check(b.now, target, "s") }); n != 0 {
			t.Errorf("%v: %v allocations", target, n)
		}
	}
}

func TestAttemptAllocatesItsLeaseOnly(t *testing.T) {
	b := newBench(t)
	if n := testing.AllocsPerRun(100, func() {
		e, _ := b.Begin(b.now, opus, "s", NoForce)
		e.Admitted(b.now)
		e.Success(b.now)
		e.Release()
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct {
		name   string
		target Target
	}{{"healthy", sonnet}, {"cooling", opus}} {
		b.Run(c.name, func(b *testing.B) {
			l := newBench(b)
			l.fail(opus, Failure{Reason: ServerError})
			b.ReportAllocs()
			for b.Loop() {
				l.Check(l.now, c.target, "session")
			}
		})
	}
}

func BenchmarkAttempt(b *testing.B) {
	l := newBench(b)
	b.ReportAllocs()
	for b.Loop() {
		e, _ := l.Begin(l.now, sonnet, "session", NoForce)
		e.Success(l.now)
		e.Release()
	}
}
