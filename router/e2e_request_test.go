package router_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestBodyLayersInOrder(t *testing.T) {
	t.Parallel()
	// Layer n sets the fields from f<n> on, so that field f<n> ends as n if the layers lie in the right order.
	layer := func(n string) settings.Fields {
		f := settings.Fields{}
		for _, name := range []string{"0", "1", "2", "3", "4", "5", "6"} {
			if name >= n {
				f["f"+name] = json.RawMessage(n)
			}
		}
		return f
	}
	w := build(t, upstreams(good), func(cfg *settings.Config) {
		u, m := &cfg.Upstreams[0], &cfg.Models[0]
		target := &m.Targets[0]
		cfg.Defaults, u.Defaults, target.Defaults, m.Defaults = layer("0"), layer("1"), layer("2"), layer("3")
		u.Set, target.Set = layer("5"), layer("6")
		u.Drop, target.Drop = []string{"d1"}, []string{"d2"}
		u.Rename, target.Rename = map[string]string{"r1": "s1"}, map[string]string{"r2": "s2"}
		u.DeveloperRole, target.Model = "system", "up/m"
	})
	req := routertest.NewRequest(routertest.Chat, "m", false)
	req.Body = `{ "model" : "m", "x":1.50e+2 ,"f4":4,"f5":4,"f6":4,"d1":1,"d2":[{}],"r1":"\u0041","r2":2,
	"messages":[{"role":"developer","content":"dev\u00e9loper"},{"role" : "developer" },{"role":"user","content":"developer"}] , "z":null}`
	w.Send(t.Context(), req)
	got := string(w.ups[0].Await(0).Body)
	for _, part := range []string{
		`{ "model" : "up/m", "x":1.50e+2 ,`, `"s1":"\u0041"`, `"s2":2`, `, "z":null`,
		`"messages":[{"role":"system","content":"dev\u00e9loper"},{"role" : "system" },{"role":"user","content":"developer"}] ,`,
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in\n%s", part, got)
		}
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(got), &fields); err != nil {
		t.Fatal(err, got)
	}
	for i, name := range []string{"f0", "f1", "f2", "f3", "f4", "f5", "f6"} {
		if fields[name] != float64(i) {
			t.Errorf("%s is %v", name, fields[name])
		}
	}
	for _, name := range []string{"d1", "d2", "r1", "r2"} {
		if _, ok := fields[name]; ok {
			t.Errorf("%s is still there: %s", name, got)
		}
	}
}

func TestModelIsReplacedAndRewritten(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, rewrite := range []bool{true, false} {
			w := build(t, upstreams(good), func(cfg *settings.Config) {
				cfg.Models[0].RewriteModel, cfg.Models[0].Targets[0].Model = rewrite, "up/m"
				noStreamUsage(cfg)
			})
			got := w.ask(wire, stream)
			call := w.ups[0].Await(0)
			want := call.Sent()
			if rewrite && !stream && wire != routertest.Gemini {
				want = strings.Replace(want, `"model":"up/m"`, `"model":"m"`, 1)
			}
			if call.Model != "up/m" || got.Body != want || got.Header.Get("X-Router-Upstream-Model") != "up/m" {
				t.Errorf("rewrite %v: asked for %s, got %s, want %s", rewrite, call.Model, got.Body, want)
			}
		}
	})
}

// coded is a text in a content coding.
func coded(coding, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	default:
		return text
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func TestCodedRequestsAreUnderstood(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), func(cfg *settings.Config) { cfg.Server.MaxBody = 2000 })
	plain := routertest.NewRequest(routertest.Messages, "m", false)
	large := plain.Field("pad", `"`+strings.Repeat("x", 3000)+`"`)
	for _, coding := range []string{"gzip", "deflate", "zstd", "br", "broken"} {
		header := http.Header{"Content-Encoding": {coding}, "Content-Type": {"application/json"}}
		calls := len(w.ups[0].Calls())
		if coding == "br" || coding == "broken" {
			refused(t, routertest.Messages, w.do("POST", plain.Path, header, strings.NewReader(plain.Body)), 415, "gzip")
			continue
		}
		got := w.do("POST", plain.Path, header, strings.NewReader(coded(coding, plain.Body)))
		if call := w.ups[0].Await(calls); got.Status != 200 || string(call.Body) != plain.Body || call.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: got %d %s", coding, got.Status, got.Body)
		}
		refused(t, routertest.Messages, w.do("POST", plain.Path, header, strings.NewReader(coded(coding, large.Body))), 413, "larger")
		refused(t, routertest.Messages, w.do("POST", plain.Path, header, strings.NewReader(plain.Body)), 400, "")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		w := build(t, upstreams(good), func(cfg *settings.Config) {
			cfg.Server.MaxBody = 1000
			other := cfg.Models[0]
			other.ID = "narrow"
			other.Wires = []string{routertest.Chat}
			if wire == routertest.Chat {
				other.Wires = []string{routertest.Messages}
			}
			cfg.Models = append(cfg.Models, other)
		})
		req := routertest.NewRequest(wire, "m", true)
		long := req.Field("pad", `"`+strings.Repeat("x", 2000)+`"`).Body
		post := func(body io.Reader) routertest.Result { return w.do("POST", req.Path, nil, body) }
		refused(t, wire, post(strings.NewReader(long)), 413, "max_body")
		refused(t, wire, post(io.MultiReader(strings.NewReader(long))), 413, "max_body")
		for _, body := range []string{"", "[]", `"x"`, "{", `{"a":1}{}`, "null", "{\"a\":1} x"} {
			refused(t, wire, post(strings.NewReader(body)), 400, "not one JSON object")
		}
		refused(t, wire, post(strings.NewReader(`{"model":"m","mod\u0065l":"n"}`)), 400, "twice")
		refused(t, wire, post(strings.NewReader(`{"model":"m","stream":true,"stream":false}`)), 400, "twice")
		if wire != routertest.Gemini {
			refused(t, wire, post(strings.NewReader(`{"messages":[]}`)), 400, "model")
			refused(t, wire, post(strings.NewReader(`{"model":7}`)), 400, "model")
		}
		got := w.Send(t.Context(), routertest.NewRequest(wire, "nope", true))
		refused(t, wire, got, 404, "m, narrow")
		refused(t, wire, w.Send(t.Context(), routertest.NewRequest(wire, "narrow", true)), 400, "is not served on")
		refused(t, wire, w.do("GET", req.Path, nil, nil), 405, "POST")
		refused(t, wire, w.do("PUT", req.Path, nil, strings.NewReader(req.Body)), 405, "POST")
		up := w.do("GET", req.Path, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}}, nil)
		refused(t, wire, up, 426, "POST")
		if len(w.ups[0].Calls()) != 0 {
			t.Errorf("%s: the upstream was asked", wire)
		}
		w.once()
	}
}

func TestProbesAndUnknownPaths(t *testing.T) {
	t.Parallel()
	w := build(t, upstreams(good), func(cfg *settings.Config) { cfg.Auth.Keys = keys() })
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"HEAD", "/", 200},
		{"GET", "/", 200},
		{"HEAD", "/api/hello", 200},
		{"GET", "/v1/embeddings", 404},
		{"POST", "/v1/embeddings", 404},
		{"POST", "/v1/chat/completions/x", 404},
		{"GET", "/v1/responses/resp_1", 404},
		{"POST", "/", 404},
	} {
		got := w.do(c.method, c.path, nil, nil)
		if got.Status != c.status || c.status == 404 && !strings.Contains(got.Body, "/v1/messages") {
			t.Errorf("%s %s: got %d %s", c.method, c.path, got.Status, got.Body)
		}
	}
}

func keys() []settings.Key {
	agent, ops := settings.DefaultKey(), settings.DefaultKey()
	agent.Name, agent.Secret = "agents", settings.NewSecret("key-of-agents", "")
	ops.Name, ops.Secret, ops.Scope = "ops", settings.NewSecret("key-of-ops", ""), router.ScopeAdmin
	return []settings.Key{agent, ops}
}

func TestKeysAreAskedForAndNeverPassedOn(t *testing.T) {
	t.Parallel()
	const good1, bad = "key-of-agents", "key-of-nobody"
	for _, wire := range routertest.Wires {
		w := build(t, upstreams(good), func(cfg *settings.Config) { cfg.Auth.Keys = keys() })
		for _, c := range []struct {
			name   string
			header map[string]string
			query  string
			ok     bool
		}{
			{"none", nil, "", false},
			{"bearer", map[string]string{"Authorization": "Bearer " + good1}, "", true},
			{"bearer in small letters", map[string]string{"Authorization": "bearer " + good1}, "", true},
			{"admin", map[string]string{"Authorization": "Bearer key-of-ops"}, "", true},
			{"basic", map[string]string{"Authorization": "Basic " + good1}, "", false},
			{"x-api-key", map[string]string{"X-Api-Key": good1}, "", true},
			{"api-key", map[string]string{"Api-Key": good1}, "", true},
			{"x-goog-api-key", map[string]string{"X-Goog-Api-Key": good1}, "", true},
			{"query", nil, good1, true},
			{"wrong", map[string]string{"Authorization": "Bearer " + bad}, "", false},
			{"longer", map[string]string{"X-Api-Key": good1 + "x"}, "", false},
			{"shorter", map[string]string{"X-Api-Key": "key-of-agent"}, "", false},
			{"cookie", map[string]string{"Cookie": "key=" + good1}, "", false},
			{"one of several", map[string]string{
				"Authorization": "Bearer " + bad, "X-Api-Key": "key-of-someone", "X-Goog-Api-Key": good1, "Cookie": "session=key-of-cookie",
			}, "key-of-query", true},
		} {
			before := len(w.ups[0].Calls())
			req := routertest.NewRequest(wire, "m", true)
			for name, value := range c.header {
				req = req.With(name, value)
			}
			if c.query != "" {
				sep := "?"
				if strings.Contains(req.Path, "?") {
					sep = "&"
				}
				req.Path += sep + "a=b%20c&key=" + c.query + "&d"
			}
			got := w.Send(t.Context(), req)
			if !c.ok {
				refused(t, wire, got, 401, "key")
				if len(w.ups[0].Calls()) != before {
					t.Errorf("%s %s: the upstream was asked", wire, c.name)
				}
				continue
			}
			call := w.ups[0].Await(before)
			if got.Status != 200 || call == nil {
				t.Errorf("%s %s: got %d %s", wire, c.name, got.Status, got.Body)
				continue
			}
			text := call.Query
			for name, values := range call.Header {
				text += "\n" + name + ": " + strings.Join(values, ",")
			}
			if strings.Contains(text, "key-of") || strings.Contains(text, "Cookie") || !strings.Contains(text, "sk-of-a") {
				t.Errorf("%s %s: the upstream got\n%s", wire, c.name, text)
			}
			if c.query != "" && !strings.HasSuffix(call.Query, "a=b%20c&d") {
				t.Errorf("%s %s: query %q", wire, c.name, call.Query)
			}
		}
		w.once()
	}
}

func TestCodedAnswers(t *testing.T) {
	t.Parallel()
	forms(t, func(t *testing.T, wire string, stream bool) {
		plain := raw(t, wire, stream)
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		for _, coding := range []string{"gzip", "deflate", "zstd"} {
			body := coded(coding, plain)
			for _, offered := range []string{"", "gzip, deflate, zstd"} {
				w := build(t, upstreams(routertest.Body(200, kind, body[:9], body[9:]).With("Content-Encoding", coding)), noStreamUsage)
				req := routertest.NewRequest(wire, "m", stream)
				want, encoding := plain, ""
				if offered != "" {
					req = req.With("Accept-Encoding", offered)
					want, encoding = body, coding
				}
				got := w.Send(t.Context(), req)
				if got.Status != 200 || got.Err != nil || got.Body != want || got.Header.Get("Content-Encoding") != encoding {
					t.Errorf("%s offered %q: got %d %v %v %q", coding, offered, got.Status, got.Err, got.Header, got.Body)
				}
				if ae := w.ups[0].Await(0).Header.Get("Accept-Encoding"); ae != "identity" {
					t.Errorf("the upstream was offered %q", ae)
				}
				if e := w.completed(); e.Outcome != "success" || e.Usage.Input != 11 || e.Usage.CacheRead != 7 || e.Usage.Output != 5 {
					t.Errorf("%s offered %q: %+v", coding, offered, e)
				}
			}
		}
	})
}
