// Package settings is what one configuration says: its fields with their documented defaults, and everything that can be
// wrong with them. It must not know how it was written down, nor how the engine carries it out.
package settings

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"log/slog"
	"time"
)

// Config is everything one configuration file says. The zero value is not usable: start from Defaults, which holds the
// documented default of every field. The hcl tags are only strings; package router/config reads them.
type Config struct {
	Profile     string            `hcl:"profile,optional"`
	Defaults    Fields            `hcl:"defaults,optional"` // body fields for every request that leaves them out
	Server      Server            `hcl:"server,block"`
	Auth        Auth              `hcl:"auth,block"`
	Upstreams   []Upstream        `hcl:"upstream,block"`
	Models      []Model           `hcl:"model,block"`
	Presets     []Preset          `hcl:"preset,block"`
	Passthrough *Passthrough      `hcl:"passthrough,block"`
	Groups      []Group           `hcl:"group,block"`
	Clients     []Client          `hcl:"client,block"`
	Affinity    Affinity          `hcl:"affinity,block"`
	Cooling     Cooling           `hcl:"cooling,block"`
	Failover    Failover          `hcl:"failover,block"`
	State       State             `hcl:"state,block"`
	Usage       *UsageStore       `hcl:"usage,block"`
	Telemetry   TelemetrySettings `hcl:"telemetry,block"`
}

// Fields are top-level members of a request body by name, each as raw JSON.
type Fields map[string]json.RawMessage

// Size is a number of bytes.
type Size int64

// Server holds the listener and the limits that hold for every request.
type Server struct {
	Listen                string        `hcl:"listen,optional"`
	AdminListen           string        `hcl:"admin_listen,optional"` // empty: the control plane is on Listen
	AllowUnauthenticated  bool          `hcl:"allow_unauthenticated,optional"`
	MaxBody               Size          `hcl:"max_body,optional"`
	MaxConcurrentRequests int           `hcl:"max_concurrent_requests,optional"` // 0 = no ceiling
	MaxQueueDepth         int           `hcl:"max_queue_depth,optional"`
	RequestTimeout        time.Duration `hcl:"request_timeout,optional"` // 0 = none
	DrainTimeout          time.Duration `hcl:"drain_timeout,optional"`
	RecentRequests        int           `hcl:"recent_requests,optional"`
	ResponseHeaders       bool          `hcl:"response_headers,optional"` // X-Router-* on answers
}

// Auth holds the keys that callers present.
type Auth struct {
	Keys           []Key    `hcl:"key,block"`
	IssuedKeysFile string   `hcl:"issued_keys_file,optional"`
	Open           []string `hcl:"open,optional"` // what nobody needs a key for: health, models, config
}

// Key is one credential that callers may present.
type Key struct {
	Name   string `hcl:"name,label"`
	Secret Secret `hcl:"secret,optional"`
	Scope  string `hcl:"scope,optional"` // inference or admin
	Group  string `hcl:"group,optional"`
}

// Shape is the set of edits that an upstream or a target makes to a request body, in the upstream's vocabulary.
type Shape struct {
	Defaults Fields            `hcl:"defaults,optional"` // set where the client and every higher layer left them out
	Set      Fields            `hcl:"set,optional"`      // forced; never model
	Drop     []string          `hcl:"drop,optional"`
	Rename   map[string]string `hcl:"rename,optional"` // after drop
}

// Upstream is one account at one provider.
type Upstream struct {
	Name            string            `hcl:"name,label"`
	BaseURL         string            `hcl:"base_url,optional"`
	Wires           []string          `hcl:"wires,optional"`
	APIKey          Secret            `hcl:"api_key,optional"`
	Auth            string            `hcl:"auth,optional"`    // bearer, x-api-key, both, x-goog-api-key, none; empty: by wire
	Headers         map[string]Secret `hcl:"headers,optional"` // override what the client sent
	Clients         []string          `hcl:"clients,optional"`
	MaxConcurrent   int               `hcl:"max_concurrent,optional"`
	PriceWeight     float64           `hcl:"price_weight,optional"`
	CacheTTL        time.Duration     `hcl:"cache_ttl,optional"` // how long its provider keeps a prompt cache; 0 = affinity.cache_ttl
	Enabled         bool              `hcl:"enabled,optional"`
	Shape           `hcl:",squash"`
	DeveloperRole   string       `hcl:"developer_role,optional"` // keep or system
	StreamUsage     bool         `hcl:"stream_usage,optional"`
	Provider        string       `hcl:"provider,optional"` // gen_ai.provider.name; empty: by host name, else by wire
	ReplayReasoning bool         `hcl:"replay_reasoning,optional"`
	Command         []string     `hcl:"command,optional"` // a local program instead of a URL
	Mode            string       `hcl:"mode,optional"`    // one-shot or persistent; only with Command
	Timeouts        Timeouts     `hcl:"timeouts,block"`
	HealthCheck     *HealthCheck `hcl:"health_check,block"`
}

// Timeouts bound one send to an upstream.
type Timeouts struct {
	Connect    time.Duration `hcl:"connect,optional"`
	FirstByte  time.Duration `hcl:"first_byte,optional"`  // streams: until response headers
	FirstEvent time.Duration `hcl:"first_event,optional"` // streams: until the first event that is no comment or ping
	Idle       time.Duration `hcl:"idle,optional"`        // streams: largest gap between bytes after it
	Response   time.Duration `hcl:"response,optional"`    // plain answers: the whole of it
	Stream     time.Duration `hcl:"stream,optional"`      // cap on a committed stream, 0 = none
}

// HealthCheck asks an upstream at intervals whether it is well.
type HealthCheck struct {
	Path     string        `hcl:"path,optional"`
	Interval time.Duration `hcl:"interval,optional"`
	Failures int           `hcl:"failures,optional"`
}

// Model is a client-facing id with an ordered list of targets.
type Model struct {
	ID            string   `hcl:"id,label"` // exact, or a glob with *
	Wires         []string `hcl:"wires,optional"`
	Strategy      string   `hcl:"strategy,optional"`
	AffinityPool  int      `hcl:"affinity_pool,optional"`
	Targets       []Target `hcl:"target,block"`
	Defaults      Fields   `hcl:"defaults,optional"`
	RewriteModel  bool     `hcl:"rewrite_model,optional"`
	ContextWindow int      `hcl:"context_window,optional"` // tokens, 0 = as the catalogue has it
	MaxOutput     int      `hcl:"max_output,optional"`     // tokens, 0 = as the catalogue has it
	Price         *Price   `hcl:"price,block"`             // nil = as the catalogue has it, for each target
	Retry         Retry    `hcl:"retry,block"`
}

// Target is one (upstream, upstream model) pair of a model.
type Target struct {
	Upstream  string `hcl:"upstream,label"`
	Model     string `hcl:"model,optional"` // empty: what the client asked for
	Weight    int    `hcl:"weight,optional"`
	Wire      string `hcl:"wire,optional"`
	Translate string `hcl:"translate,optional"` // drop or strict
	Shape     `hcl:",squash"`
}

// Price is in USD per million tokens.
type Price struct {
	Input        float64  `hcl:"input,optional"`
	Output       float64  `hcl:"output,optional"`
	CacheRead    float64  `hcl:"cache_read,optional"`
	CacheWrite   float64  `hcl:"cache_write,optional"`
	CacheWrite1h float64  `hcl:"cache_write_1h,optional"` // of writes that last for an hour; 0 = as CacheWrite
	OffPeak      *OffPeak `hcl:"off_peak,block"`
}

// OffPeak multiplies a price by Factor on the given days (1 = Monday; "1-5", "6,7", empty = every day) and hours (UTC;
// "01-04,16:30-00:30", empty = all day).
type OffPeak struct {
	Days   string  `hcl:"days,optional"`
	Hours  string  `hcl:"hours,optional"`
	Factor float64 `hcl:"factor,optional"`
}

// Retry repeats a request on the same target, only when nothing else is eligible.
type Retry struct {
	Max        int           `hcl:"max,optional"`
	Base       time.Duration `hcl:"base,optional"`
	Cap        time.Duration `hcl:"cap,optional"`
	Multiplier float64       `hcl:"multiplier,optional"`
	Budget     time.Duration `hcl:"budget,optional"`
}

// Preset is a client-facing policy over several models.
type Preset struct {
	ID           string         `hcl:"id,label"`
	Strategy     string         `hcl:"strategy,optional"`
	AffinityPool int            `hcl:"affinity_pool,optional"`
	Models       []string       `hcl:"models,optional"`
	Weights      map[string]int `hcl:"weights,optional"`
	Defaults     Fields         `hcl:"defaults,optional"`
}

// Passthrough relays paths that are no inference as they are.
type Passthrough struct {
	Upstreams []string `hcl:"upstreams,optional"`
}

// Group restricts callers to some upstreams.
type Group struct {
	Name      string   `hcl:"name,label"`
	Upstreams []string `hcl:"upstreams,optional"`
}

// Client names a client type by its User-Agent.
type Client struct {
	Name      string `hcl:"name,label"`
	UserAgent string `hcl:"user_agent,optional"`
	Retries   int    `hcl:"retries,optional"`
}

// Affinity keeps a conversation where its prompt cache lives.
type Affinity struct {
	Mode        string        `hcl:"mode,optional"`    // off, prefer or strict
	Sources     []string      `hcl:"sources,optional"` // where session keys are looked for, in this order; empty = everywhere
	PinTTL      time.Duration `hcl:"pin_ttl,optional"` // 0 = pins do not expire
	Renew       bool          `hcl:"renew,optional"`   // every use prolongs a pin; false: PinTTL runs from the binding
	PrefixKey   bool          `hcl:"prefix_key,optional"`
	Cache       bool          `hcl:"cache,optional"`
	CacheTTL    time.Duration `hcl:"cache_ttl,optional"`
	MaxSessions int           `hcl:"max_sessions,optional"`
}

// Cooling says how long a failing account or target rests.
type Cooling struct {
	Scope        string           `hcl:"scope,optional"` // what a failure holds off: auto (as it says), account or target
	RateLimit    RateLimitBackoff `hcl:"rate_limit,block"`
	Auth         Backoff          `hcl:"auth,block"`
	Billing      Backoff          `hcl:"billing,block"`
	Server       ServerBackoff    `hcl:"server,block"`
	QuotaDefault time.Duration    `hcl:"quota_default,optional"`
	HintCap      time.Duration    `hcl:"hint_cap,optional"`    // 0 = any hint is believed
	ProbeEvery   time.Duration    `hcl:"probe_every,optional"` // 0 = never
	OutageWindow time.Duration    `hcl:"outage_window,optional"`
	Exclusion    time.Duration    `hcl:"exclusion,optional"`
	NoneEligible string           `hcl:"none_eligible,optional"` // auto, reject, soonest or clear
	HealthyOn    string           `hcl:"healthy_on,optional"`    // output: only usable output is a success; answer: any that is not failed over
}

// Backoff doubles from Base up to Cap.
type Backoff struct {
	Base time.Duration `hcl:"base,optional"`
	Cap  time.Duration `hcl:"cap,optional"`
}

// RateLimitBackoff is a Backoff for 429 answers; Scope is auto, account or target.
type RateLimitBackoff struct {
	Base  time.Duration `hcl:"base,optional"`
	Cap   time.Duration `hcl:"cap,optional"`
	Scope string        `hcl:"scope,optional"`
}

// ServerBackoff is a Backoff for server failures, which begins at the After-th in a row.
type ServerBackoff struct {
	Base  time.Duration `hcl:"base,optional"`
	Cap   time.Duration `hcl:"cap,optional"`
	After int           `hcl:"after,optional"`
}

// Failover bounds how often and how long a request looks for another target.
type Failover struct {
	MaxAttempts     int           `hcl:"max_attempts,optional"` // 0 = every eligible target once
	Budget          time.Duration `hcl:"budget,optional"`
	SameTargetFirst int           `hcl:"same_target_first,optional"`
	RetryAfterCap   time.Duration `hcl:"retry_after_cap,optional"` // 0 = the true time is told
	StreamError     string        `hcl:"stream_error,optional"`    // event or cut
	MoveOn          string        `hcl:"move_on,optional"`         // what another target is tried after: auto, status, any or connection
	CommitOn        string        `hcl:"commit_on,optional"`       // when a stream becomes the client's: output, event or headers
	AllFailed       string        `hcl:"all_failed,optional"`      // what is told then: answer (the last one), bad_gateway or unavailable
	Distinct        string        `hcl:"distinct,optional"`        // one request tries each target or each upstream once: target, upstream
}

// State says where pins and coolings live.
type State struct {
	Kind   string `hcl:"kind,label"` // memory or redis
	URL    Secret `hcl:"url,optional"`
	Prefix string `hcl:"prefix,optional"`
}

// UsageStore says where one row per request is kept.
type UsageStore struct {
	Path    string `hcl:"path,optional"`
	URL     Secret `hcl:"url,optional"`
	MaxRows int    `hcl:"max_rows,optional"`
}

// TelemetrySettings say what is exported and where to; the engine reads PropagateUpstream and Capture only. What is left
// empty here is left to the OTEL_* variables and, without those, to the exporters' defaults.
type TelemetrySettings struct {
	ServiceName       string          `hcl:"service_name,optional"` // empty: OTEL_SERVICE_NAME, else signalbox
	OTLP              OTLP            `hcl:"otlp,block"`
	Traces            TracesSettings  `hcl:"traces,block"`
	Metrics           MetricsSettings `hcl:"metrics,block"`
	PropagateUpstream bool            `hcl:"propagate_upstream,optional"`
	Capture           string          `hcl:"capture,optional"` // off, failed or all
}

// OTLP is where telemetry goes; an empty Endpoint leaves it to the OTEL_* variables, and without those nothing is sent.
type OTLP struct {
	Endpoint string            `hcl:"endpoint,optional"`
	Protocol string            `hcl:"protocol,optional"` // http/protobuf or grpc
	Headers  map[string]Secret `hcl:"headers,optional"`
}

// TracesSettings holds the share of traces that are kept, 0 to 1; nil leaves it to OTEL_TRACES_SAMPLER, else all are.
type TracesSettings struct {
	SampleRatio *float64 `hcl:"sample_ratio,optional"`
}

// MetricsSettings says how often metrics leave; zero leaves it to OTEL_METRIC_EXPORT_INTERVAL, else 15 s.
type MetricsSettings struct {
	Interval         time.Duration `hcl:"interval,optional"`
	PrometheusListen string        `hcl:"prometheus_listen,optional"`
}

// redacted is all that a Secret shows of itself.
const redacted = "[redacted]"

// Secret is a credential. It prints as [redacted] in every form (fmt, slog, JSON); only Reveal gives its value.
type Secret struct {
	value  string
	origin string
}

// NewSecret wraps a credential. Origin tells people where it came from ("env NAME", "file PATH", "secret NAME"); empty
// means that it was written down literally.
func NewSecret(value, origin string) Secret { return Secret{value: value, origin: origin} }

// Reveal returns the credential itself, for the one place that sends or compares it.
func (s Secret) Reveal() string { return s.value }

// Origin tells where the credential came from, "literal" if it was written down, "" if there is none.
func (s Secret) Origin() string {
	if s.value != "" && s.origin == "" {
		return "literal"
	}
	return s.origin
}

// IsZero reports whether there is no credential.
func (s Secret) IsZero() bool { return s.value == "" }

// Matches compares in time that does not depend on where the two differ, nor on the length of the credential.
func (s Secret) Matches(given string) bool {
	a, b := sha256.Sum256([]byte(s.value)), sha256.Sum256([]byte(given))
	return s.value != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// String implements fmt.Stringer.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// MarshalText keeps the value out of JSON and every other text encoding.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
