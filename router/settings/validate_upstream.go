package settings

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// unsetHeaders cannot be set by configuration: the connection and the framing are the router's.
var unsetHeaders = slices.Concat(HopByHop, OwnRequestHeaders)

// accounts checks the upstreams and remembers them by name.
func (v *validator) accounts() {
	if len(v.cfg.Upstreams) == 0 {
		v.fail("", "No upstream", "A configuration needs an upstream block at least.")
	}
	used := v.used()
	seen := map[string]bool{}
	for i := range v.cfg.Upstreams {
		u, path := &v.cfg.Upstreams[i], indexPath("upstream", i)
		v.name(path+".name", "upstream", u.Name)
		v.unique(path, "upstream", u.Name, seen)
		v.upstreams[u.Name] = u
		if strings.Trim(u.Name, "0123456789") == "" && u.Name != "" {
			v.fail(path+".name", "Upstream named by a number", "Numbers stand for positions in the file; give it a name with a letter.")
		}
		if !used[u.Name] {
			v.warn(path, fmt.Sprintf("Unused upstream %q", u.Name), "No model has a target on it. Add one to a model, or take the upstream out.")
		}
		v.upstream(path, u)
	}
}

func (v *validator) upstream(path string, u *Upstream) {
	switch {
	case len(u.Command) == 0:
		v.base(path, u)
	case u.BaseURL != "":
		v.fail(path+".command", "Both command and base_url", "An upstream is either a local command or a URL.")
	}
	if len(u.Command) > 0 && !u.APIKey.IsZero() {
		v.fail(path+".api_key", "A key for a command", "A command runs under the login of its user and never gets a key.")
	}
	if len(u.Wires) == 0 && len(u.Command) == 0 {
		v.fail(path+".wires", "Missing wires", "Name the wires it speaks: "+strings.Join(wireNames(), ", ")+".")
	}
	v.wires(path+".wires", u.Wires)
	v.oneOf(path+".auth", u.Auth, "", "bearer", "x-api-key", "both", "x-goog-api-key", "none")
	v.credential(path+".api_key", u.APIKey)
	v.headers(path+".headers", u.Headers, unsetHeaders)
	v.shape(path, &u.Shape)
	v.oneOf(path+".developer_role", u.DeveloperRole, "keep", "system")
	v.oneOf(path+".mode", u.Mode, "one-shot", "persistent")
	clients := make([]string, len(v.cfg.Clients))
	for i, c := range v.cfg.Clients {
		clients[i] = c.Name
	}
	for i, name := range u.Clients {
		v.refer(indexPath(path+".clients", i), "client", name, clients)
	}
	if h := u.HealthCheck; h != nil {
		if !strings.HasPrefix(h.Path, "/") {
			v.fail(path+".health_check.path", "Invalid path", `It must begin with a slash, such as "/v1/models".`)
		}
		if h.Interval == 0 {
			v.fail(path+".health_check.interval", "Invalid interval", `It must be more than zero, such as "20s".`)
		}
		if h.Failures == 0 {
			v.fail(path+".health_check.failures", "Invalid failures", "It counts failures in a row, the first of which is 1.")
		}
	}
}

// base checks the address of an upstream.
func (v *validator) base(path string, u *Upstream) {
	path += ".base_url"
	if u.BaseURL == "" {
		v.fail(path, "Missing base_url", `An upstream needs base_url, such as "https://api.openai.com/v1".`)
		return
	}
	base := v.address(path, u.BaseURL)
	if base == nil {
		return
	}
	if wire.HasEndpoint(strings.TrimRight(base.Path, "/")) {
		v.fail(path, "Endpoint in base_url", `End base_url where the endpoint begins: "/v1", not "/v1/chat/completions".`)
	}
	if base.Scheme == "http" && !u.APIKey.IsZero() && !Loopback(net.JoinHostPort(base.Hostname(), "0")) {
		v.warn(path, "Key over plain http", "Whoever is on the way to that host can read the key. Use https.")
	}
}

// address checks a URL that requests are sent to, nil if it is none. It may hold a credential, so it is never repeated.
func (v *validator) address(path, text string) *url.URL {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		v.fail(path, "Invalid "+lastName(path), `It must be an absolute URL that begins with "http://" or "https://".`)
	case u.User != nil:
		v.fail(path, "Credential in "+lastName(path), "A URL cannot hold a user or password here. Use api_key or headers.")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		v.fail(path, "Query in "+lastName(path), `It cannot have a part that begins with "?" or "#".`)
	default:
		return u
	}
	return nil
}

// headers checks what goes into headers. Values are credentials, if only some of them.
func (v *validator) headers(path string, headers map[string]Secret, forbidden []string) {
	seen := map[string]bool{}
	for _, name := range sortedKeys(headers) {
		at, value := joinPath(path, name), headers[name]
		known := func(h string) bool { return strings.EqualFold(h, name) }
		switch {
		case !isToken(name):
			v.fail(at, "Invalid header name", "It can have letters, digits and dashes.")
		case slices.ContainsFunc(forbidden, known):
			v.fail(at, "Header "+name+" cannot be set", "The router makes it for every connection.")
		case seen[strings.ToLower(name)]:
			v.fail(at, "Duplicate header "+name, "Upper and lower case make no difference.")
		}
		seen[strings.ToLower(name)] = true
		if !isHeaderValue(value.Reveal()) {
			v.fail(at, "Unusable header value", "It has characters that no header can carry, such as a line break, or space around it.")
		}
		if value.Origin() == "literal" && slices.ContainsFunc(CredentialHeaders, known) {
			v.warn(at, "Literal key", literalAdvice)
		}
	}
}

// shape checks the edits of bodies.
func (v *validator) shape(path string, s *Shape) {
	v.fields(path+".defaults", s.Defaults)
	v.fields(path+".set", s.Set)
	for i, name := range s.Drop {
		v.field(indexPath(path+".drop", i), name)
	}
	results := map[string]bool{}
	for _, from := range sortedKeys(s.Rename) {
		at, to := joinPath(path+".rename", from), s.Rename[from]
		v.field(at, from)
		v.field(at, to)
		if _, again := s.Rename[to]; again || results[to] {
			v.fail(at, fmt.Sprintf("Rename to %q is ambiguous", to), "Renames have no order: each result must be one rename's alone, and not be renamed itself.")
		}
		results[to] = true
	}
}

func (v *validator) fields(path string, f Fields) {
	for _, name := range sortedKeys(f) {
		v.field(joinPath(path, name), name)
	}
}

// field refuses body fields that no layer may touch.
func (v *validator) field(path, name string) {
	switch name {
	case "":
		v.fail(path, "Empty field name", "Name a top-level field of the request body.")
	case "model":
		v.fail(path, "The field model cannot be changed here", "It is always what the target's model says.")
	}
}

func (v *validator) wires(path string, names []string) {
	for i, name := range names {
		v.oneOf(indexPath(path, i), name, wireNames()...)
	}
}

// name refuses names that cannot stand in a header, a label or a path.
func (v *validator) name(path, what, name string) {
	switch {
	case name == "":
		v.fail(path, "Empty "+what+" name", "Give it a name.")
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/?#%", r) }):
		v.fail(path, "Invalid "+what+" name", "It can have letters, digits and punctuation, but no space and none of / ? # %.")
	}
}

func (v *validator) upstreamNames() []string {
	names := make([]string, len(v.cfg.Upstreams))
	for i := range names {
		names[i] = v.cfg.Upstreams[i].Name
	}
	return names
}

// used are the upstreams that something can send a request to.
func (v *validator) used() map[string]bool {
	used := map[string]bool{}
	for _, m := range v.cfg.Models {
		for _, t := range m.Targets {
			used[t.Upstream] = true
		}
	}
	if v.cfg.Passthrough != nil {
		for _, name := range v.cfg.Passthrough.Upstreams {
			used[name] = true
		}
	}
	return used
}

func wireNames() []string {
	names := make([]string, len(wire.All))
	for i, w := range wire.All {
		names[i] = string(w.Name)
	}
	return names
}

// isToken reports whether s can be the name of a header (RFC 9110, 5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// isHeaderValue reports whether s arrives as it is in a header.
func isHeaderValue(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
