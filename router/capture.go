package router

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// maxCaptured is how much of a body is told; the rest is counted.
const maxCaptured = 64 << 10

// redacted stands where something was that must not leave.
const redacted = "[redacted]"

// capture holds the contents of an attempt until it ends: the request as it went out, and of the answer what the client
// got, else what would have been passed on. It is nil unless somebody wants them, and then does nothing.
type capture struct {
	always bool // not only of what fails
	header http.Header
	sent   excerpt
	got    excerpt
}

// excerpt is the beginning of a body.
type excerpt struct {
	kept []byte
	size int64
}

func (e *excerpt) add(p []byte) {
	e.kept = append(e.kept, p[:min(len(p), maxCaptured-len(e.kept))]...)
	e.size += int64(len(p))
}

func (e *excerpt) cut() bool { return int64(len(e.kept)) < e.size }

// newCapture begins to keep contents if the configuration wants them told and telemetry has somebody who takes them.
func (x *exchange) newCapture(ctx context.Context) *capture {
	mode := x.snap.cfg.Telemetry.Capture
	if mode != "failed" && mode != "all" || !x.r.tel.Captures(ctx) {
		return nil
	}
	return &capture{always: mode == "all"}
}

// request keeps what goes to the upstream. Header must not change any more.
func (c *capture) request(header http.Header, segments [][]byte) {
	if c == nil {
		return
	}
	c.header = header
	for _, s := range segments {
		c.sent.add(s)
	}
}

// answer keeps bytes that go to the client, unless they are in a content coding: then decoded has them.
func (c *capture) answer(a *attempt, p []byte) {
	if c != nil && !a.coded() {
		c.got.add(p)
	}
}

// decoded keeps what stands behind the coded bytes that the client gets.
func (c *capture) decoded(a *attempt, plain []byte) {
	if c != nil && a.coded() {
		c.got.add(plain)
	}
}

func (a *attempt) coded() bool { return a.src != nil && a.src.coded != nil }

// tell writes the records of an attempt that has ended. An attempt without an outcome was unwound by a panic.
func (c *capture) tell(a *attempt) {
	if c == nil {
		return
	}
	x := a.x
	well := a.outcome == telemetry.AttemptServed || a.outcome == telemetry.AttemptCancelled
	if !c.always && well && x.outcome.result != telemetry.OutcomeFailed {
		return
	}
	hide, mine := a.secrets(), a.t.cfg.Headers
	content := telemetry.Content{
		Record: telemetry.RecordRequest, At: a.start, Call: x.call, Attempt: a.number, Upstream: a.t.cfg.Name, Model: x.model.id,
		Wire: string(a.w.Name), Header: hide.header(c.header, mine), Body: hide.body(c.sent), Size: c.sent.size, Truncated: c.sent.cut(),
	}
	x.r.tel.Capture(a.ctx, content)
	if a.ans == nil {
		return
	}
	if c.got.size == 0 {
		c.got.add(a.ans.text())
	}
	content.Record, content.At, content.Wire = telemetry.RecordResponse, x.r.opts.now(), string(x.route.Wire.Name)
	content.Status, content.Outcome = a.ans.status, a.outcome
	content.Header, content.Body = hide.header(a.ans.header, nil), hide.body(c.got)
	content.Size, content.Truncated = c.got.size, c.got.cut()
	x.r.tel.Capture(a.ctx, content)
}

// text is what is held of an answer, to be read.
func (a *answer) text() []byte {
	if a.undone {
		return a.held
	}
	return undone(a.header, a.held)
}

// secrets are the credentials that an attempt had to do with. Some upstreams quote the key that they refuse.
type secrets [][]byte

func (a *attempt) secrets() (all secrets) {
	values := append(credentials(a.x.req), a.t.cfg.APIKey.Reveal())
	for name, v := range a.t.cfg.Headers {
		if value := v.Reveal(); isPrivate(name) || looksLikeKey(value) {
			values = append(values, value)
		}
	}
	for _, v := range values {
		if len(v) >= 6 { // anything shorter is no credential, and taking it out would leave nothing to read
			all = append(all, []byte(v))
		}
	}
	slices.SortFunc(all, func(a, b []byte) int { return len(b) - len(a) }) // one may begin like another
	return all
}

// body is an excerpt without credentials, and without half a credential or half a character at its end.
func (s secrets) body(e excerpt) []byte {
	text := e.kept
	if e.cut() {
		for _, secret := range s {
			text = text[:len(text)-overlap(text, secret)]
		}
		text = text[:len(text)-half(text)]
	}
	for _, secret := range s {
		text = bytes.ReplaceAll(text, secret, []byte(redacted))
	}
	return text
}

// overlap is how much of the beginning of a secret text ends with.
func overlap(text, secret []byte) int {
	n := min(len(secret), len(text))
	for n > 0 && !bytes.HasSuffix(text, secret[:n]) {
		n--
	}
	return n
}

// half is the length of a character's first bytes at the end of text, 0 if it is whole.
func half(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// private are parts of the names of headers whose values are nobody's business.
var private = []string{
	"auth", "key", "token", "secret", "cookie", "password", "credential", "signature", "session", "account", "organization", "project",
	"user-id", "email", "forwarded", "real-ip",
}

// isPrivate goes by a header's name. The quotas of tokens are told.
func isPrivate(name string) bool {
	name = strings.ToLower(name)
	return !strings.Contains(name, "ratelimit") && slices.ContainsFunc(private, func(part string) bool { return strings.Contains(name, part) })
}

// header is a copy of h in which everything is redacted that is a credential, looks like one, or is the account's own.
func (s secrets) header(h http.Header, own map[string]settings.Secret) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		hidden := isPrivate(name)
		for mine := range own {
			hidden = hidden || strings.EqualFold(mine, name)
		}
		told := make([]string, len(values))
		for i, v := range values {
			if told[i] = clip(strings.ToValidUTF8(v, "?"), 256); hidden || s.in(v) || looksLikeKey(v) {
				told[i] = redacted
			}
		}
		out[name] = told
	}
	return out
}

func (s secrets) in(text string) bool {
	return slices.ContainsFunc(s, func(secret []byte) bool { return strings.Contains(text, string(secret)) })
}

// keyPrefixes are how the keys of well-known issuers begin.
var keyPrefixes = []string{
	"sk-", "sk_", "pk-", "pk_", "rk_", "gsk_", "xai-", "hf_", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xox", "AIza", "AKIA",
	"ASIA", "ya29.", "eyJ", "key-",
}

// looksLikeKey reports whether a header's value has something in it that may be a key: the beginning of one, or a long
// word of letters and digits.
func looksLikeKey(value string) bool {
	for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" ,;=:\"'()<>/?&", r) }) {
		if slices.ContainsFunc(keyPrefixes, func(p string) bool { return strings.HasPrefix(word, p) && len(word) >= len(p)+8 }) {
			return true
		}
		for run := range strings.FieldsFuncSeq(word, func(r rune) bool { return r == '-' || r == '.' }) {
			if len(run) >= 24 && strings.ContainsAny(run, "0123456789") && strings.ContainsFunc(run, isLetter) {
				return true
			}
		}
	}
	return false
}

func isLetter(r rune) bool { return 'a' <= r|0x20 && r|0x20 <= 'z' }
