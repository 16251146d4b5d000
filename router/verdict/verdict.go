// Package verdict says what the end of an attempt means: for the request, for the target's health and for the books. It
// alone knows what a status code and the words of an error stand for, and must not know who is tried next.
package verdict

import (
	"net/http"
	"strconv"
	"time"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Evidence is what one attempt left behind.
type Evidence struct {
	Status    int // 0: no response
	Header    http.Header
	Body      []byte       // of an answer that failed, as plain bytes; may be nil
	Failure   wire.Failure // the error that the body or an event told
	Kind      string       // error.type of a transport error, "" if there was none
	Model     string       // what the upstream was asked for, "" if not known
	InBand    bool         // the failure came inside a 200
	Unusable  bool         // a 200 without output
	Invalid   bool         // and not even of the right form: HTML, or no JSON object
	Committed bool         // something had reached the client
	Complete  bool         // the answer came to its proper end
	Gone      bool         // the client went away
	Overdue   bool         // request_timeout was over, which says nothing of what answered before
	Stopping  bool         // the router itself was being ended, which says nothing either
	Counts    bool         // tokens were to be counted, which says little about whether the target can write
}

// Move is what follows from a verdict.
type Move uint8

// The moves.
const (
	Serve    Move = iota // all went well
	FailOver             // the next target may do better
	GiveBack             // no other target would: the client gets the answer as it is
	Stop                 // nobody is there to answer
)

// Verdict is what an attempt's end means for the request, for the target's health, and for the books.
type Verdict struct {
	Move        Move
	Blame       bool           // book failure with the ledger
	Failure     health.Failure // without its session
	Class       string         // signalbox.error.class, "" when all went well
	ErrorType   string         // error.type, "" when all went well or the client went away
	Retryable   bool           // the same target may well do better in a moment
	CannotCount bool           // the upstream has no such function: an estimate has to do
	Heals       bool           // no success for the client, but the target has shown that it is well
	Code        string         // the provider's own word for the error, at most 64 bytes
}

// AboutAccount reports whether the failure is a matter between an upstream and its operator: a key, a bill, a quota.
func (v *Verdict) AboutAccount() bool {
	switch v.Failure.Reason {
	case health.Auth, health.Billing, health.Quota:
		return v.Move == FailOver
	}
	return false
}

// class is one kind of end; rulings says what follows from it.
type class uint8

const (
	isFine class = iota
	isCancelled
	isQuota
	isRateLimit
	isOverloaded
	isAuth
	isBilling
	isServer
	isTimeout
	isConnection
	isCut
	isUnusable
	isInvalid
	isRejected
	isModelMissing
	isForeign
	isForbidden
	isTooLarge
	isCaller
	isOverdue
	isStopping
	isNoCount
)

// rulings holds what follows from each class: scope and cooling are the ledger's, next is for as long as nothing has
// reached the client. status is error.type where the error came in band and named none.
var rulings = [...]struct {
	class  string
	reason health.Reason // "" = nobody is to blame
	scope  health.Scope
	next   Move
	status int
}{
	isFine:         {"", "", "", Serve, 0},
	isCancelled:    {telemetry.ClassCancelled, "", "", Stop, 0},
	isQuota:        {telemetry.ClassQuotaExhausted, health.Quota, health.ScopeAccount, FailOver, 429},
	isRateLimit:    {telemetry.ClassRateLimited, health.RateLimit, health.ScopeTarget, FailOver, 429},
	isOverloaded:   {telemetry.ClassOverloaded, health.Overloaded, health.ScopeTarget, FailOver, 529},
	isAuth:         {telemetry.ClassAuthFailed, health.Auth, health.ScopeAccount, FailOver, 401},
	isBilling:      {telemetry.ClassBilling, health.Billing, health.ScopeAccount, FailOver, 402},
	isServer:       {telemetry.ClassServerError, health.ServerError, health.ScopeTarget, FailOver, 500},
	isTimeout:      {telemetry.ClassTimeout, health.Timeout, health.ScopeTarget, FailOver, 504},
	isConnection:   {telemetry.ClassConnectionFailed, health.Connection, health.ScopeTarget, FailOver, 0},
	isCut:          {telemetry.ClassStreamTruncated, health.Stream, health.ScopeTarget, FailOver, 0},
	isUnusable:     {telemetry.ClassUnusable, health.Unusable, health.ScopeTarget, FailOver, 0},
	isInvalid:      {telemetry.ClassInvalidResponse, health.Unusable, health.ScopeTarget, FailOver, 0},
	isRejected:     {telemetry.ClassProviderRejected, health.Rejected, health.ScopeSession, FailOver, 400},
	isModelMissing: {telemetry.ClassModelMissing, health.ModelMissing, health.ScopeTarget, FailOver, 404},
	isForeign:      {telemetry.ClassInvalidRequest, "", "", GiveBack, 400},
	isForbidden:    {telemetry.ClassInvalidRequest, "", "", GiveBack, 403},
	isTooLarge:     {telemetry.ClassTooLarge, "", "", GiveBack, 413},
	isCaller:       {telemetry.ClassInvalidRequest, "", "", GiveBack, 400},
	isOverdue:      {telemetry.ClassTimeout, "", "", FailOver, 0},
	isStopping:     {telemetry.ClassStopping, "", "", FailOver, 0},
	isNoCount:      {telemetry.ClassProviderRejected, "", "", FailOver, 404},
}

// clues are the words that decide, and no other words do. names stand in an error's type or code, phrases in its message
// beyond doubt, and words in a message that nothing firmer explains. All lower case; the first row that fits counts.
var clues = []struct {
	class                 class
	names, phrases, words []string
}{
	// Google's word for every limit, beside a text about quota and billing.
	{isRateLimit, []string{"resource_exhausted"}, nil, nil},
	{
		isForeign,
		[]string{"previous_response_not_found", "invalid_encrypted_content"},
		[]string{"signature in thinking", "invalid signature", "encrypted content", "encrypted_content", "previous response", "items are not persisted"},
		nil,
	},
	{
		isQuota,
		[]string{"usage_limit", "usagelimit", "usage_not_included", "quota_exceeded", "quota_exhausted"},
		[]string{"usage limit", "weekly limit", "monthly limit", "5-hour limit", "exceeded your monthly quota"},
		[]string{"quota"},
	},
	{
		isBilling,
		[]string{"insufficient_quota", "insufficient_balance", "insufficient_credit", "insufficient_fund", "billing", "payment_required", "arrears"},
		[]string{
			"insufficient credit", "insufficient quota", "insufficient balance", "insufficient fund", "insufficient_quota", "insufficient_balance",
			"insufficient account balance", "credit balance", "out of credits", "no credits", "not enough credit", "enough balance", "more credits",
			"billing error", "billing hard limit", "payment required", "billing to be enabled", "exceeded your current quota",
		},
		[]string{"insufficient", "credit", "billing", "balance"},
	},
	{
		isOverloaded,
		[]string{"overloaded", "unavailable", "slow_down", "server_busy", "no_capacity"},
		[]string{"overloaded", "over capacity", "at capacity"},
		[]string{"unavailable", "capacity", "server is busy", "overload", "503", "529"},
	},
	{
		isRateLimit,
		[]string{"rate_limit", "ratelimit", "too_many_requests", "throttl"},
		[]string{"rate limit", "rate-limit", "ratelimit", "too many requests"},
		[]string{"too many", "429"},
	},
	{
		isForbidden,
		[]string{"moderation", "content_policy", "content_filter", "safety", "unsupported_country", "region"},
		[]string{"moderation", "flagged", "content policy", "safety policy", "usage policy", "region", "country", "location is not supported"},
		nil,
	},
	{
		isModelMissing,
		[]string{"model_not_found", "model_not_available", "deploymentnotfound"},
		[]string{
			"model not exist", "model not found", "not a valid model", "no such model", "unknown model", "no endpoints found", "access to model",
			"access to the model",
		},
		[]string{"model"},
	},
	{isAuth, []string{"authentication", "unauthorized", "unauthenticated", "api_key", "permission"}, nil, []string{"authentication", "permission", "api key"}},
	{
		isCaller,
		[]string{
			"invalid_request", "invalid_argument", "invalid_prompt", "bad_request", "context_length", "content_policy", "content_filter",
			"cyber_policy", "not_found", "too_large", "unsupported",
		},
		nil,
		[]string{"invalid request", "not supported", "too long", "content policy", "context length"},
	},
}

// Judge says what an attempt's end means. Nothing else in the router looks at what a status code stands for.
func (p *Policy) Judge(now time.Time, e Evidence) Verdict {
	if p.AnyAnswer && e.Committed && (e.InBand || e.Unusable) {
		e.Complete = true
	}
	c := e.classify(now)
	rule := &rulings[c]
	v := Verdict{Move: rule.next, Class: rule.class}
	if c == isFine || c == isCancelled {
		return v
	}
	v.ErrorType, v.Code, v.Retryable = e.errorType(rule.status), providerCode(e.Failure), e.retryable(c)
	if rule.reason != "" {
		v.Blame = true
		v.Failure = health.Failure{Reason: rule.reason, Scope: rule.scope, ErrorType: v.ErrorType, Status: e.failingStatus()}
		e.hint(now, c, &v.Failure)
	}
	// Anthropic limits counting apart from writing (docs: token counting, rate limits).
	v.CannotCount, v.Blame = c == isNoCount, v.Blame && (!e.Counts || c != isRateLimit)
	p.moves(now, &e, &v)
	if e.Committed {
		v.Move, v.Blame = GiveBack, v.Blame && !p.AnyAnswer
	}
	v.Heals = p.AnyAnswer && v.Move == GiveBack && !v.Blame
	return v
}

func (e *Evidence) classify(now time.Time) class {
	switch {
	case e.Complete:
		return isFine
	case e.Gone:
		return isCancelled
	case e.InBand:
		return e.classifyInBand(now)
	case e.Kind != "":
		return e.classifyTransport()
	case e.Invalid:
		return isInvalid
	case e.Unusable:
		return isUnusable
	case IsSuccess(e.Status):
		return isFine
	case e.Counts && e.lacksCounting():
		return isNoCount
	}
	return e.classifyStatus(now, e.Status)
}

// classifyTransport is for what broke on the way. What the router itself broke off is nobody's fault. What breaks after output began is the stream's fault, stalled or cut;
// a cut before it is one too, only that another target can still answer.
func (e *Evidence) classifyTransport() class {
	switch {
	case e.Stopping:
		return isStopping
	case e.Overdue:
		return isOverdue
	case e.Committed, e.Kind == telemetry.ErrorStreamTruncated:
		return isCut
	case e.Kind == telemetry.ErrorTimeout:
		return isTimeout
	case e.Kind == telemetry.ErrorInvalidResponse:
		return isInvalid
	}
	return isConnection
}

// classifyInBand goes by the error's words first: what it calls itself, then a 4xx that it names, then the words of its
// message, then the 5xx, which any error may carry.
func (e *Evidence) classifyInBand(now time.Time) class {
	if c := e.clue(all&^of(isForbidden), false); c != isFine {
		return c
	}
	status := e.Failure.Status
	if status/100 == 4 {
		return e.classifyStatus(now, status)
	}
	if c := e.clue(all&^of(isForbidden, isModelMissing), true); c != isFine {
		return c
	}
	if status/100 == 5 {
		return e.classifyStatus(now, status)
	}
	return isServer
}

// classifyStatus is the table of statuses.
func (e *Evidence) classifyStatus(now time.Time, status int) class {
	switch status {
	case http.StatusTooManyRequests:
		return e.classifyLimit(now)
	case http.StatusUnauthorized, http.StatusForbidden:
		return e.classifyDenied(status)
	case http.StatusPaymentRequired:
		return isBilling
	case http.StatusRequestTimeout, http.StatusGatewayTimeout, 522, 524: // The last two are Cloudflare's.
		return isTimeout
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		c := e.either(isCaller, isForeign, isQuota, isBilling, isModelMissing)
		if c == isCaller && wordless(e.Failure.Message) {
			return isRejected
		}
		return c
	case http.StatusNotFound:
		if c := e.clue(of(isForeign, isModelMissing), true); c != isFine {
			return c
		}
	case http.StatusRequestEntityTooLarge:
		return isTooLarge
	case http.StatusServiceUnavailable:
		// With a time to come back at it is what the status was made for: busy, and not broken.
		if retryAfter(now, e.Header) > 0 || e.InBand || e.clue(of(isOverloaded), true) != isFine {
			return isOverloaded
		}
	case 529:
		return isOverloaded
	}
	switch status / 100 {
	case 5:
		return e.either(isServer, isOverloaded)
	case 4:
		return isCaller
	}
	return isServer // An API that redirects, or answers with a status that there is not, is set up wrongly.
}

// classifyDenied tells a bad key from what the request or its model is denied for.
func (e *Evidence) classifyDenied(status int) class {
	c := e.either(isAuth, isQuota, isBilling, isForbidden, isModelMissing)
	if c == isAuth && status == http.StatusForbidden && e.clue(of(isModelMissing), true) != isFine {
		return isModelMissing
	}
	return c
}

// either is one of several classes if a firm clue says so, else fallback. Outside of 429 a spent quota is a matter of
// billing: it has no reset.
func (e *Evidence) either(fallback class, several ...class) class {
	switch c := e.clue(of(several...), false); c {
	case isFine:
		return fallback
	case isQuota:
		return isBilling
	default:
		return c
	}
}

// errorType is the closed vocabulary of telemetry: the status of an answer that failed, what broke on the way, the status
// that an error in band names or that its class stands for, and the form of an answer that was of no use.
func (e *Evidence) errorType(standIn int) string {
	switch {
	case e.Status >= 300:
		return strconv.Itoa(e.Status)
	case e.Kind != "":
		return e.Kind
	case e.InBand && e.Failure.Status >= 400:
		return strconv.Itoa(e.Failure.Status)
	case standIn > 0:
		return strconv.Itoa(standIn)
	}
	return telemetry.ErrorInvalidResponse
}

// failingStatus is the HTTP status that goes with a failure, 0 if there is none.
func (e *Evidence) failingStatus() int {
	if e.Status >= 300 {
		return e.Status
	}
	return e.Failure.Status
}

// retryable reports whether the same target may do better in a moment: what is busy, restarts, or lost a connection.
func (e *Evidence) retryable(c class) bool {
	switch e.failingStatus() {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return !e.Committed
	}
	return !e.Committed && (c == isOverloaded || c == isConnection)
}

// IsSuccess reports whether an answer is to be read as one.
func IsSuccess(status int) bool { return status/100 == 2 }

// MustSayWhen reports whether an answer that is passed on has to say when to come back.
func MustSayWhen(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}
