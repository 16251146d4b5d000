package verdict

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-llm/signalbox/router/health"
)

// Every parser here answers 0 for what it cannot read or does not believe: what is negative, past, no number, or further
// away than longestHint.
const (
	longestHint = 366 * 24 * time.Hour
	hintBody    = 64 << 10 // as much of an error body as is searched
)

// hint notes how long the upstream asked to be left alone, and by whom.
func (e *Evidence) hint(now time.Time, c class, f *health.Failure) {
	switch c {
	case isQuota:
		f.Hint = parseReset(now, e.Header, e.text())
		if modelWindow(e.Header) {
			f.Scope = health.ScopeTarget
		}
	case isRateLimit:
		f.Hint = parseHint(now, e.Header, e.text())
		if e.accountWide() {
			f.Scope = health.ScopeAccount
		}
	case isOverloaded:
		if d := retryAfter(now, e.Header); d > 0 {
			f.Hint = health.Hint{After: d, Source: health.SourceRetryAfter}
		}
	}
}

// parseHint reads how long an upstream asks to be left alone: what it says outright (Retry-After and its twin in
// milliseconds), else the reset of the limits that are used up, else what its error body says.
func parseHint(now time.Time, h http.Header, body []byte) health.Hint {
	if d := retryAfter(now, h); d > 0 {
		return health.Hint{After: d, Source: health.SourceRetryAfter}
	}
	if _, d := unifiedLimit(now, h); d > 0 {
		return health.Hint{After: d, Source: health.SourceHeaders}
	}
	if d := bucketReset(now, h); d > 0 {
		return health.Hint{After: d, Source: health.SourceHeaders}
	}
	if d := bodyHint(now, body); d > 0 {
		return health.Hint{After: d, Source: health.SourceBody}
	}
	return health.Hint{}
}

// parseReset reads when a usage limit ends. Here Retry-After comes last: some providers put a minute into it while the
// reset that they tell beside it is days away.
func parseReset(now time.Time, h http.Header, body []byte) health.Hint {
	if _, d := unifiedLimit(now, h); d > 0 {
		return health.Hint{After: d, Source: health.SourceHeaders}
	}
	if d := bodyHint(now, body); d > 0 {
		return health.Hint{After: d, Source: health.SourceBody}
	}
	return parseHint(now, h, nil)
}

// retryAfter reads Retry-After (RFC 9110: seconds or a date; seen with fractions and units too) and retry-after-ms, which
// is the more exact of the two.
func retryAfter(now time.Time, h http.Header) time.Duration {
	if d := moment(now, h.Get("Retry-After-Ms"), time.Millisecond); d > 0 {
		return d
	}
	return moment(now, h.Get("Retry-After"), time.Second)
}

// unifiedLimit reads the windows of a Claude subscription. It reports whether one of them is what refused the request,
// and when the last of the used up ones opens again. A refusal that names no status but a reset counts.
func unifiedLimit(now time.Time, h http.Header) (refused bool, reset time.Duration) {
	const prefix = "Anthropic-Ratelimit-Unified-"
	overall, total := h.Get(prefix+"Status"), h.Get(prefix+"Reset")
	if overall != "rejected" && overall != "" || overall == "" && total == "" {
		return false, 0
	}
	for name := range h {
		window, isStatus := strings.CutSuffix(name, "-Status")
		if window, ok := strings.CutPrefix(window, prefix); ok && isStatus && window != "Overage" && h.Get(name) == "rejected" {
			reset = max(reset, moment(now, h.Get(prefix+window+"-Reset"), time.Second))
		}
	}
	if reset == 0 {
		reset = moment(now, total, time.Second)
	}
	if reset == 0 && moment(now.Add(-time.Minute), total, time.Second) > 0 {
		reset = justReset
	}
	return true, reset
}

// justReset is the rest of an account whose window should have opened a moment ago: clocks differ, and resets are told in
// whole seconds. Without it the rest would be that of a limit which tells no reset at all.
const justReset = 5 * time.Second

// bucketReset reads the reset of plain limits: anthropic-ratelimit-tokens-reset, x-ratelimit-reset-requests,
// x-ratelimit-reset, ratelimit-reset and their like. A limit of which something remains is not what refused the request;
// of several that are used up, all have to fill again.
func bucketReset(now time.Time, h http.Header) (reset time.Duration) {
	for name := range h {
		if !strings.Contains(name, "Ratelimit") || !strings.Contains(name, "Reset") || strings.Contains(name, "Unified") {
			continue
		}
		remaining := strings.TrimSpace(h.Get(strings.Replace(name, "Reset", "Remaining", 1)))
		if left, err := strconv.ParseFloat(remaining, 64); err == nil && left > 0 {
			continue
		}
		reset = max(reset, moment(now, h.Get(name), time.Second))
	}
	return reset
}

// bodyFields are the members of error bodies that tell a time, the surest first: what counts from now does not depend on
// clocks. Names are without case, dashes and underscores.
var bodyFields = []struct {
	name string
	unit time.Duration
}{
	{"retryafterms", time.Millisecond},
	{"retryafter", time.Second},
	{"retryafterseconds", time.Second},
	{"retrydelay", time.Second}, // Google's RetryInfo.
	{"resetsinseconds", time.Second},
	{"resetinseconds", time.Second},
	{"resetafterseconds", time.Second},
	{"resetafter", time.Second},
	{"quotaresetdelay", time.Second}, // Google's code assist.
	{"resetsat", time.Second},
	{"resetat", time.Second},
	{"quotaresettimestamp", time.Second},
	{"xratelimitreset", time.Millisecond}, // OpenRouter repeats its header in the body.
}

var plainName = strings.NewReplacer("_", "", "-", "")

// bodyHint searches an error body: its fields, then its text.
func bodyHint(now time.Time, body []byte) time.Duration {
	if len(body) == 0 {
		return 0
	}
	body = body[:min(len(body), hintBody)]
	var value any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&value) == nil {
		found := map[string]time.Duration{}
		collectHints(now, value, found)
		for _, f := range bodyFields {
			if d := found[f.name]; d > 0 {
				return d
			}
		}
	}
	return textHint(now, string(body))
}

// collectHints walks a body and notes the longest time under each name.
func collectHints(now time.Time, value any, found map[string]time.Duration) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			collectHints(now, e, found)
		}
	case map[string]any:
		for name, e := range v {
			name = plainName.Replace(strings.ToLower(name))
			for _, f := range bodyFields {
				if f.name == name {
					found[name] = max(found[name], fieldHint(now, e, f.unit))
				}
			}
			collectHints(now, e, found)
		}
	}
}

func fieldHint(now time.Time, value any, unit time.Duration) time.Duration {
	switch v := value.(type) {
	case json.Number:
		return moment(now, v.String(), unit)
	case string:
		return moment(now, v, unit)
	case map[string]any: // A protobuf duration in full.
		return fieldHint(now, v["seconds"], time.Second)
	}
	return 0
}

// Times in running text, only beside a word that says what happens then: "50 requests in 1 minute" is the limit, not
// its end.
var (
	textSpan = lazily(`(?i)\b(?:try again|retry|resets?|wait|available|renews?|refresh(?:es)?)\b[^.\d]{0,40}?(\d[\w. ,]{0,40})`)
	textDate = lazily(`(?i)\b(?:try again|retry|resets?|until|available|regain access)\b[^.\d]{0,40}?` +
		`(\d{4}-\d\d-\d\d)(?:(?:T| at | )(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?)? ?(Z|[+-]\d\d:\d\d)?`)
	textEpoch = lazily(`\|(\d{10,13})\b`) // Claude Code's "usage limit reached|1749924000".
)

// lazily compiles an expression when it is first needed, which for many programs is never: they are a good part of a start.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

func textHint(now time.Time, text string) time.Duration {
	for _, m := range textSpan().FindAllStringSubmatch(text, 8) {
		if d, _ := spelled(m[1]); d > 0 {
			return d
		}
	}
	if m := textDate().FindStringSubmatch(text); m != nil {
		clock, zone := m[2], m[3]
		if len(clock) < len("15:04:05") {
			clock = (clock + "00:00:00"[len(clock):])
		}
		if zone == "" {
			zone = "Z"
		}
		return moment(now, m[1]+"T"+clock+strings.ToUpper(zone), time.Second)
	}
	if m := textEpoch().FindStringSubmatch(text); m != nil {
		return moment(now, m[1], time.Second)
	}
	return 0
}

// moment reads how far away a time is: a number in the given unit, a number too large for that as seconds or milliseconds
// since 1970, a spelled duration, or a date.
func moment(now time.Time, text string, unit time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0
	}
	if n, ok := digits(text); ok {
		switch {
		case n >= 1e12: // Milliseconds since 1970; as a span they would be 30 years at least.
			return believable(n/1e3 - seconds(now))
		case n >= 1e9 && unit == time.Second:
			return believable(n - seconds(now))
		}
		return believable(n * unit.Seconds())
	}
	if d, whole := spelled(text); whole {
		return d
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return believable(seconds(t) - seconds(now))
		}
	}
	if t, err := http.ParseTime(text); err == nil {
		return believable(seconds(t) - seconds(now))
	}
	return 0
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// believable is a number of seconds as a duration, 0 if it is not between now and longestHint.
func believable(s float64) time.Duration {
	if !(s > 0) || s > longestHint.Seconds() { // Also refuses what is no number.
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// digits reads figures and a point; not the other forms that strconv takes, such as Inf or 0x10.
func digits(text string) (float64, bool) {
	if strings.Trim(text, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil
}

var spelledUnits = map[string]float64{
	"ms": 1e-3, "msec": 1e-3, "msecs": 1e-3, "millisecond": 1e-3, "milliseconds": 1e-3,
	"s": 1, "sec": 1, "secs": 1, "second": 1, "seconds": 1,
	"m": 60, "min": 60, "mins": 60, "minute": 60, "minutes": 60,
	"h": 3600, "hr": 3600, "hrs": 3600, "hour": 3600, "hours": 3600,
	"d": 86400, "day": 86400, "days": 86400,
	"w": 604800, "week": 604800, "weeks": 604800,
}

// spelled reads "6m0s", "3h20m", "1.5s", "2 days, 4 hours and 10 minutes" from the start of a text, and reports whether
// that was all of it.
func spelled(text string) (d time.Duration, whole bool) {
	total, rest := 0.0, strings.ToLower(text)
	for {
		rest = strings.TrimLeft(rest, " ,")
		rest = strings.TrimPrefix(rest, "and ")
		figures := len(rest) - len(strings.TrimLeft(rest, "0123456789."))
		n, ok := digits(strings.TrimRight(rest[:figures], "."))
		if !ok {
			break
		}
		word := strings.TrimLeft(rest[figures:], " ")
		letters := len(word) - len(strings.TrimLeft(word, "abcdefghijklmnopqrstuvwxyz"))
		unit, ok := spelledUnits[word[:letters]]
		if !ok {
			break
		}
		total, rest = total+n*unit, word[letters:]
	}
	return believable(total), rest == ""
}
