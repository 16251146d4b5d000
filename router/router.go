// Package router is the engine: it carries one request from accept to account, through the upstream that should serve
// it. It must not know how its configuration was written, where telemetry goes, or what is stored on disk.
package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/signalbox-llm/signalbox/router/affinity"
	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/session"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/router/upstream"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Router is the engine. It is safe for concurrent use.
type Router struct {
	opts    options
	tel     *telemetry.Telemetry
	ledger  *health.Ledger
	snap    atomic.Pointer[snapshot]
	started time.Time
	handler http.Handler

	loading   sync.Mutex // held by Load
	clients   map[string]*upstream.Client
	observers atomic.Pointer[[]func(*Event)]
	recent    recent
	queue     queue
	checks    *checks
	closed    bool // no checks begin any more
	inFlight  atomic.Int64
	buffered  atomic.Int64 // bytes of request bodies held now
	forget    func()       // takes the observation of target states back
}

// options are what an embedding program may put in.
type options struct {
	now     func() time.Time
	logger  *slog.Logger
	tracers trace.TracerProvider
	meters  metric.MeterProvider
	logs    log.LoggerProvider
	session func(*http.Request) string
	pins    affinity.Store
	keys    Keyring
	random  func() float64
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// Option changes how New builds a Router.
type Option func(*options)

// WithClock replaces time.Now for every decision and duration.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// WithLogger sets where the engine logs; the default is slog.Default.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithTelemetry sets the providers of spans, metrics and log records; nil ones record nothing.
func WithTelemetry(t trace.TracerProvider, m metric.MeterProvider, l log.LoggerProvider) Option {
	return func(o *options) { o.tracers, o.meters, o.logs = t, m, l }
}

// WithSession sets a function that gives a request's session key; an empty answer leaves it to the request itself.
func WithSession(f func(*http.Request) string) Option { return func(o *options) { o.session = f } }

// WithRandom replaces the source of random numbers in [0, 1) that strategies draw from. It is called concurrently.
func WithRandom(f func() float64) Option { return func(o *options) { o.random = f } }

// WithDialer replaces how connections to upstreams are made, proxies from the environment included.
func WithDialer(dial func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// WithAffinityStore sets where the pins of sessions are kept; the default is memory.
func WithAffinityStore(s affinity.Store) Option { return func(o *options) { o.pins = s } }

// hush takes providers that record nothing for none, so that nothing is done for them: HTTP instrumentation costs as much when
// nobody listens.
func (o *options) hush() {
	if _, ok := o.tracers.(nooptrace.TracerProvider); ok {
		o.tracers = nil
	}
	if _, ok := o.meters.(noopmetric.MeterProvider); ok {
		o.meters = nil
	}
}

// WithKeyring sets where keys are looked for that the configuration does not have; the default is nowhere.
func WithKeyring(k Keyring) Option { return func(o *options) { o.keys = k } }

// New builds an engine from a configuration. The error joins one error for everything that is wrong with it.
func New(cfg settings.Config, opts ...Option) (*Router, error) {
	o := options{now: time.Now, logger: slog.Default(), pins: affinity.NewMemory(affinity.Policy{}), random: rand.Float64}
	for _, opt := range opts {
		opt(&o)
	}
	o.hush()
	tel, err := telemetry.New(o.tracers, o.meters, o.logs)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	r := &Router{
		opts: o, tel: tel, ledger: health.New(health.Policy{}), started: o.now(),
		clients: map[string]*upstream.Client{},
	}
	if err := r.Load(cfg); err != nil {
		return nil, err
	}
	if r.forget, err = tel.Observe(r.targetStates, r.pinned); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	r.handler = r.edge()
	return r, nil
}

// Load swaps the configuration. Requests in flight keep the one they began with; coolings, streaks and probe leases stay
// for every upstream and target that still exists. On an error nothing changes.
func (r *Router) Load(cfg settings.Config) error {
	var problems []error
	for _, p := range cfg.Validate() {
		if !p.Warning {
			problems = append(problems, p)
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	revision := 1
	if old := r.snap.Load(); old != nil {
		revision = old.revision + 1
	}
	next, clients, err := r.compile(cfg, revision)
	if err != nil {
		return err
	}
	r.checks.stop() // what they find out is about the old configuration
	r.ledger.Configure(next.policy.Health(), next.known())
	r.opts.pins.Configure(affinity.Policy{PinTTL: cfg.Affinity.PinTTL, FromBinding: !cfg.Affinity.Renew, MaxSessions: cfg.Affinity.MaxSessions})
	r.snap.Store(next)
	r.queue.resize(cfg.Server.MaxConcurrentRequests)
	if !r.closed {
		r.checks = startChecks(next.accounts, r.check, r.checked)
	}
	for name, c := range r.clients {
		if clients[name] != c {
			c.CloseIdle()
		}
	}
	r.clients = clients
	if r.opts.meters != nil { // else nobody sees it, and it is a good part of a start
		next.zero(context.Background())
	}
	return nil
}

// Snapshot returns the configuration that new requests get. It must not be changed.
func (r *Router) Snapshot() settings.Config { return r.snap.Load().cfg }

// Handler serves every wire, by the suffix of the path.
func (r *Router) Handler() http.Handler { return r.handler }

// Wire returns the handler of one wire ("openai-chat", ...), whatever the path before it; nil if there is no such wire.
// Requests for other wires are answered 404.
func (r *Router) Wire(name string) http.Handler {
	w := wire.ByName(wire.Name(name))
	if w == nil {
		return nil
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if route, ok := wire.Match(req.URL.EscapedPath()); ok && route.Wire != w {
			r.refusePlain(rw, unsupportedEndpoint())
			return
		}
		r.handler.ServeHTTP(rw, req)
	})
}

// Close ends what the engine holds: idle connections and the observation of its state. Requests in flight are not
// waited for; drain the server first, and cancel with ErrStopping what takes too long.
func (r *Router) Close() {
	r.forget()
	r.loading.Lock()
	defer r.loading.Unlock()
	r.closed = true
	r.checks.stop()
	for _, c := range r.clients {
		c.CloseIdle()
	}
}

// Reloaded counts a reload of the configuration and leaves its span; result is applied or rejected.
func (r *Router) Reloaded(ctx context.Context, result string) {
	_, span := r.tel.Tracer().Start(ctx, telemetry.SpanReload, trace.WithNewRoot(),
		trace.WithAttributes(attribute.String(telemetry.AttrResult, result)))
	if result != telemetry.ReloadApplied {
		span.SetStatus(codes.Error, "the configuration was refused")
	}
	span.End()
	r.tel.Reload(ctx, result)
}

// RouteContext is what an embedding program knows about a request.
type RouteContext struct {
	RequestID string // used as the call id
	Session   string // the session key; beats every other source
	Key       string // name of the caller's credential; when set, the engine asks for no key of its own
	Group     string // of upstreams that the caller may use, with Key only; empty = all
}

type routeContextKey struct{}

// WithRoute attaches what an embedding program knows about a request to its context.
func WithRoute(ctx context.Context, rc RouteContext) context.Context {
	return context.WithValue(ctx, routeContextKey{}, rc)
}

func routeContext(ctx context.Context) RouteContext {
	rc, _ := ctx.Value(routeContextKey{}).(RouteContext)
	return rc
}

// callID makes the id that ties a request's answer, log line and span together.
func callID() string {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	id := [11]byte{'c'}
	for i, bits := 1, rand.Uint64(); i < len(id); i, bits = i+1, bits>>5 {
		id[i] = letters[bits&31]
	}
	return string(id[:])
}

// sessionOf finds the key of the conversation that a request belongs to. What an embedding program knows beats what the
// request tells.
func (x *exchange) sessionOf() session.Key {
	given := x.given.Session
	if f := x.r.opts.session; given == "" && f != nil {
		given = f(x.req)
	}
	a := &x.snap.cfg.Affinity
	q := session.Request{
		Given: given, Header: x.req.Header, Src: x.body.bytes, Body: &x.object, Wire: string(x.route.Wire.Name), Model: x.asked,
		Count: !x.generates(), Prefix: a.PrefixKey,
	}
	if len(a.Sources) > 0 {
		q.Only = a.Sources
	}
	return session.Find(q)
}

// propagator carries trace context in, and out only where the configuration wants it.
var propagator = propagation.TraceContext{}
