package settings

import "time"

// Template is what a configuration and each of its blocks start from before anything is written in them.
type Template struct {
	Config      Config
	Key         Key
	Upstream    Upstream
	HealthCheck HealthCheck
	Model       Model
	Target      Target
	Preset      Preset
	UsageStore  UsageStore
}

// profiles are the four routers whose ways can be had by name. Each changes the documented defaults where it differs.
var profiles = []struct {
	name  string
	adapt func(*Template)
}{
	{"llm-router", llmRouter},
	{"switchblade", switchblade},
	{"optaris", optaris},
	{"copilot-api-router", copilotAPIRouter},
}

// Profile returns the defaults of a profile, its own copy each time; those of the empty name are the documented ones. An
// unknown name gives these too, and false.
func Profile(name string) (Template, bool) {
	t := Template{
		Config: Defaults(), Key: DefaultKey(), Upstream: DefaultUpstream(), HealthCheck: DefaultHealthCheck(),
		Model: DefaultModel(), Target: DefaultTarget(), Preset: DefaultPreset(), UsageStore: DefaultUsageStore(),
	}
	for _, p := range profiles {
		if p.name == name {
			t.Config.Profile = name
			p.adapt(&t)
			return t, true
		}
	}
	return t, name == ""
}

func profileNames() []string {
	names := make([]string, len(profiles))
	for i, p := range profiles {
		names[i] = p.name
	}
	return names
}

// llmRouter always tries something: three targets by weight, one breaker an account, and no word about what was rejected.
func llmRouter(t *Template) {
	c := &t.Config
	c.Server.Listen = "127.0.0.1:8787"
	c.Affinity.Sources = []string{"x-omp-session", "x-session-id", "x-conversation-id", "x-sticky-key"}
	c.Affinity.Renew = false
	t.strategy("weighted")
	t.Upstream.MaxConcurrent = 8
	t.Upstream.Timeouts = Timeouts{Connect: 10 * time.Second, FirstByte: 2 * time.Minute, Idle: 3 * time.Minute, Stream: 45 * time.Minute}

	c.Cooling.Scope, c.Cooling.RateLimit.Scope = "account", "account"
	c.Cooling.flat(30*time.Second, 4)
	c.Cooling.RateLimit.Base, c.Cooling.RateLimit.Cap, c.Cooling.QuotaDefault = 20*time.Second, 20*time.Second, 20*time.Second
	c.Cooling.HintCap = 0
	c.Cooling.ProbeEvery, c.Cooling.Exclusion = 0, 0
	c.Cooling.NoneEligible, c.Cooling.HealthyOn = "soonest", "answer"

	c.Failover = Failover{
		MaxAttempts: 3, MoveOn: "status", CommitOn: "headers", StreamError: "cut", AllFailed: "bad_gateway", Distinct: "target",
	}
}

// switchblade never tries what rests, moves whole conversations, and tells failures as its own 503.
func switchblade(t *Template) {
	c := &t.Config
	c.Server.Listen = "127.0.0.1:8787"
	c.Auth.Open = []string{"health", "models", "config"}
	c.Affinity.Sources = []string{"x-session-affinity", "x-session-id", "session_id", "sessionId", "user"}
	c.Affinity.PrefixKey, c.Affinity.Cache = false, false
	c.Affinity.PinTTL = 0
	t.strategy("affinity")
	t.Model.RewriteModel = false
	t.Upstream.Timeouts = Timeouts{Connect: 45 * time.Second, FirstByte: 45 * time.Second, Idle: 2 * time.Minute}

	c.Cooling.RateLimit.Scope = "account"
	c.Cooling.ProbeEvery = 0
	c.Cooling.NoneEligible = "reject"

	c.Failover = Failover{MoveOn: "auto", CommitOn: "headers", StreamError: "cut", AllFailed: "unavailable", Distinct: "upstream"}
}

// optaris tries a target twice, then the next after any failure at all; a rest never keeps it from trying.
func optaris(t *Template) {
	c := &t.Config
	// Agents that repeat requests themselves are not helped. A file with client rules of its own has only those.
	c.Clients = []Client{{Name: "claude-code", UserAgent: "claude-cli/*"}, {Name: "codex", UserAgent: "codex*"}}
	c.Affinity.Sources = []string{"session_id", "session-id", "metadata.user_id"}
	c.Affinity.PrefixKey, c.Affinity.Cache = false, false
	c.Affinity.PinTTL = 10 * time.Minute
	t.strategy("scored")
	t.Model.RewriteModel = false
	t.Upstream.Timeouts = Timeouts{
		FirstEvent: time.Minute, Idle: 90 * time.Second, Response: 4 * time.Minute, Stream: 10 * time.Minute,
	}

	const rest = 20 * time.Second
	c.Cooling.Scope, c.Cooling.RateLimit.Scope = "target", "target"
	c.Cooling.flat(rest, 1)
	c.Cooling.QuotaDefault, c.Cooling.HintCap, c.Cooling.Exclusion = rest, rest, rest
	c.Cooling.ProbeEvery, c.Cooling.OutageWindow = 0, 0
	c.Cooling.NoneEligible, c.Cooling.HealthyOn = "clear", "answer"

	c.Failover = Failover{
		Budget: 5 * time.Minute, SameTargetFirst: 1,
		MoveOn: "any", CommitOn: "event", StreamError: "event", AllFailed: "bad_gateway", Distinct: "target",
	}
}

// copilotAPIRouter gives every conversation an owner among equal accounts and hands on what that says, byte for byte.
func copilotAPIRouter(t *Template) {
	c := &t.Config
	c.Server.MaxBody = 8 << 20
	c.Server.MaxConcurrentRequests, c.Server.MaxQueueDepth = 64, 256
	c.Server.RequestTimeout = 15 * time.Minute
	c.Affinity.Mode = "strict"
	c.Affinity.Sources = []string{
		"x-claude-code-session-id", "x-codex-turn-metadata", "subagent-marker", "x-session-affinity", "prompt_cache_key",
	}
	c.Affinity.PrefixKey, c.Affinity.Cache = false, false
	t.strategy("rendezvous")
	t.Model.RewriteModel = false
	t.Upstream.Auth, t.Upstream.StreamUsage = "both", false
	t.Upstream.HealthCheck = new(t.HealthCheck)
	t.Upstream.Timeouts = Timeouts{}

	c.Cooling.Scope, c.Cooling.RateLimit.Scope = "account", "account"
	c.Cooling.flat(30*time.Second, 3)
	c.Cooling.ProbeEvery, c.Cooling.Exclusion = 0, 0
	c.Cooling.NoneEligible, c.Cooling.HealthyOn = "reject", "answer"

	c.Failover = Failover{MoveOn: "connection", CommitOn: "headers", StreamError: "cut", AllFailed: "answer", Distinct: "upstream"}
}

// strategy is the order of targets and of a preset's models alike.
func (t *Template) strategy(name string) { t.Model.Strategy, t.Preset.Strategy = name, name }

// flat makes every rest as long as the first one; those after server failures begin with the after-th in a row.
func (c *Cooling) flat(rest time.Duration, after int) {
	c.RateLimit.Base, c.RateLimit.Cap = rest, rest
	c.Auth, c.Billing = Backoff{Base: rest, Cap: rest}, Backoff{Base: rest, Cap: rest}
	c.Server = ServerBackoff{Base: rest, Cap: rest, After: after}
}
