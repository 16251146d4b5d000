package control_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/secrets/keyring"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// desk is the control plane of an engine with one upstream, two models, a key of each scope and an issued one.
type desk struct {
	t      *testing.T
	engine *router.Router
	plane  *control.Handler
	up     *routertest.Upstream
	clock  *routertest.Clock
	keys   *keyring.Ring
	issued string // the key
}

func open(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, up: routertest.NewUpstream()}
	cfg := settings.Defaults()
	cfg.Server.MaxBody = 1 << 20
	for name, scope := range map[string]string{"agents": router.ScopeInference, "ops": router.ScopeAdmin} {
		k := settings.DefaultKey()
		k.Name, k.Scope, k.Secret = name, scope, settings.NewSecret("key-of-"+name, "")
		cfg.Auth.Keys = append(cfg.Auth.Keys, k)
	}
	a, m, target := settings.DefaultUpstream(), settings.DefaultModel(), settings.DefaultTarget()
	a.Name, a.BaseURL, a.Wires = "a", d.up.URL, []string{routertest.Chat, routertest.Messages}
	a.APIKey = settings.NewSecret("sk-of-a", "")
	target.Upstream, target.Model = "a", "up/m"
	m.ID, m.ContextWindow, m.MaxOutput, m.Targets = "org/m", 200, 64, []settings.Target{target}
	glob := settings.DefaultModel()
	glob.ID, glob.Targets = "m-*", []settings.Target{{Upstream: "a", Weight: 1, Translate: "drop"}}
	cfg.Upstreams, cfg.Models = []settings.Upstream{a}, []settings.Model{m, glob}
	cfg.Groups = []settings.Group{{Name: "team", Upstreams: []string{"a"}}, {Name: "nobody"}}
	cfg.Auth.IssuedKeysFile = filepath.Join(t.TempDir(), "keys.json")
	silent := slog.New(slog.DiscardHandler)
	d.clock = routertest.NewClock(epoch)
	d.keys = keyring.New(d.clock.Now, silent)
	if err := d.keys.Use(cfg.Auth.IssuedKeysFile); err != nil {
		t.Fatal(err)
	}
	engine, err := router.New(cfg, router.WithLogger(silent), router.WithClock(d.clock.Now), router.WithKeyring(d.keys))
	if err != nil {
		t.Fatal(err)
	}
	if _, d.issued, err = d.keys.Issue("laptop", ""); err != nil {
		t.Fatal(err)
	}
	debug := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, `{"debug":true}`) })
	d.engine, d.plane = engine, control.New(engine, control.Options{Keys: d.keys, Debug: debug})
	t.Cleanup(func() { d.up.Close(); engine.Close() })
	return d
}

func reply(w http.ResponseWriter, body string) { _, _ = io.WriteString(w, body) }

// secret is the key of that name; nobody's is unknown.
func (d *desk) secret(name string) string {
	if name == "issued" {
		return d.issued
	}
	return "key-of-" + name
}

// ask sends a request to the control plane and, behind it, the engine.
func (d *desk) ask(key, method, path, body string) (int, map[string]any) {
	d.t.Helper()
	return d.send(d.plane.Or(d.engine.Handler()), key, method, path, body)
}

// send sends a request to a handler. A name that begins with "?" has its key in the query.
func (d *desk) send(to http.Handler, key, method, path, body string) (int, map[string]any) {
	d.t.Helper()
	if name, query := strings.CutPrefix(key, "?"); query {
		key, path = "", path+"?key="+d.secret(name)
	}
	var sent io.Reader
	if body != "" {
		sent = strings.NewReader(body)
	}
	req, rec := httptest.NewRequestWithContext(d.t.Context(), method, path, sent), httptest.NewRecorder()
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+d.secret(key))
	}
	to.ServeHTTP(rec, req)
	var got map[string]any
	if !json.Valid(rec.Body.Bytes()) && method != http.MethodHead {
		d.t.Errorf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
	_ = json.Unmarshal(rec.Body.Bytes(), &got) // a list leaves it empty
	for _, key := range []string{"sk-of", "key-of", keyring.Prefix} {
		if strings.Contains(rec.Body.String(), key) && (key != keyring.Prefix || rec.Code != http.StatusCreated) {
			d.t.Errorf("%s %s shows a key: %s", method, path, rec.Body)
		}
	}
	return rec.Code, got
}

func TestReady(t *testing.T) {
	t.Parallel()
	d := open(t)
	if code, _ := d.ask("", "GET", "/readyz", ""); code != 503 {
		t.Errorf("before: %d", code)
	}
	d.plane.SetReady(true)
	if code, got := d.ask("", "GET", "/readyz", ""); code != 200 || got["config_revision"] != 1.0 {
		t.Errorf("ready: %d %v", code, got)
	}
	d.plane.SetReady(false)
	if code, _ := d.ask("", "GET", "/readyz", ""); code != 503 {
		t.Errorf("draining: %d", code)
	}
	if code, _ := d.ask("", "GET", "/healthz", ""); code != 200 {
		t.Errorf("alive: %d", code)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	d := open(t)
	first := map[string]any{
		"id": "org/m", "object": "model", "created": float64(epoch.Unix()), "owned_by": "signalbox", "context_length": 200.0,
		"max_model_len": 200.0, "limits": map[string]any{"max_input_tokens": 200.0, "max_output_tokens": 64.0},
		"supported_endpoint_types": []any{"openai", "anthropic"}, "type": "model", "display_name": "org/m", "created_at": "2030-01-02T03:04:05Z",
	}
	second := map[string]any{
		"id": "m-*", "object": "model", "created": float64(epoch.Unix()), "owned_by": "signalbox",
		"supported_endpoint_types": []any{"openai", "anthropic"}, "type": "model", "display_name": "m-*", "created_at": "2030-01-02T03:04:05Z",
	}
	want := map[string]any{"object": "list", "data": []any{first, second}, "has_more": false, "first_id": "org/m", "last_id": "m-*"}
	for _, path := range []string{"/v1/models", "/api/v1/models"} {
		_, got := d.ask("agents", "GET", path, "")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	_, got := d.ask("agents", "GET", "/v1/models/org/m", "")
	if diff := cmp.Diff(first, got); diff != "" {
		t.Errorf("one model (-want +got):\n%s", diff)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.up.Script(routertest.Fail(500, "boom"))
	d.ask("agents", "POST", "/v1/chat/completions", `{"model":"org/m","messages":[]}`)
	_, got := d.ask("ops", "GET", "/_router/status", "")
	recent, _ := got["recent"].([]any)
	if len(recent) != 1 {
		t.Fatalf("recent: %v", recent)
	}
	entry, _ := recent[0].(map[string]any)
	if call, _ := entry["call"].(string); call == "" {
		t.Errorf("no call id: %v", entry)
	}
	delete(entry, "call")
	want := map[string]any{
		"started_at": "2030-01-02T03:04:05Z", "config_revision": 1.0, "in_flight": 0.0, "queued": 0.0,
		"upstreams": []any{map[string]any{
			"index": 0.0, "name": "a", "url": d.up.URL, "wires": []any{"openai-chat", "anthropic-messages"}, "state": "healthy",
			"remaining_ms": 0.0, "manual": false, "in_flight": 0.0, "probe_in_flight": false,
			"last_error": map[string]any{"type": "500", "status": 500.0, "at": "2030-01-02T03:04:05Z"},
			"targets": []any{map[string]any{
				"model": "up/m", "state": "cooling", "reason": "server_error", "until": "2030-01-02T03:04:35Z", "remaining_ms": 30000.0,
				"failures": 1.0, "probe_in_flight": false,
			}},
		}},
		"recent": []any{map[string]any{
			"at": "2030-01-02T03:04:05Z", "wire": "openai-chat", "model": "org/m", "kind": "strategy", "upstream": "a", "upstream_model": "up/m",
			"status": 500.0, "attempts": 1.0, "duration_ms": 0.0,
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct {
		path, body string
		code       int
		want       string // a part of the answer, as JSON
	}{
		{"backend", `{"id":"a","action":"cool"}`, 200, `"action":"cool"`},
		{"backend", `{"id":"a","action":"uncool"}`, 200, `"lifted":1`},
		{"backend", `{"id":"a","action":"uncool"}`, 200, `"lifted":0`},
		{"backend", `{"id":"a","action":"cool","model":"up/m","forMs":60000}`, 200, `"forMs":60000`},
		{"backend", `{"id":"a","action":"uncool","upstream":"up/m"}`, 200, `"lifted":1`},
		{"backend", `{"id":"b","action":"cool"}`, 404, `no upstream \"b\"; what there is: a"`},
		{"backend", `{"id":"b","action":"uncool"}`, 404, `"error"`},
		{"backend", `{"id":"a","action":"cool","model":"nope"}`, 404, `what does: up/m; and what is asked for by way of a pattern`},
		{"backend", `{"id":"a","action":"cool","forMs":-1}`, 400, `"error"`},
		{"backend", `{"id":"a","action":"cool","forMs":1e15}`, 400, `"error"`},
		{"backend", `{"id":"a","action":"cool","forMs":0.5}`, 400, `at least 1`}, // not for ever
		{"backend", `{"id":"a","action":"freeze"}`, 400, `"error"`},
		{"backend", `{"action":"cool"}`, 400, `"error"`},
		{"backend", `{"id":"a","action":"cool","for":1}`, 400, `"error"`},
		{"backend", `[]`, 400, `"error"`},
		{"backend", `{"id":"a","action":"cool"}`, 200, `"forMs":0`},
		{"reset-health", ``, 200, `"manual":1`},
		{"reset-health", `{}`, 200, `"manual":0`},
		{"reset-health", `{"x":1}`, 400, `"error"`},
	} {
		code, got := d.ask("ops", "POST", "/admin/"+c.path, c.body)
		text, err := json.Marshal(got)
		if err != nil || code != c.code || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.path, c.body, code, text, c.code, c.want)
		}
	}
}

func TestCoolingShows(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.ask("ops", "POST", "/admin/backend", `{"id":"a","action":"cool"}`)
	if u := d.engine.Status().Upstreams[0]; u.State != "cooling" || !u.Manual || u.RemainingMS != -1 || u.Until != nil {
		t.Errorf("%+v", u)
	}
	if code, _ := d.ask("agents", "POST", "/v1/chat/completions", `{"model":"org/m","messages":[]}`); code != 503 {
		t.Errorf("served while cooled by hand: %d", code)
	}
}

// A listener for inference alone answers the open paths and the models, and passes the rest on.
func TestDoors(t *testing.T) {
	t.Parallel()
	d := open(t)
	teapot := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for path, want := range map[string][2]int{ // of Open, of the control plane alone
		"/healthz": {200, 200}, "/v1/models": {401, 401}, "/_router/status": {418, 401}, "/admin/backend": {418, 405},
		"/v1/models/gemini-x:generateContent": {418, 404}, "/elsewhere": {418, 404},
	} {
		for i, h := range []http.Handler{d.plane.Open(teapot), d.plane} {
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			if rec.Code != want[i] {
				t.Errorf("%s, door %d: %d, want %d", path, i, rec.Code, want[i])
			}
		}
	}
}

// TestForeignOrders has a browser send what a page of another site would have it send, to a router that asks for no key.
func TestForeignOrders(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, c := range []struct {
		method, path, site string
		code               int
	}{
		{"POST", "/admin/reset-health", "cross-site", 403},
		{"DELETE", "/api/keys?id=x", "cross-site", 403},
		{"POST", "/admin/reset-health", "same-origin", 200},
		{"POST", "/admin/reset-health", "", 200}, // no browser
		{"GET", "/_router/status", "cross-site", 200},
	} {
		req, rec := httptest.NewRequestWithContext(t.Context(), c.method, c.path, nil), httptest.NewRecorder()
		req.Header.Set("X-Api-Key", "key-of-ops")
		if c.site != "" {
			req.Header.Set("Sec-Fetch-Site", c.site)
		}
		if d.plane.ServeHTTP(rec, req); rec.Code != c.code {
			t.Errorf("%s %s from %q: %d, want %d", c.method, c.path, c.site, rec.Code, c.code)
		}
	}
}

func TestHeadOfModel(t *testing.T) {
	t.Parallel()
	if status, _ := open(t).ask("agents", http.MethodHead, "/v1/models/org/m", ""); status != http.StatusOK {
		t.Errorf("HEAD of a model: %d", status)
	}
}
