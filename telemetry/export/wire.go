package export

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of OTLP 1.11, trace.proto, common.proto and resource.proto; those of logs.proto are beside what writes them.
const (
	spanTraceID, spanID, spanState, spanParent, spanName, spanKind, spanStart, spanEnd       = 1, 2, 3, 4, 5, 6, 7, 8
	spanAttributes, spanAttributesLost, spanEvents, spanEventsLost, spanLinks, spanLinksLost = 9, 10, 11, 12, 13, 14
	spanStatus, spanFlags                                                                    = 15, 16

	eventTime, eventName, eventAttributes, eventAttributesLost = 1, 2, 3, 4

	linkTraceID, linkSpanID, linkAttributes, linkAttributesLost, linkFlags = 1, 2, 4, 5, 6

	statusMessage, statusCode = 2, 3

	pairKey, pairValue = 1, 2

	valueString, valueBool, valueInt, valueDouble, valueArray, valueMap, valueBytes = 1, 2, 3, 4, 5, 6, 7

	listItem                            = 1
	resourceAttributes, scopeAttributes = 1, 3
	scopeName, scopeVersion             = 1, 2
)

// appendSpan adds the fields of an OTLP span to b, straight from what the SDK holds: messages made of objects first would
// cost a hundred allocations a request.
func appendSpan(b []byte, s sdktrace.ReadOnlySpan) []byte {
	sc, parent := s.SpanContext(), s.Parent()
	tid, sid := sc.TraceID(), sc.SpanID()
	b = appendBytes(b, spanTraceID, tid[:])
	b = appendBytes(b, spanID, sid[:])
	if sc.TraceState().Len() > 0 {
		b = appendText(b, spanState, sc.TraceState().String())
	}
	if id := parent.SpanID(); id.IsValid() {
		b = appendBytes(b, spanParent, id[:])
	}
	b = appendText(b, spanName, s.Name())
	b = appendNumber(b, spanKind, uint64(kindNumber(s.SpanKind())))
	b = appendTime(b, spanStart, s.StartTime())
	b = appendTime(b, spanEnd, s.EndTime())
	b = appendPairs(b, spanAttributes, s.Attributes())
	b = appendCount(b, spanAttributesLost, s.DroppedAttributes())
	for _, e := range s.Events() {
		b = appendEvent(b, e)
	}
	b = appendCount(b, spanEventsLost, s.DroppedEvents())
	for _, l := range s.Links() {
		b = appendLink(b, l)
	}
	b = appendCount(b, spanLinksLost, s.DroppedLinks())
	b = appendStatus(b, s.Status())
	return appendFlags(b, spanFlags, sc.TraceFlags(), parent)
}

func appendEvent(b []byte, e sdktrace.Event) []byte {
	b, at := open(b, spanEvents)
	b = appendTime(b, eventTime, e.Time)
	b = appendText(b, eventName, e.Name)
	b = appendPairs(b, eventAttributes, e.Attributes)
	return shut(appendCount(b, eventAttributesLost, e.DroppedAttributeCount), at)
}

func appendLink(b []byte, l sdktrace.Link) []byte {
	tid, sid := l.SpanContext.TraceID(), l.SpanContext.SpanID()
	b, at := open(b, spanLinks)
	b = appendBytes(b, linkTraceID, tid[:])
	b = appendBytes(b, linkSpanID, sid[:])
	b = appendPairs(b, linkAttributes, l.Attributes)
	b = appendCount(b, linkAttributesLost, l.DroppedAttributeCount)
	return shut(appendFlags(b, linkFlags, l.SpanContext.TraceFlags(), l.SpanContext), at)
}

func appendStatus(b []byte, s sdktrace.Status) []byte {
	b, at := open(b, spanStatus)
	if s.Description != "" {
		b = appendText(b, statusMessage, s.Description)
	}
	switch s.Code {
	case codes.Ok:
		b = appendNumber(b, statusCode, uint64(tracepb.Status_STATUS_CODE_OK))
	case codes.Error:
		b = appendNumber(b, statusCode, uint64(tracepb.Status_STATUS_CODE_ERROR))
	default:
	}
	return shut(b, at)
}

func kindNumber(k trace.SpanKind) tracepb.Span_SpanKind {
	switch k {
	case trace.SpanKindInternal:
		return tracepb.Span_SPAN_KIND_INTERNAL
	case trace.SpanKindServer:
		return tracepb.Span_SPAN_KIND_SERVER
	case trace.SpanKindClient:
		return tracepb.Span_SPAN_KIND_CLIENT
	case trace.SpanKindProducer:
		return tracepb.Span_SPAN_KIND_PRODUCER
	case trace.SpanKindConsumer:
		return tracepb.Span_SPAN_KIND_CONSUMER
	default:
		return tracepb.Span_SPAN_KIND_UNSPECIFIED
	}
}

// appendFlags tells beside the flags of W3C whether the other span was in another process.
func appendFlags(b []byte, field protowire.Number, f trace.TraceFlags, other trace.SpanContext) []byte {
	flags := uint32(f) | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)
	if other.IsRemote() {
		flags |= uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, field, protowire.Fixed32Type), flags)
}

func appendPairs(b []byte, field protowire.Number, attrs []attribute.KeyValue) []byte {
	for i := range attrs {
		b = appendPair(b, field, &attrs[i])
	}
	return b
}

func appendPair(b []byte, field protowire.Number, a *attribute.KeyValue) []byte {
	b, pair := open(b, field)
	b = appendText(b, pairKey, string(a.Key))
	b, value := open(b, pairValue)
	return shut(shut(appendValue(b, a.Value), value), pair)
}

func appendValue(b []byte, v attribute.Value) []byte {
	switch v.Type() {
	case attribute.STRING:
		return appendText(b, valueString, v.AsString())
	case attribute.BOOL:
		return appendNumber(b, valueBool, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		return appendNumber(b, valueInt, uint64(v.AsInt64())) //nolint:gosec // two's complement is what the wire has
	case attribute.FLOAT64:
		return protowire.AppendFixed64(protowire.AppendTag(b, valueDouble, protowire.Fixed64Type), math.Float64bits(v.AsFloat64()))
	case attribute.BYTESLICE:
		return appendBytes(b, valueBytes, v.AsByteSlice())
	case attribute.MAP:
		b, at := open(b, valueMap)
		return shut(appendPairs(b, listItem, v.AsMap()), at)
	case attribute.SLICE:
		return appendList(b, v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	case attribute.STRINGSLICE:
		return appendList(b, v.AsStringSlice(), attribute.StringValue)
	case attribute.BOOLSLICE:
		return appendList(b, v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		return appendList(b, v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		return appendList(b, v.AsFloat64Slice(), attribute.Float64Value)
	default:
		return b
	}
}

func appendList[T any](b []byte, items []T, value func(T) attribute.Value) []byte {
	b, list := open(b, valueArray)
	for _, item := range items {
		var at int
		b, at = open(b, listItem)
		b = shut(appendValue(b, value(item)), at)
	}
	return shut(b, list)
}

// open begins a message within another one: it leaves one byte for its length, and shut puts it there.
func open(b []byte, field protowire.Number) (_ []byte, at int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

// shut moves the message when its length takes more than the one byte.
func shut(b []byte, at int) []byte {
	n := len(b) - at
	if n < 1<<7 {
		b[at-1] = byte(n)
		return b
	}
	var room [9]byte
	more := protowire.SizeVarint(uint64(n)) - 1 //nolint:gosec // no length is negative
	b = append(b, room[:more]...)
	copy(b[at+more:], b[at:])
	protowire.AppendVarint(b[:at-1], uint64(n)) //nolint:gosec // no length is negative
	return b
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendCount(b []byte, field protowire.Number, n int) []byte {
	if n <= 0 {
		return b
	}
	return appendNumber(b, field, min(uint64(n), math.MaxUint32))
}

func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(max(0, t.UnixNano()))) //nolint:gosec // it is not negative
}

func appendBytes(b []byte, field protowire.Number, p []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), p)
}

// appendText repairs what is no UTF-8: one bad string, which a client may send, would make a receiver refuse the whole batch.
func appendText(b []byte, field protowire.Number, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}
