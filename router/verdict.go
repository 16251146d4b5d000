package router

import (
	"net/http"
	"strconv"
	"time"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// evidence is what one attempt left behind.
type evidence struct {
	status    int // 0: no response
	header    http.Header
	body      []byte       // of an answer that failed, as plain bytes; may be nil
	failure   wire.Failure // the error that the body or an event told
	kind      string       // error.type of a transport error, "" if there was none
	model     string       // what the upstream was asked for, "" if not known
	inBand    bool         // the failure came inside a 200
	unusable  bool         // a 200 without output
	invalid   bool         // and not even of the right form: HTML, or no JSON object
	committed bool         // something had reached the client
	complete  bool         // the answer came to its proper end
	gone      bool         // the client went away
}

// move is what follows from a verdict.
type move uint8

const (
	serve    move = iota // all went well
	failOver             // the next target may do better
	giveBack             // no other target would: the client gets the answer as it is
	stop                 // nobody is there to answer
)

// verdict is what an attempt's end means for the request, for the target's health, and for the books.
type verdict struct {
	move      move
	blame     bool           // book failure with the ledger
	failure   health.Failure // without its session
	class     string         // signalbox.error.class, "" when all went well
	errorType string         // error.type, "" when all went well or the client went away
	retryable bool           // the same target may well do better in a moment
	code      string         // the provider's own word for the error, at most 64 bytes
}

// policy is what a configuration says about failures.
type policy struct{ cooling settings.Cooling }

func policyOf(cfg *settings.Config) policy { return policy{cfg.Cooling} }

// health is the part that the ledger carries out.
func (p policy) health() health.Policy {
	c := &p.cooling
	return health.Policy{
		RateLimit:        health.Backoff{Base: c.RateLimit.Base, Cap: c.RateLimit.Cap},
		Auth:             health.Backoff{Base: c.Auth.Base, Cap: c.Auth.Cap},
		Billing:          health.Backoff{Base: c.Billing.Base, Cap: c.Billing.Cap},
		Server:           health.Backoff{Base: c.Server.Base, Cap: c.Server.Cap, After: c.Server.After},
		RateLimitAccount: c.RateLimit.Scope == "account",
		QuotaDefault:     c.QuotaDefault, HintCap: c.HintCap, ProbeEvery: c.ProbeEvery, OutageWindow: c.OutageWindow,
		Exclusion: c.Exclusion, ModelMissing: 5 * time.Minute,
	}
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
)

// rulings holds what follows from each class: scope and cooling are the ledger's, next is for as long as nothing has
// reached the client. status is error.type where the error came in band and named none.
var rulings = [...]struct {
	class  string
	reason health.Reason // "" = nobody is to blame
	scope  health.Scope
	next   move
	status int
}{
	isFine:         {"", "", "", serve, 0},
	isCancelled:    {telemetry.ClassCancelled, "", "", stop, 0},
	isQuota:        {telemetry.ClassQuotaExhausted, health.Quota, health.ScopeAccount, failOver, 429},
	isRateLimit:    {telemetry.ClassRateLimited, health.RateLimit, health.ScopeTarget, failOver, 429},
	isOverloaded:   {telemetry.ClassOverloaded, health.Overloaded, health.ScopeTarget, failOver, 529},
	isAuth:         {telemetry.ClassAuthFailed, health.Auth, health.ScopeAccount, failOver, 401},
	isBilling:      {telemetry.ClassBilling, health.Billing, health.ScopeAccount, failOver, 402},
	isServer:       {telemetry.ClassServerError, health.ServerError, health.ScopeTarget, failOver, 500},
	isTimeout:      {telemetry.ClassTimeout, health.Timeout, health.ScopeTarget, failOver, 504},
	isConnection:   {telemetry.ClassConnectionFailed, health.Connection, health.ScopeTarget, failOver, 0},
	isCut:          {telemetry.ClassStreamTruncated, health.Stream, health.ScopeTarget, failOver, 0},
	isUnusable:     {telemetry.ClassUnusable, health.Unusable, health.ScopeTarget, failOver, 0},
	isInvalid:      {telemetry.ClassInvalidResponse, health.Unusable, health.ScopeTarget, failOver, 0},
	isRejected:     {telemetry.ClassProviderRejected, health.Rejected, health.ScopeSession, failOver, 400},
	isModelMissing: {telemetry.ClassModelMissing, health.ModelMissing, health.ScopeTarget, failOver, 404},
	isForeign:      {telemetry.ClassInvalidRequest, "", "", giveBack, 400},
	isForbidden:    {telemetry.ClassInvalidRequest, "", "", giveBack, 403},
	isTooLarge:     {telemetry.ClassTooLarge, "", "", giveBack, 413},
	isCaller:       {telemetry.ClassInvalidRequest, "", "", giveBack, 400},
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

// judge says what an attempt's end means. Nothing else in the router looks at what a status code stands for.
func (p policy) judge(now time.Time, e evidence) verdict {
	c := e.classify(now)
	rule := &rulings[c]
	v := verdict{move: rule.next, class: rule.class}
	if c == isFine || c == isCancelled {
		return v
	}
	v.errorType, v.code, v.retryable = e.errorType(rule.status), providerCode(e.failure), e.retryable(c)
	if e.committed {
		v.move = giveBack
	}
	if rule.reason == "" {
		return v
	}
	v.blame = true
	v.failure = health.Failure{Reason: rule.reason, Scope: rule.scope, ErrorType: v.errorType, Status: e.failingStatus()}
	switch c {
	case isQuota:
		v.failure.Hint = parseReset(now, e.header, e.text())
		if modelWindow(e.header) {
			v.failure.Scope = health.ScopeTarget
		}
	case isRateLimit:
		v.failure.Hint = parseHint(now, e.header, e.text())
		if e.accountWide() {
			v.failure.Scope = health.ScopeAccount
		}
	case isOverloaded:
		if d := retryAfter(now, e.header); d > 0 {
			v.failure.Hint = health.Hint{After: d, Source: health.SourceRetryAfter}
		}
	}
	return v
}

func (e *evidence) classify(now time.Time) class {
	switch {
	case e.complete:
		return isFine
	case e.gone:
		return isCancelled
	case e.inBand:
		return e.classifyInBand(now)
	case e.kind != "":
		return e.classifyTransport()
	case e.invalid:
		return isInvalid
	case e.unusable:
		return isUnusable
	case isSuccess(e.status):
		return isFine
	}
	return e.classifyStatus(now, e.status)
}

// classifyTransport is for what broke on the way. What breaks after output began is the stream's fault, stalled or cut;
// a cut before it is one too, only that another target can still answer.
func (e *evidence) classifyTransport() class {
	switch {
	case e.committed, e.kind == telemetry.ErrorStreamTruncated:
		return isCut
	case e.kind == telemetry.ErrorTimeout:
		return isTimeout
	case e.kind == telemetry.ErrorInvalidResponse:
		return isInvalid
	}
	return isConnection
}

// classifyInBand goes by the error's words first: what it calls itself, then a 4xx that it names, then the words of its
// message, then the 5xx, which any error may carry.
func (e *evidence) classifyInBand(now time.Time) class {
	if c := e.clue(all&^of(isForbidden), false); c != isFine {
		return c
	}
	status := e.failure.Status
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
func (e *evidence) classifyStatus(now time.Time, status int) class {
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
		if c == isCaller && wordless(e.failure.Message) {
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
		if retryAfter(now, e.header) > 0 || e.inBand || e.clue(of(isOverloaded), true) != isFine {
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

// classifyLimit tells the kinds of 429 apart. Providers use it for a budget that is spent and for a busy engine too.
func (e *evidence) classifyLimit(now time.Time) class {
	if refused, _ := unifiedLimit(now, e.header); refused {
		return isQuota
	}
	if c := e.clue(of(isQuota, isBilling, isOverloaded, isRateLimit), false); c != isFine {
		return c
	}
	if e.clue(of(isQuota), true) != isFine {
		return isQuota
	}
	return isRateLimit
}

// classifyDenied tells a bad key from what the request or its model is denied for.
func (e *evidence) classifyDenied(status int) class {
	c := e.either(isAuth, isQuota, isBilling, isForbidden, isModelMissing)
	if c == isAuth && status == http.StatusForbidden && e.clue(of(isModelMissing), true) != isFine {
		return isModelMissing
	}
	return c
}

// either is one of several classes if a firm clue says so, else fallback. Outside of 429 a spent quota is a matter of
// billing: it has no reset.
func (e *evidence) either(fallback class, several ...class) class {
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
func (e *evidence) errorType(standIn int) string {
	switch {
	case e.status >= 300:
		return strconv.Itoa(e.status)
	case e.kind != "":
		return e.kind
	case e.inBand && e.failure.Status >= 400:
		return strconv.Itoa(e.failure.Status)
	case standIn > 0:
		return strconv.Itoa(standIn)
	}
	return telemetry.ErrorInvalidResponse
}

// failingStatus is the HTTP status that goes with a failure, 0 if there is none.
func (e *evidence) failingStatus() int {
	if e.status >= 300 {
		return e.status
	}
	return e.failure.Status
}

// retryable reports whether the same target may do better in a moment: what is busy, restarts, or lost a connection.
func (e *evidence) retryable(c class) bool {
	switch e.failingStatus() {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return !e.committed
	}
	return !e.committed && (c == isOverloaded || c == isConnection)
}

// isSuccess reports whether an answer is to be read as one.
func isSuccess(status int) bool { return status/100 == 2 }

// mustSayWhen reports whether an answer that is passed on has to say when to come back.
func mustSayWhen(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}
