package settings

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-llm/signalbox/router/catalog"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// catalogue compares with what is known of models: figures that differ are a warning, and what a model surely refuses is an
// error. Models that nothing is known of are passed over.
func (v *validator) catalogue() {
	told := map[[2]string]bool{}
	for i := range v.cfg.Models {
		m, path := &v.cfg.Models[i], indexPath("model", i)
		v.figures(path, m)
		for j := range m.Targets {
			v.refused(told, path, j, m)
		}
	}
}

// asked is the upstream model that a target is asked for, "" where only a request can tell.
func (t *Target) asked(m *Model) string {
	if t.Model == "" && !strings.Contains(m.ID, "*") {
		return m.ID
	}
	return t.Model
}

// figures warns once for each price and limit of a model that is not what its targets are known to have.
func (v *validator) figures(path string, m *Model) {
	known := map[string]catalog.Entry{}
	for i := range m.Targets {
		id := m.Targets[i].asked(m)
		if e, ok := catalog.Lookup(id); ok && e.Price != nil {
			known[id] = e
		}
	}
	compare := func(path string, said float64, limit bool, of func(e catalog.Entry) []float64) {
		var others []string
		agrees := false
		for _, id := range sortedKeys(known) {
			figures := of(known[id])
			if figures[0] == 0 || slices.Contains(figures, said) {
				agrees = true
				continue
			}
			others = append(others, fmt.Sprintf("%s for %s", strconv.FormatFloat(figures[0], 'f', -1, 64), id))
		}
		if len(others) == 0 || said == 0 || limit && agrees { // of several targets one has the smallest limit
			return
		}
		v.warn(path, fmt.Sprintf("Known otherwise: %s is %s here, %s", lastName(path), strconv.FormatFloat(said, 'f', -1, 64), strings.Join(others, ", ")),
			"The catalogue of "+catalog.Version()+" differs. Leave it out to have the catalogue's, unless what stands here is meant: it counts.")
	}
	compare(path+".context_window", float64(m.ContextWindow), true, func(e catalog.Entry) []float64 {
		return []float64{float64(e.Context), float64(e.MaxInput)}
	})
	compare(path+".max_output", float64(m.MaxOutput), true, func(e catalog.Entry) []float64 { return []float64{float64(e.MaxOutput)} })
	if p := m.Price; p != nil {
		compare(path+".price.input", p.Input, false, func(e catalog.Entry) []float64 { return []float64{e.Price.Input} })
		compare(path+".price.output", p.Output, false, func(e catalog.Entry) []float64 { return []float64{e.Price.Output} })
		compare(path+".price.cache_read", p.CacheRead, false, func(e catalog.Entry) []float64 { return []float64{e.Price.CacheRead} })
		compare(path+".price.cache_write", p.CacheWrite, false, func(e catalog.Entry) []float64 { return []float64{e.Price.CacheWrite} })
		compare(path+".price.cache_write_1h", p.CacheWrite1h, false, func(e catalog.Entry) []float64 { return []float64{e.Price.CacheWrite1h} })
	}
}

// judged are the body fields that can ask for what a model surely refuses.
var judged = []string{"thinking", "output_config", "reasoning_effort", "reasoning"}

// refused checks what a target of a model is sent of the configuration's own: of each field the value that counts where the
// client says nothing, by the model's own id and by every preset's.
func (v *validator) refused(told map[[2]string]bool, path string, index int, m *Model) {
	t := &m.Targets[index]
	u, id := v.upstreams[t.Upstream], t.asked(m)
	e, ok := catalog.Lookup(id)
	if !ok || u == nil {
		return
	}
	upstream := indexPath("upstream", slices.IndexFunc(v.cfg.Upstreams, func(o Upstream) bool { return o.Name == u.Name }))
	target := indexPath(path+".target", index)
	for _, field := range judged {
		if takesOut(&u.Shape, field) || takesOut(&t.Shape, field) {
			continue
		}
		check := func(path string, raw json.RawMessage) {
			path = joinPath(path, field)
			summary, detail := objection(&e, u, field, raw)
			if key := [2]string{path, summary}; summary != "" && !told[key] {
				told[key] = true
				v.fail(path, id+" "+summary, detail)
			}
		}
		// The highest layer that has the field counts; set beats all defaults.
		layers := []struct {
			path   string
			fields Fields
		}{
			{target + ".set", t.Set},
			{upstream + ".set", u.Set},
			{path + ".defaults", m.Defaults},
			{target + ".defaults", t.Defaults},
			{upstream + ".defaults", u.Defaults},
			{"defaults", v.cfg.Defaults},
		}
		for i, l := range layers {
			if i == 2 {
				v.presetDefaults(m.ID, field, check)
			}
			if raw, ok := l.fields[field]; ok {
				check(l.path, raw)
				break
			}
		}
	}
}

// takesOut reports whether a shape removes a field again, or gives it another name.
func takesOut(s *Shape, field string) bool {
	_, renamed := s.Rename[field]
	return renamed || slices.Contains(s.Drop, field)
}

// presetDefaults calls back with what every preset that leads to a model says of a field.
func (v *validator) presetDefaults(id, field string, check func(path string, raw json.RawMessage)) {
	for i, p := range v.cfg.Presets {
		if raw, ok := p.Defaults[field]; ok && v.leads(p.ID, id, map[string]bool{}) {
			check(indexPath("preset", i)+".defaults", raw)
		}
	}
}

// leads reports whether a preset has a model, by way of others or not.
func (v *validator) leads(preset, model string, seen map[string]bool) bool {
	i := slices.IndexFunc(v.cfg.Presets, func(p Preset) bool { return p.ID == preset })
	if i < 0 || seen[preset] {
		return preset == model
	}
	seen[preset] = true
	return slices.ContainsFunc(v.cfg.Presets[i].Models, func(next string) bool { return v.leads(next, model, seen) })
}

// objection is what a model has against the value of a body field: what follows its name, and what to write instead; ""
// if it is not sure to refuse it.
func objection(e *catalog.Entry, u *Upstream, field string, raw json.RawMessage) (summary, detail string) {
	var value struct {
		Type   string `json:"type"`
		Effort string `json:"effort"`
	}
	// Where a Claude is reached on another wire, what stands between may leave these fields out.
	claude, gpt := e.Maker == "anthropic" && slices.Contains(u.Wires, string(wire.Messages)), e.Maker == "openai" && e.Price != nil
	switch field {
	case "reasoning_effort":
		if json.Unmarshal(raw, &value.Effort) != nil {
			return "", ""
		}
	default:
		if json.Unmarshal(raw, &value) != nil {
			return "", ""
		}
	}
	switch {
	case field == "thinking" && claude:
		return thinkingObjection(e, value.Type)
	case value.Effort == "" || field == "thinking":
	case field == "output_config" && claude && !e.Has(catalog.OutputConfig), field != "output_config" && gpt && !e.Has(catalog.Reasoning):
		return "takes no effort", "Take it out: this model has no reasoning effort."
	case field != "output_config" && adapts(u): // it finds the nearest effort that there is
	case (claude || gpt) && len(e.Efforts) > 0 && slices.Contains([]string{"xhigh", "max"}, value.Effort) && !e.TakesEffort(value.Effort):
		return "takes no effort " + value.Effort, "It takes " + strings.Join(e.Efforts, ", ") + "."
	}
	return "", ""
}

// thinkingObjection is what a Claude has against a way of thinking.
func thinkingObjection(e *catalog.Entry, kind string) (summary, detail string) {
	const adaptive = `Write { type = "adaptive" } and say how much with output_config.effort, or take it out.`
	switch {
	case kind == "adaptive" && !e.Has(catalog.AdaptiveThinking):
		if e.Has(catalog.LegacyThinking) {
			return "does not take adaptive thinking", `Write { type = "enabled", budget_tokens = 4096 }, or take it out.`
		}
		return "does not take adaptive thinking", "Take it out: this model does not think."
	case kind == "enabled" && e.Has(catalog.AdaptiveThinking) && !e.Has(catalog.LegacyThinking):
		return "does not take thinking enabled", adaptive
	case kind == "disabled" && e.Has(catalog.ThinkingAlwaysOn):
		return "does not take thinking disabled", adaptive
	}
	return "", ""
}

// adapts reports whether an upstream fits a reasoning effort to the model instead of passing it on.
func adapts(u *Upstream) bool {
	base, err := url.Parse(u.BaseURL)
	return err == nil && (base.Hostname() == "openrouter.ai" || strings.HasSuffix(base.Hostname(), ".openrouter.ai"))
}
