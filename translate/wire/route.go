package wire

import (
	"net/url"
	"slices"
	"strings"
)

const (
	countTokens = "/count_tokens"
	models      = "/models/"
	generate    = ":generateContent"
	stream      = ":streamGenerateContent"
)

// Route is what the path of a request says.
type Route struct {
	Wire   *Wire
	Op     Op
	Model  string // Gemini only, unescaped.
	Stream bool   // Gemini only.
}

// isVersion reports whether a path segment names a version of an API: v1, v4, v1beta, v1beta1, v1alpha.
func isVersion(segment string) bool {
	const digits = "0123456789"
	number, ok := strings.CutPrefix(segment, "v")
	stage := strings.TrimLeft(number, digits)
	if !ok || stage == number {
		return false
	}
	after, ok := strings.CutPrefix(stage, "alpha")
	if !ok {
		after, ok = strings.CutPrefix(stage, "beta")
	}
	return stage == "" || ok && strings.TrimLeft(after, digits) == ""
}

// Match tells which dialect a path belongs to, by its end: any prefix will do, and one trailing slash. It takes the
// escaped path, as (*url.URL).EscapedPath returns it.
func Match(path string) (Route, bool) {
	path = strings.TrimSuffix(path, "/")
	for _, w := range All {
		switch {
		case w.Name == Gemini:
			if model, streams, ok := geminiModel(path); ok {
				return Route{Wire: w, Model: model, Stream: streams}, true
			}
		case strings.HasSuffix(path, w.endpoint):
			return Route{Wire: w}, true
		case w.Name == Messages && strings.HasSuffix(path, w.endpoint+countTokens):
			return Route{Wire: w, Op: CountTokens}, true
		}
	}
	return Route{}, false
}

// geminiModel takes the model out of a path. Both a model and what precedes the API may contain "/models/" (a proxy's own
// prefix, a model named by its resource): the one behind a version segment or at the path's start counts, else the first.
func geminiModel(path string) (model string, streams, ok bool) {
	first := -1
	for at := 0; ; {
		i := strings.Index(path[at:], models)
		if i < 0 {
			break
		}
		i += at
		if first < 0 {
			first = i
		}
		if i == 0 || isVersion(path[strings.LastIndexByte(path[:i], '/')+1:i]) {
			first = i
			break
		}
		at = i + 1
	}
	if first < 0 {
		return "", false, false
	}
	rest, err := url.PathUnescape(path[first+len(models):]) // The colon may be escaped too.
	if err != nil {
		return "", false, false
	}
	model, ok = strings.CutSuffix(rest, generate)
	if !ok {
		model, streams = strings.CutSuffix(rest, stream)
		ok = streams
	}
	return model, streams, ok && plainPath(model)
}

// plainPath reports whether a model is a path that no server resolves to another one.
func plainPath(model string) bool {
	for s := range strings.SplitSeq(model, "/") {
		if s == "" || s == "." || s == ".." {
			return false
		}
	}
	return true
}

// HasEndpoint reports whether the path of a base URL already ends in an endpoint.
func HasEndpoint(basePath string) bool {
	_, ok := Match(basePath)
	return ok
}

// Template is the path as telemetry names it, the same for every request.
func (w *Wire) Template(op Op) string {
	switch {
	case w.Name == Gemini:
		return "/v1beta/models/{model}"
	case w.Name == Messages && op == CountTokens:
		return "/v1/messages/count_tokens"
	case w.Name == Messages:
		return "/v1/messages"
	case w.Name == Responses:
		return "/v1/responses"
	}
	return "/v1/chat/completions"
}

// Path is the escaped path below the version segment. Only Gemini's depends on model and streams.
func (w *Wire) Path(op Op, model string, streams bool) string {
	switch {
	case w.Name != Gemini && op == CountTokens:
		return w.endpoint + countTokens
	case w.Name != Gemini:
		return w.endpoint
	}
	segments := strings.Split(model, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	action := generate
	if streams {
		action = stream
	}
	return models + strings.Join(segments, "/") + action
}

// JoinURL puts a path, escaped and below the version segment, behind a base URL: directly if that ends in a version
// segment, else with the dialect's own between them. The base URL's query comes first, then the client's, byte for byte
// but without the parameter key, which is a credential.
func (w *Wire) JoinURL(base *url.URL, path, rawQuery string) *url.URL {
	u := *base
	prefix := strings.TrimRight(base.EscapedPath(), "/")
	if !isVersion(prefix[strings.LastIndexByte(prefix, '/')+1:]) {
		prefix += "/" + w.Version
	}
	u.RawPath = prefix + path
	if unescaped, err := url.PathUnescape(u.RawPath); err == nil {
		u.Path = unescaped
	} else {
		u.Path = u.RawPath
	}
	u.RawQuery = base.RawQuery
	if q := withoutKey(rawQuery); q != "" {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += q
	}
	u.ForceQuery, u.Fragment, u.RawFragment = false, "", ""
	return &u
}

func withoutKey(query string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), isKey), "&")
}

func isKey(parameter string) bool {
	name, _, _ := strings.Cut(parameter, "=")
	name, err := url.QueryUnescape(name)
	return err == nil && name == "key"
}
