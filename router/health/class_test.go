package health

import (
	"testing"
	"time"
)

// doubling lists the rests of a back-off from base to limit, and the limit once more.
func doubling(base, limit time.Duration) (ds []time.Duration) {
	for d := base; d < limit; d *= 2 {
		ds = append(ds, d)
	}
	return append(ds, limit, limit)
}

func flat(d time.Duration) []time.Duration { return []time.Duration{d, d, d} }

// Every row of the table of classes, one failure after the other, each found out by the probe after the last rest.
func TestClassTable(t *testing.T) {
	server := doubling(30*time.Second, 5*time.Minute)
	both := []Scope{ScopeTarget, ScopeAccount}
	for _, c := range []struct {
		reason Reason
		scopes []Scope
		hint   Hint
		want   []time.Duration
		source Source
	}{
		{Quota, both, Hint{}, flat(168 * time.Hour), SourcePolicy},
		{Quota, both, Hint{500000 * time.Second, SourceBody}, flat(500000 * time.Second), SourceBody},
		{RateLimit, both, Hint{}, doubling(30*time.Second, 10*time.Minute), SourcePolicy},
		{RateLimit, both, hint(17 * time.Second), flat(17 * time.Second), SourceRetryAfter},
		{RateLimit, both, Hint{90 * time.Minute, SourceHeaders}, flat(time.Hour), SourceHeaders},
		{RateLimit, both, hint(-time.Second), doubling(30*time.Second, 10*time.Minute), SourcePolicy},
		{Overloaded, both, Hint{}, server, SourcePolicy},
		{Overloaded, both, hint(3 * time.Second), flat(3 * time.Second), SourceRetryAfter},
		{Overloaded, both, hint(2 * time.Hour), flat(time.Hour), SourceRetryAfter},
		{Auth, both, Hint{}, doubling(time.Minute, 30*time.Minute), SourcePolicy},
		{Auth, both, hint(time.Second), doubling(time.Minute, 30*time.Minute), SourcePolicy},
		{Billing, both, Hint{}, doubling(30*time.Second, 5*time.Minute), SourcePolicy},
		{ServerError, both, Hint{}, server, SourcePolicy},
		{ServerError, both, hint(time.Second), server, SourcePolicy},
		{Timeout, both, Hint{}, server, SourcePolicy},
		{Connection, both, Hint{}, server, SourcePolicy},
		{Unusable, both, Hint{}, server, SourcePolicy},
		{Stream, both, Hint{}, server, SourcePolicy},
		{ModelMissing, both, Hint{}, flat(5 * time.Minute), SourcePolicy},
		{Rejected, []Scope{ScopeSession}, Hint{}, flat(30 * time.Second), SourcePolicy},
	} {
		for _, scope := range c.scopes {
			t.Run(string(c.reason)+" "+string(scope), func(t *testing.T) {
				b := newBench(t)
				for i, want := range c.want {
					e := b.begin(opus)
					if e.Probe != (i > 0 && scope != ScopeSession) {
						t.Fatalf("failure %d: a probe is %v", i+1, e.Probe)
					}
					f := Failure{Reason: c.reason, Scope: scope, Hint: c.hint, Session: "s"}
					if scope == ScopeTarget {
						f.Scope = "" // the same
					}
					got := e.Fail(b.now, f)
					e.Release()
					if len(got) != 1 || got[0].Scope != scope || got[0].Duration != want || got[0].Source != c.source {
						t.Fatalf("failure %d: %v, want %v from %s", i+1, lasted(got), want, c.source)
					}
					b.eligible(scope != ScopeAccount, sonnet)
					b.eligible(true, Target{"b", "opus"})
					if want <= rules.ProbeEvery {
						b.after(want-1).eligible(false, opus)
						want = 1
					}
					b.after(want).eligible(true, opus, sonnet)
				}
			})
		}
	}
}

// A rate limit parks its target and is no step towards the threshold of server failures, nor back from it.
func TestRateLimitIsNoServerFailure(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.Server.After = 3 })
	for i, f := range []struct {
		reason Reason
		want   time.Duration
	}{
		{ServerError, 0},
		{RateLimit, 30 * time.Second},
		{Timeout, 0},
		{RateLimit, time.Minute},
		{Connection, 30 * time.Second},
		{RateLimit, 2 * time.Minute},
		{ServerError, time.Minute},
	} {
		var rested time.Duration
		for _, c := range b.fail(opus, Failure{Reason: f.reason}) {
			rested = c.Duration
		}
		if rested != f.want {
			t.Fatalf("failure %d, %s: %v, want %v", i+1, f.reason, rested, f.want)
		}
		b.after(rested).eligible(true, opus)
	}
}

// Whatever is passed on counts as a success for some; it ends a row of failures that has not come to a cooling yet.
func TestSuccessEndsARowBeforeTheThreshold(t *testing.T) {
	b := newBench(t, func(p *Policy, _ *[]Upstream) { p.Scope, p.Server.After = ScopeAccount, 3 })
	for range 5 {
		b.fail(opus, Failure{Reason: Connection})
		b.fail(sonnet, Failure{Reason: Connection})
		b.eligible(true, opus, sonnet)
		b.succeed(haiku)
	}
	if n := b.View(b.now)[0].Fails; n != 0 {
		t.Errorf("%d failures are remembered", n)
	}
}
