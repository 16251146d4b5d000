package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/signalbox-llm/signalbox/router/strategy"
	"github.com/signalbox-llm/signalbox/translate"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

func (v *validator) models() {
	if len(v.cfg.Models) == 0 {
		v.fail("", "No model", "A configuration needs a model block at least.")
	}
	presets := map[string]bool{}
	for _, p := range v.cfg.Presets {
		presets[p.ID] = true
	}
	seen := map[string]bool{}
	for i := range v.cfg.Models {
		m, path := &v.cfg.Models[i], indexPath("model", i)
		v.id(path+".id", "model", m.ID)
		v.unique(path, "model", m.ID, seen)
		if presets[m.ID] {
			v.warn(path, fmt.Sprintf("Model %q is hidden", m.ID), "A preset has the same id and is what clients get. Rename one of the two, unless the preset is to stand in front of it.")
		}
		v.order(path, m.Strategy, m.AffinityPool)
		v.fields(path+".defaults", m.Defaults)
		v.wires(path+".wires", m.Wires)
		if m.Retry.Multiplier < 1 {
			v.fail(path+".retry.multiplier", "Invalid multiplier", "It must be 1 or more.")
		}
		v.price(path+".price", m.Price)
		v.targets(path, m)
		v.served(path, m)
	}
	v.dropped()
}

// targets checks a model's targets each, and together.
func (v *validator) targets(path string, m *Model) {
	if len(m.Targets) == 0 {
		v.fail(path, fmt.Sprintf("Model %q has no target", m.ID), "Add a target block that names an upstream.")
		return
	}
	seen := map[[2]string]bool{}
	weight, enabled, known := 0, false, true
	for i := range m.Targets {
		t, at := &m.Targets[i], indexPath(path+".target", i)
		u := v.upstreams[t.Upstream]
		known = v.refer(at+".upstream", "upstream", t.Upstream, v.upstreamNames()) && known
		v.shape(at, &t.Shape)
		v.oneOf(at+".translate", t.Translate, "drop", "strict")
		if t.Wire != "" {
			v.oneOf(at+".wire", t.Wire, wireNames()...)
			if u != nil && slices.Contains(wireNames(), t.Wire) && !slices.Contains(u.Wires, t.Wire) {
				v.fail(at+".wire", fmt.Sprintf("Upstream %q does not speak %s", t.Upstream, t.Wire), "Its wires are "+strings.Join(u.Wires, ", ")+".")
			}
		}
		pair := [2]string{t.Upstream, t.Model}
		if t.Model == "" && !strings.Contains(m.ID, "*") {
			pair[1] = m.ID
		}
		if seen[pair] {
			v.fail(at, "Duplicate target", "An earlier target of this model has the same upstream and model.")
		}
		seen[pair] = true
		weight += t.Weight
		enabled = enabled || u != nil && u.Enabled
	}
	if m.Strategy == "weighted" && weight == 0 {
		v.fail(path, "Every weight is 0", `Strategy "weighted" draws among targets with a weight; 0 means failover only.`)
	}
	if !enabled && known {
		v.warn(path, fmt.Sprintf("Model %q cannot be served", m.ID), "Every upstream of its targets has enabled = false. Enable one, or take the model out.")
	}
}

// spoken are the wires that a target takes as they are, nil if that cannot be told.
func (v *validator) spoken(t *Target) []string {
	u := v.upstreams[t.Upstream]
	switch {
	case u == nil || len(u.Command) > 0 || len(u.Wires) == 0:
		return nil
	case t.Wire != "":
		return []string{t.Wire}
	}
	return u.Wires
}

// served checks that clients can use the wires that a model offers, and that every target is of use for one of them, as
// it is or by translation.
func (v *validator) served(path string, m *Model) {
	spoken := map[string]bool{}
	for i := range m.Targets {
		wires := v.spoken(&m.Targets[i])
		if wires == nil {
			return
		}
		for _, w := range wires {
			spoken[w] = true
		}
	}
	all := slices.Sorted(maps.Keys(spoken))
	complete := true
	for i, w := range m.Wires {
		if slices.Contains(wireNames(), w) && !reachable([]string{w}, all) {
			complete = false
			v.fail(indexPath(path+".wires", i), fmt.Sprintf("No target speaks %s", w), untranslated(w, strings.Join(all, ", ")))
		}
	}
	if !complete || len(m.Wires) == 0 {
		return
	}
	for i := range m.Targets {
		if wires := v.spoken(&m.Targets[i]); !reachable(m.Wires, wires) {
			v.fail(indexPath(path+".target", i), "The target speaks none of the model's wires",
				untranslated(strings.Join(m.Wires, ", "), strings.Join(wires, ", ")))
		}
	}
}

// reachable reports whether one of the clients' wires is one of the upstreams', or can be translated to one.
func reachable(clients, upstreams []string) bool {
	for _, c := range clients {
		for _, u := range upstreams {
			if c == u || translate.Lookup(wire.Name(c), wire.Name(u)) != nil {
				return true
			}
		}
	}
	return false
}

// untranslated explains why a target that speaks one wire cannot serve clients of another, with the pairs that exist.
func untranslated(client, upstream string) string {
	var pairs []string
	for _, p := range translate.Pairs() {
		pairs = append(pairs, string(p.Client)+" to "+string(p.Upstream))
	}
	return fmt.Sprintf("Clients would speak %s, and upstreams %s. What is translated: %s.", client, upstream, strings.Join(pairs, ", "))
}

// dropped warns of body fields that one layer sets and another drops again.
func (v *validator) dropped() {
	told := map[string]bool{}
	check := func(path string, drop []string, layers ...Fields) {
		for i, name := range drop {
			at := indexPath(path+".drop", i)
			for _, layer := range layers {
				if _, set := layer[name]; set && !told[at] && name != "model" {
					told[at] = true
					v.warn(at, fmt.Sprintf("Field %q is set and dropped", name), "A layer gives it a value, and this takes it away again. Leave it out of one of the two.")
				}
			}
		}
	}
	index := map[string]int{}
	for i, u := range v.cfg.Upstreams {
		index[u.Name] = i
		check(indexPath("upstream", i), u.Drop, v.cfg.Defaults, u.Defaults, u.Set)
	}
	for i, m := range v.cfg.Models {
		for j, t := range m.Targets {
			if u := v.upstreams[t.Upstream]; u != nil {
				check(indexPath("upstream", index[u.Name]), u.Drop, t.Defaults, t.Set, m.Defaults)
				check(indexPath(indexPath("model", i)+".target", j), t.Drop, v.cfg.Defaults, u.Defaults, u.Set, t.Defaults, t.Set, m.Defaults)
			}
		}
	}
}

func (v *validator) presets() {
	var ids []string
	for _, m := range v.cfg.Models {
		ids = append(ids, m.ID)
	}
	for _, p := range v.cfg.Presets {
		ids = append(ids, p.ID)
	}
	seen := map[string]bool{}
	for i, p := range v.cfg.Presets {
		path := indexPath("preset", i)
		v.id(path+".id", "preset", p.ID)
		first := v.unique(path, "preset", p.ID, seen)
		if strings.Contains(p.ID, "*") {
			v.fail(path+".id", "Invalid preset id", "Only the id of a model can be a pattern.")
		}
		v.order(path, p.Strategy, p.AffinityPool)
		v.fields(path+".defaults", p.Defaults)
		if len(p.Models) == 0 {
			v.fail(path, fmt.Sprintf("Preset %q has no models", p.ID), "List models or presets in models.")
		}
		total := 0
		for j, id := range p.Models {
			v.refer(indexPath(path+".models", j), "model or preset", id, ids)
			v.concrete(indexPath(path+".models", j), id)
			if w, ok := p.Weights[id]; ok {
				total += w
			} else {
				total++
			}
		}
		for _, id := range sortedKeys(p.Weights) {
			if !slices.Contains(p.Models, id) {
				v.fail(joinPath(path+".weights", id), fmt.Sprintf("Weight for %q", id), "It is not in models."+didYouMean(id, p.Models))
			}
		}
		if p.Strategy == "weighted" && total == 0 && len(p.Models) > 0 {
			v.fail(path+".weights", "Every weight is 0", `Strategy "weighted" draws among models with a weight.`)
		}
		if first {
			v.acyclic(path+".models", p.ID)
		}
	}
}

// acyclic refuses a preset that comes back to itself; Switchblade cuts the way there instead.
func (v *validator) acyclic(path, id string) {
	const summary = "Preset contains itself"
	way := v.cycle(id, []string{id}, map[string]bool{})
	switch text := strings.Join(way, " → ") + "."; {
	case way == nil:
	case v.cfg.Profile == "switchblade":
		v.warn(path, summary, text+" The way is cut where it comes back. Take the last name out of the models that it stands in.")
	default:
		v.fail(path, summary, text)
	}
}

// concrete refuses a pattern within a preset whose targets have no model of their own: the client's word is the preset's
// id then, and no upstream knows that.
func (v *validator) concrete(path, id string) {
	if !strings.Contains(id, "*") {
		return
	}
	for i := range v.cfg.Models {
		if m := &v.cfg.Models[i]; m.ID == id && slices.ContainsFunc(m.Targets, func(t Target) bool { return t.Model == "" }) {
			v.fail(path, fmt.Sprintf("Model %q is a pattern", id), "In a preset nobody says what * stands for. Give each of its targets a model.")
		}
	}
}

// cycle finds a way from the last preset of a way back to goal. A preset that lists its own id means the model of that
// id, if there is one. What was seen does not lead to goal.
func (v *validator) cycle(goal string, way []string, seen map[string]bool) []string {
	at := way[len(way)-1]
	i := slices.IndexFunc(v.cfg.Presets, func(p Preset) bool { return p.ID == at })
	if i < 0 {
		return nil
	}
	for _, id := range v.cfg.Presets[i].Models {
		isModel := slices.ContainsFunc(v.cfg.Models, func(m Model) bool { return m.ID == id })
		switch next := append(slices.Clone(way), id); {
		case id == at && isModel:
		case id == goal:
			return next
		case !slices.Contains(way, id) && !seen[id]:
			seen[id] = true
			if found := v.cycle(goal, next, seen); found != nil {
				return found
			}
		}
	}
	return nil
}

// order checks how the targets of a model or the models of a preset are put in order.
func (v *validator) order(path, name string, pool int) {
	v.oneOf(path+".strategy", name, strategy.Names()...)
	kind, known := strategy.Lookup(name)
	switch path += ".affinity_pool"; {
	case pool == 0:
		v.fail(path, "Invalid affinity_pool", "It must be 1 or more.")
	case pool > 1 && known && !kind.Pooled:
		v.warn(path, "Unused affinity_pool", fmt.Sprintf("Strategy %q has no pool. Leave affinity_pool out, or use the strategy affinity.", name))
	}
}

// id refuses ids that no client could ask for.
func (v *validator) id(path, what, id string) {
	switch {
	case id == "":
		v.fail(path, "Empty "+what+" id", "Give it the id that clients ask for.")
	case strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '?' }):
		v.fail(path, "Invalid "+what+" id", "It cannot have spaces or question marks; * is the only wildcard.")
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
