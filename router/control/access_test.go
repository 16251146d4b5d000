package control_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/control"
)

// access says who may do what: the status for nobody (or a wrong key), an inference key (or an issued one), an admin key.
var access = []struct {
	method, path         string
	nobody, agent, admin int
}{
	{"GET", "/healthz", 200, 200, 200},
	{"GET", "/readyz", 200, 200, 200},
	{"GET", "/v1/models", 401, 200, 200},
	{"GET", "/api/v1/models", 401, 200, 200},
	{"GET", "/model_group/info", 401, 200, 200},
	{"GET", "/v1/model_group/info", 401, 200, 200},
	{"GET", "/api/v1/model_group/info", 401, 200, 200},
	{"GET", "/health", 401, 403, 200},
	{"GET", "/api/config", 401, 403, 200},
	{"GET", "/api/keys", 401, 403, 200},
	{"POST", "/api/keys", 401, 403, 400},
	{"DELETE", "/api/keys", 401, 403, 400},
	{"GET", "/usage", 401, 404, 404}, // off
	{"GET", "/_router/status", 401, 403, 200},
	{"GET", "/_router/logs/recent", 401, 403, 200},
	{"POST", "/_router/explain", 401, 403, 400},
	{"POST", "/admin/backend", 401, 403, 400},
	{"POST", "/admin/reset-health", 401, 403, 200},
}

func TestAccess(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.plane.SetReady(true)
	listed := map[string][]string{}
	for _, c := range access {
		methods := []string{c.method}
		if c.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		listed[c.path] = append(listed[c.path], methods...)
		for key, want := range map[string]int{
			"": c.nobody, "nobody": c.nobody, "agents": c.agent, "issued": c.agent, "ops": c.admin,
			"?nobody": c.nobody, "?agents": c.agent, "?issued": c.agent, "?ops": c.admin,
		} {
			for _, method := range methods {
				got, said := d.ask(key, method, c.path, "")
				if got != want {
					t.Errorf("%s %s with key %q: %d, want %d", method, c.path, key, got, want)
				}
				code, refused := map[int]string{401: "unauthorized", 403: "forbidden"}[want]
				if text, _ := json.Marshal(said); refused && method != http.MethodHead && !strings.Contains(string(text), `"code":"`+code+`"`) {
					t.Errorf("%s %s with key %q: %s, want the code %s", method, c.path, key, text, code)
				}
			}
		}
	}
	for path, methods := range listed {
		slices.Sort(methods)
		for _, other := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
			if slices.Contains(methods, other) {
				continue
			}
			for _, key := range []string{"", "agents", "ops"} {
				if got, _ := d.ask(key, other, path, ""); got != http.StatusMethodNotAllowed {
					t.Errorf("%s %s with key %q: %d", other, path, key, got)
				}
			}
		}
	}
	// What streams for ever has a test of its own.
	const endless = "/_router/logs/stream"
	for _, method := range []string{"HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if got, _ := d.ask("ops", method, endless, ""); got != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: %d", method, endless, got)
		}
	}
	listed[endless] = []string{"GET"}
	if diff := cmp.Diff(d.plane.Served(), listed); diff != "" {
		t.Errorf("the table of access and the routes differ (-routes +table):\n%s", diff)
	}
}

func TestAccessToOneModel(t *testing.T) {
	t.Parallel()
	d := open(t)
	for path, want := range map[string][3]int{"/v1/models/org/m": {401, 200, 405}, "/v1/models/nope": {401, 404, 405}} {
		for key, code := range map[string]int{"": want[0], "nobody": want[0], "agents": want[1], "issued": want[1], "ops": want[1], "?issued": want[1]} {
			if got, _ := d.ask(key, "GET", path, ""); got != code {
				t.Errorf("%s with key %q: %d, want %d", path, key, got, code)
			}
		}
		if got, _ := d.ask("ops", "POST", path, ""); got != want[2] {
			t.Errorf("POST %s: %d", path, got)
		}
	}
}

// What Debug has is served by the control plane's own listener alone, and to admin keys.
func TestAccessToDebug(t *testing.T) {
	t.Parallel()
	d := open(t)
	const path = "/debug/pprof/heap"
	for key, want := range map[string]int{"": 401, "nobody": 401, "agents": 403, "issued": 403, "ops": 200} {
		if got, _ := d.send(d.plane, key, "GET", path, ""); got != want {
			t.Errorf("key %q: %d, want %d", key, got, want)
		}
	}
	for name, h := range map[string]http.Handler{
		"one listener for all": d.plane.Or(d.engine.Handler()), "the public listener": d.plane.Open(d.engine.Handler()),
		"nothing to serve": control.New(d.engine, control.Options{}),
	} {
		if got, _ := d.send(h, "ops", "GET", path, ""); got != http.StatusNotFound {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// Keys from a file close the door, whether there is one yet or not.
func TestIssuedKeysCloseTheDoor(t *testing.T) {
	t.Parallel()
	d := open(t)
	cfg := d.engine.Snapshot()
	cfg.Auth.Keys = nil
	if err := d.engine.Load(cfg); err != nil {
		t.Fatal(err)
	}
	const path, body = "/v1/chat/completions", `{"model":"org/m","messages":[]}`
	for key, want := range map[string]int{"": 401, "nobody": 401, "agents": 401, "issued": 200, "?issued": 200} {
		if got, _ := d.ask(key, "POST", path, body); got != want {
			t.Errorf("key %q: %d, want %d", key, got, want)
		}
	}
	for key, want := range map[string]int{"": 401, "issued": 403} {
		if got, _ := d.ask(key, "GET", "/_router/status", ""); got != want {
			t.Errorf("status with key %q: %d, want %d", key, got, want)
		}
	}
	if err := d.keys.Use(""); err != nil {
		t.Fatal(err)
	}
	if got, _ := d.ask("", "POST", path, body); got != 401 {
		t.Errorf("without a ring: %d", got)
	}
	cfg.Auth.IssuedKeysFile = ""
	if err := d.engine.Load(cfg); err != nil {
		t.Fatal(err)
	}
	if got, _ := d.ask("", "POST", path, body); got != 200 {
		t.Errorf("turned off: %d", got)
	}
}

// The stream of requests is open to admin keys alone; to them it says here that the router is about to end.
func TestAccessToTheStream(t *testing.T) {
	t.Parallel()
	d := open(t)
	d.plane.SetReady(false)
	for key, want := range map[string]int{
		"": 401, "nobody": 401, "agents": 403, "issued": 403, "ops": 503, "?nobody": 401, "?agents": 403, "?issued": 403, "?ops": 503,
	} {
		if got, _ := d.ask(key, "GET", "/_router/logs/stream", ""); got != want {
			t.Errorf("key %q: %d, want %d", key, got, want)
		}
	}
}

// What the configuration opens needs no key, on that path alone, and goes by the configuration in force.
func TestAccessToWhatIsOpen(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, opened := range [][]string{nil, {"health"}, {"models", "config"}, {"health", "models", "config"}, {}} {
		cfg := d.engine.Snapshot()
		cfg.Auth.Open = opened
		if err := d.engine.Load(cfg); err != nil {
			t.Fatal(err)
		}
		for name, paths := range map[string][]string{
			"health": {"/health"}, "config": {"/api/config"}, "models": {"/v1/models", "/api/v1/models", "/v1/models/org/m"},
			"": {"/_router/status", "/usage", "/model_group/info", "/api/keys", "/_router/logs/recent"},
		} {
			want := http.StatusUnauthorized
			if slices.Contains(opened, name) {
				want = http.StatusOK
			}
			for _, path := range paths {
				for _, key := range []string{"", "nobody"} {
					if got, _ := d.ask(key, "GET", path, ""); got != want {
						t.Errorf("open %v: %s with key %q: %d, want %d", opened, path, key, got, want)
					}
				}
			}
		}
	}
}
