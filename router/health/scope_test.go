package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

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
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.RateLimitScope = ScopeAccount })
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
