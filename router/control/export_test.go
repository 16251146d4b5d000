package control

import (
	"maps"
	"slices"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// Served lists every path with a route, and the methods it takes.
func (h *Handler) Served() map[string][]string {
	served := map[string][]string{}
	for path, r := range h.routes {
		served[path] = slices.Sorted(maps.Keys(r.methods))
	}
	return served
}

// Effective is what GET /api/config shows of a configuration.
func Effective(cfg settings.Config) any { return effective(cfg) }
