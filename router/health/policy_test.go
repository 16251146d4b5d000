package health

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPolicyFixesTheScope(t *testing.T) {
	type scopes struct{ all, limits Scope }
	auto, account, target := scopes{}, scopes{all: ScopeAccount}, scopes{all: ScopeTarget}
	limitsAccount, limitsTarget := scopes{limits: ScopeAccount}, scopes{limits: ScopeTarget}
	for _, c := range []struct {
		name   string
		policy scopes
		fail   Failure
		want   Scope
	}{
		{"auto", auto, Failure{Reason: RateLimit}, ScopeTarget},
		{"auto", auto, Failure{Reason: RateLimit, Scope: ScopeAccount}, ScopeAccount},
		{"auto", auto, Failure{Reason: Auth, Scope: ScopeAccount}, ScopeAccount},
		{"account", account, Failure{Reason: ServerError}, ScopeAccount},
		{"account", account, Failure{Reason: RateLimit, Scope: ScopeTarget}, ScopeAccount},
		{"account", account, Failure{Reason: ModelMissing, Scope: ScopeTarget}, ScopeAccount},
		{"account", account, Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"}, ScopeSession},
		{"target", target, Failure{Reason: Auth, Scope: ScopeAccount}, ScopeTarget},
		{"target", target, Failure{Reason: Quota, Scope: ScopeAccount}, ScopeTarget},
		{"target", target, Failure{Reason: RateLimit, Scope: ScopeAccount, Hint: hint(time.Minute)}, ScopeTarget},
		{"target", target, Failure{Reason: Rejected, Scope: ScopeSession, Session: "s"}, ScopeSession},
		{"limits account", limitsAccount, Failure{Reason: RateLimit}, ScopeAccount},
		{"limits account", limitsAccount, Failure{Reason: Quota, Scope: ScopeTarget}, ScopeTarget},
		{"limits account", limitsAccount, Failure{Reason: ServerError}, ScopeTarget},
		{"limits target", limitsTarget, Failure{Reason: RateLimit, Scope: ScopeAccount}, ScopeTarget},
		{"limits target", limitsTarget, Failure{Reason: Auth, Scope: ScopeAccount}, ScopeAccount},
		{"limits go first", scopes{ScopeTarget, ScopeAccount}, Failure{Reason: RateLimit}, ScopeAccount},
		{"limits go first", scopes{ScopeTarget, ScopeAccount}, Failure{Reason: Auth, Scope: ScopeAccount}, ScopeTarget},
	} {
		t.Run(c.name+" "+string(c.fail.Reason), func(t *testing.T) {
			b := newBench(t, func(p *Policy, _ *[]Upstream) { p.Scope, p.RateLimitScope = c.policy.all, c.policy.limits })
			if got := b.fail(opus, c.fail); len(got) != 1 || got[0].Scope != c.want {
				t.Fatalf("%v, want %s", lasted(got), c.want)
			}
			b.eligible(false, opus)
			b.eligible(c.want != ScopeAccount, sonnet)
			if b.Check(b.now, opus, "other").Blocked() != (c.want != ScopeSession) {
				t.Error("another session")
			}
		})
	}
}

// Where the policy fixed the scope, two targets prove nothing about their account.
func TestNoOutageWhereThePolicyFixedTheScope(t *testing.T) {
	limits := func(p *Policy, _ *[]Upstream) { p.RateLimitScope = ScopeTarget }
	for _, c := range []struct {
		name   string
		change func(*Policy, *[]Upstream)
		reason Reason
		want   []string
	}{
		{"all", func(p *Policy, _ *[]Upstream) { p.Scope = ScopeTarget }, ServerError, []string{"target policy 30s"}},
		{"all", func(p *Policy, _ *[]Upstream) { p.Scope = ScopeTarget }, RateLimit, []string{"target policy 30s"}},
		{"limits", limits, RateLimit, []string{"target policy 30s"}},
		{"limits", limits, ServerError, []string{"target policy 30s", "account policy 30s"}},
	} {
		t.Run(c.name+" "+string(c.reason), func(t *testing.T) {
			b := newBench(t, c.change)
			b.fail(opus, Failure{Reason: c.reason})
			if diff := cmp.Diff(c.want, lasted(b.fail(sonnet, Failure{Reason: c.reason}))); diff != "" {
				t.Error(diff)
			}
			b.eligible(len(c.want) == 1, haiku)
		})
	}
}

func TestWhatIsSwitchedOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Policy)
		fails  []Failure
	}{
		{"exclusions", func(p *Policy) { p.Exclusion = 0 }, []Failure{{Reason: Rejected, Scope: ScopeSession, Session: "s"}}},
		{"the outage window", func(p *Policy) { p.OutageWindow, p.Server = 0, Backoff{} }, []Failure{{Reason: ServerError}, {Reason: Timeout}}},
		{"missing models", func(p *Policy) { p.ModelMissing = 0 }, []Failure{{Reason: ModelMissing}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(p *Policy, _ *[]Upstream) { c.change(p) })
			for i, f := range c.fails {
				if got := b.fail([]Target{opus, sonnet}[i], f); got != nil {
					t.Errorf("%v", lasted(got))
				}
			}
			b.eligible(true, opus, sonnet, haiku)
		})
	}
}

func TestHintCapOff(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.HintCap, p.ProbeEvery = 0, 0 })
	if got := b.fail(opus, Failure{Reason: RateLimit, Hint: hint(72 * time.Hour)}); got[0].Duration != 72*time.Hour {
		t.Errorf("%v", lasted(got))
	}
	b.after(72*time.Hour-1).eligible(false, opus)
}

// A cap beyond half of what a duration holds must not make the rests after many failures wrap round to none.
func TestBackoffDoesNotOverflow(t *testing.T) {
	b, last := Backoff{Base: time.Hour, Cap: math.MaxInt64}, time.Duration(0)
	for n := 1; n < 100; n++ {
		d := b.delay(n)
		if d < last {
			t.Fatalf("the rest after failure %d is %v, after %v", n, d, last)
		}
		last = d
	}
	if last != b.Cap {
		t.Errorf("the last is %v", last)
	}
}
