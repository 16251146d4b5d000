package wire

import (
	"github.com/signalbox-llm/signalbox/translate/peek"
)

// messagesEvent reads one event. Deltas, which nearly all are, are known by their name and not looked into.
func messagesEvent(name, data []byte, f *Facts) Class {
	if c, ok := messagesAs(name, data, f); ok {
		return c
	}
	word := typeOf(data, f)
	if word == nil {
		return untyped(data, f)
	}
	if c, ok := messagesAs(word[1:len(word)-1], data, f); ok {
		return c
	}
	return Output
}

// messagesAs reads the event of that name; false if the dialect has none.
func messagesAs(name, data []byte, f *Facts) (Class, bool) {
	switch string(name) {
	case "content_block_delta", "content_block_start", "content_block_stop":
		return Output, true
	case "ping":
		return Nothing, true
	case "message_start":
		return messageStart(data, f), true
	case "message_delta":
		return messageDelta(data, f), true
	case "message_stop":
		f.Terminal = true
		return Terminal, true
	case "error":
		return f.fail(errorEventOf(data)), true
	}
	return Nothing, false
}

func messageStart(data []byte, f *Facts) Class {
	o := f.object(top, data)
	if o == nil {
		return Output
	}
	m := f.object(middle, o.Value("message"))
	if m == nil {
		return Preamble
	}
	f.identify(m.Value("id"), m.Value("model"))
	f.Usage.Merge(f.messages(m.Value("usage")))
	return Preamble
}

// messageDelta reads the event that tells why the message ends and what it used. It is an end for the commit, but the
// stream is whole only with message_stop.
func messageDelta(data []byte, f *Facts) Class {
	o := f.object(top, data)
	if o == nil {
		return Output
	}
	u := f.messages(o.Value("usage"))
	f.Usage.Merge(u.cumulative(f.Usage))
	if d := f.object(middle, o.Value("delta")); d != nil && f.finish(d.Value("stop_reason")) {
		return Terminal
	}
	return Preamble
}

// messagesCut reads the tail of an event too large to keep, by name if it has one.
func messagesCut(name, tail []byte, f *Facts) Class {
	switch string(name) {
	case "message_start":
		return Preamble
	case "message_stop", "message_delta":
		f.Terminal = f.Terminal || string(name) == "message_stop"
		f.Usage.Merge(f.messages(tailValue(tail, "usage", 'o')))
		return Terminal
	case "error":
		return f.fail(Failure{})
	}
	return Output
}

// messagesBody reads a whole message.
func messagesBody(o *peek.Object, f *Facts) Class {
	content := o.Value("content")
	if peek.Equal(o.Value("type"), "error") || truthy(o.Value("error")) && !filled(content) {
		return f.fail(failureOf(o))
	}
	f.identify(o.Value("id"), o.Value("model"))
	f.Output = f.Output || filled(content)
	f.finish(o.Value("stop_reason"))
	f.Usage.Merge(f.messages(o.Value("usage")))
	return Nothing
}

// messages reads a usage object; input is without cached tokens on this wire already.
func (f *Facts) messages(raw []byte) (u Usage) {
	o := f.object(low, raw)
	if o == nil {
		return u
	}
	u.Input = tokens(o.Value("input_tokens"))
	u.CacheRead = tokens(o.Value("cache_read_input_tokens"))
	u.CacheWrite = tokens(o.Value("cache_creation_input_tokens"))
	u.Output = tokens(o.Value("output_tokens"))
	if c := f.object(bottom, o.Value("cache_creation")); c != nil {
		u.CacheWrite5m = tokens(c.Value("ephemeral_5m_input_tokens"))
		u.CacheWrite1h = tokens(c.Value("ephemeral_1h_input_tokens"))
		if !u.CacheWrite.Known && (u.CacheWrite5m.Known || u.CacheWrite1h.Known) {
			u.CacheWrite = Count{N: u.CacheWrite5m.N + u.CacheWrite1h.N, Known: true}
		}
	}
	return u
}

// cumulative leaves out the zeros for what was counted before: servers that only fill in message_start's prompt repeat
// its members as 0 in message_delta, and a prompt does not shrink.
func (u Usage) cumulative(before Usage) Usage {
	for _, p := range []struct {
		now *Count
		was Count
	}{
		{&u.Input, before.Input},
		{&u.CacheRead, before.CacheRead},
		{&u.CacheWrite, before.CacheWrite},
		{&u.CacheWrite5m, before.CacheWrite5m},
		{&u.CacheWrite1h, before.CacheWrite1h},
	} {
		if p.now.N == 0 && p.was.N > 0 {
			*p.now = Count{}
		}
	}
	return u
}
