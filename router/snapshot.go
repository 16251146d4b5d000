package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// unknown is the label of everything that a client names and the configuration does not.
const unknown = telemetry.Unnamed

// snapshot is one configuration, made ready: whatever a request needs is looked up here and nowhere else.
type snapshot struct {
	cfg      settings.Config
	revision int
	policy   policy
	accounts []*account
	exact    map[string]*model
	globs    []*model                               // longest literal first
	strange  map[wire.Name]*telemetry.ModelRecorder // for requests whose model is not known, or not even the wire
}

// account is an upstream, made ready.
type account struct {
	cfg     *settings.Upstream
	index   int
	base    *url.URL
	wires   []*wire.Wire
	client  *upstream.Client
	rec     *telemetry.UpstreamRecorder
	address string
	port    int
	quota   *quota
}

// model is a client-facing id, made ready.
type model struct {
	cfg     *settings.Model
	targets []*target
	order   strategy.Strategy
	recs    map[wire.Name]*telemetry.ModelRecorder
}

// target is one (upstream, upstream model) pair of a model, made ready.
type target struct {
	*account
	model string // empty: what the client asked for
	wire  *wire.Wire
	shape shape
	label string // what spans are named after: an id that the configuration has
	recs  map[recorderKey]*telemetry.TargetRecorder
}

type recorderKey struct {
	wire wire.Name
	op   wire.Op
}

// compile makes a configuration ready. Upstream clients whose address and connect settings are the same are taken over
// with their warm connections.
func (r *Router) compile(cfg settings.Config, revision int) (*snapshot, map[string]*upstream.Client, error) {
	s := &snapshot{cfg: cfg, revision: revision, policy: policyOf(&cfg), exact: map[string]*model{}}
	clients := map[string]*upstream.Client{}
	byName := map[string]*account{}
	for i := range s.cfg.Upstreams {
		a, err := r.compileAccount(&s.cfg, i)
		if err != nil {
			return nil, nil, err
		}
		clients[a.cfg.Name] = a.client
		byName[a.cfg.Name] = a
		s.accounts = append(s.accounts, a)
	}
	for i := range s.cfg.Models {
		m := r.compileModel(&s.cfg, &s.cfg.Models[i], byName)
		if strings.Contains(m.cfg.ID, "*") {
			s.globs = append(s.globs, m)
		} else {
			s.exact[m.cfg.ID] = m
		}
	}
	slices.SortStableFunc(s.globs, func(a, b *model) int { return literals(b.cfg.ID) - literals(a.cfg.ID) })
	s.strange = r.modelRecorders(unknown)
	s.strange[unknown] = r.tel.Model(unknown, unknown)
	return s, clients, nil
}

func (r *Router) compileAccount(cfg *settings.Config, i int) (*account, error) {
	u := &cfg.Upstreams[i]
	base, err := url.Parse(u.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: base_url is no URL", u.Name)
	}
	a := &account{cfg: u, index: i, base: base, rec: r.tel.Upstream(u.Name), address: base.Hostname(), quota: &quota{}}
	a.port = portOf(base)
	for _, name := range u.Wires {
		a.wires = append(a.wires, wire.ByName(wire.Name(name)))
	}
	conf := upstream.Config{
		Name: u.Name, Base: base, Connect: u.Timeouts.Connect,
		TracerProvider: r.opts.tracers, MeterProvider: r.opts.meters, Propagator: propagation.NewCompositeTextMapPropagator(),
	}
	if cfg.Telemetry.PropagateUpstream {
		conf.Propagator = propagator
	}
	if old := r.clients[u.Name]; old != nil && old.Same(conf) {
		a.client = old
	} else {
		a.client = upstream.New(conf)
	}
	if old := r.snap.Load(); old != nil {
		for _, o := range old.accounts {
			if o.client == a.client {
				a.quota = o.quota
			}
		}
	}
	return a, nil
}

func (r *Router) compileModel(cfg *settings.Config, m *settings.Model, accounts map[string]*account) *model {
	out := &model{cfg: m, order: strategy.Lookup(m.Strategy).New(), recs: r.modelRecorders(m.ID)}
	for i := range m.Targets {
		t := &m.Targets[i]
		a := accounts[t.Upstream]
		c := &target{
			account: a, model: t.Model, wire: wire.ByName(wire.Name(t.Wire)), label: t.Model,
			shape: shapeOf(cfg, a.cfg, t, m), recs: map[recorderKey]*telemetry.TargetRecorder{},
		}
		requested := t.Model
		if requested == "" {
			c.label, requested = m.ID, m.ID
			if strings.Contains(m.ID, "*") {
				requested = unknown
			}
		}
		for _, w := range a.wires {
			for _, op := range []wire.Op{wire.Generate, wire.CountTokens} {
				c.recs[recorderKey{w.Name, op}] = r.tel.Target(telemetry.TargetLabels{
					Model: m.ID, Upstream: a.cfg.Name, Provider: a.provider(w), RequestModel: requested,
					Operation: operation(w, op), ServerAddress: a.address, ServerPort: a.port,
				})
			}
		}
		out.targets = append(out.targets, c)
	}
	return out
}

func (r *Router) modelRecorders(id string) map[wire.Name]*telemetry.ModelRecorder {
	recs := map[wire.Name]*telemetry.ModelRecorder{}
	for _, w := range wire.All {
		recs[w.Name] = r.tel.Model(id, string(w.Name))
	}
	return recs
}

// zero makes the series that alerts read exist before their first event. Only the wires that a model can serve count.
func (s *snapshot) zero(ctx context.Context) {
	for _, a := range s.accounts {
		a.rec.Zero(ctx)
	}
	for _, m := range s.models() {
		served := map[wire.Name]bool{}
		for _, t := range m.targets {
			for _, w := range t.wires {
				if t.serves(m, w) {
					served[w.Name] = true
					t.recs[recorderKey{w.Name, wire.Generate}].Zero(ctx)
				}
			}
		}
		for name := range served {
			m.recs[name].Zero(ctx)
		}
	}
}

// models lists every model in the order of the configuration.
func (s *snapshot) models() []*model {
	all := make([]*model, 0, len(s.exact)+len(s.globs))
	for i := range s.cfg.Models {
		id := s.cfg.Models[i].ID
		if m := s.exact[id]; m != nil {
			all = append(all, m)
			continue
		}
		for _, m := range s.globs {
			if m.cfg.ID == id {
				all = append(all, m)
			}
		}
	}
	return all
}

// lookup finds the model that an id means: exact first, then the glob with the most literal bytes.
func (s *snapshot) lookup(id string) *model {
	if m := s.exact[id]; m != nil {
		return m
	}
	for _, m := range s.globs {
		if globMatch(m.cfg.ID, id) {
			return m
		}
	}
	return nil
}

// known lists the upstreams for the ledger, each with the targets that the configuration declares.
func (s *snapshot) known() []health.Upstream {
	known := make([]health.Upstream, 0, len(s.accounts))
	for _, a := range s.accounts {
		sum := sha256.Sum256([]byte(a.cfg.BaseURL + "\x00" + a.cfg.APIKey.Reveal()))
		h := health.Upstream{
			Name: a.cfg.Name, Enabled: a.cfg.Enabled, MaxConcurrent: a.cfg.MaxConcurrent, Fingerprint: hex.EncodeToString(sum[:]),
		}
		for _, m := range s.models() {
			for _, t := range m.targets {
				if id := t.declared(m); t.account == a && id != "" && !slices.Contains(h.Targets, id) {
					h.Targets = append(h.Targets, id)
				}
			}
		}
		known = append(known, h)
	}
	return known
}

// serves reports whether a target speaks the client's wire as a target of m.
func (t *target) serves(m *model, w *wire.Wire) bool {
	return slices.Contains(t.wires, w) && (t.wire == nil || t.wire == w) &&
		(len(m.cfg.Wires) == 0 || slices.Contains(m.cfg.Wires, string(w.Name)))
}

// declared is the upstream model that the configuration names, "" where only a request can tell.
func (t *target) declared(m *model) string {
	if t.model == "" && !strings.Contains(m.cfg.ID, "*") {
		return m.cfg.ID
	}
	return t.model
}

// asks is the upstream model that a request for an id goes to.
func (t *target) asks(id string) string {
	if t.model != "" {
		return t.model
	}
	return id
}

func operation(w *wire.Wire, op wire.Op) string {
	if op == wire.CountTokens {
		return telemetry.OperationCountTokens
	}
	return w.Operation
}

// providers names the provider behind a host, by the suffix of its name. The values are those of the OpenTelemetry
// conventions for generative AI where they have one.
var providers = []struct{ host, name string }{
	{"openai.azure.com", "azure.ai.openai"},
	{"services.ai.azure.com", "azure.ai.inference"},
	{"openai.com", "openai"},
	{"anthropic.com", "anthropic"},
	{"generativelanguage.googleapis.com", "gcp.gemini"},
	{"aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"amazonaws.com", "aws.bedrock"},
	{"deepseek.com", "deepseek"},
	{"groq.com", "groq"},
	{"mistral.ai", "mistral_ai"},
	{"x.ai", "x_ai"},
	{"cohere.com", "cohere"},
	{"perplexity.ai", "perplexity"},
	{"openrouter.ai", "openrouter"},
	{"moonshot.ai", "moonshot_ai"},
}

func (a *account) provider(w *wire.Wire) string {
	if a.cfg.Provider != "" {
		return a.cfg.Provider
	}
	for _, p := range providers {
		if a.address == p.host || strings.HasSuffix(a.address, "."+p.host) {
			return p.name
		}
	}
	return w.Provider
}

func portOf(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

func literals(glob string) int { return len(glob) - strings.Count(glob, "*") }

// globMatch reports whether id matches a pattern whose only special byte is *, which stands for any text.
func globMatch(pattern, id string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == id
	}
	if !strings.HasPrefix(id, head) {
		return false
	}
	id = id[len(head):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(id, part)
		}
		i := strings.Index(id, part)
		if i < 0 {
			return false
		}
		id, rest = id[i+len(part):], after
	}
}
