package settings

import (
	"cmp"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-llm/signalbox/router/session"
)

// Problem is something wrong, or with Warning merely odd, in a configuration. Its text never holds a credential.
type Problem struct {
	Path    string // which field, in the words of the file: upstream[0].base_url
	Summary string // one line, no full stop
	Detail  string // sentences: what would be right
	Warning bool
}

// Error implements error.
func (p Problem) Error() string {
	return strings.TrimPrefix(p.Path+": ", ": ") + p.Summary + ": " + p.Detail
}

// Validate returns everything that is wrong, ordered by path; nothing is fixed or filled in. A configuration with
// problems that are no warnings does not work.
func (c *Config) Validate() []Problem {
	v := &validator{cfg: c, upstreams: map[string]*Upstream{}}
	v.negative(reflect.ValueOf(c).Elem(), "")
	v.server()
	v.accounts()
	v.models()
	v.presets()
	v.catalogue()
	v.callers()
	v.policies()
	v.usage()
	v.telemetry()
	v.notYet()
	slices.SortStableFunc(v.problems, func(a, b Problem) int { return comparePaths(a.Path, b.Path) })
	return v.problems
}

// validator collects the problems of one configuration.
type validator struct {
	cfg       *Config
	upstreams map[string]*Upstream
	problems  []Problem
}

func (v *validator) fail(path, summary, detail string) {
	v.problems = append(v.problems, Problem{Path: path, Summary: summary, Detail: detail})
}

func (v *validator) warn(path, summary, detail string) {
	v.problems = append(v.problems, Problem{Path: path, Summary: summary, Detail: detail, Warning: true})
}

// oneOf refuses a word that is not in a closed list. The word is not repeated: it may be a key in the wrong place.
func (v *validator) oneOf(path, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		known := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
		v.fail(path, "Unknown "+lastName(path), "It must be one of "+strings.Join(known, ", ")+"."+didYouMean(value, known))
	}
}

// refer refuses the name of something that does not exist.
func (v *validator) refer(path, what, name string, known []string) bool {
	if slices.Contains(known, name) {
		return true
	}
	v.fail(path, fmt.Sprintf("Unknown %s %q", what, name), "The configuration has no "+what+" of that name."+didYouMean(name, known))
	return false
}

// unique refuses a name that an earlier block of the same kind has.
func (v *validator) unique(path, what, name string, seen map[string]bool) bool {
	if seen[name] {
		v.fail(path, fmt.Sprintf("Duplicate %s %q", what, name), "An earlier "+what+" has it already.")
		return false
	}
	seen[name] = true
	return true
}

// negative walks over all numbers, which never make sense below zero.
func (v *validator) negative(f reflect.Value, path string) {
	switch f.Kind() {
	case reflect.Pointer:
		if !f.IsNil() {
			v.negative(f.Elem(), path)
		}
	case reflect.Struct:
		for i := range f.NumField() {
			if name, option, ok := strings.Cut(f.Type().Field(i).Tag.Get("hcl"), ","); option == "squash" {
				v.negative(f.Field(i), path)
			} else if ok || name != "" {
				v.negative(f.Field(i), joinPath(path, name))
			}
		}
	case reflect.Slice:
		if f.Type().Elem().Kind() == reflect.Struct {
			for i := range f.Len() {
				v.negative(f.Index(i), indexPath(path, i))
			}
		}
	case reflect.Map:
		for iter := f.MapRange(); iter.Next(); {
			v.negative(iter.Value(), joinPath(path, iter.Key().String()))
		}
	case reflect.Int, reflect.Int64:
		if f.Int() < 0 {
			v.fail(path, "Negative "+lastName(path), "It must be zero or more.")
		}
	case reflect.Float64:
		if !(f.Float() >= 0) { // Not a number either.
			v.fail(path, "Negative "+lastName(path), "It must be zero or more.")
		}
	}
}

func (v *validator) server() {
	s := &v.cfg.Server
	v.listener("server.listen", s.Listen)
	if s.AdminListen != "" {
		v.listener("server.admin_listen", s.AdminListen)
		if s.AdminListen == s.Listen {
			v.fail("server.admin_listen", "Two listeners on one address", "Leave admin_listen empty to have the control plane on listen.")
		}
	}
	if s.MaxBody == 0 {
		v.fail("server.max_body", "No room for a body", `It must be more than zero, such as "32MiB".`)
	}
}

// listener checks an address; one that other machines reach needs a key.
func (v *validator) listener(path, address string) {
	if !isAddress(address) {
		v.fail(path, "Invalid "+lastName(path), `It must be an address with a port, such as "127.0.0.1:4141".`)
		return
	}
	a := &v.cfg.Auth
	if !Loopback(address) && len(a.Keys) == 0 && a.IssuedKeysFile == "" && !v.cfg.Server.AllowUnauthenticated {
		v.fail(path, "Open to other machines without a key",
			"Other machines can reach this address, and no auth block has a key. Add one, listen on a loopback address, or set "+
				"allow_unauthenticated = true in the server block.")
	}
}

func isAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n <= 65535
}

// callers checks keys, groups and client rules.
func (v *validator) callers() {
	var groups []string
	seen := map[string]bool{}
	for i, g := range v.cfg.Groups {
		path := indexPath("group", i)
		v.name(path+".name", "group", g.Name)
		v.unique(path, "group", g.Name, seen)
		groups = append(groups, g.Name)
		for j, name := range g.Upstreams {
			v.refer(indexPath(path+".upstreams", j), "upstream", name, v.upstreamNames())
		}
	}
	seen = map[string]bool{}
	for i, k := range v.cfg.Auth.Keys {
		path := indexPath("auth.key", i)
		v.name(path+".name", "key", k.Name)
		v.unique(path, "key", k.Name, seen)
		v.oneOf(path+".scope", k.Scope, "inference", "admin")
		if k.Secret.IsZero() {
			v.fail(path+".secret", "Empty key", "A key without a secret would let nobody in.")
		}
		v.credential(path+".secret", k.Secret)
		if k.Group != "" {
			v.refer(path+".group", "group", k.Group, groups)
		}
	}
	admin := func(k Key) bool { return k.Scope == "admin" }
	if a := &v.cfg.Auth; a.IssuedKeysFile != "" && !slices.ContainsFunc(a.Keys, admin) {
		v.warn("auth.issued_keys_file", "Nobody can issue keys", "Keys are issued and revoked with an admin key, and the control plane "+
			`is closed without one. Add a key with scope = "admin" to the auth block.`)
	}
	seen = map[string]bool{}
	for i, c := range v.cfg.Clients {
		path := indexPath("client", i)
		v.name(path+".name", "client", c.Name)
		v.unique(path, "client", c.Name, seen)
		if c.UserAgent == "" {
			v.warn(path, fmt.Sprintf("Client %q matches nothing", c.Name), `Without user_agent no request is of this type. Add one, such as user_agent = "claude-cli/*", or take the block out.`)
		}
	}
}

// literalAdvice is told where a key stands in the file.
const literalAdvice = `Whoever reads the file has it. Use secret("NAME") after signalbox secret set NAME, or env("NAME"), or file("path").`

// credential checks that a secret can travel in a header, and warns of one that stands in the file.
func (v *validator) credential(path string, s Secret) {
	if !isHeaderValue(s.Reveal()) {
		v.fail(path, "Unusable "+lastName(path), "It has characters that no header can carry, such as a line break, or space around it.")
	}
	if s.Origin() == "literal" {
		v.warn(path, "Literal "+lastName(path), literalAdvice)
	}
}

func (v *validator) policies() {
	c := v.cfg
	for i, name := range c.Auth.Open {
		v.oneOf(indexPath("auth.open", i), name, "health", "models", "config")
	}
	v.oneOf("affinity.mode", c.Affinity.Mode, "off", "prefer", "strict")
	for i, name := range c.Affinity.Sources {
		v.oneOf(indexPath("affinity.sources", i), name, session.Names()...)
	}
	v.cooling()
	v.failover()
	v.oneOf("state.kind", c.State.Kind, "memory", "redis")
	if c.State.Kind == "redis" && c.State.URL.IsZero() {
		v.fail("state.url", "Missing url", `State "redis" needs url.`)
	}
	v.oneOf("profile", c.Profile, append(profileNames(), "")...)
	v.fields("defaults", c.Defaults)
	if c.Passthrough != nil {
		if len(c.Passthrough.Upstreams) == 0 {
			v.fail("passthrough.upstreams", "Missing upstreams", "Name the upstreams that other paths are relayed to.")
		}
		for i, name := range c.Passthrough.Upstreams {
			v.refer(indexPath("passthrough.upstreams", i), "upstream", name, v.upstreamNames())
		}
	}
}

func (v *validator) usage() {
	u := v.cfg.Usage
	if u == nil {
		return
	}
	url := u.URL.Reveal()
	switch {
	case url == "" && u.URL.Origin() != "": // a file instead would be a surprise
		v.fail("usage.url", "Empty url", "There is nothing at "+u.URL.Origin()+"; leave url out for a SQLite file.")
	case url == "" && u.Path == "":
		v.fail("usage.path", "Missing path", "Name a SQLite file, or give url for PostgreSQL.")
	case url != "" && !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://"):
		v.fail("usage.url", "Invalid url", "It must be that of a PostgreSQL database: postgres://USER:PASSWORD@HOST/DATABASE.")
	}
	v.credential("usage.url", u.URL)
}

func (v *validator) cooling() {
	c := &v.cfg.Cooling
	v.oneOf("cooling.scope", c.Scope, "auto", "account", "target")
	v.oneOf("cooling.rate_limit.scope", c.RateLimit.Scope, "auto", "account", "target")
	v.oneOf("cooling.none_eligible", c.NoneEligible, "auto", "reject", "soonest", "clear")
	v.oneOf("cooling.healthy_on", c.HealthyOn, "output", "answer")
	if c.Server.After == 0 {
		v.fail("cooling.server.after", "Invalid after", "It counts failures, the first of which is 1.")
	}
}

func (v *validator) failover() {
	f := &v.cfg.Failover
	v.oneOf("failover.stream_error", f.StreamError, "event", "cut")
	v.oneOf("failover.move_on", f.MoveOn, "auto", "status", "any", "connection")
	v.oneOf("failover.commit_on", f.CommitOn, "output", "event", "headers")
	v.oneOf("failover.all_failed", f.AllFailed, "answer", "bad_gateway", "unavailable")
	v.oneOf("failover.distinct", f.Distinct, "target", "upstream")
}

func (v *validator) telemetry() {
	t := &v.cfg.Telemetry
	if t.OTLP.Endpoint != "" {
		v.address("telemetry.otlp.endpoint", t.OTLP.Endpoint)
	}
	v.oneOf("telemetry.otlp.protocol", t.OTLP.Protocol, "", "http/protobuf", "grpc")
	v.headers("telemetry.otlp.headers", t.OTLP.Headers, nil)
	if r := t.Traces.SampleRatio; r != nil && *r > 1 {
		v.fail("telemetry.traces.sample_ratio", "Invalid sample_ratio", "It is a share, from 0 to 1.")
	}
	if a := t.Metrics.PrometheusListen; a != "" && !isAddress(a) {
		v.fail("telemetry.metrics.prometheus_listen", "Invalid prometheus_listen", `It must be an address with a port, such as "127.0.0.1:9464".`)
	}
	v.oneOf("telemetry.capture", t.Capture, "off", "failed", "all")
	if t.Capture == "failed" || t.Capture == "all" {
		v.warn("telemetry.capture", "Contents in telemetry", "Prompts and answers go to whoever receives or stores log records. Leave capture at off unless they may have them.")
	}
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func indexPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// lastName is the attribute that a path ends with: wires for upstream[0].wires[1].
func lastName(path string) string {
	path, _, _ = strings.Cut(path[strings.LastIndexByte(path, '.')+1:], "[")
	return path
}

// comparePaths orders paths by name, and by number where they have one.
func comparePaths(a, b string) int {
	for a != "" && b != "" {
		if isDigit(a[0]) && isDigit(b[0]) {
			var m, n string
			m, a = leadingDigits(a)
			n, b = leadingDigits(b)
			if c := cmp.Or(cmp.Compare(len(m), len(n)), strings.Compare(m, n)); c != 0 {
				return c
			}
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func leadingDigits(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// didYouMean proposes the known word that is nearest to a misspelt one, if one is near.
func didYouMean(word string, known []string) string {
	best, distance := "", min(len(word), max(2, len(word)/3)+1)
	for _, k := range known {
		if d := editDistance(word, k); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Loopback reports whether an address (host:port) is one of this machine that others cannot reach.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
