package health

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a ledger under random use, beside what its user knows of it.
type world struct {
	l      *Ledger
	now    time.Time
	flying []flight
}

type flight struct {
	lease  *Lease
	target Target
}

var (
	allTargets = []Target{{"a", "opus"}, {"a", "sonnet"}, {"b", "opus"}, {"b", "asked"}}
	allReasons = []Reason{RateLimit, Quota, Overloaded, ServerError, Timeout, Connection, Auth, Billing, Unusable, Stream, ModelMissing}
)

func (w *world) view(t Target) (account UpstreamView, target TargetView) {
	for _, account = range w.l.View(w.now) {
		if account.Name != t.Upstream {
			continue
		}
		for _, target = range account.Targets {
			if target.Model == t.Model {
				return account, target
			}
		}
		return account, TargetView{State: StateHealthy}
	}
	panic("unknown upstream")
}

func (w *world) begin(t *rapid.T) {
	target := rapid.SampledFrom(allTargets).Draw(t, "target")
	account, own := w.view(target)
	block := w.l.Check(w.now, target, "s")
	e, refused := w.l.Begin(w.now, target, "s", false)
	if (e == nil) != block.Blocked() || refused != block {
		t.Fatalf("Check says %+v, Begin %+v", block, refused)
	}
	if e == nil {
		if block.Until.Before(w.now) && !block.Until.IsZero() {
			t.Fatalf("blocked until the past: %+v", block)
		}
		return
	}
	w.flying = append(w.flying, flight{e, target})
	for _, v := range []TargetView{own, {State: account.State, Reason: account.Reason, Since: account.Since, ProbeInFlight: account.ProbeInFlight, Manual: account.Manual}} {
		switch {
		case v.State == StateHealthy:
		case v.ProbeInFlight || v.Manual:
			t.Fatalf("let in beside a probe or a manual hold: %+v", v)
		case v.State == StateCooling && w.now.Sub(v.Since) < rules.ProbeEvery:
			t.Fatalf("let in while cooling: %+v", v)
		case !e.Probe:
			t.Fatalf("no probe lease, but %+v", v)
		}
	}
}

// finish ends one attempt and checks what came of it.
func (w *world) finish(t *rapid.T, end func(flight)) {
	if len(w.flying) == 0 {
		t.Skip("nothing in flight")
	}
	i := rapid.IntRange(0, len(w.flying)-1).Draw(t, "flight")
	f := w.flying[i]
	w.flying = append(w.flying[:i], w.flying[i+1:]...)
	end(f)
	f.lease.Release()
}

func (w *world) fail(t *rapid.T) {
	w.finish(t, func(f flight) {
		fail := Failure{Reason: rapid.SampledFrom(allReasons).Draw(t, "reason")}
		if rapid.Bool().Draw(t, "account") {
			fail.Scope = ScopeAccount
		}
		if rapid.Bool().Draw(t, "hinted") {
			fail.Hint = Hint{time.Duration(rapid.Int64Range(1, int64(3*time.Hour)).Draw(t, "hint")), SourceBody}
		}
		accountBefore, before := w.view(f.target)
		coolings := f.lease.Fail(w.now, fail)
		accountAfter, after := w.view(f.target)
		if after.Failures < before.Failures || accountAfter.Fails < accountBefore.Fails {
			t.Fatalf("a failure shortened a streak: %+v, %+v", before, after)
		}
		if !f.lease.Probe && (after.Until.Before(before.Until) || accountAfter.Until.Before(accountBefore.Until)) {
			t.Fatalf("a failure shortened a cooling: %+v, %+v", before, after)
		}
		for _, c := range coolings {
			if c.Duration <= 0 || !c.Until.Equal(w.now.Add(c.Duration)) || c.Streak < 1 {
				t.Fatalf("%+v", c)
			}
			if block := w.l.Check(w.now, f.target, "s"); !block.Blocked() {
				t.Fatalf("eligible although %+v began", c)
			}
		}
	})
}

func (w *world) succeed(t *rapid.T) {
	w.finish(t, func(f flight) {
		f.lease.Success(w.now)
		account, target := w.view(f.target)
		if f.lease.Probe && !account.Manual && !target.Manual && w.l.Check(w.now, f.target, "s").Blocked() {
			// The probe may have held the lease of one scope while the other's cooling began after it.
			if account.State == StateHealthy && target.State == StateHealthy {
				t.Fatalf("a successful probe left it blocked: %+v %+v", account, target)
			}
		}
	})
}

func (w *world) check(t *rapid.T) {
	inFlight, probes := map[string]int{}, map[*rest]int{}
	for _, f := range w.flying {
		inFlight[f.target.Upstream]++
		for _, r := range f.lease.concerned() {
			if r != nil && r.probe == f.lease {
				probes[r]++
			}
		}
	}
	for _, v := range w.l.View(w.now) {
		if v.InFlight != inFlight[v.Name] {
			t.Fatalf("%s: %d in flight, counted %d", v.Name, inFlight[v.Name], v.InFlight)
		}
	}
	for _, a := range w.l.accounts.Load().order {
		rests := []*rest{&a.rest}
		for _, t := range a.targets {
			rests = append(rests, &t.rest)
		}
		for _, r := range rests {
			if (r.probe != nil) != (probes[r] == 1) {
				t.Fatalf("a probe lease is held by nobody in flight: %+v", r)
			}
		}
	}
}

func TestRandomUse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{l: New(rules), now: start}
		ups := []Upstream{{Name: "a", Enabled: true, Targets: []string{"opus", "sonnet"}}, {Name: "b", Enabled: true, Targets: []string{"opus"}}}
		w.l.Configure(rules, ups)
		t.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"begin":    w.begin,
			"fail":     w.fail,
			"succeed":  w.succeed,
			"give up":  func(t *rapid.T) { w.finish(t, func(flight) {}) },
			"admitted": func(t *rapid.T) { w.finish(t, func(f flight) { f.lease.Admitted(w.now) }) },
			"wait": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "wait")))
			},
			"cool": func(t *rapid.T) {
				target := rapid.SampledFrom(allTargets[:3]).Draw(t, "target")
				_ = w.l.Cool(w.now, target.Upstream, target.Model, time.Minute)
			},
			"uncool": func(t *rapid.T) { _, _ = w.l.Uncool(w.now, "a", "") },
			"reload": func(*rapid.T) { w.l.Configure(rules, ups) },
		})
		for _, f := range w.flying { // whatever happened, nothing is lost for ever
			f.lease.Release()
		}
		w.now = w.now.Add(rules.QuotaDefault)
		for _, target := range allTargets {
			if b := w.l.Check(w.now, target, "s"); b.Blocked() {
				t.Fatalf("%v never comes back: %+v", target, b)
			}
		}
	})
}
