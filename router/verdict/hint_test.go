package verdict

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router/health"
)

var hintNow = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// headers reads "name: value" lines.
func headers(lines ...string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

func TestParseHint(t *testing.T) {
	const (
		ra, hd, bd = health.SourceRetryAfter, health.SourceHeaders, health.SourceBody
		s, m, h    = time.Second, time.Minute, time.Hour
		day        = 24 * time.Hour
		none       = time.Duration(0)
	)
	for _, c := range []struct {
		name   string
		header []string
		body   string
		after  time.Duration
		source health.Source
	}{
		{"nothing", nil, "", none, ""},
		{"seconds", []string{"retry-after: 17"}, "", 17 * s, ra},
		{"seconds with space", []string{"retry-after:  17 "}, "", 17 * s, ra},
		{"fraction", []string{"retry-after: 2.128"}, "", 2128 * time.Millisecond, ra},
		{"date", []string{"retry-after: Tue, 01 Jan 2030 00:01:30 GMT"}, "", 90 * s, ra},
		{"old date form", []string{"retry-after: Tuesday, 01-Jan-30 00:01:30 GMT"}, "", 90 * s, ra},
		{"past date", []string{"retry-after: Mon, 31 Dec 2029 23:59:00 GMT"}, "", none, ""},
		{"date of the far future", []string{"retry-after: Fri, 01 Jan 2100 00:00:00 GMT"}, "", none, ""},
		{"with a unit", []string{"retry-after: 1m30s"}, "", 90 * s, ra},
		{"epoch in Retry-After", []string{"retry-after: 1893456042"}, "", 42 * s, ra},
		{"milliseconds win", []string{"retry-after: 1", "retry-after-ms: 750"}, "", 750 * time.Millisecond, ra},
		{"bad milliseconds do not", []string{"retry-after: 1", "retry-after-ms: -1"}, "", s, ra},
		{"negative", []string{"retry-after: -5"}, "", none, ""},
		{"zero", []string{"retry-after: 0"}, "", none, ""},
		{"overflow", []string{"retry-after: 9223372037"}, "", none, ""},
		{"20 digits", []string{"retry-after: 99999999999999999999"}, "", none, ""},
		{"400 digits", []string{"retry-after: " + strings.Repeat("9", 400)}, "", none, ""},
		{"more than a year", []string{"retry-after: 40000000"}, "", none, ""},
		{"garbage", []string{"retry-after: soon"}, "", none, ""},
		{"not a number", []string{"retry-after: NaN"}, "", none, ""},
		{"infinite", []string{"retry-after: Inf"}, "", none, ""},
		{"hexadecimal", []string{"retry-after: 0x10"}, "", none, ""},
		{"exponent", []string{"retry-after: 1e3"}, "", none, ""},
		{"long", []string{"retry-after: 500000"}, "", 500000 * s, ra},
		{"Retry-After wins over all", []string{"retry-after: 3", "x-ratelimit-reset-requests: 9s"}, `{"retry_after":20}`, 3 * s, ra},
		{"headers win over the body", []string{"x-ratelimit-reset-requests: 9s"}, `{"retry_after":20}`, 9 * s, hd},

		{"unified, rejected", []string{"anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-reset: 1893459600"}, "", h, hd},
		{"unified, a moment ago", []string{"anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-reset: 1893455990"}, "", justReset, hd},
		{"unified, long past", []string{"anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-reset: 1893450000"}, "", none, ""},
		{"unified, without a status", []string{"anthropic-ratelimit-unified-reset: 1893459600"}, "", h, hd},
		{"unified, allowed", []string{"anthropic-ratelimit-unified-status: allowed", "anthropic-ratelimit-unified-reset: 1893459600"}, "", none, ""},
		{"unified, the window that is used up", []string{
			"anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-reset: 1893459600",
			"anthropic-ratelimit-unified-5h-status: allowed", "anthropic-ratelimit-unified-5h-reset: 1893459600",
			"anthropic-ratelimit-unified-7d-status: rejected", "anthropic-ratelimit-unified-7d-reset: 1893628800",
			"anthropic-ratelimit-unified-overage-status: rejected", "anthropic-ratelimit-unified-overage-reset: 1894000000",
		}, "", 2 * day, hd},
		{"bucket used up", []string{"anthropic-ratelimit-requests-remaining: 0", "anthropic-ratelimit-requests-reset: 2030-01-01T00:00:25Z"}, "", 25 * s, hd},
		{"bucket with something left", []string{"anthropic-ratelimit-tokens-remaining: 10", "anthropic-ratelimit-tokens-reset: 2030-01-01T00:00:25Z"}, "", none, ""},
		{"two used up: both have to fill", []string{
			"anthropic-ratelimit-input-tokens-remaining: 0", "anthropic-ratelimit-input-tokens-reset: 2030-01-01T00:00:25Z",
			"anthropic-ratelimit-output-tokens-remaining: 0", "anthropic-ratelimit-output-tokens-reset: 2030-01-01T00:01:00Z",
		}, "", m, hd},
		{"past bucket", []string{"anthropic-ratelimit-requests-reset: 2029-01-01T00:00:25Z"}, "", none, ""},
		{"minutes and seconds", []string{"x-ratelimit-reset-requests: 6m0s"}, "", 6 * m, hd},
		{"fraction of a second", []string{"x-ratelimit-reset-tokens: 1.5s"}, "", 1500 * time.Millisecond, hd},
		{"milliseconds spelled", []string{"x-ratelimit-reset-tokens: 250ms"}, "", 250 * time.Millisecond, hd},
		{"only the used up one", []string{
			"x-ratelimit-remaining-requests: 14370", "x-ratelimit-reset-requests: 2m59.56s",
			"x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 7.66s",
		}, "", 7660 * time.Millisecond, hd},
		{"plain seconds", []string{"x-ratelimit-reset-tokens-minute: 11.5"}, "", 11500 * time.Millisecond, hd},
		{"epoch seconds", []string{"x-ratelimit-reset: 1893456060"}, "", m, hd},
		{"epoch milliseconds", []string{"x-ratelimit-reset: 1893456060000"}, "", m, hd},
		{"draft header", []string{"ratelimit-remaining: 0", "ratelimit-reset: 30"}, "", 30 * s, hd},

		{"Google", nil, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37s"}]}}`, 37 * s, bd},
		{"Google in a list", nil, `[{"error":{"details":[{"retryDelay":"37.5s"}]}}]`, 37500 * time.Millisecond, bd},
		{"protobuf duration", nil, `{"retry_delay":{"seconds":37}}`, 37 * s, bd},
		{"code assist", nil, `{"error":{"details":[{"metadata":{"quotaResetDelay":"3h20m15.5s","quotaResetTimeStamp":"2030-01-09T00:00:00Z"}}]}}`, 3*h + 20*m + 15500*time.Millisecond, bd},
		{"Codex", nil, `{"error":{"type":"usage_limit_reached","resets_in_seconds":500000,"resets_at":1893956000}}`, 500000 * s, bd},
		{"only when it resets", nil, `{"error":{"resets_at":1893456090}}`, 90 * s, bd},
		{"when it resets, as a date", nil, `{"reset_at":"2030-01-01T02:00:00+01:00"}`, h, bd},
		{"reset after", nil, `{"reset_after_seconds":12.5}`, 12500 * time.Millisecond, bd},
		{"retry_after", nil, `{"error":{"retry_after":20}}`, 20 * s, bd},
		{"retry_after_ms", nil, `{"retry_after_ms":1500,"retry_after":9}`, 1500 * time.Millisecond, bd},
		{"a field that is null", nil, `{"retry_after":null,"resets_in_seconds":5}`, 5 * s, bd},
		{"a negative field", nil, `{"resets_in_seconds":-5}`, none, ""},
		{"OpenRouter", nil, `{"error":{"metadata":{"headers":{"X-RateLimit-Reset":"1893456060000"}}}}`, m, bd},
		{"OpenAI", nil, `{"error":{"message":"Rate limit reached for gpt-4o. Limit 30000, Used 29000. Please try again in 1.5s. Visit https://x.y/z"}}`, 1500 * time.Millisecond, bd},
		{"OpenAI, long", nil, `{"error":{"message":"Please try again in 6m0s."}}`, 6 * m, bd},
		{"OpenAI, short", nil, `{"error":{"message":"Please try again in 120ms."}}`, 120 * time.Millisecond, bd},
		{"Gemini's text", nil, `{"error":{"message":"Please retry in 12.3s."}}`, 12300 * time.Millisecond, bd},
		{"days", nil, `GoUsageLimitError: weekly limit. Resets in 3 days`, 3 * day, bd},
		{"one day", nil, `Resets in 1 day.`, day, bd},
		{"hours and minutes", nil, `{"error":"limit, resets in 3h20m"}`, 3*h + 20*m, bd},
		{"in full", nil, `try again in 2 days, 4 hours and 10 minutes`, 52*h + 10*m, bd},
		{"with words between", nil, `Please retry your request after 30 seconds`, 30 * s, bd},
		{"a date in the text", nil, `You will regain access on 2030-01-03 at 00:00 UTC.`, 2 * day, bd},
		{"an instant in the text", nil, `Your limit resets at 2030-01-01T05:00:00Z`, 5 * h, bd},
		{"Claude Code's", nil, `Claude AI usage limit reached|1893459600`, h, bd},
		{"the limit is not its end", nil, `{"error":{"message":"limit of 50 requests in 1 minute"}}`, none, ""},
		{"a number of times", nil, `please retry 3 times`, none, ""},
		{"time of day", nil, `resets at 3pm`, none, ""},
		{"a page", nil, `<html>try again in 5 minutes`, 5 * m, bd},
		{"no end of JSON", nil, `{"retry_after":`, none, ""},
		{"deep", nil, strings.Repeat("[", 5000) + strings.Repeat("]", 5000), none, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := parseHint(hintNow, headers(c.header...), []byte(c.body)), (health.Hint{After: c.after, Source: c.source}); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// For a usage limit the reset counts, whatever Retry-After says.
func TestParseReset(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		body   string
		want   health.Hint
	}{
		{"the body over Retry-After", []string{"retry-after: 60"}, `{"resets_in_seconds":500000}`, health.Hint{After: 500000 * time.Second, Source: health.SourceBody}},
		{
			"the window over the body",
			[]string{"anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-reset: 1893459600", "retry-after: 60"},
			`{"retry_after":5}`,
			health.Hint{After: time.Hour, Source: health.SourceHeaders},
		},
		{"only Retry-After", []string{"retry-after: 60"}, `{}`, health.Hint{After: time.Minute, Source: health.SourceRetryAfter}},
		{"nothing", nil, `{}`, health.Hint{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := parseReset(hintNow, headers(c.header...), []byte(c.body)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Whatever an upstream sends, a hint lies between now and a year from now.
func FuzzParseHint(f *testing.F) {
	f.Add("17", "6m0s", `{"retry_after":1}`)
	f.Add("-9223372036854775808", "1e999", `try again in 99999999999999999999 weeks`)
	f.Add("Tue, 01 Jan 2030 00:01:30 GMT", "1893459600", `{"resets_at":1893459600000,"a":[{"retryDelay":"1.s"}]}`)
	f.Fuzz(func(t *testing.T, retry, reset, body string) {
		h := http.Header{"Retry-After": {retry}, "X-Ratelimit-Reset": {reset}, "Anthropic-Ratelimit-Unified-Reset": {reset}}
		for _, hint := range []health.Hint{parseHint(hintNow, h, []byte(body)), parseReset(hintNow, h, []byte(body)), parseHint(hintNow, nil, []byte(body))} {
			if hint.After < 0 || hint.After > longestHint || (hint.After == 0) != (hint.Source == "") {
				t.Errorf("%+v", hint)
			}
		}
	})
}
