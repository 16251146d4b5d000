package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// unknown is the label of everything that a client names and the configuration does not.
const unknown = telemetry.Unnamed

// snapshot is one configuration, made ready: whatever a request needs is looked up here and nowhere else.
type snapshot struct {
	cfg      settings.Config
	revision int
	policy   verdict.Policy
	accounts []*account
	byName   map[string]*account
	models   []*model // presets first, each in the order of the configuration
	exact    map[string]*model
	globs    []*model                               // longest literal first
	strange  map[wire.Name]*telemetry.ModelRecorder // for requests whose model is not known, or not even the wire
	callers  *telemetry.CallerRecorder
	stats    map[statsKey]*strategy.Stats
}

// account is an upstream, made ready.
type account struct {
	cfg      *settings.Upstream
	index    int
	base     *url.URL
	wires    []*wire.Wire
	own      map[wire.Name]http.Header // that go with every request
	urls     map[recorderKey]*url.URL  // of what the path of a request says nothing about; must not be changed
	groups   []string                  // that it belongs to
	client   *upstream.Client
	rec      *telemetry.UpstreamRecorder
	address  string
	port     int
	quota    *quota
	cacheTTL time.Duration
}

// model is a client-facing id, made ready: a model of the configuration, or a preset with several.
type model struct {
	id       string
	strategy string // of the members if there are several, else of the targets
	members  []*member
	order    strategy.Strategy // of the members; nil for a model
	counts   bool              // that order depends on how many requests are in flight where
	draws    bool              // that order differs from request to request, so a session has to be kept to one member
	home     string            // the name under which that member is remembered
	targets  []*target         // of all members
	recs     map[wire.Name]*telemetry.ModelRecorder
}

// member is one model of the configuration as part of what clients ask for under an id.
type member struct {
	cfg      *settings.Model
	weight   int
	order    strategy.Strategy
	owns     bool // its first target is a session's for good, whoever is out
	counts   bool // it depends on how many requests are in flight where
	weighted bool // a target has a weight
	targets  []*target
}

// target is one (upstream, upstream model) pair of a model, made ready.
type target struct {
	*account
	of        *member
	model     string // empty: what the client asked for
	weight    int
	wire      *wire.Wire
	shape     shape
	strict    bool   // refuses what cannot be translated
	maxTokens int64  // where a wire demands a limit and the client gave none, 0 = as the translation has it
	label     string // what spans are named after: an id that the configuration has
	recs      map[recorderKey]*telemetry.TargetRecorder
	priced    *pricedRecorders // instead of recs where what clients ask for has a price; nil if it is the same for all
	stats     *strategy.Stats
}

type statsKey struct{ upstream, model string }

type recorderKey struct {
	wire wire.Name
	op   wire.Op
}

// zeroed bounds the sets of an instrument that are made before their first event: it holds 2,000, and there must be room for
// what does happen. The first models of a large configuration get them; each takes setsEach for a wire or a target.
const zeroed, setsEach = 1500, 10

// zero makes the series that alerts read exist before their first event. Only the wires that a model can serve count.
func (s *snapshot) zero(ctx context.Context) {
	for _, a := range s.accounts {
		a.rec.Zero(ctx)
	}
	requests, attempts := zeroed, zeroed // sets that may still be made
	for _, m := range s.models {
		served, targets := map[*telemetry.ModelRecorder]bool{}, map[*telemetry.TargetRecorder]bool{}
		for _, t := range m.targets {
			for _, w := range wire.All {
				if u := t.speaks(w, wire.Generate); u != nil {
					served[m.recs[w.Name]] = true
					targets[t.recs[recorderKey{u.Name, wire.Generate}]] = true
				}
			}
		}
		if attempts -= setsEach * len(targets); attempts >= 0 {
			for rec := range targets {
				rec.Zero(ctx)
			}
		}
		if requests -= setsEach * len(served); requests >= 0 {
			for rec := range served {
				rec.Zero(ctx)
			}
		}
	}
}

// lookup finds the model that an id means: exact first, then the glob with the most literal bytes.
func (s *snapshot) lookup(id string) *model {
	if m := s.exact[id]; m != nil {
		return m
	}
	for _, m := range s.globs {
		if globMatch(m.id, id) {
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
			Checked: a.cfg.HealthCheck != nil,
		}
		for _, m := range s.models {
			for _, t := range m.targets {
				if id := t.declared(); t.account == a && id != "" && !slices.Contains(h.Targets, id) {
					h.Targets = append(h.Targets, id)
				}
			}
		}
		known = append(known, h)
	}
	return known
}

// speaks is the wire in which a target is asked for what came on the client's: the same one if the target can, else one
// that it can be translated to, nil if there is none. Token counts are not translated.
func (t *target) speaks(w *wire.Wire, op wire.Op) *wire.Wire {
	if wires := t.of.cfg.Wires; len(wires) > 0 && !slices.Contains(wires, string(w.Name)) {
		return nil
	}
	if (t.wire == nil || t.wire == w) && slices.Contains(t.wires, w) {
		return w
	}
	for _, u := range t.wires {
		if op == wire.Generate && (t.wire == nil || t.wire == u) && translate.Lookup(w.Name, u.Name) != nil {
			return u
		}
	}
	return nil
}

// declared is the upstream model that the configuration names, "" where only a request can tell.
func (t *target) declared() string {
	if id := t.of.cfg.ID; t.model == "" && !strings.Contains(id, "*") {
		return id
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
