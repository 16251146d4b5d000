package telemetry

import (
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/metric"
)

// Bucket bounds. Short durations are those of the GenAI conventions, long ones go on to eleven minutes; tokens are theirs, too.
func shortSeconds() []float64 {
	return []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
}

func longSeconds() []float64 { return append(shortSeconds(), 163.84, 327.68, 655.36) }

func routerSeconds() []float64 {
	return []float64{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25}
}

func coolingSeconds() []float64 {
	return []float64{1, 5, 15, 30, 60, 300, 900, 1800, 3600, 18000, 86400, 604800}
}

func tokenCounts() []float64 {
	return []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}
}

// inferenceKeys are on every attempt-grained metric of the conventions; a failed attempt adds error.type.
func inferenceKeys(more ...string) []string {
	return append([]string{
		AttrOperation, AttrProvider, AttrRequestModel, AttrServerAddress, AttrServerPort, AttrUpstream, AttrModel,
	}, more...)
}

func instrumentTable() []InstrumentEntry {
	return slices.Concat(requestInstruments(), attemptInstruments(), upstreamInstruments(), affinityInstruments())
}

func requestInstruments() []InstrumentEntry {
	return []InstrumentEntry{
		{
			MetricRequests, kindCounter, unitRequest, "Client requests by how they ended.",
			[]string{AttrModel, AttrWire, AttrOutcome, AttrErrorClass},
			nil,
		},
		{
			MetricRequestDuration, kindHistogram, unitSeconds, "Time from a client's request to the last byte of its answer.",
			[]string{AttrModel, AttrWire, AttrOutcome},
			longSeconds(),
		},
		{
			MetricRequestFirstChunk, kindHistogram, unitSeconds, "Time that a client waited for the first output, failed attempts included.",
			[]string{AttrModel},
			shortSeconds(),
		},
		{
			MetricRequestAttempts, kindHistogram, unitAttempt, "Dispatches that a client request took.",
			[]string{AttrModel, AttrOutcome},
			[]float64{1, 2, 3, 4, 5, 8, 13},
		},
		{
			MetricRequestCost, kindCounter, unitDollar, "Cost of requests, all of their attempts together, where prices are configured.",
			[]string{AttrKey, AttrClientType, AttrModel},
			nil,
		},
		{
			MetricRequestTokens, kindCounter, unitToken, "Tokens of requests, all of their attempts together; each token is of one type.",
			[]string{AttrKey, AttrClientType, AttrTokenType},
			nil,
		},
		{
			MetricOverhead, kindHistogram, unitSeconds, "Time spent in the router itself, waits for upstream and client taken off.",
			[]string{AttrWire},
			routerSeconds(),
		},
		{
			MetricWait, kindHistogram, unitSeconds, "Time that a request was held back by the router.",
			[]string{AttrModel, AttrReason},
			shortSeconds(),
		},
	}
}

func attemptInstruments() []InstrumentEntry {
	failed, counted := inferenceKeys(AttrErrorType), inferenceKeys(AttrErrorType, AttrModality)
	return []InstrumentEntry{
		{
			MetricAttempts, kindCounter, unitAttempt, "Dispatches to an upstream by how they ended.",
			[]string{AttrModel, AttrUpstream, AttrProvider, AttrAttemptReason, AttrErrorClass},
			nil,
		},
		{
			MetricFailovers, kindCounter, "{failover}", "Moves to another target, by the upstream that was left.",
			[]string{AttrModel, AttrUpstream, AttrErrorClass},
			nil,
		},
		{
			MetricTranslationDrops, kindCounter, "{field}", "Members of requests that the upstream's wire has no place for.",
			[]string{AttrModel, AttrUpstream},
			nil,
		},
		{
			MetricCost, kindCounter, unitDollar, "Cost of dispatches, where prices are configured.",
			[]string{AttrUpstream, AttrModel, AttrSource},
			nil,
		},
		{
			MetricSavings, kindCounter, unitDollar, "What cached input would have cost more at the price of uncached input.",
			[]string{AttrUpstream, AttrModel},
			nil,
		},
		{
			MetricOffPeak, kindCounter, unitDollar, "What dispatches would have cost more outside of cheap hours, where prices have such hours.",
			[]string{AttrUpstream, AttrModel},
			nil,
		},
		{MetricDuration, kindHistogram, unitSeconds, "Time from a dispatch to the last byte of its answer.", failed, longSeconds()},
		{MetricFirstChunk, kindHistogram, unitSeconds, "Time from a dispatch to the first chunk of a stream.", failed, shortSeconds()},
		{MetricChunk, kindHistogram, unitSeconds, "Time between two chunks of a stream.", inferenceKeys(), shortSeconds()},
		{MetricUsageInput, kindCounter, unitToken, "Input tokens used, cached ones included.", counted, nil},
		{MetricUsageOutput, kindCounter, unitToken, "Output tokens used, reasoning included.", counted, nil},
		{MetricUsageCacheRead, kindCounter, unitToken, "Input tokens served from a provider's cache.", counted, nil},
		{MetricUsageCacheWrite, kindCounter, unitToken, "Input tokens written to a provider's cache.", counted, nil},
		{MetricUsageReasoning, kindCounter, unitToken, "Output tokens used for reasoning.", counted, nil},
		{MetricOperationInput, kindHistogram, unitToken, "Input tokens of one dispatch; for percentiles only.", failed, tokenCounts()},
		{MetricOperationOutput, kindHistogram, unitToken, "Output tokens of one dispatch; for percentiles only.", failed, tokenCounts()},
	}
}

func upstreamInstruments() []InstrumentEntry {
	return []InstrumentEntry{
		{
			MetricTargetState, kindObservableUpDown, unitTarget, "State of a target: 1 for the one it is in, 0 for the others.",
			[]string{AttrUpstream, AttrRequestModel, AttrState},
			nil,
		},
		{
			MetricCoolingRemaining, kindObservableGauge, unitSeconds, "Time until a cooling ends: 0 without one, -1 until someone lifts it.",
			[]string{AttrUpstream, AttrRequestModel, AttrScope},
			nil,
		},
		{
			MetricCoolings, kindCounter, "{cooling}", "Coolings that began or were prolonged.",
			[]string{AttrUpstream, AttrScope, AttrReason, AttrSource},
			nil,
		},
		{
			MetricCoolingDuration, kindHistogram, unitSeconds, "Length of coolings as they begin.",
			[]string{AttrUpstream, AttrReason},
			coolingSeconds(),
		},
		{MetricActive, kindUpDownCounter, unitRequest, "Dispatches in flight.", []string{AttrUpstream}, nil},
		{
			MetricQuota, kindObservableGauge, "1", "Share of a quota that is used up, as the provider's headers say.",
			[]string{AttrUpstream, AttrKind},
			nil,
		},
		{MetricReloads, kindCounter, "{reload}", "Reloads of the configuration.", []string{AttrResult}, nil},
	}
}

func affinityInstruments() []InstrumentEntry {
	return []InstrumentEntry{
		{
			MetricAffinityDecisions, kindCounter, unitDecision, "Requests by the affinity that decided on them, and what came of it.",
			[]string{AttrModel, AttrKind, AttrResult},
			nil,
		},
		{MetricAffinityEntries, kindObservableUpDown, unitEntry, "Entries that affinity holds.", []string{AttrKind}, nil},
	}
}

// instruments holds one field per row of the table.
type instruments struct {
	requests, attempts, failovers, coolings, reloads         metric.Int64Counter
	translationDrops, requestTokens                          metric.Int64Counter
	usageInput, usageOutput, usageCacheRead, usageCacheWrite metric.Int64Counter
	usageReasoning, affinityDecisions                        metric.Int64Counter
	cost, savings, offPeak, requestCost                      metric.Float64Counter
	requestDuration, requestFirst, overhead, wait            metric.Float64Histogram
	duration, first, chunk, coolingDuration                  metric.Float64Histogram
	requestAttempts, operationInput, operationOutput         metric.Int64Histogram
	active                                                   metric.Int64UpDownCounter
	targetState, affinityEntries                             metric.Int64ObservableUpDownCounter
	coolingRemaining, quota                                  metric.Float64ObservableGauge
}

// maker creates instruments from the rows of the table and keeps what went wrong.
type maker struct {
	meter metric.Meter
	table ContractTable
	err   error
}

// entry finds the row; that its kind is right is what the contract test proves.
func (m *maker) entry(name string) InstrumentEntry {
	e, ok := m.table.Instrument(name)
	if !ok {
		m.err = errors.Join(m.err, fmt.Errorf("telemetry: no contract for %s", name))
	}
	return e
}

func (m *maker) counter(name string) metric.Int64Counter {
	e := m.entry(name)
	c, err := m.meter.Int64Counter(name, metric.WithUnit(e.Unit), metric.WithDescription(e.Help))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) dollars(name string) metric.Float64Counter {
	e := m.entry(name)
	c, err := m.meter.Float64Counter(name, metric.WithUnit(e.Unit), metric.WithDescription(e.Help))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) seconds(name string) metric.Float64Histogram {
	e := m.entry(name)
	h, err := m.meter.Float64Histogram(name, metric.WithUnit(e.Unit), metric.WithDescription(e.Help),
		metric.WithExplicitBucketBoundaries(e.Buckets...))
	m.err = errors.Join(m.err, err)
	return h
}

func (m *maker) numbers(name string) metric.Int64Histogram {
	e := m.entry(name)
	h, err := m.meter.Int64Histogram(name, metric.WithUnit(e.Unit), metric.WithDescription(e.Help),
		metric.WithExplicitBucketBoundaries(e.Buckets...))
	m.err = errors.Join(m.err, err)
	return h
}

func (m *maker) gauge(name string) metric.Float64ObservableGauge {
	e := m.entry(name)
	g, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(e.Unit), metric.WithDescription(e.Help))
	m.err = errors.Join(m.err, err)
	return g
}

func (m *maker) upDown(name string) metric.Int64UpDownCounter {
	e := m.entry(name)
	c, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(e.Unit), metric.WithDescription(e.Help))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) observableUpDown(name string) metric.Int64ObservableUpDownCounter {
	e := m.entry(name)
	c, err := m.meter.Int64ObservableUpDownCounter(name, metric.WithUnit(e.Unit), metric.WithDescription(e.Help))
	m.err = errors.Join(m.err, err)
	return c
}

func (m *maker) all() instruments {
	return instruments{
		requests: m.counter(MetricRequests), attempts: m.counter(MetricAttempts), failovers: m.counter(MetricFailovers),
		coolings: m.counter(MetricCoolings), reloads: m.counter(MetricReloads),
		translationDrops: m.counter(MetricTranslationDrops), requestTokens: m.counter(MetricRequestTokens),
		cost: m.dollars(MetricCost), savings: m.dollars(MetricSavings), offPeak: m.dollars(MetricOffPeak),
		requestCost: m.dollars(MetricRequestCost),
		usageInput:  m.counter(MetricUsageInput), usageOutput: m.counter(MetricUsageOutput),
		usageCacheRead: m.counter(MetricUsageCacheRead), usageCacheWrite: m.counter(MetricUsageCacheWrite),
		usageReasoning: m.counter(MetricUsageReasoning), affinityDecisions: m.counter(MetricAffinityDecisions),
		requestDuration: m.seconds(MetricRequestDuration), requestFirst: m.seconds(MetricRequestFirstChunk),
		overhead: m.seconds(MetricOverhead), wait: m.seconds(MetricWait),
		duration: m.seconds(MetricDuration), first: m.seconds(MetricFirstChunk), chunk: m.seconds(MetricChunk),
		coolingDuration: m.seconds(MetricCoolingDuration),
		requestAttempts: m.numbers(MetricRequestAttempts), operationInput: m.numbers(MetricOperationInput),
		operationOutput: m.numbers(MetricOperationOutput),
		active:          m.upDown(MetricActive),
		targetState:     m.observableUpDown(MetricTargetState), affinityEntries: m.observableUpDown(MetricAffinityEntries),
		coolingRemaining: m.gauge(MetricCoolingRemaining), quota: m.gauge(MetricQuota),
	}
}
