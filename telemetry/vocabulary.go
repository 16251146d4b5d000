package telemetry

import (
	"slices"
	"strconv"
)

// Unnamed stands for every model id that the configuration does not name, on metrics and in span names; on metrics also for
// every key that it does not name, and every client that neither it nor ClientType does.
const Unnamed = "_unknown"

// KeyNone stands on metrics for requests without a key, which need none.
const KeyNone = "none"

// Other stands for every value outside a closed vocabulary. It is a fault of ours and must not be seen.
const Other = "_OTHER"

// Outcomes of a request, as the client saw it.
const (
	OutcomeSuccess              = "success"
	OutcomeSuccessAfterFailover = "success_after_failover"
	OutcomeFailed               = "failed"
	OutcomeRejected             = "rejected"
	OutcomeCancelled            = "cancelled"
)

// Error classes: whose fault it was, and what kind of fault. ClassNone stands on metrics only.
const (
	ClassNone             = "none"
	ClassInvalidRequest   = "caller_invalid_request"
	ClassModelUnknown     = "caller_model_unknown"
	ClassUnauthenticated  = "caller_unauthenticated"
	ClassTooLarge         = "caller_too_large"
	ClassCancelled        = "caller_cancelled"
	ClassRateLimited      = "provider_rate_limited"
	ClassQuotaExhausted   = "provider_quota_exhausted"
	ClassOverloaded       = "provider_overloaded"
	ClassServerError      = "provider_server_error"
	ClassTimeout          = "provider_timeout"
	ClassConnectionFailed = "provider_connection_failed"
	ClassAuthFailed       = "provider_auth_failed"
	ClassBilling          = "provider_billing"
	ClassInvalidResponse  = "provider_invalid_response"
	ClassProviderRejected = "provider_rejected"
	ClassModelMissing     = "provider_model_missing"
	ClassStreamTruncated  = "provider_stream_truncated"
	ClassUnusable         = "provider_unusable"
	ClassNoneEligible     = "router_none_eligible"
	ClassSaturated        = "router_saturated"
	ClassStopping         = "router_stopping"
	ClassInternal         = "router_internal"
)

// Error types where no HTTP status tells it; with a status, error.type is the status as a string.
const (
	ErrorTimeout           = "timeout"
	ErrorDNS               = "dns_error"
	ErrorConnectionRefused = "connection_refused"
	ErrorConnectionReset   = "connection_reset"
	ErrorTLS               = "tls_error"
	ErrorStreamTruncated   = "stream_truncated"
	ErrorInvalidResponse   = "invalid_response"
)

// Decisions: why the first target tried was chosen.
const (
	DecisionPinned      = "pinned"
	DecisionSticky      = "sticky"
	DecisionCache       = "cache"
	DecisionStrategy    = "strategy"
	DecisionFailover    = "failover"
	DecisionPassthrough = "passthrough"
	DecisionNone        = "none"
)

// Reasons of an attempt.
const (
	AttemptInitial  = "initial"
	AttemptFailover = "failover"
	AttemptProbe    = "probe"
)

// Outcomes of an attempt.
const (
	AttemptServed     = "served"
	AttemptFailedOver = "failed_over"
	AttemptFailed     = "failed"
	AttemptCancelled  = "cancelled"
)

// Scopes of a cooling.
const (
	ScopeAccount = "account"
	ScopeTarget  = "target"
	ScopeSession = "session"
)

// Reasons of a cooling, and of a target skipped because of it.
const (
	ReasonRateLimit    = "rate_limit"
	ReasonQuota        = "quota"
	ReasonOverloaded   = "overloaded"
	ReasonServerError  = "server_error"
	ReasonTimeout      = "timeout"
	ReasonConnection   = "connection"
	ReasonAuth         = "auth"
	ReasonBilling      = "billing"
	ReasonUnusable     = "unusable"
	ReasonRejected     = "rejected"
	ReasonStream       = "stream"
	ReasonModelMissing = "model_missing"
	ReasonOperator     = "operator"
)

// Reasons of a target skipped without a cooling.
const (
	SkipProbing  = "probing"  // another request is probing it
	SkipFull     = "full"     // at its limit of requests in flight
	SkipDisabled = "disabled" // switched off by configuration
	SkipEjected  = "ejected"  // taken out by active checks
)

// Sources of a cooling's length.
const (
	SourceRetryAfter = "retry_after"
	SourceHeaders    = "headers"
	SourceBody       = "body"
	SourcePolicy     = "policy"
	SourceOperator   = "operator"
)

// Sources of a cost.
const (
	CostReported   = "reported"   // by the upstream
	CostCalculated = "calculated" // from tokens and prices
)

// States of a target; exactly one of them is 1.
const (
	StateHealthy  = "healthy"
	StateCooling  = "cooling"
	StateProbing  = "probing"
	StateEjected  = "ejected"
	StateDisabled = "disabled"
)

// Reasons of a wait.
const (
	WaitQueue = "queue" // for a free slot
	WaitRetry = "retry" // before the same target is tried again
)

// Kinds of quota.
const (
	QuotaRequests     = "requests"
	QuotaTokens       = "tokens"
	QuotaInputTokens  = "input_tokens"
	QuotaOutputTokens = "output_tokens"
	QuotaUnified5h    = "unified_5h"
	QuotaUnified7d    = "unified_7d"
)

// Types of token; together they are all tokens of a request.
const (
	TokensUncached = "uncached_input" // what was written to a provider's cache included
	TokensCached   = "cached_input"   // served from a provider's cache
	TokensOutput   = "output"         // reasoning included
)

// Results of a reload.
const (
	ReloadApplied  = "applied"
	ReloadRejected = "rejected"
)

// Kinds of affinity.
const (
	AffinitySession  = "session"  // the target that served the session
	AffinityCache    = "cache"    // the target that holds the cached prefix
	AffinityResponse = "response" // the upstream that issued an id in the request
	AffinityNone     = "none"     // nothing to go by
)

// Results of a decision on affinity.
const (
	ResultHit     = "hit"     // an entry was found and kept to
	ResultNew     = "new"     // there was no entry yet
	ResultMoved   = "moved"   // an entry was found, but another target took its place
	ResultExpired = "expired" // there was an entry, but too old
	ResultNone    = "none"    // nothing was looked for
)

// vocabulary is a closed list of values; the first one stands for everything that is not in it.
type vocabulary []string

// The lists are short, so that looking through them is quicker than a map, and only needed when a set is first built.
var (
	outcomes = vocabulary{Other, OutcomeSuccess, OutcomeSuccessAfterFailover, OutcomeFailed, OutcomeRejected, OutcomeCancelled}
	classes  = vocabulary{
		ClassInternal, ClassNone, ClassInvalidRequest, ClassModelUnknown, ClassUnauthenticated, ClassTooLarge, ClassCancelled,
		ClassRateLimited, ClassQuotaExhausted, ClassOverloaded, ClassServerError, ClassTimeout, ClassConnectionFailed,
		ClassAuthFailed, ClassBilling, ClassInvalidResponse, ClassProviderRejected, ClassModelMissing, ClassStreamTruncated,
		ClassUnusable, ClassNoneEligible, ClassSaturated, ClassStopping,
	}
	errorTypes = vocabulary{
		Other, "", ErrorTimeout, ErrorDNS, ErrorConnectionRefused, ErrorConnectionReset, ErrorTLS, ErrorStreamTruncated,
		ErrorInvalidResponse,
	}
	attemptReasons = vocabulary{Other, AttemptInitial, AttemptFailover, AttemptProbe}
	waitReasons    = vocabulary{Other, WaitQueue, WaitRetry}
	scopes         = vocabulary{Other, ScopeAccount, ScopeTarget, ScopeSession}
	coolReasons    = vocabulary{
		Other, ReasonRateLimit, ReasonQuota, ReasonOverloaded, ReasonServerError, ReasonTimeout, ReasonConnection, ReasonAuth,
		ReasonBilling, ReasonUnusable, ReasonRejected, ReasonStream, ReasonModelMissing, ReasonOperator,
	}
	sources = vocabulary{Other, SourceRetryAfter, SourceHeaders, SourceBody, SourcePolicy, SourceOperator}
	costs   = vocabulary{CostCalculated, CostReported}
	states  = []string{StateHealthy, StateCooling, StateProbing, StateEjected, StateDisabled}
	quotas  = vocabulary{
		Other, QuotaRequests, QuotaTokens, QuotaInputTokens, QuotaOutputTokens, QuotaUnified5h, QuotaUnified7d,
	}
	tokenTypes      = []string{TokensUncached, TokensCached, TokensOutput}
	reloads         = vocabulary{Other, ReloadApplied, ReloadRejected}
	affinityKinds   = vocabulary{Other, AffinitySession, AffinityCache, AffinityResponse, AffinityNone}
	affinityResults = vocabulary{Other, ResultHit, ResultNew, ResultMoved, ResultExpired, ResultNone}
)

// close returns value if it is in the vocabulary, else what stands for the rest.
func (v vocabulary) close(value string) string {
	if slices.Contains(v, value) {
		return value
	}
	return v[0]
}

// closeClass is classes.close with nothing said as ClassNone.
func closeClass(class string) string {
	if class == "" {
		return ClassNone
	}
	return classes.close(class)
}

// closeType is errorTypes.close that lets HTTP statuses pass.
func closeType(errorType string) string {
	if len(errorType) == 3 {
		if status, err := strconv.Atoi(errorType); err == nil && status >= 100 && status <= 599 {
			return errorType
		}
	}
	return errorTypes.close(errorType)
}
