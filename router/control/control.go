// Package control is the control plane: what operators and agents may ask and order beside inference. It works through
// the engine's view and levers only, and must not know how a request is routed.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// Handler serves the control plane.
type Handler struct {
	engine *router.Router
	opts   Options
	ready  atomic.Bool
	routes map[string]route
	feed   *feed
}

// Options are what the control plane works with beside the engine; without it a path is there and says that it is off.
type Options struct {
	Usage  Usage        // nil: usage is not kept
	Keys   Keys         // issues keys; nil: nobody does
	Debug  http.Handler // served below /debug/ to admin keys, by ServeHTTP alone; nil: nothing
	Logger *slog.Logger // nil: slog.Default
}

func (o *Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.Default()
	}
	return o.Logger
}

// route is one path of the control plane.
type route struct {
	scope   string // of the key that may use it; empty = open
	methods map[string]http.HandlerFunc
}

// New returns the control plane of an engine. It answers "not ready" until SetReady says otherwise.
func New(engine *router.Router, opts Options) *Handler {
	h := &Handler{engine: engine, opts: opts, feed: newFeed(engine)}
	get := func(scope string, f http.HandlerFunc) route {
		return route{scope, map[string]http.HandlerFunc{http.MethodGet: f, http.MethodHead: f}}
	}
	post := func(f http.HandlerFunc) route {
		return route{router.ScopeAdmin, map[string]http.HandlerFunc{http.MethodPost: f}}
	}
	h.routes = map[string]route{
		"/healthz":                 get("", h.healthz),
		"/readyz":                  get("", h.readyz),
		"/v1/models":               get(router.ScopeInference, h.models),
		"/api/v1/models":           get(router.ScopeInference, h.models),
		"/model_group/info":        get(router.ScopeInference, h.modelGroups),
		"/v1/model_group/info":     get(router.ScopeInference, h.modelGroups),
		"/api/v1/model_group/info": get(router.ScopeInference, h.modelGroups),
		"/health":                  get(router.ScopeAdmin, h.health),
		"/api/config":              get(router.ScopeAdmin, h.config),
		"/usage":                   get(router.ScopeInference, h.usage),
		"/_router/status":          get(router.ScopeAdmin, h.status),
		"/_router/explain":         post(h.explain),
		"/admin/backend":           post(h.backend),
		"/admin/reset-health":      post(h.reset),
		"/_router/logs/recent":     get(router.ScopeAdmin, h.recent),
		"/_router/logs/stream":     {router.ScopeAdmin, map[string]http.HandlerFunc{http.MethodGet: h.stream}},
		"/api/keys": {router.ScopeAdmin, map[string]http.HandlerFunc{
			http.MethodGet: h.issued(h.listKeys), http.MethodHead: h.issued(h.listKeys),
			http.MethodPost: h.issued(h.issueKey), http.MethodDelete: h.issued(h.revokeKey),
		}},
	}
	return h
}

// SetReady says whether the process takes requests: configuration loaded, listener up, not draining. False also ends the
// streams of those who follow requests from afar, since a server that drains would wait for them.
func (h *Handler) SetReady(ready bool) {
	h.ready.Store(ready)
	h.feed.serve(ready)
}

// Or serves what belongs to the control plane and hands everything else to next.
func (h *Handler) Or(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !h.serve(w, req) {
			next.ServeHTTP(w, req)
		}
	})
}

// ServeHTTP serves the control plane alone, with what Options.Debug has; other paths are 404.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if f := h.opts.Debug; f != nil && strings.HasPrefix(req.URL.Path, "/debug/") {
		h.answer(w, req, route{router.ScopeAdmin, map[string]http.HandlerFunc{http.MethodGet: f.ServeHTTP, http.MethodPost: f.ServeHTTP}})
		return
	}
	if !h.serve(w, req) {
		router.WriteError(w, &router.Error{Kind: "unsupported_endpoint", Status: http.StatusNotFound, Msg: "the control plane has no such path"})
	}
}

// Open serves only what every listener answers: liveness, the model list and what was used.
func (h *Handler) Open(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r, ok := h.find(req.URL.Path); ok && r.scope != router.ScopeAdmin {
			h.answer(w, req, r)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func (h *Handler) serve(w http.ResponseWriter, req *http.Request) bool {
	r, ok := h.find(req.URL.Path)
	if ok {
		h.answer(w, req, r)
	}
	return ok
}

// find looks a path up. Model ids may contain slashes, and the call of a model is no question about it.
func (h *Handler) find(path string) (route, bool) {
	if r, ok := h.routes[path]; ok {
		return r, true
	}
	for _, prefix := range []string{"/v1/models/", "/api/v1/models/"} {
		if id, ok := strings.CutPrefix(path, prefix); ok && id != "" && !strings.Contains(id, ":generate") && !strings.Contains(id, ":stream") {
			card := func(w http.ResponseWriter, req *http.Request) { h.model(w, req, id) }
			return route{router.ScopeInference, map[string]http.HandlerFunc{http.MethodGet: card, http.MethodHead: card}}, true
		}
	}
	return route{}, false
}

// foreign finds orders that a browser gives for a page of another site: without keys, every such page could cool accounts.
var foreign = http.NewCrossOriginProtection()

func (h *Handler) answer(w http.ResponseWriter, req *http.Request, r route) {
	f := r.methods[req.Method]
	if f == nil {
		for method := range r.methods {
			w.Header().Add("Allow", method)
		}
		router.WriteError(w, &router.Error{Kind: "method_not_allowed", Status: http.StatusMethodNotAllowed, Msg: "this path does not take " + req.Method})
		return
	}
	if foreign.Check(req) != nil {
		router.WriteError(w, &router.Error{Kind: "cross_origin", Status: http.StatusForbidden, Msg: "a page of another site may not give orders here"})
		return
	}
	if r.scope != "" && !h.isOpen(req.URL.Path) {
		if _, err := h.engine.Authorize(req, r.scope); err != nil {
			router.WriteError(w, err)
			return
		}
	}
	f(w, req)
}

// isOpen reports whether the configuration lets everybody ask for a path.
func (h *Handler) isOpen(path string) bool {
	var name string
	switch {
	case path == "/health":
		name = "health"
	case path == "/api/config":
		name = "config"
	case strings.HasPrefix(path, "/v1/models"), strings.HasPrefix(path, "/api/v1/models"):
		name = "models"
	}
	return name != "" && slices.Contains(h.engine.Snapshot().Auth.Open, name)
}

func (h *Handler) healthz(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (h *Handler) readyz(w http.ResponseWriter, _ *http.Request) {
	if !h.ready.Load() {
		reply(w, http.StatusServiceUnavailable, map[string]string{"status": "not ready"})
		return
	}
	reply(w, http.StatusOK, map[string]any{"status": "ready", "config_revision": h.engine.Status().ConfigRevision})
}

func (h *Handler) status(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, h.engine.Status())
}

// backend cools or uncools an account, or one of its targets.
func (h *Handler) backend(w http.ResponseWriter, req *http.Request) {
	var order struct {
		ID       string  `json:"id"`
		Action   string  `json:"action"`
		ForMS    float64 `json:"forMs"`
		Model    string  `json:"model"`
		Upstream string  `json:"upstream"` // an older name of model
	}
	if !read(w, req, orderLimit, &order) {
		return
	}
	if order.Model == "" {
		order.Model = order.Upstream
	}
	const week52 = 364 * 24 * time.Hour
	switch {
	case order.ID == "":
		refuse(w, http.StatusBadRequest, `"id" is missing: the name of an upstream`)
	case order.ForMS > 0 && order.ForMS < 1: // it would become 0, which is for ever
		refuse(w, http.StatusBadRequest, `"forMs" is at least 1, or 0 (until uncooled)`)
	case order.ForMS < 0 || order.ForMS > float64(week52.Milliseconds()):
		refuse(w, http.StatusBadRequest, `"forMs" must be between 0 (until uncooled) and one year`)
	case order.Action == "cool":
		d := time.Duration(order.ForMS * float64(time.Millisecond))
		if h.engine.Cool(order.ID, order.Model, d) != nil {
			refuse(w, http.StatusNotFound, h.unknown(order.ID, order.Model))
			return
		}
		reply(w, http.StatusOK, map[string]any{"id": order.ID, "model": order.Model, "action": "cool", "forMs": order.ForMS})
	case order.Action == "uncool":
		n, err := h.engine.Uncool(order.ID, order.Model)
		if err != nil {
			refuse(w, http.StatusNotFound, h.unknown(order.ID, order.Model))
			return
		}
		reply(w, http.StatusOK, map[string]any{"id": order.ID, "model": order.Model, "action": "uncool", "lifted": n})
	default:
		refuse(w, http.StatusBadRequest, `"action" must be "cool" or "uncool"`)
	}
}

// unknown says what could have been meant. Only operators get this far, so it may name what there is.
func (h *Handler) unknown(upstream, model string) string {
	var known []string
	for _, u := range h.engine.Status().Upstreams {
		if u.Name != upstream {
			known = append(known, u.Name)
			continue
		}
		known = nil
		for _, t := range u.Targets {
			known = append(known, t.Model)
		}
		text := fmt.Sprintf("no model leads to %q at upstream %q; what does: %s", model, upstream, names(known))
		if cfg := h.engine.Snapshot(); globs(&cfg, upstream) {
			text += "; and what is asked for by way of a pattern, under its own name and once somebody has"
		}
		return text
	}
	return fmt.Sprintf("there is no upstream %q; what there is: %s", upstream, names(known))
}

// globs reports whether a pattern leads to an upstream with whatever is asked for.
func globs(cfg *settings.Config, upstream string) bool {
	return slices.ContainsFunc(cfg.Models, func(m settings.Model) bool {
		return strings.ContainsAny(m.ID, "*?[") && slices.ContainsFunc(m.Targets, func(t settings.Target) bool { return t.Upstream == upstream && t.Model == "" })
	})
}

func (h *Handler) reset(w http.ResponseWriter, req *http.Request) {
	var nothing struct{}
	if read(w, req, orderLimit, &nothing) {
		reply(w, http.StatusOK, map[string]any{"lifted": h.engine.ResetHealth()})
	}
}

// orderLimit is how many bytes an order may have.
const orderLimit = 64 << 10

// read decodes a JSON body of at most limit bytes; an empty one is an empty object.
func read(w http.ResponseWriter, req *http.Request, limit int64, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, req.Body, limit))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil || errors.Is(err, io.EOF) {
		return true
	}
	if over, ok := errors.AsType[*http.MaxBytesError](err); ok {
		router.WriteError(w, &router.Error{
			Kind: "body_too_large", Status: http.StatusRequestEntityTooLarge, Msg: fmt.Sprintf("the body is larger than %d bytes", over.Limit),
		})
		return false
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		refuse(w, http.StatusBadRequest, fmt.Sprintf("%q cannot be a %s", wrong.Field, wrong.Value))
		return false
	}
	refuse(w, http.StatusBadRequest, "the body is not what this path takes: "+err.Error())
	return false
}

func refuse(w http.ResponseWriter, status int, msg string) {
	kind := "bad_request"
	if status == http.StatusNotFound {
		kind = "not_found"
	}
	router.WriteError(w, &router.Error{Kind: kind, Status: status, Msg: msg})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v) // a caller that does not listen has left
}
