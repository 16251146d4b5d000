package router

import (
	"slices"
	"strings"

	"github.com/signalbox-llm/signalbox/router/health"
)

// likeSwitchblade says that nothing may be tried with the two openings that Switchblade's operators look for, and counts
// by scope in its words.
func likeSwitchblade(out []held, manual int) string {
	if manual == len(out) {
		return "all available backends are cooling (" + plural(manual, "manually cooled") + " - uncool to restore)"
	}
	var names []string
	counts := map[string]int{}
	for _, h := range out {
		name := scopeLikeSwitchblade(h.block)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		counts[name]++
	}
	for i, name := range names {
		names[i] = plural(counts[name], name)
	}
	return "no provider is currently eligible for this request (" + strings.Join(names, ", ") + ")"
}

func scopeLikeSwitchblade(b health.Block) string {
	scope := "account"
	if b.Scope == health.ScopeTarget {
		scope = "route"
	}
	switch {
	case b.Manual:
		return "manually cooled"
	case b.Scope == health.ScopeSession:
		return "excluded for this session"
	case b.Probing:
		return scope + " probing"
	case b.Full:
		return scope + " full"
	}
	return scope + " cooling"
}
