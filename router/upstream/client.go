// Package upstream sends one request to one account: its connection pool, its go-retryablehttp client and the timer of an
// attempt. It must not know of models, targets, coolings or wires: what is worth another send is decided by a function it is
// handed.
package upstream

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/hashicorp/go-retryablehttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// Config is what a Client is made from.
type Config struct {
	Name    string        // of the upstream in the configuration
	Base    *url.URL      // where it is
	Connect time.Duration // limit of each dial, 0 = none

	// Dial makes the connections; nil = the network. With a Dial of the caller's, the environment's proxy is not used.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	TracerProvider trace.TracerProvider          // nil = no spans
	MeterProvider  metric.MeterProvider          // nil = no metrics
	Propagator     propagation.TextMapPropagator // what goes to the provider; nil or empty = nothing
}

// Client is one upstream's connection pool and the client on top of it. It is safe for concurrent use and meant to be kept
// for as long as Same says so, since it holds warm connections.
type Client struct {
	config Config
	silent bool         // nobody records spans or metrics
	tracer trace.Tracer // of checks; those of sends are otelhttp's
	base   *http.Transport
	retry  *retryablehttp.Client
}

// New returns a client with an empty pool.
func New(cfg Config) *Client {
	silent := cfg.TracerProvider == nil && cfg.MeterProvider == nil
	// What is nil would make otelhttp take the global one.
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = nooptrace.NewTracerProvider()
	}
	if cfg.MeterProvider == nil {
		cfg.MeterProvider = noopmetric.NewMeterProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator()
	}
	c := &Client{config: cfg, silent: silent, tracer: cfg.TracerProvider.Tracer(telemetry.Scope), base: newTransport(cfg)}
	var traced http.RoundTripper = annotate{c.base, true}
	if !silent { // it costs as much when nobody listens
		traced = otelhttp.NewTransport(
			annotate{c.base, false},
			otelhttp.WithTracerProvider(cfg.TracerProvider),
			otelhttp.WithMeterProvider(cfg.MeterProvider),
			otelhttp.WithPropagators(cfg.Propagator),
			otelhttp.WithSpanNameFormatter(spanName),
		)
	}
	c.retry = &retryablehttp.Client{
		HTTPClient: &http.Client{
			// Embedding hides CloseIdleConnections, which go-retryablehttp calls after each failure.
			Transport:     struct{ http.RoundTripper }{traced},
			CheckRedirect: stay,
		},
		RetryMax:       1 << 20, // CheckRetry decides
		RequestLogHook: func(_ retryablehttp.Logger, r *http.Request, _ int) { dispatchOf(r.Context()).sends++ },
		CheckRetry:     c.checkRetry,
		Backoff:        func(_, _ time.Duration, _ int, _ *http.Response) time.Duration { return 0 },
		PrepareRetry:   pause,
		ErrorHandler:   retryablehttp.PassthroughErrorHandler,
	}
	return c
}

// stay follows no redirect. The body has been opened for it already.
func stay(r *http.Request, _ []*http.Request) error {
	if r.Body != nil {
		_ = r.Body.Close() // it is memory
	}
	return http.ErrUseLastResponse
}

// Same tells whether the client may go on serving cfg: the upstream, where it is and how it is reached are the same. The
// providers and Dial cannot be compared and are not looked at; an engine has one set of them for its life.
func (c *Client) Same(cfg Config) bool {
	return c.config.Name == cfg.Name && c.config.Base.String() == cfg.Base.String() && c.config.Connect == cfg.Connect &&
		slices.Equal(fields(c.config.Propagator), fields(cfg.Propagator))
}

// CloseIdle closes the connections that are not in use.
func (c *Client) CloseIdle() { c.base.CloseIdleConnections() }

// fields lists the headers a propagator writes, which tells two of them apart (they are not comparable).
func fields(p propagation.TextMapPropagator) []string {
	if p == nil {
		return nil
	}
	return slices.Sorted(slices.Values(p.Fields()))
}

// newTransport returns the pool. There is no limit on the wait for headers here: the Watch has it, per send.
func newTransport(cfg Config) *http.Transport {
	t := &http.Transport{
		TLSHandshakeTimeout:   10 * time.Second,
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          512,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		ReadBufferSize:        readSize,
		WriteBufferSize:       bufferSize,
		// An HTTP/2 connection that died silently would be used for every request until TCP gives up after a quarter of an
		// hour (golang/go#36026). The ping finds it within 30 s, before a first byte is given up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
	}
	if cfg.Dial == nil {
		dialer := net.Dialer{Timeout: cfg.Connect, KeepAlive: 30 * time.Second}
		t.Proxy, t.DialContext = http.ProxyFromEnvironment, func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return conn{c}, nil
		}
		return t
	}
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if cfg.Connect > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, cfg.Connect)
			defer cancel()
		}
		return cfg.Dial(ctx, network, address)
	}
	return t
}

// The buffers of a connection. Large bodies leave past the one; the other takes a burst of events in few reads, each of which
// is a write to the client. A stream that waits holds both.
const (
	bufferSize = 4 << 10
	readSize   = 8 << 10
)

// spanName is the method and the route the dispatch names: constants, never the path of the URL.
func spanName(_ string, r *http.Request) string {
	switch r.Method {
	case http.MethodPost, http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method + " " + dispatchOf(r.Context()).call.Route
	}
	return "HTTP " + dispatchOf(r.Context()).call.Route // a method of the client's invention
}

// pause waits before another send. It stands in for Backoff, which is not told which request it is asked for when the send
// had no answer.
func pause(r *http.Request) error {
	ctx := r.Context()
	wait := dispatchOf(ctx).wait
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
