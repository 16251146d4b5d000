package router

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// exchangeKey is what a request's context has its exchange under, for the HTTP instrumentation that stands between the
// outermost handler and the engine.
type exchangeKey struct{}

// edge builds the handler around the engine. An answer that must not end cleanly is aborted out here: a panic that
// passed through the instrumentation would cost the span its route and status.
func (r *Router) edge() http.Handler {
	serve := r.instrumented()
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := r.enter(w, req)
		if x == nil {
			return
		}
		serve(x, w, req)
		if x.aborted {
			panic(http.ErrAbortHandler)
		}
		x.free()
	})
}

// enter begins an exchange, or answers what is no request for a model.
func (r *Router) enter(w http.ResponseWriter, req *http.Request) *exchange {
	upstream, path := pinnedPath(req.URL.EscapedPath())
	route, ok := wire.Match(path)
	if !ok || req.Method != http.MethodPost {
		r.elsewhere(w, req, route, ok)
		return nil
	}
	return r.newExchange(w, route, upstream)
}

// instrumented is guarded with the HTTP instrumentation around it, unless nobody listens.
func (r *Router) instrumented() func(*exchange, http.ResponseWriter, *http.Request) {
	tracers, meters := r.opts.tracers, r.opts.meters
	switch {
	case tracers == nil && meters == nil:
		return (*exchange).guarded
	case tracers == nil: // what is nil would make it take the global one
		tracers = nooptrace.NewTracerProvider()
	case meters == nil:
		meters = noopmetric.NewMeterProvider()
	}
	handler := func(more ...otelhttp.Option) http.Handler {
		engine := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { exchangeOf(req.Context()).guarded(w, req) })
		return otelhttp.NewHandler(engine, "", append(more,
			otelhttp.WithTracerProvider(tracers), otelhttp.WithMeterProvider(meters),
			otelhttp.WithPropagators(propagator),
			otelhttp.WithServerName(r.snap.Load().cfg.Server.Listen), // or whatever a client writes into Host would be a label
			otelhttp.WithSpanNameFormatter(func(_ string, req *http.Request) string { return req.Pattern }),
		)...)
	}
	joined := handler()
	// Asked by a function whether a caller is trusted, the instrumentation would copy each request.
	apart := handler(otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }))
	return func(x *exchange, w http.ResponseWriter, req *http.Request) {
		req = req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x))
		req.Pattern = req.Method + " " + x.route.Wire.Template(x.route.Op) // before the span begins: http.route is read then, and its name is this
		traced := apart
		if r.snap.Load().trusted() {
			traced = joined
		}
		traced.ServeHTTP(w, req)
	}
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// nobody is what a path names that means to name an upstream and does not: no upstream has a slash in its name.
const nobody = "/"

// pinnedPath splits /backends/NAME/... and /upstreams/NAME/... into the upstream that the path names and the rest. A path
// that has such a word elsewhere, or misspelt, names nobody: who wants one account only is not free to go anywhere.
func pinnedPath(path string) (upstream, rest string) {
	rest = path
	for _, prefix := range []string{"/backends/", "/upstreams/"} {
		after, ok := strings.CutPrefix(path, prefix)
		if !ok {
			continue
		}
		name, below, _ := strings.Cut(after, "/")
		name, err := url.PathUnescape(name)
		if upstream, rest = name, "/"+below; err != nil || name == "" {
			return nobody, rest
		}
	}
	for segment := range strings.SplitSeq(rest, "/") {
		switch strings.ToLower(segment) {
		case "backends", "upstreams", "backend", "upstream":
			return nobody, rest
		}
	}
	return upstream, rest
}

// guarded runs the engine and turns a panic into what a client can understand: a 500 before anything was sent, else an
// aborted connection.
func (x *exchange) guarded(w http.ResponseWriter, req *http.Request) {
	x.w, x.req = w, req
	defer func() {
		switch p := recover(); p {
		case nil:
		case http.ErrAbortHandler:
			x.aborted = true
		default:
			x.r.opts.logger.ErrorContext(req.Context(), "the router failed at a request", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			if x.outcome.committed {
				x.aborted = true
				return
			}
			x.write(internalError())
		}
	}()
	x.serve()
}

// elsewhere answers what is no inference request: the probes of agents, wrong methods and unknown paths.
func (r *Router) elsewhere(w http.ResponseWriter, req *http.Request, route wire.Route, inference bool) {
	switch {
	case inference && isUpgrade(req):
		// Codex asks for a WebSocket first and POSTs at once when told 426; any other status costs it seven tries.
		w.Header().Set("Upgrade", "HTTP/1.1")
		r.refuseIn(w, req, route.Wire, &Error{Kind: "websocket_unsupported", Status: http.StatusUpgradeRequired, Msg: "WebSocket is not served here; send the request as POST"})
	case inference:
		w.Header().Set("Allow", http.MethodPost)
		r.refuseIn(w, req, route.Wire, &Error{Kind: "method_not_allowed", Status: http.StatusMethodNotAllowed, Msg: "this path takes POST requests only"})
	case isProbe(req):
		w.Header().Set("Content-Type", "application/json")
		if req.Method != http.MethodHead {
			_, _ = w.Write([]byte(`{"status":"ok","service":"signalbox"}` + "\n"))
		}
	default:
		r.refusePlain(w, unsupportedEndpoint())
		r.count(req.Context(), unknown)
	}
}

// isProbe reports whether an agent only asks whether somebody is there. Claude Code asks HEAD / and HEAD /api/hello.
func isProbe(req *http.Request) bool {
	switch req.Method {
	case http.MethodGet:
		return req.URL.Path == "/" || req.URL.Path == ""
	case http.MethodHead:
		return req.URL.Path == "/" || req.URL.Path == "" || strings.HasSuffix(req.URL.Path, "/api/hello")
	}
	return false
}

func isUpgrade(req *http.Request) bool {
	return req.Method == http.MethodGet && strings.EqualFold(req.Header.Get("Upgrade"), "websocket")
}

// trusted reports whether callers may join their traces to ours: they are on this machine, or they showed a key. It is a
// matter of configuration and not of the single request, so that a trace is never half joined.
func (s *snapshot) trusted() bool {
	return len(s.cfg.Auth.Keys) > 0 || settings.Loopback(s.cfg.Server.Listen)
}

// errAborted marks an answer that was cut on purpose.
var errAborted = errors.New("the answer was cut")
