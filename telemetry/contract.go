package telemetry

import (
	"slices"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// ContractTable is the list of everything that may be reported. Instruments are created from it, and a golden file pins it.
type ContractTable struct {
	Version     string
	Spans       []SpanEntry
	Events      []EventEntry
	Records     []EventEntry // log records that mirror no event
	Instruments []InstrumentEntry
}

// SpanEntry is one kind of span.
type SpanEntry struct {
	Words      []string // what the name begins with; none: an HTTP span, any method
	Variable   string   // what follows after a blank, empty: nothing
	Kind       trace.SpanKind
	Attributes []string // keys that may be on it
	Events     []string // names of events that may be on it
}

// EventEntry is one event, on the span and as a log record.
type EventEntry struct {
	Name       string
	Attributes []string // keys that may be on it; one that ends with a dot stands for all that begin so
}

// InstrumentEntry is one instrument.
type InstrumentEntry struct {
	Name       string
	Kind       string // counter, updowncounter, histogram, gauge; observable ones with that word before it
	Unit       string
	Help       string
	Attributes []string  // keys that may be on it
	Buckets    []float64 // upper bounds of a histogram
}

// Kinds of instrument.
const (
	kindCounter             = "counter"
	kindUpDownCounter       = "updowncounter"
	kindHistogram           = "histogram"
	kindObservableUpDown    = "observable updowncounter"
	kindObservableGauge     = "observable gauge"
	unitSeconds             = "s"
	unitToken               = "{token}"
	unitAttempt             = "{attempt}"
	unitRequest, unitTarget = "{request}", "{target}"
	unitDecision, unitEntry = "{decision}", "{entry}"
	unitDollar              = "{USD}"
)

// Contract returns the table. The caller may change its copy.
func Contract() ContractTable {
	return ContractTable{Version: ContractVersion, Spans: spanTable(), Events: eventTable(), Records: recordTable(), Instruments: instrumentTable()}
}

// Span finds the entry that a span of this kind and name belongs to.
func (c ContractTable) Span(kind trace.SpanKind, name string) (SpanEntry, bool) {
	word, _, _ := strings.Cut(name, " ")
	match := func(wanted func(SpanEntry) bool) int {
		return slices.IndexFunc(c.Spans, func(s SpanEntry) bool { return s.Kind == kind && wanted(s) })
	}
	i := match(func(s SpanEntry) bool { return slices.Contains(s.Words, word) })
	if i < 0 && strings.ToUpper(word) == word {
		i = match(func(s SpanEntry) bool { return s.Words == nil })
	}
	if i < 0 {
		return SpanEntry{}, false
	}
	return c.Spans[i], true
}

// Event finds the entry of an event.
func (c ContractTable) Event(name string) (EventEntry, bool) { return entryNamed(c.Events, name) }

// Record finds the entry of a log record that mirrors no event.
func (c ContractTable) Record(name string) (EventEntry, bool) { return entryNamed(c.Records, name) }

func entryNamed(list []EventEntry, name string) (EventEntry, bool) {
	i := slices.IndexFunc(list, func(e EventEntry) bool { return e.Name == name })
	if i < 0 {
		return EventEntry{}, false
	}
	return list[i], true
}

// Has tells whether an attribute may be on it.
func (e EventEntry) Has(key string) bool {
	return slices.ContainsFunc(e.Attributes, func(a string) bool {
		return a == key || strings.HasSuffix(a, ".") && strings.HasPrefix(key, a)
	})
}

// Instrument finds the entry of a metric.
func (c ContractTable) Instrument(name string) (InstrumentEntry, bool) {
	i := slices.IndexFunc(c.Instruments, func(e InstrumentEntry) bool { return e.Name == name })
	if i < 0 {
		return InstrumentEntry{}, false
	}
	return c.Instruments[i], true
}

func spanTable() []SpanEntry {
	http := []string{
		AttrHTTPMethod, AttrHTTPMethodRaw, AttrHTTPStatus, AttrServerAddress, AttrServerPort, AttrProtocolName,
		AttrProtocolVersion, AttrErrorType,
	}
	return []SpanEntry{
		{Variable: "{http.route}", Kind: trace.SpanKindServer, Attributes: append(slices.Clone(http),
			AttrHTTPRoute, AttrURLScheme, AttrURLPath, AttrUserAgent, AttrClientAddress, AttrPeerAddress, AttrPeerPort,
			AttrHTTPRequestBytes, AttrHTTPResponseBytes)},
		{Words: []string{SpanRoute}, Variable: "{signalbox.model}", Kind: trace.SpanKindInternal, Attributes: []string{
			AttrModel, AttrWire, AttrClientModel, AttrClientType, AttrKey, AttrCall, AttrStream, AttrDecision, AttrStrategy,
			AttrEligible, AttrCooling, AttrAttempts, AttrOutcome, AttrUpstream, AttrSessionSource, AttrSessionHash,
			AttrConversation, AttrAgent, AttrFirstChunk, AttrOverhead, AttrErrorClass, AttrErrorType,
		}, Events: []string{EventSkipped, EventFailover, EventCooling, EventMoved, EventFirstChunk}},
		{Words: []string{SpanWait}, Variable: "{reason}", Kind: trace.SpanKindInternal, Attributes: []string{AttrReason}},
		{
			Words: []string{OperationChat, OperationGenerateContent, OperationCountTokens}, Variable: "{gen_ai.request.model}",
			Kind: trace.SpanKindClient, Attributes: []string{
				AttrOperation, AttrProvider, AttrRequestModel, AttrStream, AttrChoices, AttrSeed, AttrTopK, AttrTopP,
				AttrTemperature, AttrMaxTokens, AttrFrequencyPenalty, AttrPresencePenalty, AttrStopSequences, AttrReasoningLevel,
				AttrPreviousResponse, AttrOutputType, AttrResponseID, AttrResponseModel, AttrFinishReasons, AttrResponseFirst,
				AttrUsageInput, AttrUsageOutput, AttrUsageCacheRead, AttrUsageCacheWrite, AttrUsageReasoning,
				AttrUsageCacheWrite5, AttrUsageCacheWriteH, AttrUsagePartial, AttrUsageMissing, AttrServerAddress, AttrServerPort,
				AttrHTTPStatus, AttrUpstream, AttrModel, AttrAttemptNumber, AttrAttemptReason, AttrAttemptOutcome, AttrTranslated,
				AttrRetryAfter, AttrProviderRequest, AttrProviderError, AttrCost, AttrErrorClass, AttrErrorType,
			}, Events: []string{EventTranslated},
		},
		{Variable: "{http.route}", Kind: trace.SpanKindClient, Attributes: append(slices.Clone(http), AttrURLFull, AttrHTTPResend)},
		{Words: []string{SpanProbe}, Variable: "{signalbox.upstream}", Kind: trace.SpanKindClient, Attributes: []string{
			AttrUpstream, AttrServerAddress, AttrServerPort, AttrHTTPStatus, AttrErrorClass, AttrErrorType,
		}},
		{Words: []string{SpanReload}, Kind: trace.SpanKindInternal, Attributes: []string{AttrResult, AttrErrorType}},
	}
}

// eventTable gives a target's own model beside the configured one, since one model may have two targets on an upstream.
func eventTable() []EventEntry {
	return []EventEntry{
		{EventSkipped, []string{AttrUpstream, AttrModel, AttrRequestModel, AttrReason}},
		{EventFailover, []string{AttrFrom, AttrTo, AttrErrorClass}},
		{EventCooling, []string{AttrScope, AttrUpstream, AttrModel, AttrRequestModel, AttrReason, AttrDuration, AttrSource}},
		{EventMoved, []string{AttrFrom, AttrTo, AttrReason}},
		{EventTranslated, []string{AttrTranslated, AttrDropped, AttrChanged}},
		{EventFirstChunk, nil},
	}
}

func recordTable() []EventEntry {
	both := []string{AttrCall, AttrAttemptNumber, AttrUpstream, AttrModel, AttrWire, AttrTruncated}
	return []EventEntry{
		{RecordRequest, append(slices.Clone(both), AttrHTTPRequestBytes, PrefixRequestHeader)},
		{RecordResponse, append(slices.Clone(both), AttrHTTPResponseBytes, PrefixResponseHeader, AttrHTTPStatus, AttrAttemptOutcome)},
	}
}
