package health

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	e, block := b.Begin(b.now, t, "s", NoForce)
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
