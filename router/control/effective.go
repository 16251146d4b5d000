package control

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// config answers the configuration in force, defaults and profile included, without any secret.
func (h *Handler) config(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"config_revision": h.engine.Status().ConfigRevision, "config": effective(h.engine.Snapshot())})
}

// effective writes a configuration as JSON has it, under the names and in the forms of the file: a block that can stand
// several times is a list, its label a member. A secret is where it comes from.
func effective(cfg settings.Config) any {
	e := &effect{}
	v := reflect.ValueOf(cfg)
	e.collect(v)
	return e.value(v)
}

// effect knows the secrets that must not show anywhere, such as in a URL or a body field that was made from one.
type effect struct{ secrets []string }

// shortSecret is how many characters a secret has that could well be an everyday word.
const shortSecret = 8

func (e *effect) collect(v reflect.Value) {
	if s, ok := reflect.TypeAssert[settings.Secret](v); ok {
		if value := s.Reveal(); len(value) >= shortSecret {
			e.secrets = append(e.secrets, value)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			e.collect(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			e.collect(field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			e.collect(v.Index(i))
		}
	case reflect.Map:
		for iter := v.MapRange(); iter.Next(); {
			e.collect(iter.Value())
		}
	}
}

// value is what JSON shows of one setting.
func (e *effect) value(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case settings.Secret:
		return map[string]any{"origin": x.Origin(), "set": !x.IsZero()}
	case time.Duration:
		return durationText(x)
	case settings.Size:
		return sizeText(x)
	case json.RawMessage:
		return e.body(x)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return e.value(v.Elem())
	case reflect.Struct:
		members := map[string]any{}
		e.members(v, members)
		return members
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = e.value(v.Index(i))
		}
		return list
	case reflect.Map:
		members := map[string]any{}
		for iter := v.MapRange(); iter.Next(); {
			members[iter.Key().String()] = e.value(iter.Value())
		}
		return members
	case reflect.String:
		return e.text(v.String())
	}
	return v.Interface()
}

// members adds the tagged fields of a struct. Blocks that are not there are left out.
func (e *effect) members(v reflect.Value, into map[string]any) {
	for field, value := range v.Fields() {
		switch name, kind, tagged := strings.Cut(field.Tag.Get("hcl"), ","); {
		case kind == "squash":
			e.members(value, into)
		case tagged && (value.Kind() != reflect.Pointer || !value.IsNil()):
			into[name] = e.value(value)
		}
	}
}

// body is a part of a request body.
func (e *effect) body(raw json.RawMessage) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil // settings hold nothing but JSON
	}
	return e.scrub(v)
}

func (e *effect) scrub(v any) any {
	switch v := v.(type) {
	case string:
		return e.text(v)
	case []any:
		for i := range v {
			v[i] = e.scrub(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = e.scrub(v[name])
		}
	}
	return v
}

// text takes secrets out, and whoever a URL names.
func (e *effect) text(s string) string {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		u.User = url.User("redacted")
		s = u.String()
	}
	for _, secret := range e.secrets {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}

// durationText is how people write a duration: 2m and not 2m0s.
func durationText(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// sizeText is how people write a size: 32MiB and not 33554432.
func sizeText(n settings.Size) any {
	for _, u := range []struct {
		suffix string
		bytes  settings.Size
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt(int64(n/u.bytes), 10) + u.suffix
		}
	}
	return int64(n)
}
