package verdict

import (
	"net/http"
	"time"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// Policy is what a configuration says about failures.
type Policy struct {
	Cooling   settings.Cooling
	MoveOn    string // what another target is tried after
	CommitOn  string // when a stream becomes the client's
	AnyAnswer bool   // an answer is good whatever is in it, unless another target is tried after it
}

// What another target is tried after, beside what the table of classes says.
const (
	moveOnStatus     = "status"
	moveOnAny        = "any"
	moveOnConnection = "connection"
)

// When a stream becomes the client's, if not with the first output: with its headers, or with its first event.
const (
	CommitHeaders = "headers"
	CommitEvent   = "event"
)

// PolicyOf takes what it needs from a configuration.
func PolicyOf(cfg *settings.Config) Policy {
	return Policy{cfg.Cooling, cfg.Failover.MoveOn, cfg.Failover.CommitOn, cfg.Cooling.HealthyOn == "answer"}
}

// Health is the part that the ledger carries out.
func (p Policy) Health() health.Policy {
	c := &p.Cooling
	return health.Policy{
		RateLimit: health.Backoff{Base: c.RateLimit.Base, Cap: c.RateLimit.Cap},
		Auth:      health.Backoff{Base: c.Auth.Base, Cap: c.Auth.Cap},
		Billing:   health.Backoff{Base: c.Billing.Base, Cap: c.Billing.Cap},
		Server:    health.Backoff{Base: c.Server.Base, Cap: c.Server.Cap, After: c.Server.After},
		Scope:     scopeNamed(c.Scope), RateLimitScope: scopeNamed(c.RateLimit.Scope),
		QuotaDefault: c.QuotaDefault, HintCap: c.HintCap, ProbeEvery: c.ProbeEvery, OutageWindow: c.OutageWindow,
		Exclusion: c.Exclusion, ModelMissing: 5 * time.Minute,
	}
}

// scopeNamed is the scope that a configuration prescribes; auto leaves it to the failure.
func scopeNamed(name string) health.Scope {
	if name == "auto" {
		return ""
	}
	return health.Scope(name)
}

// moves adapts a verdict to what the configuration has another target tried after. What is not moved on from is given
// back, and nobody is blamed for it.
func (p Policy) moves(now time.Time, e *Evidence, v *Verdict) {
	var on bool
	switch p.MoveOn {
	case moveOnStatus:
		s := e.Status
		on = e.Kind != "" || s/100 == 5 || s == http.StatusTooManyRequests ||
			s == http.StatusUnauthorized || s == http.StatusPaymentRequired || s == http.StatusForbidden
		if on && e.Kind == "" {
			v.Blame, v.Failure = true, byStatus(now, e, v.ErrorType)
		}
	case moveOnConnection:
		on = e.Kind != "" && e.Status == 0
	case moveOnAny:
		on = true
		v.Blame, v.Retryable = true, !e.Committed
		v.Failure = likeAnyOther(v.Failure.Reason, v.ErrorType, e.failingStatus())
	default:
		return
	}
	if v.Move = GiveBack; on {
		v.Move = FailOver
	}
	v.Blame = v.Blame && (on || e.Committed)
}

// byStatus is a failure of which the status alone counts: a limit, or one failure like every other. Both last until
// Retry-After; what the words say of credits, load or quotas is not asked.
func byStatus(now time.Time, e *Evidence, errorType string) health.Failure {
	f := health.Failure{Reason: health.ServerError, ErrorType: errorType, Status: e.Status}
	if d := retryAfter(now, e.Header); d > 0 {
		f.Reason, f.Hint = health.Overloaded, health.Hint{After: d, Source: health.SourceRetryAfter}
	}
	if e.Status == http.StatusTooManyRequests {
		f.Reason = health.RateLimit
	}
	return f
}

// likeAnyOther is a failure that makes its target rest for as long as every other does, whatever it is: no hint is
// asked, and what is about one session or one model otherwise is a failure of the target.
func likeAnyOther(r health.Reason, errorType string, status int) health.Failure {
	switch r {
	case "", health.Rejected, health.ModelMissing:
		r = health.ServerError
	}
	return health.Failure{Reason: r, ErrorType: errorType, Status: status}
}
