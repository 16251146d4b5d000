package router

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// shape is what a target makes of a request body: every layer of the configuration, merged once at load.
type shape struct {
	defaults, set []layered
	drop          []string
	rename        [][2]string
	developer     bool // developer messages become system messages
	streamUsage   bool
}

type layered struct {
	name string
	raw  []byte
}

// shapeOf merges the layers of a target. Lowest first: the file's defaults, the upstream's, the target's, the model's, the
// preset's; then comes the request itself, and above it what the upstream and the target force.
func shapeOf(cfg *settings.Config, u *settings.Upstream, t *settings.Target, m *settings.Model, preset settings.Fields) shape {
	s := shape{
		defaults:    merge(cfg.Defaults, u.Defaults, t.Defaults, m.Defaults, preset),
		set:         merge(u.Set, t.Set),
		developer:   u.DeveloperRole == "system",
		streamUsage: u.StreamUsage,
	}
	s.drop = slices.Concat(u.Drop, t.Drop)
	for _, r := range []map[string]string{u.Rename, t.Rename} {
		for _, from := range slices.Sorted(maps.Keys(r)) {
			s.rename = append(s.rename, [2]string{from, r[from]})
		}
	}
	return s
}

// merge joins layers, later ones winning, in the order of names so that the same request always gives the same bytes.
func merge(layers ...settings.Fields) []layered {
	all := settings.Fields{}
	for _, l := range layers {
		maps.Copy(all, l)
	}
	var out []layered
	for _, name := range slices.Sorted(maps.Keys(all)) {
		out = append(out, layered{name, all[name]})
	}
	return out
}

// shaped is a request body as one target gets it.
type shaped struct {
	segments   [][]byte
	length     int64
	stripUsage bool // the client did not ask for the usage chunk that will come
}

// shapeBody applies the target's layers to the request, in the upstream's wire, as splices: bytes that no layer names stay
// as they are.
func (a *attempt) shapeBody() shaped {
	x, s, v := a.x, &a.t.shape, &a.x.overlay
	v.Reset(a.request, a.object)
	for _, l := range s.defaults {
		if !v.Has(l.name) && !v.Has(limitTwin[l.name]) {
			v.Set(l.name, l.raw)
		}
	}
	if x.session.CacheKey != "" {
		v.Set("prompt_cache_key", quote(x.session.CacheKey))
	}
	for _, l := range s.set {
		v.Set(l.name, l.raw)
	}
	for _, name := range s.drop {
		v.Drop(name)
	}
	for _, r := range s.rename {
		v.Rename(r[0], r[1])
	}
	if id := a.t.asks(x.asked); a.w.ModelInBody() && !peek.Equal(v.Get("model"), id) {
		v.Set("model", quote(id))
	}
	if s.developer {
		a.demoteDevelopers()
	}
	if a.w.Name == wire.Messages && a.tr == nil {
		a.leaveUnsigned()
	}
	var out shaped
	if a.w.Name == wire.Chat && x.streaming && s.streamUsage && !slices.Contains(s.drop, "stream_options") {
		out.stripUsage = askUsage(v) && a.tr == nil // what translates has its own idea of who gets it
	}
	x.edits = v.Edits(x.edits[:0])
	out.segments = peek.Splice(nil, a.request, x.edits)
	for _, seg := range out.segments {
		out.length += int64(len(seg))
	}
	return out
}

// limitTwin is the other name of a token limit. Servers refuse a request that has both, and what the client or the translation
// wrote goes before a default under either.
var limitTwin = map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}

// askUsage asks for the usage chunk of a chat stream and reports whether the client had not.
func askUsage(v *peek.Overlay) bool {
	given := v.Get("stream_options")
	if peek.Kind(given) != 'o' {
		v.Set("stream_options", []byte(`{"include_usage":true}`))
		return true
	}
	var o peek.Object
	if o.Scan(given) != nil {
		return false
	}
	if asked, _ := peek.Bool(o.Value("include_usage")); asked {
		return false
	}
	var inner peek.Overlay
	inner.Reset(given, &o)
	inner.Set("include_usage", []byte("true"))
	v.Set("stream_options", slices.Concat(peek.Splice(nil, given, inner.Edits(nil))...))
	return true
}

// demoteDevelopers turns the role developer into system, for upstreams that know only the older word.
func (a *attempt) demoteDevelopers() {
	list, ok := a.object.Find("messages")
	if a.w.Name == wire.Responses {
		list, ok = a.object.Find("input")
	}
	if !ok || a.request[list.Value.Start] != '[' {
		return
	}
	var o peek.Object
	_ = peek.Elements(a.request, list.Value, func(at peek.Span) bool {
		if o.ScanAt(a.request, at) != nil {
			return true // not an object: some other item, passed on as it is
		}
		if role, ok := o.Find("role"); ok && peek.Equal(o.Value("role"), "developer") {
			a.x.overlay.SetAt(role.Value, []byte(`"system"`))
		}
		return true
	})
}

// unsigned is in a history some of whose turns were translated: thinking of an upstream that signs nothing. Some clients
// write their JSON with blanks.
func unsigned(history []byte) bool {
	return bytes.Contains(history, []byte(`"signature":""`)) || bytes.Contains(history, []byte(`"signature": ""`))
}

// leaveUnsigned takes thinking without a signature out of the history: a provider that signs its own refuses it, and a
// conversation that has moved here from an upstream of another wire could not go on. Everything else stays to the byte.
func (a *attempt) leaveUnsigned() {
	list, ok := a.object.Find("messages")
	if !ok || !unsigned(a.request) || a.request[list.Value.Start] != '[' {
		return
	}
	var message, block peek.Object
	_ = peek.Elements(a.request, list.Value, func(at peek.Span) bool {
		if message.ScanAt(a.request, at) != nil {
			return true
		}
		content, ok := message.Find("content")
		if !ok || a.request[content.Value.Start] != '[' {
			return true
		}
		kept, left := []byte{'['}, false
		_ = peek.Elements(a.request, content.Value, func(at peek.Span) bool {
			if block.ScanAt(a.request, at) == nil && peek.Equal(block.Value("type"), "thinking") && peek.Equal(block.Value("signature"), "") {
				left = true
				return true
			}
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(kept, a.request[at.Start:at.End]...)
			return true
		})
		if left && len(kept) > 1 { // a turn of nothing else would be empty, which is refused as well
			a.x.overlay.SetAt(content.Value, append(kept, ']'))
		}
		return true
	})
}

// quote writes a text as JSON.
func quote(s string) []byte {
	if !strings.ContainsFunc(s, odd) {
		return append(append(append(make([]byte, 0, len(s)+2), '"'), s...), '"')
	}
	raw, _ := json.Marshal(s) // a string always has a JSON form
	return raw
}

// odd reports whether a character may not stand for itself in JSON.
func odd(r rune) bool {
	return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '<' || r == '>' || r == '&'
}
