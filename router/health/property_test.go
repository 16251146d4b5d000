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
	rules  Policy
	ups    []Upstream
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
	force := rapid.SampledFrom([]Force{NoForce, NoForce, PastOwn, PastAll}).Draw(t, "force")
	account, own := w.view(target)
	block := w.l.Check(w.now, target, "s")
	if block.Until.Before(w.now) && !block.Until.IsZero() {
		t.Fatalf("blocked until the past: %+v", block)
	}
	e, refused := w.l.Begin(w.now, target, "s", force)
	passed := force == PastAll || force == PastOwn && block.OwnPolicy()
	switch {
	case (e == nil) != refused.Blocked():
		t.Fatalf("a lease is %v, but %+v", e != nil, refused)
	case e == nil && passed && !refused.Manual && !refused.Full:
		t.Fatalf("force %d did not pass %+v", force, refused)
	case e == nil && !passed && refused != block:
		t.Fatalf("Check says %+v, Begin %+v", block, refused)
	case e == nil:
		return
	case block.Blocked() && !passed:
		t.Fatalf("let in past %+v", block)
	case account.Manual || own.Manual:
		t.Fatalf("let in against an order")
	}
	if limit := w.ceiling(target.Upstream); limit > 0 && account.InFlight >= limit {
		t.Fatalf("%d in flight, %d allowed", account.InFlight+1, limit)
	}
	w.flying = append(w.flying, flight{e, target})
	if block.Blocked() {
		return
	}
	for _, v := range []TargetView{own, {State: account.State, Reason: account.Reason, Since: account.Since, ProbeInFlight: account.ProbeInFlight}} {
		switch {
		case v.State == StateHealthy:
		case v.ProbeInFlight || v.State == StateEjected:
			t.Fatalf("let in beside a probe or an ejection: %+v", v)
		case v.State == StateCooling && w.now.Sub(v.Since) < w.rules.ProbeEvery:
			t.Fatalf("let in while cooling: %+v", v)
		case !e.Probe:
			t.Fatalf("no probe lease, but %+v", v)
		}
	}
}

func (w *world) ceiling(name string) int {
	for _, u := range w.ups {
		if u.Name == name {
			return u.MaxConcurrent
		}
	}
	panic("unknown upstream")
}

// reload changes what a reload may change.
func (w *world) reload(t *rapid.T) {
	w.ups = []Upstream{
		{Name: "a", Enabled: true, Targets: []string{"opus", "sonnet"}},
		{Name: "b", Enabled: true, Targets: []string{"opus"}},
	}
	for i := range w.ups {
		u := &w.ups[i]
		u.MaxConcurrent = rapid.SampledFrom([]int{0, 2, 5}).Draw(t, "ceiling")
		u.Fingerprint = rapid.SampledFrom([]string{"1", "1", "1", "2"}).Draw(t, "fingerprint")
		u.Checked = rapid.Bool().Draw(t, "checked")
	}
	w.l.Configure(w.rules, w.ups)
}

// clear makes everything eligible that no order, no ceiling and nothing but the session kept away.
func (w *world) clear(t *rapid.T) {
	w.l.Clear(w.now, allTargets, "s")
	for _, target := range allTargets {
		if b := w.l.Check(w.now, target, "s"); b.Blocked() && !b.Manual && !b.Full {
			t.Fatalf("%v was cleared, but %+v", target, b)
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
		if rapid.IntRange(0, 9).Draw(t, "rejected") == 0 {
			fail = Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"}
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
		b := w.l.Check(w.now, f.target, "s")
		if f.lease.Probe && !account.Manual && !target.Manual && b.Blocked() && !b.Full && b.Scope != ScopeSession {
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
		if v.InFlight != inFlight[v.Name] || w.l.InFlight(v.Name) != v.InFlight {
			t.Fatalf("%s: %d in flight, counted %d, shown %d", v.Name, inFlight[v.Name], w.l.InFlight(v.Name), v.InFlight)
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
		w := &world{now: start, rules: rules}
		scopes := rapid.SampledFrom([]Scope{"", "", ScopeAccount, ScopeTarget})
		w.rules.Scope, w.rules.RateLimitScope = scopes.Draw(t, "scope"), scopes.Draw(t, "scope of limits")
		w.rules.Server.After = rapid.IntRange(0, 3).Draw(t, "after")
		w.l = New(w.rules)
		w.reload(t)
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
			"uncool": func(*rapid.T) { _, _ = w.l.Uncool(w.now, "a", "") },
			"clear":  w.clear,
			"active check": func(t *rapid.T) {
				w.l.Checked(w.now, "a", rapid.IntRange(0, 3).Draw(t, "check") == 0, 2)
			},
			"reload": w.reload,
		})
		w.end(t)
	})
}

// end checks that whatever happened nothing is lost for ever: with time, every target is eligible, its probe at least.
func (w *world) end(t *rapid.T) {
	for _, f := range w.flying {
		f.lease.Release()
	}
	w.l.Checked(w.now, "a", true, 2)
	w.now = w.now.Add(rules.QuotaDefault)
	for _, target := range allTargets {
		e, block := w.l.Begin(w.now, target, "s", NoForce)
		if e == nil {
			t.Fatalf("%v never comes back: %+v", target, block)
		}
		e.Success(w.now)
		e.Release()
	}
	for _, v := range w.l.View(w.now) {
		if v.State != StateHealthy || v.InFlight != 0 {
			t.Fatalf("after one success everywhere: %+v", v)
		}
	}
}
