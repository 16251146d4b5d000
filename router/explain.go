package router

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Question is a request that is only asked about.
type Question struct {
	Path   string      // with the wire's suffix, such as /v1/messages; may have a query and may name an upstream
	Header http.Header // session keys, User-Agent and the caller's key are read
	Body   []byte
}

// Explanation says where a request would go now, and why.
type Explanation struct {
	Model    string          `json:"model"` // configured id
	Wire     string          `json:"wire"`
	Client   string          `json:"client_type,omitempty"`
	Session  ExplainedKey    `json:"session"`
	Decision string          `json:"decision"` // why the first target that may be tried was chosen
	Strategy string          `json:"strategy"`
	Plan     []ExplainedStep `json:"plan"`
}

// ExplainedKey is how the request was tied to a conversation; empty fields mean that it was not.
type ExplainedKey struct {
	Source string `json:"source,omitempty"`
	Hash   string `json:"hash,omitempty"`
	Agent  string `json:"agent,omitempty"`
	Kind   string `json:"kind,omitempty"`
}

// ExplainedStep is one target of the plan, in the order in which they are tried; those that are no candidates come last.
type ExplainedStep struct {
	Upstream  string   `json:"upstream"`
	Model     string   `json:"model"` // the upstream's
	Eligible  bool     `json:"eligible"`
	Reason    string   `json:"reason"`          // why it has its place, or why it may not be tried
	Score     *float64 `json:"score,omitempty"` // with strategy scored
	RetryInMS int64    `json:"retry_in_ms"`     // until it may be tried, 0 if it may or if time alone will not tell
}

// Why a target that may be tried has its place; the others have the reason of what holds them off.
const (
	placePinned   = "pinned"       // the path names the upstream
	placeResponse = "issued_state" // the upstream issued what the request refers to
	placeSession  = "session"      // the session is pinned to it
	placeCache    = "cache"        // it holds the prompt cache of the conversation
	placeStrategy = "strategy"
)

// Explain works out the plan for a request without dispatching anything or learning from it. The caller's key, if the
// header holds one, counts for its group and its pins; without one the request is explained as that of a caller who may
// use everything.
func (r *Router) Explain(ctx context.Context, q Question) (*Explanation, *Error) {
	u, err := url.Parse(q.Path)
	if err != nil {
		return nil, invalid("bad_request", "the path is no path")
	}
	upstream, path := pinnedPath(u.EscapedPath())
	route, ok := wire.Match(path)
	if !ok {
		return nil, unsupportedEndpoint()
	}
	req := (&http.Request{Method: http.MethodPost, URL: u, Header: q.Header, Body: http.NoBody}).WithContext(ctx)
	x := &exchange{
		r: r, req: req, route: route, upstream: upstream, ctx: ctx, span: trace.SpanFromContext(context.Background()), snap: r.snap.Load(),
		start: r.opts.now(), body: &body{bytes: q.Body}, given: routeContext(ctx),
	}
	c, err := r.authorize(x.snap, req, ScopeInference)
	if err != nil && len(credentials(req)) > 0 {
		return nil, asError(err) // nobody gets an answer with that key
	}
	x.key, x.group = c.Key, c.Group
	for _, step := range []func() error{x.findUpstream, x.identify, x.findModel} {
		if err := step(); err != nil {
			return nil, asError(err)
		}
	}
	x.choose(x.start)
	return x.explain(), nil
}

func (x *exchange) explain() *Explanation {
	e := &Explanation{
		Model: x.model.id, Wire: string(x.route.Wire.Name), Client: x.client, Decision: x.outcome.decision, Strategy: x.model.strategy,
		Session: ExplainedKey{Source: x.session.Source, Hash: x.hash, Agent: x.session.Agent, Kind: string(x.session.Kind)},
		Plan:    []ExplainedStep{},
	}
	for i, t := range x.plan {
		e.Plan = append(e.Plan, x.step(t, *x.blocks[i]))
	}
	for _, t := range x.model.targets {
		if x.planned(t) {
			continue
		}
		why := x.bars(t)
		if why == "" {
			why = outOwner
		}
		e.Plan = append(e.Plan, ExplainedStep{Upstream: t.cfg.Name, Model: t.asks(x.asked), Reason: why})
	}
	return e
}

// step explains one target of the plan.
func (x *exchange) step(t *target, b health.Block) ExplainedStep {
	s := ExplainedStep{Upstream: t.cfg.Name, Model: t.asks(x.asked), Eligible: !b.Blocked(), Reason: x.place(t), Score: x.score(t)}
	if b.Blocked() {
		s.Reason = skipReason(b)
		if d := b.Until.Sub(x.r.opts.now()); !b.Until.IsZero() && d > 0 {
			s.RetryInMS = int64(math.Ceil(float64(d) / float64(time.Millisecond)))
		}
	}
	return s
}

// place is why a target that may be tried stands where it does.
func (x *exchange) place(t *target) string {
	p := x.pinOf(t)
	switch {
	case x.confined == confinedByPath:
		return placePinned
	case x.confined == confinedByID:
		return placeResponse
	case p != nil && p.owner == t:
		return placeSession
	case p != nil && p.warm == t:
		return placeCache
	}
	return placeStrategy
}

// score is what strategy scored thinks of a target among those of its model.
func (x *exchange) score(t *target) *float64 {
	scorer, ok := t.of.order.(strategy.Scorer)
	if !ok {
		return nil
	}
	var ranked []strategy.Candidate
	at := -1
	for _, o := range t.of.targets {
		if x.bars(o) != "" {
			continue
		}
		if o == t {
			at = len(ranked)
		}
		b := x.r.ledger.Check(x.start, x.ledgerTarget(o), x.conversation)
		ranked = append(ranked, x.candidate(o, b))
	}
	if at < 0 {
		return nil
	}
	req := strategy.Request{Key: x.session.String(), Now: x.start, Stream: x.streaming, Random: x.r.opts.random}
	return new(scorer.Scores(nil, ranked, &req)[at])
}
