package telemetry

// Scope is the name of the instrumentation scope of all that this package reports.
const Scope = "github.com/signalbox-llm/signalbox"

// ContractVersion is the value of ContractKey on the resource. A change that breaks dashboards or alerts raises it.
const (
	ContractKey     = "signalbox.telemetry.contract"
	ContractVersion = "1"
)

// Span names, or what they begin with: a blank and a variable part follow where the comment shows one. An attempt's name
// begins with its operation.
const (
	SpanRoute  = "route"         // route {model}, plain route before the model is known
	SpanWait   = "wait"          // wait {reason}
	SpanProbe  = "probe"         // probe {upstream}
	SpanReload = "config.reload" // alone
)

// Operations: values of AttrOperation, and what the names of attempt spans begin with.
const (
	OperationChat            = "chat"
	OperationGenerateContent = "generate_content"
	OperationCountTokens     = "count_tokens"
)

// Events on the route span, mirrored as log records.
const (
	EventSkipped    = "signalbox.target.skipped"
	EventFailover   = "signalbox.failover"
	EventCooling    = "signalbox.cooling.started"
	EventMoved      = "signalbox.affinity.moved"
	EventTranslated = "signalbox.translated"
	EventFirstChunk = "signalbox.first_chunk"
)

// Log records that mirror no event: what was sent and what came back, only where the configuration asks for it.
const (
	RecordRequest  = "signalbox.capture.request"
	RecordResponse = "signalbox.capture.response"
)

// Attributes of Signalbox's own. Those of spans, metrics and events that mean the same share a key.
const (
	AttrModel            = "signalbox.model"               // configured id or glob, else Unnamed
	AttrWire             = "signalbox.wire"                // dialect of the client
	AttrClientModel      = "signalbox.client.model"        // as the client wrote it, at most 256 bytes
	AttrClientType       = "signalbox.client.type"         // kind of agent or SDK: a client rule of the configuration, else one of ClientType
	AttrKey              = "signalbox.key"                 // name of the auth key, never the key
	AttrCall             = "signalbox.call"                // call id
	AttrDecision         = "signalbox.decision"            // why the first target tried was chosen
	AttrStrategy         = "signalbox.strategy"            // name of the strategy
	AttrEligible         = "signalbox.targets.eligible"    // number of targets
	AttrCooling          = "signalbox.targets.cooling"     // number of targets
	AttrAttempts         = "signalbox.attempts"            // number of dispatches
	AttrOutcome          = "signalbox.outcome"             // what the client saw
	AttrUpstream         = "signalbox.upstream"            // account; on route the one that served
	AttrSessionSource    = "signalbox.session.source"      // header or field that gave the key
	AttrSessionHash      = "signalbox.session.hash"        // 8 hex digits, spans only
	AttrAgent            = "signalbox.agent.id"            // sub-agent
	AttrFirstChunk       = "signalbox.time_to_first_chunk" // seconds that the client waited
	AttrOverhead         = "signalbox.overhead"            // seconds spent in the router itself
	AttrErrorClass       = "signalbox.error.class"         // closed vocabulary
	AttrAttemptNumber    = "signalbox.attempt.number"      // from 1
	AttrAttemptReason    = "signalbox.attempt.reason"      // why this target was tried
	AttrAttemptOutcome   = "signalbox.attempt.outcome"     // what came of it
	AttrTranslated       = "signalbox.translated"          // from>to
	AttrDropped          = "signalbox.translated.dropped"  // names of what the request had and the upstream's wire has no place for
	AttrChanged          = "signalbox.translated.changed"  // names of what was carried over, but not as it was
	AttrRetryAfter       = "signalbox.retry_after"         // seconds
	AttrProviderRequest  = "signalbox.provider.request_id" // the provider's own id
	AttrProviderError    = "signalbox.provider.error_code" // at most 64 bytes
	AttrUsagePartial     = "signalbox.usage.partial"       // the stream was cut short
	AttrUsageMissing     = "signalbox.usage.missing"       // nothing was reported
	AttrUsageCacheWrite5 = "signalbox.usage.cache_write_5m.input_tokens"
	AttrUsageCacheWriteH = "signalbox.usage.cache_write_1h.input_tokens"
	AttrReason           = "signalbox.reason"            // of a skip, a wait, a cooling or a move
	AttrScope            = "signalbox.scope"             // what cools
	AttrSource           = "signalbox.source"            // who said how long
	AttrDuration         = "signalbox.duration"          // seconds
	AttrFrom             = "signalbox.from"              // upstream that was left
	AttrTo               = "signalbox.to"                // upstream that is next
	AttrState            = "signalbox.state"             // of a target
	AttrKind             = "signalbox.kind"              // of a quota or an affinity
	AttrResult           = "signalbox.result"            // of a reload or a decision on affinity
	AttrCost             = "signalbox.cost.usd"          // of an attempt, only with prices
	AttrTokenType        = "signalbox.token.type"        // what a count of tokens is about
	AttrTruncated        = "signalbox.capture.truncated" // the body was longer than what is kept of it
)

// Attributes of the GenAI conventions 0.1.0, which no Go package holds.
const (
	AttrOperation         = "gen_ai.operation.name"
	AttrProvider          = "gen_ai.provider.name"
	AttrConversation      = "gen_ai.conversation.id"
	AttrRequestModel      = "gen_ai.request.model"
	AttrStream            = "gen_ai.request.stream"
	AttrChoices           = "gen_ai.request.choice.count"
	AttrSeed              = "gen_ai.request.seed"
	AttrTopK              = "gen_ai.request.top_k"
	AttrTopP              = "gen_ai.request.top_p"
	AttrTemperature       = "gen_ai.request.temperature"
	AttrMaxTokens         = "gen_ai.request.max_tokens"
	AttrFrequencyPenalty  = "gen_ai.request.frequency_penalty"
	AttrPresencePenalty   = "gen_ai.request.presence_penalty"
	AttrStopSequences     = "gen_ai.request.stop_sequences"
	AttrReasoningLevel    = "gen_ai.request.reasoning.level"
	AttrPreviousResponse  = "gen_ai.request.previous_response.id"
	AttrOutputType        = "gen_ai.output.type"
	AttrResponseID        = "gen_ai.response.id"
	AttrResponseModel     = "gen_ai.response.model"
	AttrFinishReasons     = "gen_ai.response.finish_reasons"
	AttrResponseFirst     = "gen_ai.response.time_to_first_chunk" // seconds
	AttrUsageInput        = "gen_ai.usage.input_tokens"           // cached tokens included
	AttrUsageOutput       = "gen_ai.usage.output_tokens"          // reasoning included
	AttrUsageCacheRead    = "gen_ai.usage.cache_read.input_tokens"
	AttrUsageCacheWrite   = "gen_ai.usage.cache_write.input_tokens"
	AttrUsageReasoning    = "gen_ai.usage.reasoning.output_tokens"
	AttrModality          = "gen_ai.token.modality"
	AttrErrorType         = "error.type"
	AttrServerAddress     = "server.address"
	AttrServerPort        = "server.port"
	AttrHTTPStatus        = "http.response.status_code"
	AttrHTTPResend        = "http.request.resend_count"
	AttrHTTPMethod        = "http.request.method"
	AttrHTTPMethodRaw     = "http.request.method_original"
	AttrHTTPRoute         = "http.route"
	AttrHTTPRequestBytes  = "http.request.body.size"
	AttrHTTPResponseBytes = "http.response.body.size"
	AttrURLFull           = "url.full"
	AttrURLPath           = "url.path"
	AttrURLScheme         = "url.scheme"
	AttrUserAgent         = "user_agent.original"
	AttrClientAddress     = "client.address"
	AttrPeerAddress       = "network.peer.address"
	AttrPeerPort          = "network.peer.port"
	AttrProtocolName      = "network.protocol.name"
	AttrProtocolVersion   = "network.protocol.version"

	// A header's name in lower case follows.
	PrefixRequestHeader  = "http.request.header."
	PrefixResponseHeader = "http.response.header."
)

// Metrics. Units, kinds, attributes and buckets stand in the table of contract.go.
const (
	MetricRequests          = "signalbox.requests"
	MetricRequestDuration   = "signalbox.request.duration"
	MetricRequestFirstChunk = "signalbox.request.time_to_first_chunk"
	MetricRequestAttempts   = "signalbox.request.attempts"
	MetricRequestCost       = "signalbox.request.cost"
	MetricRequestTokens     = "signalbox.request.tokens"
	MetricOverhead          = "signalbox.overhead"
	MetricWait              = "signalbox.wait"
	MetricAttempts          = "signalbox.attempts"
	MetricFailovers         = "signalbox.failovers"
	MetricDuration          = "gen_ai.client.inference.duration"
	MetricFirstChunk        = "gen_ai.client.inference.time_to_first_chunk"
	MetricChunk             = "gen_ai.client.inference.time_per_output_chunk"
	MetricUsageInput        = "gen_ai.client.inference.usage.input_tokens"
	MetricUsageOutput       = "gen_ai.client.inference.usage.output_tokens"
	MetricUsageCacheRead    = "gen_ai.client.inference.usage.cache_read.input_tokens"
	MetricUsageCacheWrite   = "gen_ai.client.inference.usage.cache_write.input_tokens"
	MetricUsageReasoning    = "gen_ai.client.inference.usage.reasoning.output_tokens"
	MetricOperationInput    = "gen_ai.client.inference.operation.input_tokens"
	MetricOperationOutput   = "gen_ai.client.inference.operation.output_tokens"
	MetricTargetState       = "signalbox.target.state"
	MetricCoolingRemaining  = "signalbox.cooling.remaining"
	MetricCoolings          = "signalbox.coolings"
	MetricCoolingDuration   = "signalbox.cooling.duration"
	MetricActive            = "signalbox.upstream.active"
	MetricQuota             = "signalbox.upstream.quota.utilization"
	MetricCost              = "signalbox.cost"
	MetricSavings           = "signalbox.cache.savings"
	MetricOffPeak           = "signalbox.off_peak.savings"
	MetricTranslationDrops  = "signalbox.translation.dropped"
	MetricAffinityDecisions = "signalbox.affinity.decisions"
	MetricAffinityEntries   = "signalbox.affinity.entries"
	MetricReloads           = "signalbox.config.reloads"
)
