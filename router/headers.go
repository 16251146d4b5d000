package router

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Headers of the router's own on answers.
const (
	headerUpstream = "X-Router-Upstream"
	headerModel    = "X-Router-Upstream-Model"
	headerCall     = "X-Router-Call"
	headerEstimate = "X-Router-Estimate" // on token counts that are guessed
	headerAttempts = "X-Router-Attempts"
	headerRetryAt  = "X-Router-Retry-At"
	headerDropped  = "X-Router-Dropped" // members of the request that the upstream's wire has no place for
)

// requestHeader makes the headers for one upstream from those of the client: what is end to end stays as it came, every
// credential goes, the account's own comes in, and the configuration has the last word.
func (a *attempt) requestHeader() http.Header {
	x, t, in := a.x, a.t, a.x.req.Header
	h := make(http.Header, len(in)+4)
	for name, values := range in {
		if !withheld[name] && !foreign(name, a.w) && (a.tr == nil || !tellsClient(name)) {
			h[name] = values
		}
	}
	removeNamed(h, in)
	if !x.body.plain {
		delete(h, "Content-Encoding")
	}
	if len(h["User-Agent"]) == 0 {
		h["User-Agent"] = []string{""} // or net/http would put in its own
	}
	h["Accept-Encoding"] = identity
	if a.w.Name == wire.Messages && len(h["Anthropic-Version"]) == 0 {
		h["Anthropic-Version"] = []string{"2023-06-01"}
	}
	maps.Copy(h, t.own[a.w.Name])
	return h
}

// withheld are the headers that never go on as the client sent them.
var withheld = func() map[string]bool {
	set := map[string]bool{cookies: true}
	for _, list := range [][]string{settings.HopByHop, settings.OwnRequestHeaders, settings.CredentialHeaders} {
		for _, name := range list {
			set[name] = true
		}
	}
	return set
}()

var identity = []string{"identity"}

// ownHeader is what an account puts into every request on a wire: its credential and what the configuration says.
func (a *account) ownHeader(w *wire.Wire) http.Header {
	h := http.Header{}
	a.authorize(h, w)
	for name, value := range a.cfg.Headers {
		h.Set(name, value.Reveal())
	}
	return h
}

// tellsClient reports whether a header speaks of the client's own software, which an upstream of another wire has nothing
// to do with.
func tellsClient(name string) bool {
	for _, prefix := range []string{"x-stainless-", "x-claude-", "x-app"} {
		if hasPrefixFold(name, prefix) {
			return true
		}
	}
	return false
}

// authorize puts the account's credential into its slot.
func (a *account) authorize(h http.Header, w *wire.Wire) {
	slot, key := a.cfg.Auth, a.cfg.APIKey.Reveal()
	if slot == "" {
		slot = w.Auth
	}
	if key == "" || slot == "none" {
		return
	}
	if slot == "bearer" || slot == "both" {
		h.Set("Authorization", "Bearer "+key)
	}
	if slot == "x-api-key" || slot == "both" {
		h.Set("X-Api-Key", key)
	}
	if slot == "x-goog-api-key" {
		h.Set("X-Goog-Api-Key", key)
	}
}

// foreign reports whether a header belongs to another wire's vendor.
func foreign(name string, w *wire.Wire) bool {
	for _, other := range wire.All {
		for _, prefix := range other.Vendor {
			if hasPrefixFold(name, prefix) {
				return !vendorOf(w, prefix)
			}
		}
	}
	return false
}

func vendorOf(w *wire.Wire, prefix string) bool {
	return slices.Contains(w.Vendor, prefix)
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// removeHops takes what speaks of one connection out of h, including what the Connection header of from names.
func removeHops(h, from http.Header) {
	removeNamed(h, from)
	for _, name := range settings.HopByHop {
		delete(h, name)
	}
}

func removeNamed(h, from http.Header) {
	for _, line := range from["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
}

// answerHeader copies an upstream's headers to the client's answer, minus what speaks of the connection or of a framing
// that the router makes itself, and adds the router's own.
func (x *exchange) answerHeader(a *answer) {
	h := x.w.Header()
	maps.Copy(h, a.header)
	removeHops(h, a.header)
	delete(h, "Content-Length")
	if a.undone {
		delete(h, "Content-Encoding")
	}
	if !x.snap.cfg.Server.ResponseHeaders {
		return
	}
	if a.dropped != "" {
		h[headerDropped] = []string{a.dropped}
	}
	values := []string{a.upstream, a.model, x.call, strconv.Itoa(x.outcome.attempts)}
	for i, name := range [...]string{headerUpstream, headerModel, headerCall, headerAttempts} {
		h[name] = values[i : i+1 : i+1]
	}
}

// providerRequestID is the id under which the provider knows the request.
func providerRequestID(h http.Header) string {
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Goog-Request-Id", "Apim-Request-Id"} {
		if v := h.Get(name); v != "" {
			return clip(v, 128)
		}
	}
	return ""
}

// quota is how much of its allowance an account has used, as its answers last told.
type quota struct {
	mu     sync.Mutex
	shares map[string]float64 // 0 to 1 by telemetry's kinds
}

// quotaHeaders tell how much is left of what. Anthropic's unified windows tell the used share itself.
var quotaHeaders = []struct{ kind, limit, remaining, used string }{
	{telemetry.QuotaRequests, "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", ""},
	{telemetry.QuotaTokens, "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", ""},
	{telemetry.QuotaInputTokens, "Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining", ""},
	{telemetry.QuotaOutputTokens, "Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Remaining", ""},
	{telemetry.QuotaRequests, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", ""},
	{telemetry.QuotaTokens, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", ""},
	{telemetry.QuotaUnified5h, "", "", "Anthropic-Ratelimit-Unified-5h-Utilization"},
	{telemetry.QuotaUnified7d, "", "", "Anthropic-Ratelimit-Unified-7d-Utilization"},
}

// note takes the shares out of an answer's headers.
func (q *quota) note(h http.Header) {
	for _, k := range quotaHeaders {
		share, ok := 0.0, false
		if k.used != "" {
			share, ok = number(h, k.used)
		} else if limit, given := number(h, k.limit); given && limit > 0 {
			left, told := number(h, k.remaining)
			share, ok = 1-left/limit, told
		}
		if !ok || !(share >= 0 && share <= 10) { // what is no number neither
			continue
		}
		q.mu.Lock()
		if q.shares == nil {
			q.shares = map[string]float64{}
		}
		q.shares[k.kind] = share
		q.mu.Unlock()
	}
}

func number(h http.Header, name string) (float64, bool) {
	values := h[name]
	if len(values) == 0 {
		return 0, false
	}
	f, err := strconv.ParseFloat(values[0], 64)
	return f, err == nil
}
