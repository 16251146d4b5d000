package health

import (
	"testing"
	"time"
)

func checked(_ *Policy, u *[]Upstream) {
	for i := range *u {
		(*u)[i].Checked = true
	}
}

// check books a row of active checks of account a, and says which of them changed something.
func (b *bench) check(found ...bool) (changed []bool) {
	for _, ok := range found {
		changed = append(changed, b.Checked(b.now, "a", ok, 3))
	}
	return changed
}

// eject ejects account a.
func (b *bench) eject() {
	b.Helper()
	if got := b.check(false, false, false); got[0] || got[1] || !got[2] {
		b.Fatalf("three failed checks: changed %v", got)
	}
	b.eligible(false, opus, sonnet, Target{"a", "asked"})
	b.eligible(true, Target{"b", "opus"})
}

func TestChecksEjectAndRestore(t *testing.T) {
	b := newBench(t, checked)
	for i, changed := range b.check(false, false, true, false, false) {
		if changed {
			t.Errorf("check %d changed something", i+1)
		}
	}
	b.eligible(true, opus)
	if !b.Checked(b.now, "a", false, 3) {
		t.Fatal("three in a row did not eject")
	}
	b.after(time.Hour).eligible(false, opus, sonnet)
	if b.Checked(b.now, "a", false, 3) {
		t.Error("ejected twice")
	}
	if block := b.Check(b.now, opus, "s"); !block.Ejected || block.Scope != ScopeAccount || !block.Until.IsZero() || !block.OwnPolicy() {
		t.Errorf("%+v", block)
	}
	if v := b.View(b.now)[0]; v.State != StateEjected || !v.Since.Equal(start) || v.Targets[0].State != StateHealthy {
		t.Errorf("%+v", v)
	}
	if !b.Checked(b.now, "a", true, 3) || b.Checked(b.now, "a", true, 3) {
		t.Error("one success restores, and the next one changes nothing")
	}
	b.eligible(true, opus, sonnet)
	if v := b.View(b.now)[0]; v.State != StateHealthy || !v.Since.IsZero() {
		t.Errorf("%+v", v)
	}
	b.eject() // takes three again
}

func TestChecksEjectAtOnceIfOneFailureIsEnough(t *testing.T) {
	for _, failures := range []int{1, 0, -1} {
		if b := newBench(t, checked); !b.Checked(b.now, "a", false, failures) {
			t.Errorf("%d: not ejected", failures)
		}
	}
	if b := newBench(t, checked); b.Checked(b.now, "gone", false, 1) {
		t.Error("an upstream that is gone was ejected")
	}
}

// A cooling is about real requests: a check does not end it, and its end restores nobody.
func TestEjectionAndCoolingAreApart(t *testing.T) {
	b := newBench(t, checked)
	b.fail(opus, Failure{Reason: Connection, Scope: ScopeAccount})
	b.eject()
	block := b.Check(b.now, opus, "s")
	if block.Reason != Connection || !block.Until.Equal(start.Add(30*time.Second)) || !block.OwnPolicy() {
		t.Errorf("the timer tells more than the ejection: %+v", block)
	}
	b.check(true)
	b.eligible(false, opus)
	b.eject()
	b.after(30*time.Second).eligible(false, opus)
	forced, _ := b.Begin(b.now, opus, "s", PastOwn)
	if forced == nil || !forced.Probe {
		t.Fatalf("%+v", forced)
	}
	forced.Success(b.now)
	forced.Release()
	if v := b.View(b.now)[0]; v.State != StateEjected || v.Reason != Checks {
		t.Errorf("a request restored the account, or did not end the cooling: %+v", v)
	}
	b.check(true)
	b.eligible(true, opus)
}

func TestEjectionBesideALimitIsNotOwnPolicy(t *testing.T) {
	b := newBench(t, checked)
	b.fail(opus, Failure{Reason: RateLimit})
	b.eject()
	if e, block := b.Begin(b.now, opus, "s", PastOwn); e != nil || block.Reason != RateLimit {
		t.Errorf("%+v", block)
	}
	if e, block := b.Begin(b.now, sonnet, "s", PastOwn); e == nil {
		t.Errorf("%+v", block)
	}
}

func TestManualHidesAnEjection(t *testing.T) {
	b := newBench(t, checked)
	b.eject()
	_ = b.Cool(b.now, "a", "", time.Minute)
	if v := b.View(b.now)[0]; v.State != StateCooling || !v.Manual {
		t.Errorf("%+v", v)
	}
	if block := b.Check(b.now, opus, "s"); !block.Manual || block.Ejected {
		t.Errorf("%+v", block)
	}
	if v := b.View(b.after(time.Minute).now)[0]; v.State != StateEjected || v.Manual {
		t.Errorf("%+v", v)
	}
}

func TestWhatElseEndsAnEjection(t *testing.T) {
	ups := []Upstream{{Name: "a", Enabled: true, Fingerprint: "1", Checked: true, Targets: []string{"opus"}}}
	for _, c := range []struct {
		name string
		end  func(*bench)
		back bool // later checks eject again
		want bool // it is ended
	}{
		{"uncool", func(b *bench) {
			if n, err := b.Uncool(b.now, "a", ""); n != 1 || err != nil {
				t.Errorf("lifted %d, %v", n, err)
			}
		}, true, true},
		{"uncool of a target", func(b *bench) { _, _ = b.Uncool(b.now, "a", "opus") }, true, false},
		{"reset", func(b *bench) {
			if n := b.Reset(b.now); n != (Lifted{Ejected: 1}) {
				t.Errorf("lifted %+v", n)
			}
		}, true, true},
		{"clear", func(b *bench) {
			if n := b.Clear(b.now, []Target{opus}, "s"); n != 1 {
				t.Errorf("lifted %d", n)
			}
		}, true, true},
		{"the same configuration", func(b *bench) { b.Configure(rules, ups) }, true, false},
		{"another key", func(b *bench) {
			other := ups[0]
			other.Fingerprint = "2"
			b.Configure(rules, []Upstream{other})
		}, true, true},
		{"checks switched off", func(b *bench) {
			other := ups[0]
			other.Checked = false
			b.Configure(rules, []Upstream{other})
		}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, checked)
			b.eject()
			c.end(b)
			b.eligible(c.want, opus)
			if got := b.check(false, false, false); got[0] || got[1] || got[2] != (c.want && c.back) {
				t.Errorf("three more failed checks: changed %v", got)
			}
		})
	}
}
