package control_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// object is a JSON object.
type object = map[string]any

func TestHealth(t *testing.T) {
	t.Parallel()
	d := open(t)
	look := func(backend, first, second object) {
		t.Helper()
		want := object{"ok": true, "port": 4141.0, "backends": []any{backend}, "routes": []any{first, second}}
		if _, got := d.ask("ops", "GET", "/health", ""); cmp.Diff(want, got) != "" {
			t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
		}
	}
	with := func(o object, more object) object {
		all := object{}
		for _, m := range []object{o, more} {
			maps.Copy(all, m)
		}
		return all
	}
	route := object{
		"id": "a", "backend": "a", "upstream": "up/m", "models": []any{"org/m"}, "state": "healthy", "fails": 0.0, "nextAvailableAtMs": 0.0,
		"retryInMs": 0.0, "probeInFlight": false, "lastErrorKind": nil, "lastStatus": nil, "manual": false,
	}
	glob := with(route, object{"upstream": "m-*", "models": []any{"m-*"}})
	place := func(o object) object {
		return object{"upstream": o["upstream"], "models": o["models"], "state": o["state"]}
	}
	backend := func(first, second, more object) object {
		return with(object{
			"id": "a", "state": "healthy", "fails": 0.0, "lastError": nil, "manual": false, "probeInFlight": false,
			"deployments": []any{place(first), place(second)},
		}, more)
	}
	look(backend(route, glob, nil), route, glob)

	d.up.Script(routertest.Fail(500, "boom"))
	d.ask("agents", "POST", "/v1/chat/completions", `{"model":"org/m","messages":[]}`)
	d.clock.Advance(10 * time.Second)
	failed := object{"lastError": object{"type": "500", "status": 500.0, "at": "2030-01-02T03:04:05Z"}}
	cooling := with(route, object{
		"state": "cooling", "fails": 1.0, "nextAvailableAtMs": float64(epoch.Add(30 * time.Second).UnixMilli()), "retryInMs": 20000.0,
		"lastErrorKind": "server_error", "lastStatus": 500.0,
	})
	look(backend(cooling, glob, failed), cooling, glob)

	// An hour by hand outlasts the half minute, and shows on every route; so does for ever.
	order := func(body string) {
		t.Helper()
		if code, got := d.ask("ops", "POST", "/admin/backend", body); code != 200 {
			t.Fatal(got)
		}
	}
	order(`{"id":"a","action":"cool","forMs":3600000}`)
	hour := object{"state": "cooling", "manual": true, "nextAvailableAtMs": float64(epoch.Add(time.Hour + 10*time.Second).UnixMilli()), "retryInMs": 3600000.0}
	held := with(failed, object{"state": "cooling", "manual": true})
	look(backend(with(cooling, hour), with(glob, hour), held), with(cooling, hour), with(glob, hour))
	order(`{"id":"a","action":"cool"}`)
	forever := object{"state": "cooling", "manual": true, "nextAvailableAtMs": 9007199254740991.0, "retryInMs": 9007199254740991.0}
	look(backend(with(cooling, forever), with(glob, forever), held), with(cooling, forever), with(glob, forever))

	order(`{"id":"a","action":"uncool"}`)
	order(`{"id":"a","model":"up/m","action":"cool"}`)
	alone := with(route, forever)
	look(backend(alone, glob, failed), alone, glob)
}
