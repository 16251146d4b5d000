package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-llm/signalbox/router/config"
)

func TestSmoke(t *testing.T) {
	const well = `{"config_revision":2,"in_flight":1,"upstreams":[{"name":"a","state":"healthy"},{"name":"b","state":"cooling","reason":"rate_limit"}]}`
	for name, c := range map[string]struct {
		ready        int
		status, key  string
		ok           bool
		want, absent string
	}{
		"well":        {200, well, "k", true, "ok    /_router/status  revision 2, 1 in flight, 1 of 2 upstreams healthy: b cooling rate_limit\n", "FAIL"},
		"not ready":   {503, well, "k", false, "FAIL  /readyz          503 Service Unavailable\n", "FAIL  /_router"},
		"no key":      {200, well, "", false, "401 Unauthorized; the key is taken from SIGNALBOX_ADMIN_KEY", "FAIL  /readyz"},
		"all are out": {200, strings.Replace(well, "healthy", "cooling", 1), "k", false, "FAIL  /_router/status  revision 2, 1 in flight, 0 of 2", "FAIL  /healthz"},
		"no upstream": {200, `{}`, "k", false, "0 of 0 upstreams", "FAIL  /healthz"},
		"other":       {200, `<html>`, "k", false, "not that of a Signalbox", "FAIL  /healthz"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch body := `{"status":"ok"}`; {
			case r.URL.Path == "/readyz":
				w.WriteHeader(c.ready)
				_, _ = w.Write([]byte(body))
			case r.URL.Path == "/healthz":
				_, _ = w.Write([]byte(body))
			case r.Header.Get("Authorization") != "Bearer k":
				w.WriteHeader(http.StatusUnauthorized)
			default:
				_, _ = w.Write([]byte(c.status))
			}
		}))
		var out strings.Builder
		ok := smoke(t.Context(), &out, server.URL, c.key)
		server.Close()
		if ok != c.ok || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), c.absent) {
			t.Errorf("%s: %v\n%s", name, ok, out.String())
		}
	}
}

// The configuration that make up puts where there is none has to be valid, and listens where the container says.
func TestPlaceholderLoads(t *testing.T) {
	t.Setenv("SIGNALBOX_KEY", "k")
	t.Setenv("SIGNALBOX_LISTEN", "0.0.0.0:4141")
	file, diags := config.Load("../placeholder.hcl")
	if len(diags) > 0 || file.Config.Server.Listen != "0.0.0.0:4141" {
		t.Errorf("%v, listens at %s", diags, file.Config.Server.Listen)
	}
}
