package router

import (
	"encoding/json"
	"maps"
	"slices"

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

// shapeBody applies a target's layers to the client's body as splices: bytes that no layer names stay as they are.
func (x *exchange) shapeBody(t *target) shaped {
	s, v := &t.shape, &x.overlay
	v.Reset(x.body.bytes, &x.object)
	for _, l := range s.defaults {
		if !v.Has(l.name) {
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
	w := x.route.Wire
	if id := t.asks(x.asked); w.ModelInBody() && !peek.Equal(v.Get("model"), id) {
		v.Set("model", quote(id))
	}
	if s.developer {
		x.demoteDevelopers()
	}
	var out shaped
	if w.Name == wire.Chat && x.streaming && s.streamUsage && !slices.Contains(s.drop, "stream_options") {
		out.stripUsage = askUsage(v)
	}
	x.edits = v.Edits(x.edits[:0])
	out.segments = peek.Splice(nil, x.body.bytes, x.edits)
	for _, seg := range out.segments {
		out.length += int64(len(seg))
	}
	return out
}

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
func (x *exchange) demoteDevelopers() {
	list, ok := x.object.Find("messages")
	if x.route.Wire.Name == wire.Responses {
		list, ok = x.object.Find("input")
	}
	if !ok || x.body.bytes[list.Value.Start] != '[' {
		return
	}
	var o peek.Object
	_ = peek.Elements(x.body.bytes, list.Value, func(at peek.Span) bool {
		if o.ScanAt(x.body.bytes, at) != nil {
			return true // not an object: some other item, passed on as it is
		}
		if role, ok := o.Find("role"); ok && peek.Equal(o.Value("role"), "developer") {
			x.overlay.SetAt(role.Value, []byte(`"system"`))
		}
		return true
	})
}

// quote writes a text as JSON.
func quote(s string) []byte {
	raw, _ := json.Marshal(s) // a string always has a JSON form
	return raw
}
