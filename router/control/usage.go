package control

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/ledger"
)

// Usage answers what requests used and cost.
type Usage interface {
	Ask(ctx context.Context, q ledger.Question) (*ledger.Answer, error)
}

// usageLimit is how long a question may take.
const usageLimit = 30 * time.Second

// opens reports whether a text is a key that may ask here.
func (h *Handler) opens(req *http.Request, key string) bool {
	alone := (&http.Request{Header: http.Header{"Authorization": {"Bearer " + key}}, URL: &url.URL{}}).WithContext(req.Context())
	caller, err := h.engine.Authorize(alone, router.ScopeInference)
	return err == nil && caller.Key != "" // without keys everything opens
}

// usage answers what was used and what it cost, as JSON or with format=csv as CSV.
func (h *Handler) usage(w http.ResponseWriter, req *http.Request) {
	if h.opts.Usage == nil {
		router.WriteError(w, &router.Error{
			Kind: "usage_store_disabled", Status: http.StatusNotFound, Msg: "usage is not kept here; a usage block in the configuration keeps it",
		})
		return
	}
	values := req.URL.Query()
	format := values.Get("format")
	delete(values, "format")
	if !slices.Contains([]string{"", "json", "csv"}, format) {
		refuse(w, http.StatusBadRequest, `"format" must be json or csv`)
		return
	}
	if values.Has("key") && h.opens(req, values.Get("key")) {
		delete(values, "key") // it is the caller's key, and not the name of one
	}
	q, err := ledger.ParseQuestion(values, time.Now())
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(req.Context(), usageLimit)
	defer cancel()
	answer, err := h.opts.Usage.Ask(ctx, q)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			h.opts.logger().Warn("the usage store does not answer", "problem", err)
		}
		router.WriteError(w, &router.Error{Kind: "usage_store_unavailable", Status: http.StatusServiceUnavailable, Msg: "the usage store does not answer"})
		return
	}
	if format == "csv" {
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		_ = answer.CSV(w) // a caller that does not listen has left
		return
	}
	reply(w, http.StatusOK, answer)
}
