package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// spans are those of one trace.
type spans []sdktrace.ReadOnlySpan

// spanBox is an exporter that keeps spans until they are taken out.
type spanBox struct {
	mu   sync.Mutex
	kept spans
}

// ExportSpans keeps spans.
func (b *spanBox) ExportSpans(_ context.Context, more []sdktrace.ReadOnlySpan) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, more...)
	return nil
}

// Shutdown does nothing.
func (b *spanBox) Shutdown(context.Context) error { return nil }

// traces takes out the traces of the requests that are over, in the order in which they ended.
func (b *spanBox) traces() (over []spans) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, root := range b.kept {
		if root.SpanKind() != trace.SpanKindServer {
			continue
		}
		var t spans
		for _, s := range b.kept {
			if s.SpanContext().TraceID() == root.SpanContext().TraceID() {
				t = append(t, s)
			}
		}
		over = append(over, t)
	}
	for _, t := range over {
		b.kept = slices.DeleteFunc(b.kept, func(s sdktrace.ReadOnlySpan) bool { return slices.Contains(t, s) })
	}
	return over
}

// route is the span of the router's decision, nil if there is none.
func (t spans) route() sdktrace.ReadOnlySpan {
	for _, s := range t {
		if attr(s, telemetry.AttrOutcome) != "" {
			return s
		}
	}
	return nil
}

// attempts are the tries at accounts, in order.
func (t spans) attempts() (all spans) {
	for _, s := range t {
		if attr(s, telemetry.AttrAttemptNumber) != "" {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Compare(attr(a, telemetry.AttrAttemptNumber), attr(b, telemetry.AttrAttemptNumber))
	})
	return all
}

// attr is the text of an attribute, "" if the span does not have it.
func attr(s sdktrace.ReadOnlySpan, key string) string { return find(s.Attributes(), key) }

func find(attrs []attribute.KeyValue, key string) string {
	for _, a := range attrs {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

func hasEvent(s sdktrace.ReadOnlySpan, name string) bool {
	return slices.ContainsFunc(s.Events(), func(e sdktrace.Event) bool { return e.Name == name })
}

// tree draws a trace: each span below its parent, and among them the events, in the order of time.
func (p painter) tree(t spans) {
	var rows [][]cell
	for _, s := range t {
		if s.SpanKind() == trace.SpanKindServer {
			rows = append(rows, spanRow("", s))
			rows = append(rows, t.below(s, "")...)
		}
	}
	p.table(rows)
}

// below draws what is below a span. Indent stands before all of its lines.
func (t spans) below(parent sdktrace.ReadOnlySpan, indent string) (rows [][]cell) {
	type node struct {
		at    time.Time
		span  sdktrace.ReadOnlySpan // nil: an event
		event sdktrace.Event
	}
	var nodes []node
	for _, s := range t {
		if s.Parent().SpanID() == parent.SpanContext().SpanID() {
			nodes = append(nodes, node{at: s.StartTime(), span: s})
		}
	}
	for _, e := range parent.Events() {
		nodes = append(nodes, node{at: e.Time, event: e})
	}
	slices.SortStableFunc(nodes, func(a, b node) int { return a.at.Compare(b.at) })
	for i, n := range nodes {
		branch, deeper := "├ ", "│ "
		if i == len(nodes)-1 {
			branch, deeper = "└ ", "  "
		}
		if n.span == nil {
			rows = append(rows, eventRow(indent+branch, n.event))
			continue
		}
		rows = append(rows, spanRow(indent+branch, n.span))
		rows = append(rows, t.below(n.span, indent+deeper)...)
	}
	return rows
}

// spanRow is the line of a span: its name, the account, what came of it, how long it took, and the tokens.
func spanRow(indent string, s sdktrace.ReadOnlySpan) []cell {
	what := strings.Join(filled(
		attr(s, telemetry.AttrHTTPStatus), attr(s, telemetry.AttrOutcome), attr(s, telemetry.AttrAttemptOutcome), attr(s, telemetry.AttrErrorClass),
	), " ")
	if what == "" {
		what = attr(s, telemetry.AttrErrorType)
	}
	c := plain
	switch {
	case s.Status().Code == codes.Error:
		c = red
	case attr(s, telemetry.AttrAttemptOutcome) == telemetry.AttemptServed:
		c = green
	}
	return []cell{
		{text: indent + s.Name(), colour: c},
		{text: attr(s, telemetry.AttrUpstream), colour: c},
		{text: what, colour: c},
		{text: duration(s.EndTime().Sub(s.StartTime())), right: true},
		{text: tokens(s), colour: dim},
	}
}

// tokens are what an attempt used, as far as it was reported.
func tokens(s sdktrace.ReadOnlySpan) string {
	var parts []string
	for _, p := range []struct{ key, format string }{
		{telemetry.AttrUsageInput, "%s in"}, {telemetry.AttrUsageCacheRead, "(%s cached)"}, {telemetry.AttrUsageOutput, "%s out"},
	} {
		if n := attr(s, p.key); n != "" && n != "0" {
			parts = append(parts, fmt.Sprintf(p.format, n))
		}
	}
	return strings.Join(parts, " ")
}

// eventRow is the line of an event: what it is about stands where spans have the account.
func eventRow(indent string, e sdktrace.Event) []cell {
	at := find(e.Attributes, telemetry.AttrUpstream)
	if from := find(e.Attributes, telemetry.AttrFrom); from != "" {
		at = from + " > " + find(e.Attributes, telemetry.AttrTo)
	}
	known := map[string]string{}
	for _, a := range e.Attributes {
		switch key := string(a.Key); key {
		case telemetry.AttrUpstream, telemetry.AttrFrom, telemetry.AttrTo, telemetry.AttrModel, telemetry.AttrRequestModel:
		case telemetry.AttrDuration:
			known[key] = fmt.Sprintf("for %s", duration(time.Duration(a.Value.AsFloat64()*float64(time.Second))))
		default:
			known[key] = a.Value.String()
		}
	}
	var said []string
	for _, key := range slices.Sorted(maps.Keys(known)) {
		said = append(said, known[key])
	}
	return []cell{{text: indent + "* " + e.Name, colour: yellow}, {text: at, colour: yellow}, {text: strings.Join(said, ", "), colour: yellow}}
}

// filled are the words that are not empty.
func filled(words ...string) []string {
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}
