package router

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-llm/signalbox/router/catalog"
	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// Status is a look at the engine as it is now.
type Status struct {
	StartedAt      time.Time        `json:"started_at"`
	ConfigRevision int              `json:"config_revision"` // grows by one with every configuration that is applied
	InFlight       int64            `json:"in_flight"`       // without those that wait for their turn
	Queued         int64            `json:"queued"`
	Upstreams      []UpstreamStatus `json:"upstreams"`
	Recent         []Recent         `json:"recent"` // newest first
}

// UpstreamStatus is one account. Times are absent where there is nothing to tell; RemainingMS is -1 for a cooling that
// ends only by hand. What JSON leaves out is for GET /health.
type UpstreamStatus struct {
	Index         int            `json:"index"`
	Name          string         `json:"name"`
	URL           string         `json:"url"`
	Wires         []string       `json:"wires"`
	State         string         `json:"state"`
	Reason        string         `json:"reason,omitempty"`
	Since         *time.Time     `json:"since,omitempty"`
	Until         *time.Time     `json:"until,omitempty"`
	RemainingMS   int64          `json:"remaining_ms"`
	Manual        bool           `json:"manual"`
	InFlight      int            `json:"in_flight"`
	ProbeInFlight bool           `json:"probe_in_flight"`
	LastError     *LastError     `json:"last_error,omitempty"`
	Targets       []TargetStatus `json:"targets"`
	Failures      int            `json:"-"` // of the account since its last success
}

// LastError is the newest failure of an account or a target.
type LastError struct {
	Type   string    `json:"type"`
	Status int       `json:"status"`
	At     time.Time `json:"at"`

	Reason health.Reason `json:"-"`
}

// TargetStatus is one model at an account.
type TargetStatus struct {
	Model         string     `json:"model"`
	State         string     `json:"state"`
	Reason        string     `json:"reason,omitempty"`
	Until         *time.Time `json:"until,omitempty"`
	RemainingMS   int64      `json:"remaining_ms"`
	Failures      int        `json:"failures"`
	ProbeInFlight bool       `json:"probe_in_flight"`
	Manual        bool       `json:"-"`
	LastError     *LastError `json:"-"`
}

// Recent is one request that has ended.
type Recent struct {
	Call          string    `json:"call"`
	TraceID       string    `json:"trace_id,omitempty"`
	At            time.Time `json:"at"`
	Wire          string    `json:"wire"`
	Model         string    `json:"model"`
	Session       string    `json:"session,omitempty"` // hash of the session's key
	Kind          string    `json:"kind"`              // why the first target tried was chosen
	Upstream      string    `json:"upstream,omitempty"`
	UpstreamModel string    `json:"upstream_model,omitempty"`
	Status        int       `json:"status"`
	Attempts      int       `json:"attempts"`
	DurationMS    float64   `json:"duration_ms"`
}

// Status describes the engine.
func (r *Router) Status() Status {
	s := r.snap.Load()
	now := r.opts.now()
	out := Status{StartedAt: r.started, ConfigRevision: s.revision, Queued: int64(r.queue.length()), Recent: r.recent.list()}
	out.InFlight = max(0, r.inFlight.Load()-out.Queued)
	views := map[string]health.UpstreamView{}
	for _, v := range r.ledger.View(now) {
		views[v.Name] = v
	}
	for _, a := range s.accounts {
		v := views[a.cfg.Name]
		u := UpstreamStatus{
			Index: a.index, Name: a.cfg.Name, URL: a.cfg.BaseURL, Wires: a.cfg.Wires, State: v.State, Reason: string(v.Reason),
			Since: timeOrNil(v.Since), Until: timeOrNil(v.Until), RemainingMS: remaining(v.Remaining, v.Manual), Manual: v.Manual,
			InFlight: v.InFlight, ProbeInFlight: v.ProbeInFlight, Targets: []TargetStatus{}, Failures: v.Fails,
			LastError: (*LastError)(v.LastError),
		}
		for _, t := range v.Targets {
			u.Targets = append(u.Targets, TargetStatus{
				Model: t.Model, State: t.State, Reason: string(t.Reason), Until: timeOrNil(t.Until),
				RemainingMS: remaining(t.Remaining, t.Manual), Failures: t.Failures, ProbeInFlight: t.ProbeInFlight, Manual: t.Manual,
				LastError: (*LastError)(t.LastError),
			})
		}
		out.Upstreams = append(out.Upstreams, u)
	}
	return out
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// remaining counts milliseconds; a rest that ends only by hand has -1.
func remaining(d time.Duration, manual bool) int64 {
	if manual && d <= 0 {
		return -1
	}
	return d.Milliseconds()
}

// targetStates is what the gauges of telemetry observe. Models that only clients name are no labels.
func (r *Router) targetStates() []telemetry.UpstreamState {
	s := r.snap.Load()
	var out []telemetry.UpstreamState
	views := map[string]health.UpstreamView{}
	for _, v := range r.ledger.View(r.opts.now()) {
		views[v.Name] = v
	}
	for i, k := range s.known() {
		v := views[k.Name]
		u := telemetry.UpstreamState{
			Upstream: k.Name, Account: telemetry.Rest{Remaining: v.Remaining, Manual: v.Manual}, Quotas: s.accounts[i].quota.list(),
		}
		for _, t := range v.Targets {
			if slices.Contains(k.Targets, t.Model) {
				u.Targets = append(u.Targets, telemetry.TargetState{
					Model: t.Model, State: stateIn(v, t), Cooling: telemetry.Rest{Remaining: t.Remaining, Manual: t.Manual},
				})
			}
		}
		out = append(out, u)
	}
	return out
}

// stateIn is a target's state as its account allows: what holds the account off holds all of its targets off.
func stateIn(account health.UpstreamView, t health.TargetView) string {
	switch account.State {
	case health.StateHealthy:
		return t.State
	case health.StateProbing:
		if t.State != health.StateHealthy {
			return t.State
		}
	}
	return account.State
}

func (q *quota) list() []telemetry.QuotaState {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []telemetry.QuotaState
	for kind, share := range q.shares {
		out = append(out, telemetry.QuotaState{Kind: kind, Utilization: share})
	}
	return out
}

// recent keeps the newest requests that have ended.
type recent struct {
	mu   sync.Mutex
	ring []Recent
	next int
}

// add keeps one request; limit is how many are kept, 0 for none.
func (r *recent) add(limit int, e Recent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ring) > limit || len(r.ring) < limit && r.next != len(r.ring) { // a reload changed the limit
		r.ring = newestLast(r.ring, r.next)
		r.ring = r.ring[max(0, len(r.ring)-limit):]
		r.next = len(r.ring)
	}
	switch {
	case limit == 0:
	case len(r.ring) < limit:
		r.ring = append(r.ring, e)
		r.next = len(r.ring)
	default:
		r.next %= limit
		r.ring[r.next] = e
		r.next++
	}
}

func (r *recent) list() []Recent {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := newestLast(r.ring, r.next)
	slices.Reverse(out)
	return out
}

// newestLast unrolls a ring whose next place is at next.
func newestLast(ring []Recent, next int) []Recent {
	out := make([]Recent, 0, len(ring))
	if next < len(ring) {
		out = append(out, ring[next:]...)
		return append(out, ring[:next]...)
	}
	return append(out, ring...)
}

// ModelInfo is what clients may know about a model: what the configuration says, and the catalogue where it says nothing.
// With several targets a limit is the smallest that is known, and an ability one that all known ones have.
type ModelInfo struct {
	ID            string
	Glob          bool
	Wires         []string
	ContextWindow int              // tokens, 0 = not told
	MaxInput      int              // tokens, 0 = not told
	MaxOutput     int              // tokens, 0 = not told
	Price         *telemetry.Price // nil = not known, or that of several models
	Provider      string           // of the first target, as telemetry names it
	Providers     []string         // names of the upstreams
	Abilities     []string         // flags of the catalogue
	Efforts       []string         // reasoning efforts
}

// Models lists what callers of a group may ask for, of any if it is empty: presets first, each kind in the order of the
// configuration.
func (r *Router) Models(group string) []ModelInfo {
	var out []ModelInfo
	for _, m := range r.snap.Load().models {
		if info := m.info(group); len(info.Providers) > 0 {
			out = append(out, info)
		}
	}
	return out
}

func (m *model) info(group string) ModelInfo {
	info := ModelInfo{ID: m.id, Glob: strings.Contains(m.id, "*"), Wires: m.wires()}
	met := false
	for _, t := range m.targets {
		if group != "" && !slices.Contains(t.groups, group) {
			continue
		}
		if info.Providers == nil && len(t.wires) > 0 {
			info.Provider = t.provider(t.wires[0])
		}
		if !slices.Contains(info.Providers, t.cfg.Name) {
			info.Providers = append(info.Providers, t.cfg.Name)
		}
		e, known := catalog.Lookup(t.declared())
		cfg := t.of.cfg
		info.ContextWindow = smallest(info.ContextWindow, cmp.Or(cfg.ContextWindow, e.Context))
		info.MaxInput = smallest(info.MaxInput, cmp.Or(cfg.ContextWindow, e.MaxInput))
		info.MaxOutput = smallest(info.MaxOutput, cmp.Or(cfg.MaxOutput, e.MaxOutput))
		if p := priceOf(cfg, t.declared()); p != nil && info.Price == nil && len(m.members) == 1 {
			info.Price = p
		}
		switch {
		case known && !met:
			met, info.Abilities, info.Efforts = true, slices.Clone(e.Flags), slices.Clone(e.Efforts)
		case known:
			info.Abilities = slices.DeleteFunc(info.Abilities, func(f string) bool { return !e.Has(f) })
			info.Efforts = slices.DeleteFunc(info.Efforts, func(f string) bool { return !e.TakesEffort(f) })
		}
	}
	return info
}

// smallest is the smaller of two limits, of which 0 means that it is not known.
func smallest(a, b int) int {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// Cool takes an account (model empty) or one declared target out of use, for d or, with 0, until it is uncooled. Learned
// pins of the upstream are forgotten.
func (r *Router) Cool(name, model string, d time.Duration) error {
	if err := r.ledger.Cool(r.opts.now(), name, model, d); err != nil {
		return err
	}
	r.forgetPins(name)
	r.tel.Upstream(name).Cooling(context.Background(), scopeOf(model), telemetry.ReasonOperator, telemetry.SourceOperator, d)
	return nil
}

// Uncool ends every cooling of an account (model empty: its targets' too) or of one target, and returns how many there
// were.
func (r *Router) Uncool(name, model string) (int, error) {
	n, err := r.ledger.Uncool(r.opts.now(), name, model)
	if err == nil {
		r.forgetPins(name)
	}
	return n, err
}

// forgetPins drops the pins of an upstream that an operator has cooled or uncooled; in Switchblade's way those of all, so
// that every session finds back to its first choice.
func (r *Router) forgetPins(name string) {
	if r.snap.Load().cfg.Profile == "switchblade" {
		name = ""
	}
	r.opts.pins.Forget(name)
}

// Lifted counts what ResetHealth lifted.
type Lifted struct {
	Accounts int `json:"accounts"`
	Targets  int `json:"targets"`
	Sessions int `json:"sessions"`
	Manual   int `json:"manual"`
	Ejected  int `json:"ejected"`
	Pins     int `json:"pins"`
}

// ResetHealth lifts everything that can hold a request off.
func (r *Router) ResetHealth() Lifted {
	l := r.ledger.Reset(r.opts.now())
	return Lifted{Accounts: l.Accounts, Targets: l.Targets, Sessions: l.Sessions, Manual: l.Manual, Ejected: l.Ejected, Pins: r.opts.pins.Forget("")}
}

func scopeOf(model string) string {
	if model == "" {
		return telemetry.ScopeAccount
	}
	return telemetry.ScopeTarget
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
