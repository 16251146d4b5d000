package health

import (
	"errors"
	"testing"
	"time"
)

func TestManualBeatsEverything(t *testing.T) {
	b := newBench(t)
	running := b.begin(opus)
	if err := b.Cool(b.now, "a", "", 0); err != nil {
		t.Fatal(err)
	}
	running.Success(b.after(time.Second).now)
	b.eligible(false, opus, sonnet)
	if e, block := b.Begin(b.now, opus, "s", PastOwn); e != nil || !block.Manual || !block.Until.IsZero() || block.Reason != Operator {
		t.Errorf("%+v", block)
	}
	v := b.View(b.now)[0]
	if v.State != StateCooling || !v.Manual || v.Remaining != 0 || v.Targets[0].State != StateHealthy {
		t.Errorf("%+v", v)
	}
	if n, err := b.Uncool(b.now, "a", ""); n != 1 || err != nil {
		t.Errorf("lifted %d, %v", n, err)
	}
	b.eligible(true, opus)

	if err := b.Cool(b.now, "a", "opus", time.Minute); err != nil {
		t.Fatal(err)
	}
	b.eligible(false, opus)
	b.eligible(true, sonnet)
	b.after(time.Minute)
	if e := b.begin(opus); e.Probe {
		t.Error("the end of an order needs no probe")
	}
}

func TestManualHold(t *testing.T) {
	for _, c := range []struct {
		name, model string
		d           time.Duration
	}{
		{"account for ever", "", 0},
		{"account for a time", "", time.Hour},
		{"target for ever", "opus", 0},
		{"target for a time", "opus", time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.fail(opus, Failure{Reason: ServerError})
			late := b.after(30 * time.Second).begin(opus)
			if err := b.Cool(b.now, "a", c.model, c.d); err != nil {
				t.Fatal(err)
			}
			late.Success(b.now) // ends the trouble, not the order
			late.Release()
			b.eligible(c.model != "", sonnet)
			var until time.Time
			if c.d > 0 {
				until = b.now.Add(c.d)
			}
			b.after(time.Hour - 1)
			for _, force := range []Force{NoForce, PastOwn, PastAll} {
				if e, block := b.Begin(b.now, opus, "s", force); e != nil || !block.Manual || block.OwnPolicy() || !block.Until.Equal(until) {
					t.Errorf("force %d: %v %+v", force, e, block)
				}
			}
			b.after(1).eligible(c.d > 0, opus, Target{"a", "opus"})
			want := 1
			if c.d > 0 {
				want = 0
			}
			if n, err := b.Uncool(b.now, "a", c.model); n != want || err != nil {
				t.Errorf("uncool lifted %d, %v", n, err)
			}
			b.eligible(true, opus, sonnet)
		})
	}
}

// The order stands above the cooling that goes on under it.
func TestUncoolEndsTheCoolingBelow(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	_ = b.Cool(b.now, "a", "opus", 0)
	if n, _ := b.Uncool(b.now, "a", "opus"); n != 1 {
		t.Errorf("lifted %d", n)
	}
	b.eligible(true, opus)
	if got := b.fail(opus, Failure{Reason: ServerError}); got[0].Streak != 1 {
		t.Errorf("%+v", got)
	}
}

func TestUnknownNames(t *testing.T) {
	b := newBench(t)
	for _, name := range []Target{{"x", ""}, {"a", "x"}} {
		if err := b.Cool(b.now, name.Upstream, name.Model, 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("cool %v: %v", name, err)
		}
		if _, err := b.Uncool(b.now, name.Upstream, name.Model); !errors.Is(err, ErrUnknown) {
			t.Errorf("uncool %v: %v", name, err)
		}
	}
	if _, block := b.Begin(b.now, Target{"x", "m"}, "s", PastOwn); !block.Disabled {
		t.Errorf("%+v", block)
	}
}

func TestReset(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	b.fail(haiku, Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"})
	b.fail(sonnet, Failure{Reason: Auth, Scope: ScopeAccount})
	b.fail(Target{"b", "asked"}, Failure{Reason: ModelMissing})
	_ = b.Cool(b.now, "b", "opus", 0)
	if got, want := b.Reset(b.now), (Lifted{Accounts: 1, Targets: 2, Sessions: 1, Manual: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	b.eligible(true, opus, sonnet, haiku, Target{"b", "asked"})
	if got := b.fail(sonnet, Failure{Reason: ServerError}); len(got) != 1 || got[0].Streak != 1 {
		t.Errorf("the outage window is remembered: %v", lasted(got))
	}
}
