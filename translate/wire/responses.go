package wire

import (
	"bytes"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// responsesEvent reads one event. Only those that carry the response itself or an error are looked into.
func responsesEvent(name, data []byte, f *Facts) Class {
	kind := responsesKind(name)
	if kind != odd {
		return responsesAs(kind, data, f)
	}
	// Some servers leave the event line out, others name every event "message".
	word := typeOf(data, f)
	if word == nil {
		return untyped(data, f)
	}
	if kind = responsesKind(word[1 : len(word)-1]); kind == odd {
		return Output
	}
	return responsesAs(kind, data, f)
}

// responseKind sorts the events of the dialect by what they need.
type responseKind uint8

const (
	odd   responseKind = iota // Not an event of the dialect.
	plain                     // Output, and nothing else in it.
	idle
	begins
	ends
	fails
	errs
	aside // Holds no output.
)

func responsesKind(name []byte) responseKind {
	switch string(name) {
	case "response.created", "response.in_progress", "response.queued":
		return begins
	case "response.completed", "response.incomplete", "response.cancelled":
		return ends
	case "response.failed":
		return fails
	case "error":
		return errs
	case "keepalive", "ping":
		return idle
	}
	switch {
	case bytes.HasPrefix(name, []byte("response.")):
		return plain
	case bytes.HasPrefix(name, []byte("codex.")): // Rate limits, told ahead of the answer.
		return aside
	}
	return odd
}

func responsesAs(kind responseKind, data []byte, f *Facts) Class {
	switch kind {
	case idle:
		return Nothing
	case aside:
		return Preamble
	case errs:
		return f.fail(errorEventOf(data))
	case begins:
		// These repeat the whole request, so they are read only until they have told who answers.
		if f.ID == "" || f.Model == "" {
			if o := f.object(top, data); o != nil {
				if r := f.object(middle, o.Value("response")); r != nil {
					f.identify(r.Value("id"), r.Value("model"))
				}
			}
		}
		return Preamble
	case ends, fails:
		return responsesEnd(kind, data, f)
	}
	return Output
}

// responsesEnd reads the event that closes a stream, which holds the whole response once more.
func responsesEnd(kind responseKind, data []byte, f *Facts) Class {
	f.Terminal = true
	var r *peek.Object
	if o := f.object(top, data); o != nil {
		r = f.object(middle, o.Value("response"))
	}
	if r != nil {
		f.response(r)
		if kind == fails || peek.Equal(r.Value("status"), "failed") {
			return f.fail(failureOf(r))
		}
	} else if kind == fails {
		return f.fail(errorEventOf(data))
	}
	return Terminal
}

// response reads a response object.
func (f *Facts) response(r *peek.Object) {
	f.identify(r.Value("id"), r.Value("model"))
	f.openai(r.Value("usage"))
	f.Output = f.Output || filled(r.Value("output")) || filled(r.Value("output_text"))
	status := r.Value("status")
	switch {
	case peek.Equal(status, "incomplete"):
		details := f.object(low, r.Value("incomplete_details"))
		if details != nil && f.finish(details.Value("reason")) {
			return
		}
		f.finish(status)
	case peek.Equal(status, "completed"), peek.Equal(status, "failed"):
		f.finish(status)
	}
}

// responsesCut reads the tail of an event too large to keep. If it has no name, usage tells that it closes the stream:
// before that the member is null.
func responsesCut(name, tail []byte, f *Facts) Class {
	kind := responsesKind(name)
	usage := tailValue(tail, "usage", 'o')
	if kind == ends || kind == fails || kind == odd && usage != nil {
		f.openai(usage)
		f.Terminal = true
		if kind == fails {
			return f.fail(Failure{})
		}
		f.Output = true
		return Terminal
	}
	if kind == begins {
		return Preamble
	}
	return Output
}

// responsesBody reads a whole response.
func responsesBody(r *peek.Object, f *Facts) Class {
	status, fault := r.Value("status"), r.Value("error")
	if peek.Equal(status, "failed") || truthy(fault) && !filled(r.Value("output")) {
		f.openai(r.Value("usage"))
		return f.fail(failureOf(r))
	}
	f.response(r)
	// Work in the background has nothing to show yet, but its id is what was asked for.
	if peek.Equal(status, "queued") || peek.Equal(status, "in_progress") {
		return Output
	}
	return Nothing
}

// typeOf returns the raw string of the member type, nil if there is none. Nearly all servers put it first, so that the
// rest need not be read.
func typeOf(data []byte, f *Facts) []byte {
	rest, ok := bytes.CutPrefix(data, []byte{'{'})
	if ok {
		rest, ok = bytes.CutPrefix(trimLeft(rest), []byte(`"type"`))
	}
	if ok {
		rest, ok = bytes.CutPrefix(trimLeft(rest), []byte{':'})
	}
	if ok {
		if rest = trimLeft(rest); peek.Kind(rest) == 's' {
			return whole(rest)
		}
	}
	o := f.object(top, data)
	if o == nil {
		return nil
	}
	if word := o.Value("type"); peek.Kind(word) == 's' {
		return word
	}
	return nil
}

// untyped reads an event without a name or type: an error, else somebody's output.
func untyped(data []byte, f *Facts) Class {
	if o := f.object(top, data); o != nil && truthy(o.Value("error")) {
		return f.fail(failureOf(o))
	}
	return Output
}
