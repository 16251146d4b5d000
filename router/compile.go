package router

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/signalbox-llm/signalbox/router/catalog"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// statsWindow is how far back the scores of targets look.
const statsWindow = 10 * time.Minute

// compile makes a configuration ready. Upstream clients whose address and connect settings are the same are taken over
// with their warm connections, and so are the statistics of targets that stay.
func (r *Router) compile(cfg settings.Config, revision int) (*snapshot, map[string]*upstream.Client, error) {
	s := &snapshot{
		cfg: cfg, revision: revision, policy: verdict.PolicyOf(&cfg), exact: map[string]*model{}, byName: map[string]*account{},
		stats: map[statsKey]*strategy.Stats{},
	}
	clients := map[string]*upstream.Client{}
	for i := range s.cfg.Upstreams {
		a, err := r.compileAccount(&s.cfg, i)
		if err != nil {
			return nil, nil, err
		}
		clients[a.cfg.Name] = a.client
		s.byName[a.cfg.Name] = a
		s.accounts = append(s.accounts, a)
	}
	for i := range s.cfg.Presets {
		r.add(s, r.compilePreset(s, &s.cfg.Presets[i]))
	}
	for i := range s.cfg.Models {
		if m := &s.cfg.Models[i]; s.exact[m.ID] == nil { // else a preset hides it
			r.add(s, r.compileModel(s, m))
		}
	}
	slices.SortStableFunc(s.globs, func(a, b *model) int { return literals(b.id) - literals(a.id) })
	s.strange = r.modelRecorders(unknown)
	s.strange[unknown] = r.tel.Model(unknown, unknown)
	s.callers = r.callers(s)
	return s, clients, nil
}

func (r *Router) add(s *snapshot, m *model) {
	for _, p := range m.members {
		m.targets = append(m.targets, p.targets...)
	}
	m.recs = r.modelRecorders(m.id)
	s.models = append(s.models, m)
	if strings.Contains(m.id, "*") {
		s.globs = append(s.globs, m)
	} else {
		s.exact[m.id] = m
	}
}

func (r *Router) compileAccount(cfg *settings.Config, i int) (*account, error) {
	u := &cfg.Upstreams[i]
	base, err := url.Parse(u.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("upstream %q: base_url is no URL", u.Name)
	}
	a := &account{
		cfg: u, index: i, base: base, rec: r.tel.Upstream(u.Name), address: base.Hostname(), quota: &quota{},
		own: map[wire.Name]http.Header{}, urls: map[recorderKey]*url.URL{},
	}
	a.port = portOf(base)
	if a.cacheTTL = u.CacheTTL; a.cacheTTL == 0 {
		a.cacheTTL = cfg.Affinity.CacheTTL
	}
	for _, g := range cfg.Groups {
		if slices.Contains(g.Upstreams, u.Name) {
			a.groups = append(a.groups, g.Name)
		}
	}
	for _, name := range u.Wires {
		w := wire.ByName(wire.Name(name))
		a.wires, a.own[w.Name] = append(a.wires, w), a.ownHeader(w)
		for _, op := range []wire.Op{wire.Generate, wire.CountTokens} {
			if w.ModelInBody() { // and so not in the path
				a.urls[recorderKey{w.Name, op}] = w.JoinURL(base, w.Path(op, "", false), "")
			}
		}
	}
	conf := upstream.Config{
		Name: u.Name, Base: base, Connect: u.Timeouts.Connect, Dial: r.opts.dial,
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

// compileModel makes a model ready that clients ask for by its own id.
func (r *Router) compileModel(s *snapshot, m *settings.Model) *model {
	return &model{id: m.ID, strategy: m.Strategy, members: []*member{r.compileMember(s, m, m.ID, nil)}}
}

// compilePreset makes a preset ready: presets within it are expanded in place, and of them only the outermost weight
// counts.
func (r *Router) compilePreset(s *snapshot, p *settings.Preset) *model {
	kind, _ := strategy.Lookup(p.Strategy)
	out := &model{
		id: p.ID, strategy: p.Strategy, order: kind.New(strategy.Options{Pool: p.AffinityPool}),
		counts: kind.Counts, draws: !kind.Keyed && s.cfg.Profile != "switchblade", // whose sessions prefer a target of a model, but no model
		home: "preset " + p.ID, // ids have no spaces
	}
	e := expander{&s.cfg, map[string][]*settings.Model{}}
	for _, id := range p.Models {
		weight, given := p.Weights[id]
		if !given {
			weight = 1
		}
		models, _ := e.expand(id, []string{p.ID})
		for _, m := range models {
			if !slices.ContainsFunc(out.members, func(o *member) bool { return o.cfg == m }) {
				c := r.compileMember(s, m, p.ID, p.Defaults)
				c.weight = weight
				out.members = append(out.members, c)
			}
		}
	}
	return out
}

// expander lists the models behind what presets name. It keeps what it has found out: presets that share presets are
// reached in more ways than can be walked.
type expander struct {
	cfg   *settings.Config
	known map[string][]*settings.Model
}

// expand lists the models behind an id that a preset names, each once. An id on the way here already is a model of that
// name, if there is one; otherwise it would go round in a circle and is left out. What a circle was cut out of is not
// whole: the way there decides where it is cut.
func (e *expander) expand(id string, way []string) (list []*settings.Model, whole bool) {
	i, onWay := slices.IndexFunc(e.cfg.Presets, func(p settings.Preset) bool { return p.ID == id }), slices.Contains(way, id)
	if i < 0 || onWay {
		if j := slices.IndexFunc(e.cfg.Models, func(m settings.Model) bool { return m.ID == id }); j >= 0 {
			list = append(list, &e.cfg.Models[j])
		}
		return list, !onWay
	}
	if known, ok := e.known[id]; ok {
		return known, true
	}
	way, whole = append(slices.Clone(way), id), true
	for _, next := range e.cfg.Presets[i].Models {
		models, all := e.expand(next, way)
		whole = whole && all
		for _, m := range models {
			if !slices.Contains(list, m) {
				list = append(list, m)
			}
		}
	}
	if whole {
		e.known[id] = list
	}
	return list, whole
}

// compileMember makes one model ready as part of what clients ask for under an id.
func (r *Router) compileMember(s *snapshot, m *settings.Model, id string, defaults settings.Fields) *member {
	kind, _ := strategy.Lookup(m.Strategy)
	out := &member{cfg: m, weight: 1, order: kind.New(strategy.Options{Pool: m.AffinityPool}), owns: kind.Owns, counts: kind.Counts}
	for i := range m.Targets {
		t := r.compileTarget(s, out, &m.Targets[i], id, defaults)
		out.weighted = out.weighted || t.weight > 0
		out.targets = append(out.targets, t)
	}
	return out
}

func (r *Router) compileTarget(s *snapshot, m *member, cfg *settings.Target, id string, defaults settings.Fields) *target {
	a := s.byName[cfg.Upstream]
	t := &target{
		account: a, of: m, model: cfg.Model, weight: cfg.Weight, wire: wire.ByName(wire.Name(cfg.Wire)), label: cfg.Model,
		shape: shapeOf(&s.cfg, a.cfg, cfg, m.cfg, defaults), recs: map[recorderKey]*telemetry.TargetRecorder{},
	}
	t.strict, t.maxTokens = cfg.Translate == "strict", limitOf(t.shape.defaults)
	requested := t.model
	if requested == "" {
		t.label, requested = m.cfg.ID, m.cfg.ID
		switch {
		case strings.Contains(m.cfg.ID, "*"):
			requested = unknown
		case id != m.cfg.ID:
			t.model = m.cfg.ID // the client asked for the preset
		}
	}
	record := func(k recorderKey, price *telemetry.Price) *telemetry.TargetRecorder {
		w := wire.ByName(k.wire)
		return r.tel.Target(telemetry.TargetLabels{
			Model: id, Upstream: a.cfg.Name, Provider: a.provider(w), RequestModel: requested,
			Operation: operation(w, k.op), ServerAddress: a.address, ServerPort: a.port, Price: price,
		})
	}
	price := priceOf(m.cfg, requested)
	for _, w := range a.wires {
		for _, op := range []wire.Op{wire.Generate, wire.CountTokens} {
			k := recorderKey{w.Name, op}
			t.recs[k] = record(k, price)
		}
	}
	if m.cfg.Price == nil && requested == unknown {
		t.priced = &pricedRecorders{record: record, recs: map[pricedKey]*telemetry.TargetRecorder{}}
	}
	t.stats = r.statsOf(s, statsKey{a.cfg.Name, t.label})
	return t
}

// priceOf is what a model costs at an upstream: what the configuration says, else the list price of what the upstream is
// asked for; nil if neither is known.
func priceOf(m *settings.Model, asked string) *telemetry.Price {
	if p := m.Price; p != nil {
		price := &telemetry.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, CacheWrite1h: p.CacheWrite1h}
		if p.OffPeak != nil {
			price.Factor = p.OffPeak.At()
		}
		return price
	}
	if e, ok := catalog.Lookup(asked); ok && e.Price != nil {
		p := e.Price
		return &telemetry.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, CacheWrite1h: p.CacheWrite1h}
	}
	return nil
}

// pricedRecorders are those of a target that is asked for whatever clients name, one for each price that this has had: they
// add to the same series. There are no more prices than models in the catalogue.
type pricedRecorders struct {
	record func(recorderKey, *telemetry.Price) *telemetry.TargetRecorder
	mu     sync.RWMutex
	recs   map[pricedKey]*telemetry.TargetRecorder
}

type pricedKey struct {
	recorderKey
	price catalog.Price
}

// recorder is the one for what goes to a target on behalf of a request for an id.
func (t *target) recorder(k recorderKey, asked string) *telemetry.TargetRecorder {
	if t.priced == nil {
		return t.recs[k]
	}
	e, ok := catalog.Lookup(asked)
	if !ok || e.Price == nil {
		return t.recs[k]
	}
	p, key := t.priced, pricedKey{k, *e.Price}
	p.mu.RLock()
	rec := p.recs[key]
	p.mu.RUnlock()
	if rec != nil {
		return rec
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.recs[key] == nil {
		p.recs[key] = p.record(k, priceOf(t.of.cfg, asked))
	}
	return p.recs[key]
}

// statsOf finds the statistics of a target, kept over a reload.
func (r *Router) statsOf(s *snapshot, k statsKey) *strategy.Stats {
	if s.stats[k] == nil {
		if old := r.snap.Load(); old != nil {
			s.stats[k] = old.stats[k]
		}
		if s.stats[k] == nil {
			s.stats[k] = strategy.NewStats(statsWindow)
		}
	}
	return s.stats[k]
}

// callers makes the recorder of who asks, which knows the names of the configuration.
func (r *Router) callers(s *snapshot) *telemetry.CallerRecorder {
	var names telemetry.CallerNames
	for i := range s.cfg.Auth.Keys {
		names.Keys = append(names.Keys, s.cfg.Auth.Keys[i].Name)
	}
	for i := range s.cfg.Clients {
		names.Clients = append(names.Clients, s.cfg.Clients[i].Name)
	}
	for _, m := range s.models {
		names.Models = append(names.Models, m.id)
	}
	return r.tel.Callers(names)
}

func (r *Router) modelRecorders(id string) map[wire.Name]*telemetry.ModelRecorder {
	recs := map[wire.Name]*telemetry.ModelRecorder{}
	for _, w := range wire.All {
		recs[w.Name] = r.tel.Model(id, string(w.Name))
	}
	return recs
}
