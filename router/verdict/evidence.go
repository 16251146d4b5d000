package verdict

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/translate/peek"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// urls stand in many error texts, and their words (account, billing, rate-limits) are about where to read more.
var urls = lazily(`https?://\S+`)

// plainText is as much of a body without structure as is taken for a message, in bytes.
const plainText = 2 << 10

// message is the text that words are looked for in: the error's own, else a short body that is plain text.
func (e *Evidence) message() string {
	m := e.Failure.Message
	if m == "" {
		body := bytes.TrimSpace(e.Body)
		if len(body) == 0 || len(body) > plainText || body[0] == '<' {
			return ""
		}
		m = string(body)
	}
	m = strings.ReplaceAll(strings.ToLower(m), "`", "")
	if strings.Contains(m, "://") {
		m = urls().ReplaceAllString(m, "")
	}
	return m
}

// text is where a hint may stand in an error.
func (e *Evidence) text() []byte {
	if len(e.Body) > 0 {
		return e.Body
	}
	return []byte(e.Failure.Message)
}

// accountWide reports whether a rate limit is said to be the account's. Limits that an organisation has for one model
// are that model's.
func (e *Evidence) accountWide() bool {
	m := strings.ReplaceAll(e.message(), "all models", "")
	whole := contains(m+" "+strings.ToLower(e.Failure.Type+" "+e.Failure.Code), []string{"account", "organization", "organisation", "workspace", "subscription"})
	one := strings.Contains(m, "model") || strings.Contains(m, "reached for ") && strings.Contains(m, " in organization") ||
		e.Model != "" && strings.Contains(m, strings.ToLower(e.Model))
	return whole && !one
}

// modelWindow reports whether the window of a Claude subscription that is used up is one model family's: those are named
// after it, seven_day_opus beside seven_day.
func modelWindow(h http.Header) bool {
	claim := h.Get("Anthropic-Ratelimit-Unified-Representative-Claim")
	return strings.HasPrefix(claim, "seven_day_") || strings.HasPrefix(claim, "five_hour_")
}

// wordless reports whether an error's message explains nothing. An error object without a text of its own stands in for
// its message.
func wordless(message string) bool {
	message = strings.TrimSpace(message)
	if message == "" {
		return true
	}
	var o peek.Object
	if o.Scan([]byte(message)) != nil || o.Value("error") != nil {
		return false
	}
	text, _ := peek.String(o.Value("message"))
	return strings.TrimSpace(text) == ""
}

// providerCode is the provider's own word for an error. What is longer than a word or not one is left out: it could hold
// anything.
func providerCode(f wire.Failure) string {
	for _, code := range []string{f.Code, f.Type} {
		if _, err := strconv.Atoi(code); err == nil || code == "" || len(code) > 64 {
			continue
		}
		if strings.IndexFunc(code, func(r rune) bool { return r <= ' ' || r > '~' }) < 0 {
			return code
		}
	}
	return ""
}

// set is a set of classes.
type set uint32

const all = ^set(0)

func of(classes ...class) (s set) {
	for _, c := range classes {
		s |= 1 << c
	}
	return s
}

// clue finds what the words of an error tell about it, among the classes that may be; loosely if asked to.
func (e *Evidence) clue(among set, loose bool) class {
	name := strings.ToLower(e.Failure.Type + " " + e.Failure.Code)
	message := e.message()
	for i := range clues {
		c := &clues[i]
		if among&of(c.class) == 0 {
			continue
		}
		if contains(name, c.names) || contains(message, c.phrases) || loose && contains(message, c.words) {
			return c.class
		}
	}
	return isFine
}

// contains reports whether one of the words stands in text; one that is a number has to stand there as a number.
func contains(text string, words []string) bool {
	for _, w := range words {
		before, after, found := strings.Cut(text, w)
		within := before != "" && isDigit(before[len(before)-1]) || after != "" && isDigit(after[0])
		if found && (!isDigit(w[0]) || !within) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// lacksCounting reports whether an upstream does not know the path. A model that it does not know is something else.
func (e *Evidence) lacksCounting() bool {
	switch e.Status {
	case http.StatusNotFound:
		return e.clue(of(isModelMissing), false) == isFine
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

// classifyLimit tells the kinds of 429 apart. Providers use it for a budget that is spent and for a busy engine too.
func (e *Evidence) classifyLimit(now time.Time) class {
	if refused, _ := unifiedLimit(now, e.Header); refused {
		return isQuota
	}
	if c := e.clue(of(isQuota, isBilling, isOverloaded, isRateLimit), false); c != isFine {
		return c
	}
	if e.clue(of(isQuota), true) != isFine {
		return isQuota
	}
	return isRateLimit
}
