package settings

import "time"

// Defaults returns a configuration in which every field has its documented default, with no upstream and no model. What
// repeats (upstreams, models, ...) starts from its own constructor below.
func Defaults() Config {
	return Config{
		Server: Server{
			Listen:          "127.0.0.1:4141",
			MaxBody:         32 << 20,
			MaxQueueDepth:   256,
			DrainTimeout:    20 * time.Second,
			RecentRequests:  500,
			ResponseHeaders: true,
		},
		Affinity: Affinity{
			Mode:        "prefer",
			PinTTL:      2 * time.Hour,
			Renew:       true,
			PrefixKey:   true,
			Cache:       true,
			CacheTTL:    5 * time.Minute,
			MaxSessions: 10000,
		},
		Cooling: Cooling{
			Scope:        "auto",
			RateLimit:    RateLimitBackoff{Base: 30 * time.Second, Cap: 10 * time.Minute, Scope: "auto"},
			Auth:         Backoff{Base: time.Minute, Cap: 30 * time.Minute},
			Billing:      Backoff{Base: 30 * time.Second, Cap: 5 * time.Minute},
			Server:       ServerBackoff{Base: 30 * time.Second, Cap: 5 * time.Minute, After: 1},
			QuotaDefault: 168 * time.Hour,
			HintCap:      time.Hour,
			ProbeEvery:   time.Hour,
			OutageWindow: time.Minute,
			Exclusion:    30 * time.Second,
			NoneEligible: "auto",
			HealthyOn:    "output",
		},
		Failover: Failover{
			Budget:        5 * time.Minute,
			RetryAfterCap: 30 * time.Second,
			StreamError:   "event",
			MoveOn:        "auto",
			CommitOn:      "output",
			AllFailed:     "answer",
			Distinct:      "target",
		},
		State:     State{Kind: "memory", Prefix: "signalbox:"},
		Telemetry: TelemetrySettings{Capture: "off"},
	}
}

// DefaultKey returns a key that may only be used for inference.
func DefaultKey() Key { return Key{Scope: "inference"} }

// DefaultUpstream returns an enabled upstream without address, credential and name.
func DefaultUpstream() Upstream {
	return Upstream{
		PriceWeight:   1,
		Enabled:       true,
		DeveloperRole: "keep",
		StreamUsage:   true,
		Mode:          "one-shot",
		Timeouts: Timeouts{
			Connect:    10 * time.Second,
			FirstByte:  45 * time.Second,
			FirstEvent: 2 * time.Minute,
			Idle:       3 * time.Minute,
			Response:   10 * time.Minute,
		},
	}
}

// DefaultHealthCheck returns what an empty health_check block means; without the block there is no check.
func DefaultHealthCheck() HealthCheck {
	return HealthCheck{Path: "/v1/models", Interval: 20 * time.Second, Failures: 3}
}

// DefaultModel returns a model without id and targets.
func DefaultModel() Model {
	return Model{
		Strategy:     "failover",
		AffinityPool: 1,
		RewriteModel: true,
		Retry: Retry{
			Base:       time.Second,
			Cap:        8 * time.Second,
			Multiplier: 2,
			Budget:     15 * time.Second,
		},
	}
}

// DefaultTarget returns a target that asks for the model the client asked for.
func DefaultTarget() Target { return Target{Weight: 1, Translate: "drop"} }

// DefaultPreset returns a preset without id and models.
func DefaultPreset() Preset { return Preset{Strategy: "affinity", AffinityPool: 1} }

// DefaultUsageStore returns what an empty usage block means; without the block nothing is stored.
func DefaultUsageStore() UsageStore { return UsageStore{Path: "usage.db"} }
