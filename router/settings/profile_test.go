package settings

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rows are settings and what they are by default and in each profile, in the order of profiles; "=" is the default.
const rows = `
Config.Server.Listen                | 127.0.0.1:4141 | 127.0.0.1:8787 | 127.0.0.1:8787 | = | =
Config.Auth.Open                     | []       | = | [health models config] | = | =
Config.Server.MaxBody               | 33554432 | = | = | = | 8388608
Config.Server.AllowUnauthenticated  | false    | = | = | = | =
Config.Server.MaxConcurrentRequests | 0        | = | = | = | 64
Config.Server.MaxQueueDepth         | 256      | = | = | = | =
Config.Server.RequestTimeout        | 0s       | = | = | = | 15m0s
Config.Affinity.Mode                | prefer   | = | = | = | strict
Config.Affinity.PinTTL              | 2h0m0s   | = | 0s | 10m0s | =
Config.Affinity.Renew               | true     | false | = | = | =
Config.Affinity.PrefixKey           | true     | = | false | false | false
Config.Affinity.Cache               | true     | = | false | false | false
Config.Affinity.CacheTTL            | 5m0s     | = | = | = | =
Config.Affinity.MaxSessions         | 10000    | = | = | = | =
Config.Cooling.Scope                | auto     | account | = | target | account
Config.Cooling.RateLimit.Scope      | auto     | account | account | target | account
Config.Cooling.RateLimit.Base       | 30s      | 20s | = | 20s | =
Config.Cooling.RateLimit.Cap        | 10m0s    | 20s | = | 20s | 30s
Config.Cooling.Auth.Base            | 1m0s     | 30s | = | 20s | 30s
Config.Cooling.Auth.Cap             | 30m0s    | 30s | = | 20s | 30s
Config.Cooling.Billing.Base         | 30s      | = | = | 20s | =
Config.Cooling.Billing.Cap          | 5m0s     | 30s | = | 20s | 30s
Config.Cooling.Server.Base          | 30s      | = | = | 20s | =
Config.Cooling.Server.Cap           | 5m0s     | 30s | = | 20s | 30s
Config.Cooling.Server.After         | 1        | 4 | = | = | 3
Config.Cooling.QuotaDefault         | 168h0m0s | 20s | = | 20s | =
Config.Cooling.HintCap              | 1h0m0s   | 0s | = | 20s | =
Config.Cooling.ProbeEvery           | 1h0m0s   | 0s | 0s | 0s | 0s
Config.Cooling.OutageWindow         | 1m0s     | = | = | 0s | =
Config.Cooling.Exclusion            | 30s      | 0s | = | 20s | 0s
Config.Cooling.NoneEligible         | auto     | soonest | reject | clear | reject
Config.Cooling.HealthyOn            | output   | answer | = | answer | answer
Config.Failover.MaxAttempts         | 0        | 3 | = | = | =
Config.Failover.Budget              | 5m0s     | 0s | 0s | = | 0s
Config.Failover.SameTargetFirst     | 0        | = | = | 1 | =
Config.Failover.RetryAfterCap       | 30s      | 0s | 0s | 0s | 0s
Config.Failover.StreamError         | event    | cut | cut | = | cut
Config.Failover.MoveOn              | auto     | status | = | any | connection
Config.Failover.CommitOn            | output   | headers | headers | event | headers
Config.Failover.AllFailed           | answer   | bad_gateway | unavailable | bad_gateway | =
Config.Failover.Distinct            | target   | = | upstream | = | upstream
Upstream.Auth                       |          | = | = | = | both
Upstream.MaxConcurrent              | 0        | 8 | = | = | =
Upstream.StreamUsage                | true     | = | = | = | false
Upstream.HealthCheck                | <nil>    | = | = | = | &{/v1/models 20s 3}
Upstream.Timeouts.Connect           | 10s      | = | 45s | 0s | 0s
Upstream.Timeouts.FirstByte         | 45s      | 2m0s | = | 0s | 0s
Upstream.Timeouts.FirstEvent        | 2m0s     | 0s | 0s | 1m0s | 0s
Upstream.Timeouts.Idle              | 3m0s     | = | 2m0s | 1m30s | 0s
Upstream.Timeouts.Response          | 10m0s    | 0s | 0s | 4m0s | 0s
Upstream.Timeouts.Stream            | 0s       | 45m0s | = | 10m0s | =
Model.Strategy                      | failover | weighted | affinity | scored | rendezvous
Model.AffinityPool                  | 1        | = | = | = | =
Model.RewriteModel                  | true     | = | false | false | false
Model.Retry.Max                     | 0        | = | = | = | =
Preset.Strategy                     | affinity | weighted | = | scored | rendezvous
Config.Affinity.Sources | [] | [x-omp-session x-session-id x-conversation-id x-sticky-key] | [x-session-affinity x-session-id session_id sessionId user] | [session_id session-id metadata.user_id] | [x-claude-code-session-id x-codex-turn-metadata subagent-marker x-session-affinity prompt_cache_key]
Config.Clients | [] | = | = | [{claude-code claude-cli/* 0} {codex codex* 0}] | =
`

func TestProfiles(t *testing.T) {
	told := map[string]bool{}
	for row := range strings.SplitSeq(strings.TrimSpace(rows), "\n") {
		cells := strings.Split(row, "|")
		path := strings.TrimSpace(cells[0])
		told[path] = true
		for i, name := range append([]string{""}, profileNames()...) {
			want := strings.TrimSpace(cells[i+1])
			if want == "=" {
				want = strings.TrimSpace(cells[1])
			}
			from, ok := Profile(name)
			got := reflect.ValueOf(from)
			for step := range strings.SplitSeq(path, ".") {
				got = got.FieldByName(step)
			}
			if text := fmt.Sprint(got.Interface()); text != want || !ok {
				t.Errorf("profile %q: %s is %s, want %s", name, path, text, want)
			}
		}
	}
	plain, _ := Profile("")
	for _, name := range profileNames() { // What the table does not name is the same everywhere.
		from, _ := Profile(name)
		if from.Config.Profile != name {
			t.Errorf("profile %q says it is %q", name, from.Config.Profile)
		}
		from.Config.Profile = ""
		var found differences
		cmp.Equal(plain, from, cmp.AllowUnexported(Secret{}), cmp.Reporter(&found))
		for _, path := range found.paths {
			known := false
			for row := range told {
				known = known || path == row || strings.HasPrefix(path, row+"[") || strings.HasPrefix(path, row+".")
			}
			if !known {
				t.Errorf("profile %q: %s differs, which no row says", name, path)
			}
		}
	}
}

// differences collects the paths of fields that differ.
type differences struct {
	at    cmp.Path
	paths []string
}

func (d *differences) PushStep(s cmp.PathStep) { d.at = append(d.at, s) }
func (d *differences) PopStep()                { d.at = d.at[:len(d.at)-1] }
func (d *differences) Report(r cmp.Result) {
	if !r.Equal() {
		d.paths = append(d.paths, strings.TrimPrefix(d.at.String(), "."))
	}
}

// TestProfilesAreValid checks that a small configuration works in every profile, and without a key.
func TestProfilesAreValid(t *testing.T) {
	for _, name := range append([]string{""}, profileNames()...) {
		from, _ := Profile(name)
		c, u, m, target := from.Config, from.Upstream, from.Model, from.Target
		u.Name, u.BaseURL, u.Wires = "a", "https://a.example/v1", []string{"openai-chat"}
		target.Upstream = "a"
		m.ID, m.Targets = "m", []Target{target}
		p := from.Preset
		p.ID, p.Models = "p", []string{"m"}
		c.Upstreams, c.Models, c.Presets = []Upstream{u}, []Model{m}, []Preset{p}
		if got := c.Validate(); got != nil {
			t.Errorf("profile %q: %v", name, got)
		}
	}
}

func TestUnknownProfile(t *testing.T) {
	plain, _ := Profile("")
	from, ok := Profile("optarisk")
	if diff := cmp.Diff(plain, from, cmp.AllowUnexported(Secret{})); diff != "" || ok {
		t.Errorf("%v %s", ok, diff)
	}
	c := valid()
	c.Profile = "optarisk"
	if got := c.Validate(); len(got) != 1 || !strings.Contains(got[0].Detail, `Did you mean "optaris"?`) {
		t.Error(got)
	}
}

// TestProfileIsACopy checks that a program may change what it was given.
func TestProfileIsACopy(t *testing.T) {
	for _, name := range profileNames() {
		a, _ := Profile(name)
		a.Config.Affinity.Sources[0] = "changed"
		for i := range a.Config.Clients {
			a.Config.Clients[i].Name = "changed"
		}
		if a.Upstream.HealthCheck != nil {
			a.Upstream.HealthCheck.Path = "changed"
		}
		if b, _ := Profile(name); strings.Contains(fmt.Sprintf("%+v %+v", b, b.Upstream.HealthCheck), "changed") {
			t.Errorf("profile %q was changed", name)
		}
	}
}
