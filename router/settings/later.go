package settings

// unavailable is a setting whose function a later release brings. It is refused where its value asks for that function,
// and accepted where the value is the default, turns it off or has no effect.
type unavailable struct {
	what  string                     // the setting, as the subject of a sentence
	asked func(cfg *Config) []string // the paths where it is asked for
}

// later lists them all; the release that brings one deletes its line.
var later = []unavailable{
	once("passthrough", func(c *Config) bool { return c.Passthrough != nil }),
	once("state.kind", func(c *Config) bool { return c.State.Kind == "redis" }),

	each("upstream", "command", allUpstreams, func(u *Upstream) bool { return len(u.Command) > 0 }),
	each("upstream", "mode", allUpstreams, func(u *Upstream) bool { return u.Mode == "persistent" }),
}

func allUpstreams(c *Config) []Upstream { return c.Upstreams }

// once is a setting that a configuration has once.
func once(path string, asked func(*Config) bool) unavailable {
	return unavailable{path, func(c *Config) []string {
		if asked(c) {
			return []string{path}
		}
		return nil
	}}
}

// each is a setting, or with an empty name the whole, of a block that repeats.
func each[T any](block, name string, of func(*Config) []T, asked func(*T) bool) unavailable {
	what := block
	if name != "" {
		what = block + "." + name
	}
	return unavailable{what, func(c *Config) (paths []string) {
		for i, list := 0, of(c); i < len(list); i++ {
			if asked(&list[i]) {
				path := indexPath(block, i)
				if name != "" {
					path += "." + name
				}
				paths = append(paths, path)
			}
		}
		return paths
	}}
}

// notYet refuses what later has.
func (v *validator) notYet() {
	for _, l := range later {
		for _, path := range l.asked(v.cfg) {
			v.fail(path, l.what+" is not available yet", "A later release brings it; leave it out or at its default.")
		}
	}
}
