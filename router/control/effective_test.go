package control_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	d := open(t)
	_, got := d.ask("ops", "GET", "/api/config", "")
	cfg, _ := got["config"].(object)
	if got["config_revision"] != 1.0 || cfg == nil {
		t.Fatal(got)
	}
	server, _ := cfg["server"].(object)
	for name, want := range map[string]any{"max_body": "1MiB", "request_timeout": "0s", "drain_timeout": "20s", "listen": "127.0.0.1:4141"} {
		if server[name] != want {
			t.Errorf("%s is %v, want %v", name, server[name], want)
		}
	}
	ups, _ := cfg["upstream"].([]any)
	up, _ := ups[0].(object)
	if diff := cmp.Diff(object{"origin": "literal", "set": true}, up["api_key"]); diff != "" {
		t.Errorf("a secret (-want +got):\n%s", diff)
	}
	if timeouts, _ := up["timeouts"].(object); up["name"] != "a" || timeouts["first_event"] != "2m" {
		t.Errorf("%v", up)
	}
	if _, ok := up["health_check"]; ok {
		t.Error("a block that is not there")
	}
}

// Wherever a configuration has a credential, it does not show; all else is there under its name in the file.
func TestEffective(t *testing.T) {
	t.Parallel()
	cfg := settings.Defaults()
	cfg.Usage = new(settings.DefaultUsageStore())
	cfg.Passthrough = &settings.Passthrough{}
	k, u, m, target := settings.DefaultKey(), settings.DefaultUpstream(), settings.DefaultModel(), settings.DefaultTarget()
	u.HealthCheck = new(settings.DefaultHealthCheck())
	m.Price = &settings.Price{OffPeak: &settings.OffPeak{}}
	m.Targets = []settings.Target{target}
	cfg.Auth.Keys, cfg.Upstreams, cfg.Models = []settings.Key{k}, []settings.Upstream{u}, []settings.Model{m}
	cfg.Presets, cfg.Groups, cfg.Clients = []settings.Preset{settings.DefaultPreset()}, make([]settings.Group, 1), make([]settings.Client, 1)
	cfg.Telemetry.Traces.SampleRatio = new(0.5)
	const key = "sk-QZQZ-QZQZ"
	n := 0
	plant(reflect.ValueOf(&cfg).Elem(), key, &n)
	if n < 60 {
		t.Fatalf("only %d places", n)
	}
	cfg.Upstreams[0].BaseURL = "https://user:pass-QZQZ@a.example/v1"
	cfg.Upstreams[0].Timeouts.Idle, cfg.Cooling.QuotaDefault = 90*time.Second, 168*time.Hour
	text, err := json.MarshalIndent(control.Effective(cfg), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "QZQZ") {
		t.Errorf("a key shows:\n%s", text)
	}
	for _, want := range []string{
		`"base_url": "https://redacted@a.example/v1"`, `"origin": "env QQ"`, `"idle": "1m30s"`, `"quota_default": "168h"`, `"sample_ratio": 0.5`,
		`"off_peak": {`, `"x": "[redacted]"`, `"Bearer [redacted]"`, `"n": 12345678901234567890`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
}

// plant puts a credential into every place of a configuration that can hold one, by right or by mistake.
func plant(v reflect.Value, key string, n *int) {
	switch v.Addr().Interface().(type) {
	case *settings.Secret:
		v.Set(reflect.ValueOf(settings.NewSecret(key, "env QQ")))
		*n++
		return
	case *settings.Fields:
		v.Set(reflect.ValueOf(settings.Fields{"x": json.RawMessage(`"` + key + `"`), "deep": json.RawMessage(`[{"x":["Bearer ` + key + `"],"n":12345678901234567890}]`)}))
		*n++
		return
	case *map[string]settings.Secret:
		v.Set(reflect.ValueOf(map[string]settings.Secret{"X-A": settings.NewSecret(key, "env QQ")}))
		*n++
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			plant(v.Elem(), key, n)
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			plant(field, key, n)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.ValueOf([]string{"--token=" + key}))
			*n++
		}
		for i := range v.Len() {
			plant(v.Index(i), key, n)
		}
	case reflect.String:
		v.SetString("x " + key)
		*n++
	}
}
