package health

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var (
	start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	rules = Policy{
		RateLimit: Backoff{Base: 30 * time.Second, Cap: 10 * time.Minute}, Auth: Backoff{Base: time.Minute, Cap: 30 * time.Minute},
		Billing: Backoff{Base: 30 * time.Second, Cap: 5 * time.Minute}, Server: Backoff{Base: 30 * time.Second, Cap: 5 * time.Minute, After: 1},
		QuotaDefault: 168 * time.Hour, HintCap: time.Hour, ProbeEvery: time.Hour, OutageWindow: time.Minute,
		Exclusion: 30 * time.Second, ModelMissing: 5 * time.Minute,
	}
	opus   = Target{"a", "opus"}
	sonnet = Target{"a", "sonnet"}
	haiku  = Target{"a", "haiku"}
)

// bench is a ledger with a clock.
type bench struct {
	testing.TB
	*Ledger
	now time.Time
}

func newBench(t testing.TB, change ...func(*Policy, *[]Upstream)) *bench {
	p := rules
	ups := []Upstream{
		{Name: "a", Enabled: true, Fingerprint: "1", Targets: []string{"opus", "sonnet", "haiku"}},
		{Name: "b", Enabled: true, Targets: []string{"opus"}},
	}
	for _, f := range change {
		f(&p, &ups)
	}
	l := New(p)
	l.Configure(p, ups)
	return &bench{t, l, start}
}

func (b *bench) after(d time.Duration) *bench { b.now = b.now.Add(d); return b }

func (b *bench) begin(t Target) *Lease {
	b.Helper()
	e, block := b.Begin(b.now, t, "s", false)
	if e == nil {
		b.Fatalf("%v at %v: %+v", t, b.now.Sub(start), block)
	}
	return e
}

func (b *bench) fail(t Target, f Failure) []Cooling {
	b.Helper()
	e := b.begin(t)
	defer e.Release()
	return e.Fail(b.now, f)
}

func (b *bench) succeed(t Target) {
	b.Helper()
	e := b.begin(t)
	e.Success(b.now)
	e.Release()
}

// eligible checks which targets may be tried.
func (b *bench) eligible(want bool, targets ...Target) {
	b.Helper()
	for _, t := range targets {
		if block := b.Check(b.now, t, "s"); block.Blocked() == want {
			b.Errorf("%v at %v: eligible %v, want %v: %+v", t, b.now.Sub(start), !want, want, block)
		}
	}
}

func lasted(c []Cooling) (ds []string) {
	for _, c := range c {
		ds = append(ds, fmt.Sprintf("%s %s %v", c.Scope, c.Source, c.Duration))
	}
	return ds
}

func hint(d time.Duration) Hint { return Hint{After: d, Source: SourceRetryAfter} }

func TestHowLongEachReasonRests(t *testing.T) {
	for _, c := range []struct {
		name string
		fail Failure
		want string
	}{
		{"rate limit", Failure{Reason: RateLimit}, "target policy 30s"},
		{"rate limit with a hint", Failure{Reason: RateLimit, Hint: hint(750 * time.Millisecond)}, "target retry_after 750ms"},
		{"rate limit with a hint too long to believe", Failure{Reason: RateLimit, Hint: hint(500000 * time.Second)}, "target retry_after 1h0m0s"},
		{"rate limit of the account", Failure{Reason: RateLimit, Scope: ScopeAccount}, "account policy 30s"},
		{"quota", Failure{Reason: Quota, Scope: ScopeAccount}, "account policy 168h0m0s"},
		{"quota until its reset", Failure{Reason: Quota, Scope: ScopeAccount, Hint: Hint{140 * time.Hour, SourceBody}}, "account body 140h0m0s"},
		{"overloaded", Failure{Reason: Overloaded}, "target policy 30s"},
		{"overloaded with a hint", Failure{Reason: Overloaded, Hint: hint(5 * time.Second)}, "target retry_after 5s"},
		{"server error does not take hints", Failure{Reason: ServerError, Hint: hint(5 * time.Second)}, "target policy 30s"},
		{"timeout", Failure{Reason: Timeout}, "target policy 30s"},
		{"connection", Failure{Reason: Connection}, "target policy 30s"},
		{"unusable", Failure{Reason: Unusable}, "target policy 30s"},
		{"stream", Failure{Reason: Stream}, "target policy 30s"},
		{"auth", Failure{Reason: Auth, Scope: ScopeAccount}, "account policy 1m0s"},
		{"billing", Failure{Reason: Billing, Scope: ScopeAccount}, "account policy 30s"},
		{"model missing", Failure{Reason: ModelMissing}, "target policy 5m0s"},
		{"rejected", Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"}, "session policy 30s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			got := b.fail(opus, c.fail)
			if diff := cmp.Diff([]string{c.want}, lasted(got)); diff != "" {
				t.Fatal(diff)
			}
			b.eligible(false, opus)
			if got[0].Duration <= time.Hour {
				b.after(got[0].Duration-1).eligible(false, opus)
				b.after(1)
			} else {
				b.after(got[0].Duration)
			}
			b.eligible(true, opus)
			if b.Check(b.now, Target{"b", "opus"}, "s").Blocked() {
				t.Error("another account was held off")
			}
		})
	}
}

func TestBackoffDoubles(t *testing.T) {
	for _, c := range []struct {
		b    Backoff
		want []time.Duration
	}{
		{Backoff{30, 200, 0}, []time.Duration{0, 30, 60, 120, 200, 200}},
		{Backoff{30, 200, 3}, []time.Duration{0, 0, 0, 30, 60, 120, 200}},
		{Backoff{30, 10, 1}, []time.Duration{0, 10, 10}},
		{Backoff{30, 0, 1}, []time.Duration{0, 30, 30}},
		{Backoff{0, 200, 1}, []time.Duration{0, 0, 0}},
	} {
		for n, want := range c.want {
			if got := c.b.delay(n); got != want {
				t.Errorf("%+v after %d: %v, want %v", c.b, n, got, want)
			}
		}
	}
	if got := (Backoff{Base: 1, Cap: 1 << 62}).delay(1 << 30); got != 1<<62 {
		t.Errorf("a long row gave %v", got)
	}
}

// The streak outlives the timer, and only a success ends it.
func TestStreakOutlivesTheTimer(t *testing.T) {
	b := newBench(t)
	for _, want := range []time.Duration{30, 60, 120, 240, 300, 300} {
		got := b.fail(haiku, Failure{Reason: ServerError})
		if len(got) != 1 || got[0].Duration != want*time.Second {
			t.Fatalf("%v, want %v s", lasted(got), int(want))
		}
		b.after(got[0].Duration + 10*time.Minute)
	}
	b.succeed(haiku)
	if got := b.fail(haiku, Failure{Reason: ServerError}); got[0].Duration != 30*time.Second || got[0].Streak != 1 {
		t.Fatalf("after a success: %+v", got)
	}
}

func TestStreaksOfDifferentKindsDoNotLengthenEachOther(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.after(b.fail(opus, Failure{Reason: RateLimit})[0].Duration)
	}
	if got := b.fail(opus, Failure{Reason: Overloaded}); got[0].Duration != 30*time.Second {
		t.Fatalf("%v", lasted(got))
	}
}

func TestServerFailuresBeforeTheThresholdOnlyCount(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.Server.After = 3 })
	for range 2 {
		if got := b.fail(opus, Failure{Reason: ServerError}); got != nil {
			t.Fatalf("%v", lasted(got))
		}
		b.eligible(true, opus)
	}
	if v := b.View(b.now)[0].Targets[0]; v.Failures != 2 || v.State != StateHealthy {
		t.Errorf("%+v", v)
	}
	if got := b.fail(opus, Failure{Reason: Timeout}); len(got) != 1 || got[0].Duration != 30*time.Second {
		t.Fatalf("the third: %v", lasted(got))
	}
}

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
	if e, _ := b.Begin(b.now, opus, "s", true); e != nil {
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
	forced, _ := b.Begin(b.now, opus, "s", true)
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

// A hundred requests that were under way together are one failure.
func TestOneOutageIsOneFailure(t *testing.T) {
	b := newBench(t)
	var under []*Lease
	for range 100 {
		under = append(under, b.begin(opus))
	}
	booked := 0
	for i, e := range under {
		b.after(time.Second) // the last ones come back when the cooling has long ended
		booked += len(e.Fail(b.now, Failure{Reason: []Reason{ServerError, Timeout, Stream}[i%3]}))
		e.Release()
	}
	if booked != 1 {
		t.Errorf("%d coolings", booked)
	}
	if v := b.View(b.now)[0].Targets[0]; v.Failures != 1 || v.State != StateProbing {
		t.Errorf("%+v", v)
	}
}

func TestWhatIsHeardWhileCooling(t *testing.T) {
	for _, c := range []struct {
		name string
		fail Failure
		want []string
	}{
		{"the same without a hint", Failure{Reason: RateLimit}, nil},
		{"a shorter hint", Failure{Reason: RateLimit, Hint: hint(5 * time.Second)}, nil},
		{"a longer hint", Failure{Reason: RateLimit, Hint: hint(2 * time.Minute)}, []string{"target retry_after 2m0s"}},
		{"other trouble that is over sooner", Failure{Reason: Overloaded, Hint: hint(time.Second)}, nil},
		{"other trouble that lasts longer", Failure{Reason: ModelMissing}, []string{"target policy 5m0s"}},
		{"trouble of the account", Failure{Reason: Auth, Scope: ScopeAccount}, []string{"account policy 1m0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			first, second := b.begin(opus), b.begin(opus)
			first.Fail(b.now, Failure{Reason: RateLimit})
			got := second.Fail(b.after(10*time.Second).now, c.fail)
			if diff := cmp.Diff(c.want, lasted(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
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

func TestAccountOutage(t *testing.T) {
	type step struct {
		after  time.Duration
		target Target
		reason Reason
		want   []Scope
	}
	both := []Scope{ScopeTarget, ScopeAccount}
	one := []Scope{ScopeTarget}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"two targets", []step{{0, opus, ServerError, one}, {59 * time.Second, sonnet, Timeout, both}}},
		{"one target twice", []step{{0, opus, ServerError, one}, {30 * time.Second, opus, ServerError, one}}},
		{"two targets, too far apart", []step{{0, opus, Connection, one}, {time.Minute, sonnet, Connection, one}}},
		{"overload is the model's own", []step{{0, opus, Overloaded, one}, {time.Second, sonnet, Overloaded, one}}},
		{"a broken stream is the model's own", []step{{0, opus, Stream, one}, {time.Second, sonnet, Stream, one}}},
		{"two limits", []step{{0, opus, RateLimit, one}, {time.Second, sonnet, RateLimit, both}}},
		{"a limit and an error", []step{{0, opus, RateLimit, one}, {time.Second, sonnet, ServerError, one}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			for i, s := range c.steps {
				b.after(s.after)
				var scopes []Scope
				for _, c := range b.fail(s.target, Failure{Reason: s.reason}) {
					scopes = append(scopes, c.Scope)
				}
				if diff := cmp.Diff(s.want, scopes); diff != "" {
					t.Errorf("step %d: %s", i, diff)
				}
			}
		})
	}
}

// The window does not care that a target answered well in between.
func TestOutageWindowIsPurelyTime(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	b.after(30 * time.Second)
	b.succeed(opus)
	b.fail(sonnet, Failure{Reason: ServerError})
	b.eligible(false, haiku)
	b.after(30 * time.Second)
	got := b.fail(haiku, Failure{Reason: Overloaded})
	if diff := cmp.Diff([]string{"target policy 30s", "account policy 1m0s"}, lasted(got)); diff != "" {
		t.Errorf("a failed probe of the account: %s", diff)
	}
}

func TestEveryRateLimitMayBeTheAccounts(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.RateLimitAccount = true })
	b.fail(opus, Failure{Reason: RateLimit})
	b.eligible(false, opus, sonnet)
}

func TestExclusionIsOneSessionsOnly(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"})
	b.eligible(false, opus)
	b.eligible(true, sonnet)
	if b.Check(b.now, opus, "other").Blocked() {
		t.Error("another session was held off")
	}
	if block := b.Check(b.now, opus, "s"); block.Scope != ScopeSession || !block.OwnPolicy() || !block.Until.Equal(start.Add(30*time.Second)) {
		t.Errorf("%+v", block)
	}
	if v := b.View(b.now)[0]; v.State != StateHealthy || v.Targets[0].Failures != 0 {
		t.Errorf("somebody was blamed: %+v", v)
	}
	if got := b.fail(haiku, Failure{Reason: Rejected, Scope: ScopeSession}); got != nil {
		t.Errorf("no session, but %v", lasted(got))
	}
}

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
			e, block := b.Begin(b.now, opus, "s", true)
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
		e, _ := b.Begin(b.after(time.Second).now, opus, "s", true)
		if got := e.Fail(b.now, Failure{Reason: ServerError}); got != nil {
			t.Fatalf("a client that keeps calling prolongs: %v", lasted(got))
		}
		e.Release()
	}
	e, _ := b.Begin(b.now, opus, "s", true)
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
	if _, block := b.Begin(b.now, opus, "s", true); !block.Full || block.OwnPolicy() {
		t.Errorf("%+v", block)
	}
	one.Release()
	if e := b.begin(opus); !e.Probe {
		t.Error("a probe lease was lost when there was no room")
	}
	two.Release()
}

func TestManualBeatsEverything(t *testing.T) {
	b := newBench(t)
	running := b.begin(opus)
	if err := b.Cool(b.now, "a", "", 0); err != nil {
		t.Fatal(err)
	}
	running.Success(b.after(time.Second).now)
	b.eligible(false, opus, sonnet)
	if e, block := b.Begin(b.now, opus, "s", true); e != nil || !block.Manual || !block.Until.IsZero() || block.Reason != Operator {
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
	if _, block := b.Begin(b.now, Target{"x", "m"}, "s", true); !block.Disabled {
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

func TestView(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: RateLimit, Hint: hint(time.Minute), ErrorType: "429", Status: 429})
	b.fail(Target{"a", "asked"}, Failure{Reason: ModelMissing, ErrorType: "404", Status: 404})
	got := b.View(b.after(15 * time.Second).now)
	want := []UpstreamView{
		{Name: "a", State: StateHealthy, LastError: &LastError{"404", 404, start}, Targets: []TargetView{
			{Model: "opus", State: StateCooling, Reason: RateLimit, Since: start, Until: start.Add(time.Minute), Remaining: 45 * time.Second, Failures: 1},
			{Model: "sonnet", State: StateHealthy},
			{Model: "haiku", State: StateHealthy},
			{Model: "asked", State: StateCooling, Reason: ModelMissing, Since: start, Until: start.Add(5 * time.Minute), Remaining: 285 * time.Second, Failures: 1},
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
}

func TestManyRequestsOneProbe(t *testing.T) {
	b := newBench(t)
	b.fail(opus, Failure{Reason: ServerError})
	b.after(time.Minute)
	var won, probing atomic.Int64
	var all sync.WaitGroup
	gate := make(chan struct{})
	for range 1000 {
		all.Go(func() {
			<-gate
			e, block := b.Begin(b.now, opus, "s", false)
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
		e, _ := l.Begin(l.now, sonnet, "session", false)
		e.Success(l.now)
		e.Release()
	}
}
