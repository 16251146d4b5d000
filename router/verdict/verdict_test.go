package verdict

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/health"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// answered is the evidence of an HTTP answer whose body the wire reads.
func answered(w wire.Name, status int, body string, header ...string) Evidence {
	return Evidence{Status: status, Header: headers(header...), Body: []byte(body), Failure: wire.ByName(w).ErrorOf([]byte(body))}
}

// told is the evidence of an error that came in band.
func told(f wire.Failure) Evidence { return Evidence{Status: 200, InBand: true, Failure: f} }

// ruling is what a test wants of a verdict, in one line: move, class, error.type, and scope, reason and hint of the failure.
func ruling(v Verdict) string {
	words := []string{[]string{"serve", "failOver", "giveBack", "stop"}[v.Move], v.Class, v.ErrorType}
	if v.Blame {
		words = append(words, string(v.Failure.Scope), string(v.Failure.Reason))
		if v.Failure.Hint.After > 0 {
			words = append(words, string(v.Failure.Hint.Source), v.Failure.Hint.After.String())
		}
	} else if v.Failure != (health.Failure{}) {
		words = append(words, "a failure without blame")
	}
	return strings.Join(words, " ")
}

// Every row of the table of classes.
func TestJudge(t *testing.T) {
	const (
		chat, resp, msgs, gem = wire.Chat, wire.Responses, wire.Messages, wire.Gemini

		quotaRow    = "failOver provider_quota_exhausted 429 account quota"
		limitRow    = "failOver provider_rate_limited 429 target rate_limit"
		limitAll    = "failOver provider_rate_limited 429 account rate_limit"
		callerRow   = "giveBack caller_invalid_request "
		rejectedRow = "failOver provider_rejected 400 session rejected"
	)
	cut := func(kind string, committed bool) Evidence {
		return Evidence{Status: 200, Kind: kind, Committed: committed}
	}
	for _, c := range []struct {
		name string
		e    Evidence
		want string
	}{
		{"a complete answer", Evidence{Status: 200, Complete: true, Committed: true}, "serve  "},
		{"the client left after the end", Evidence{Status: 200, Complete: true, Gone: true}, "serve  "},
		{"the client left", Evidence{Kind: telemetry.Other, Gone: true}, "stop caller_cancelled "},
		{"the client left a stream", Evidence{Status: 200, Kind: telemetry.ErrorConnectionReset, Committed: true, Gone: true}, "stop caller_cancelled "},
		{"the client left a router that ends", Evidence{Kind: telemetry.ErrorTimeout, Gone: true, Stopping: true, Overdue: true}, "stop caller_cancelled "},
		{"the router ends", Evidence{Kind: telemetry.ErrorTimeout, Stopping: true, Overdue: true}, "failOver router_stopping timeout"},
		{"the router ends in a stream", Evidence{Status: 200, Kind: telemetry.ErrorTimeout, Committed: true, Stopping: true}, "giveBack router_stopping timeout"},
		{"the router ends after an answer", Evidence{Status: 200, Complete: true, Committed: true, Stopping: true, Overdue: true}, "serve  "},
		{"request_timeout", Evidence{Kind: telemetry.ErrorTimeout, Overdue: true}, "failOver provider_timeout timeout"},
		{"request_timeout in a stream", Evidence{Status: 200, Kind: telemetry.ErrorTimeout, Committed: true, Overdue: true}, "giveBack provider_timeout timeout"},
		{"the client left an error", Evidence{Status: 429, Gone: true}, "stop caller_cancelled "},

		// 429 with a usage-limit body or a rejected unified window.
		{"opencode's weekly limit", answered(chat, 429, `{"type":"error","error":{"type":"GoUsageLimitError","message":"Weekly usage limit reached. Resets in 3 days."}}`), quotaRow + " body 72h0m0s"},
		{"Codex' usage limit", answered(resp, 429, `{"error":{"type":"usage_limit_reached","message":"limit","resets_in_seconds":500000}}`, "retry-after: 60"), quotaRow + " body 138h53m20s"},
		{"usage limit without a reset", answered(resp, 429, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached"}}`), quotaRow},
		{"a Claude window", answered(msgs, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, "anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-reset: 1893459600", "retry-after: 20"), quotaRow + " headers 1h0m0s"},
		{"a Claude window of one model", answered(msgs, 429, `{}`, "anthropic-ratelimit-unified-status: rejected", "anthropic-ratelimit-unified-representative-claim: seven_day_opus", "anthropic-ratelimit-unified-reset: 1893459600"), "failOver provider_quota_exhausted 429 target quota headers 1h0m0s"},
		{"a quota in words", answered(chat, 429, `{"error":{"message":"Your monthly quota is used up"}}`), quotaRow},

		// Other 429.
		{"429", answered(msgs, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`), limitRow},
		{"429 with a window that is open", answered(msgs, 429, `{}`, "anthropic-ratelimit-unified-status: allowed", "anthropic-ratelimit-unified-reset: 1893459600"), limitRow},
		{"429 without a body", answered(chat, 429, ``, "retry-after: 9"), limitRow + " retry_after 9s"},
		{"429 that names the model", answered(msgs, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"rate limit reached for model claude-opus-4-8"}}`), limitRow},
		{"429 of an organisation", answered(msgs, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 50 requests per minute"}}`), limitAll},
		{"429 of an account", answered(msgs, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your account's rate limit. Please try again later."}}`), limitAll},
		{"429 of an account, all models", answered(msgs, 429, `{"error":{"message":"Account rate limit across all models"}}`), limitAll},
		{"429 of an organisation for a model", answered(msgs, 429, `{"error":{"message":"would exceed your organization's rate limit of 40,000 input tokens per minute (org: 1, model: claude-opus-4-8)"}}`), limitRow},
		{"OpenAI's, whose links say account and billing", answered(chat, 429, `{"error":{"message":"Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): Limit 3. Please try again in 20s. Visit https://platform.openai.com/account/rate-limits. You can increase it at https://platform.openai.com/account/billing.","type":"requests","code":"rate_limit_exceeded"}}`), limitRow + " body 20s"},
		{"Google's, which speaks of quota and billing", answered(gem, 429, `{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"37s"}]}}`), limitRow + " body 37s"},
		{"429 because money is out", answered(chat, 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`), "failOver provider_billing 429 account billing"},
		{"429 because the engine is busy", answered(chat, 429, `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}`), "failOver provider_overloaded 429 target overloaded"},
		{"429 in plain text", answered(chat, 429, `Too many requests for this workspace`), limitAll},

		// Overload.
		{"529", answered(msgs, 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), "failOver provider_overloaded 529 target overloaded"},
		{"529 with a time", answered(msgs, 529, ``, "retry-after: 5"), "failOver provider_overloaded 529 target overloaded retry_after 5s"},
		{"529 beside a limit's reset", answered(msgs, 529, ``, "anthropic-ratelimit-tokens-reset: 2030-01-01T01:00:00Z"), "failOver provider_overloaded 529 target overloaded"},
		{"503 that is busy", answered(gem, 503, `{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}`), "failOver provider_overloaded 503 target overloaded"},
		{"503 with a time", answered(chat, 503, `{"error":{"message":"x"}}`, "retry-after: 7"), "failOver provider_overloaded 503 target overloaded retry_after 7s"},
		{"503 without a word", answered(msgs, 503, `{"type":"error","error":{"type":"api_error","message":"x"}}`), "failOver provider_server_error 503 target server_error"},
		{"500 that is busy", answered(chat, 500, `{"error":{"type":"overloaded_error","message":"x"}}`), "failOver provider_overloaded 500 target overloaded"},

		// 401 and 403.
		{"401", answered(msgs, 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`), "failOver provider_auth_failed 401 account auth"},
		{"401 without a body", answered(msgs, 401, ``), "failOver provider_auth_failed 401 account auth"},
		{"403", answered(chat, 403, `{"error":{"message":"Request not allowed","type":"forbidden"}}`), "failOver provider_auth_failed 403 account auth"},
		{"403 page", answered(chat, 403, `<html>model</html>`), "failOver provider_auth_failed 403 account auth"},
		{"403 for lack of permissions", answered(chat, 403, `{"error":{"message":"insufficient permissions","code":"insufficient_permissions"}}`), "failOver provider_auth_failed 403 account auth"},
		{"403 by moderation", answered(chat, 403, `{"error":{"code":403,"message":"Your chosen input was flagged","metadata":{"reasons":["violence"]}}}`), callerRow + "403"},
		{"403 by region", answered(chat, 403, `{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported"}}`), callerRow + "403"},
		{"403 for one model", answered(chat, 403, "{\"error\":{\"message\":\"Project `p` does not have access to model `gpt-9`\",\"code\":\"model_not_found\"}}"), "failOver provider_model_missing 403 target model_missing"},
		{"403 for one model, in other words", answered(chat, 403, `{"message":"You are not authorised for this model."}`), "failOver provider_model_missing 403 target model_missing"},
		{"403 for want of money", answered(chat, 403, `{"error":{"message":"Insufficient account balance"}}`), "failOver provider_billing 403 account billing"},

		// Billing.
		{"402", answered(chat, 402, `{"error":{"message":"Payment Required"}}`), "failOver provider_billing 402 account billing"},
		{"402 without a body", answered(chat, 402, ``), "failOver provider_billing 402 account billing"},
		{"Anthropic's empty balance", answered(msgs, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low for this request."}}`), "failOver provider_billing 400 account billing"},
		{"422 about quota", answered(chat, 422, `{"error":{"message":"x","code":"insufficient_quota"}}`), "failOver provider_billing 422 account billing"},
		{"400 about a usage limit", answered(msgs, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits."}}`), "failOver provider_billing 400 account billing"},
		{"400 whose code says it", answered(chat, 400, `{"error":{"code":"insufficient_quota"}}`), "failOver provider_billing 400 account billing"},
		{"400 in plain text", answered(chat, 400, `Your credit balance is too low`), "failOver provider_billing 400 account billing"},
		{"400 that only mentions credit", answered(chat, 400, `{"error":{"message":"unknown field credit_card","type":"invalid_request_error"}}`), callerRow + "400"},

		// The server.
		{"408", answered(chat, 408, ``), "failOver provider_timeout 408 target timeout"},
		{"500", answered(chat, 500, `{"error":{"message":"oops"}}`), "failOver provider_server_error 500 target server_error"},
		{"500 that speaks of limits", answered(chat, 500, `{"error":{"message":"rate limit service failed"}}`), "failOver provider_server_error 500 target server_error"},
		{"502 page", answered(chat, 502, `<html>Bad Gateway</html>`, "retry-after: 9"), "failOver provider_server_error 502 target server_error"},
		{"504", answered(chat, 504, ``), "failOver provider_timeout 504 target timeout"},
		{"a redirect", answered(chat, 302, ``), "failOver provider_server_error 302 target server_error"},
		{"DNS", Evidence{Kind: telemetry.ErrorDNS}, "failOver provider_connection_failed dns_error target connection"},
		{"refused", Evidence{Kind: telemetry.ErrorConnectionRefused}, "failOver provider_connection_failed connection_refused target connection"},
		{"reset", Evidence{Kind: telemetry.ErrorConnectionReset}, "failOver provider_connection_failed connection_reset target connection"},
		{"TLS", Evidence{Kind: telemetry.ErrorTLS}, "failOver provider_connection_failed tls_error target connection"},
		{"no name for it", Evidence{Kind: telemetry.Other}, "failOver provider_connection_failed _OTHER target connection"},
		{"header timeout", Evidence{Kind: telemetry.ErrorTimeout}, "failOver provider_timeout timeout target timeout"},
		{"first-event timeout", cut(telemetry.ErrorTimeout, false), "failOver provider_timeout timeout target timeout"},
		{"no HTTP", Evidence{Kind: telemetry.ErrorInvalidResponse}, "failOver provider_invalid_response invalid_response target unusable"},

		// 200 that is no answer.
		{"without output", Evidence{Status: 200, Unusable: true}, "failOver provider_unusable invalid_response target unusable"},
		{"a page", Evidence{Status: 200, Unusable: true, Invalid: true, Body: []byte(`<html>overloaded</html>`)}, "failOver provider_invalid_response invalid_response target unusable"},
		{"a stream that ends before its end", cut(telemetry.ErrorStreamTruncated, false), "failOver provider_stream_truncated stream_truncated target stream"},

		// After commit nothing is replayed.
		{"cut after commit", cut(telemetry.ErrorStreamTruncated, true), "giveBack provider_stream_truncated stream_truncated target stream"},
		{"reset after commit", cut(telemetry.ErrorConnectionReset, true), "giveBack provider_stream_truncated connection_reset target stream"},
		{"stalled after commit", cut(telemetry.ErrorTimeout, true), "giveBack provider_stream_truncated timeout target stream"},
		{"error in band after commit", Evidence{Status: 200, InBand: true, Committed: true, Failure: wire.Failure{Type: "overloaded_error"}}, "giveBack provider_overloaded 529 target overloaded"},

		// Opaque.
		{"400 without a body", answered(chat, 400, ``), rejectedRow},
		{"400 with a blank body", answered(chat, 400, " \n"), rejectedRow},
		{"400 with an empty object", answered(chat, 400, `{}`), rejectedRow},
		{"400 with an empty error", answered(chat, 400, `{"error":{}}`), rejectedRow},
		{"400 with an empty message", answered(chat, 400, `{"error":{"message":" ","type":"invalid_request_error"}}`), rejectedRow},
		{"400 without a message", answered(chat, 400, `{"error":{"type":"invalid_request_error","code":null}}`), rejectedRow},
		{"400 that cannot be read", answered(chat, 400, `<html>Bad Request</html>`), rejectedRow},
		{"422 without a body", answered(chat, 422, ``), "failOver provider_rejected 422 session rejected"},
		{"422 of FastAPI", answered(chat, 422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`), callerRow + "422"},

		// A model that is not there.
		{"404 of a model", answered(msgs, 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}`), "failOver provider_model_missing 404 target model_missing"},
		{"404 of a model, by code", answered(chat, 404, `{"error":{"message":"x","code":"model_not_found"}}`), "failOver provider_model_missing 404 target model_missing"},
		{"404 of a model at Google", answered(gem, 404, `{"error":{"code":404,"message":"models/g is not found for API version v1beta","status":"NOT_FOUND"}}`), "failOver provider_model_missing 404 target model_missing"},
		{"404 of something else", answered(chat, 404, `{"error":{"message":"Not Found"}}`), callerRow + "404"},
		{"404 page", answered(chat, 404, `<html>no model</html>`), callerRow + "404"},
		{"400 of a model", answered(chat, 400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error"}}`), "failOver provider_model_missing 400 target model_missing"},

		// State of another account.
		{"thinking of another account", answered(msgs, 400, "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"messages.1.content.0: Invalid `signature` in `thinking` block\"}}"), callerRow + "400"},
		{"encrypted reasoning", answered(resp, 400, `{"error":{"message":"The encrypted content gAAA could not be verified.","code":"invalid_encrypted_content"}}`), callerRow + "400"},
		{"a response of another account", answered(resp, 400, `{"error":{"message":"Previous response with id 'resp_1' not found.","code":"previous_response_not_found"}}`), callerRow + "400"},
		{"the same as 404, with a model in it", answered(resp, 404, `{"error":{"message":"Previous response with id 'resp_1' not found for model x."}}`), callerRow + "404"},

		// The caller's fault.
		{"context length", answered(chat, 400, `{"error":{"message":"prompt is longer than the 131072 token window","type":"invalid_request_error","code":"context_length_exceeded"}}`), callerRow + "400"},
		{"405", answered(chat, 405, ``), callerRow + "405"},
		{"409", answered(chat, 409, `{"error":{"message":"rate limit"}}`), callerRow + "409"},
		{"413", answered(chat, 413, ``), "giveBack caller_too_large 413"},
		{"415", answered(chat, 415, ``), callerRow + "415"},
		{"451", answered(chat, 451, ``), callerRow + "451"},

		// In band, by words and by codes.
		{"overloaded_error", told(wire.Failure{Type: "overloaded_error", Message: "Overloaded"}), "failOver provider_overloaded 529 target overloaded"},
		{"server_is_overloaded", told(wire.Failure{Code: "server_is_overloaded", Message: "m"}), "failOver provider_overloaded 529 target overloaded"},
		{"provider_unavailable with a code", told(wire.Failure{Type: "provider_unavailable", Code: "502", Status: 502, Message: "Provider disconnected"}), "failOver provider_overloaded 502 target overloaded"},
		{"code 503", told(wire.Failure{Code: "503", Status: 503, Message: "x"}), "failOver provider_overloaded 503 target overloaded"},
		{"code 529", told(wire.Failure{Code: "529", Status: 529}), "failOver provider_overloaded 529 target overloaded"},
		{"529 in the text", told(wire.Failure{Message: "upstream said 529"}), "failOver provider_overloaded 529 target overloaded"},
		{"temporarily unavailable", told(wire.Failure{Message: "Service temporarily unavailable"}), "failOver provider_overloaded 529 target overloaded"},
		{"rate_limit_exceeded", told(wire.Failure{Code: "rate_limit_exceeded", Message: "Rate limit reached. Please try again in 1.5s."}), limitRow + " body 1.5s"},
		{"code 429", told(wire.Failure{Code: "429", Status: 429, Message: "limit"}), limitRow},
		{"too many", told(wire.Failure{Message: "Too many concurrent requests"}), limitRow},
		{"429 in the text", told(wire.Failure{Message: "HTTP 429"}), limitRow},
		{"not a 429 in the text", told(wire.Failure{Message: "it took 4290 ms"}), "failOver provider_server_error 500 target server_error"},
		{"Google's limit", told(wire.Failure{Type: "RESOURCE_EXHAUSTED", Status: 429, Message: "You exceeded your current quota, check billing"}), limitRow},
		{"usage limit", told(wire.Failure{Code: "usage_limit_reached", Message: "resets in 2 hours"}), quotaRow + " body 2h0m0s"},
		{"quota", told(wire.Failure{Message: "Quota exceeded"}), quotaRow},
		{"insufficient_quota", told(wire.Failure{Code: "insufficient_quota", Message: "quota"}), "failOver provider_billing 402 account billing"},
		{"credit", told(wire.Failure{Message: "not enough credit left"}), "failOver provider_billing 402 account billing"},
		{"balance", told(wire.Failure{Message: "Balance is negative"}), "failOver provider_billing 402 account billing"},
		{"code 402", told(wire.Failure{Status: 402, Message: "no"}), "failOver provider_billing 402 account billing"},
		{"authentication_error", told(wire.Failure{Type: "authentication_error", Message: "no"}), "failOver provider_auth_failed 401 account auth"},
		{"API key", told(wire.Failure{Message: "Incorrect API key provided"}), "failOver provider_auth_failed 401 account auth"},
		{"code 401", told(wire.Failure{Status: 401, Message: "No auth credentials found"}), "failOver provider_auth_failed 401 account auth"},
		{"invalid request", told(wire.Failure{Type: "invalid_request_error", Message: "messages: too many images"}), callerRow + "400"},
		{"credit balance in an invalid request", told(wire.Failure{Type: "invalid_request_error", Message: "Your credit balance is too low"}), "failOver provider_billing 402 account billing"},
		{"too long", told(wire.Failure{Message: "prompt is too long"}), callerRow + "400"},
		{"content policy", told(wire.Failure{Message: "blocked by content policy"}), callerRow + "400"},
		{"not supported", told(wire.Failure{Message: "tool_choice is not supported"}), callerRow + "400"},
		{"code 400", told(wire.Failure{Status: 400, Message: "max_tokens"}), callerRow + "400"},
		{"code 403 by moderation", told(wire.Failure{Status: 403, Message: "input was flagged"}), callerRow + "403"},
		{"code 404 of a model", told(wire.Failure{Status: 404, Message: "model x"}), "failOver provider_model_missing 404 target model_missing"},
		{"code 502", told(wire.Failure{Code: "502", Status: 502, Message: "upstream worker limit"}), "failOver provider_server_error 502 target server_error"},
		{"code 500 with words", told(wire.Failure{Status: 500, Message: "Rate limit exceeded"}), limitRow[:len("failOver provider_rate_limited ")] + "500 target rate_limit"},
		{"api_error", told(wire.Failure{Type: "api_error", Message: "Internal server error"}), "failOver provider_server_error 500 target server_error"},
		{"nothing said", told(wire.Failure{}), "failOver provider_server_error 500 target server_error"},
		{"error as finish reason", told(wire.Failure{Type: "error"}), "failOver provider_server_error 500 target server_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ruling((&Policy{}).Judge(hintNow, c.e))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A limit that names what was asked for is that model's, even where it does not say that it is a model.
func TestALimitThatNamesTheModelIsTheModels(t *testing.T) {
	e := answered(wire.Chat, 429, `{"error":{"message":"Your organization may not call GPT-9 that often"}}`)
	if v := (&Policy{}).Judge(hintNow, e); v.Failure.Scope != health.ScopeAccount {
		t.Errorf("without the model: %s", ruling(v))
	}
	e.Model = "gpt-9"
	if v := (&Policy{}).Judge(hintNow, e); v.Failure.Scope != health.ScopeTarget {
		t.Errorf("with the model: %s", ruling(v))
	}
}

func TestRetryable(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Evidence
		want bool
	}{
		{"502", Evidence{Status: 502}, true},
		{"503", Evidence{Status: 503}, true},
		{"504", Evidence{Status: 504}, true},
		{"529", Evidence{Status: 529}, true},
		{"502 in band", told(wire.Failure{Status: 502}), true},
		{"busy in band", told(wire.Failure{Type: "overloaded_error"}), true},
		{"refused", Evidence{Kind: telemetry.ErrorConnectionRefused}, true},
		{"500", Evidence{Status: 500}, false},
		{"429", Evidence{Status: 429}, false},
		{"a timeout has cost enough", Evidence{Kind: telemetry.ErrorTimeout}, false},
		{"no usable answer", Evidence{Status: 200, Unusable: true}, false},
		{"a stream has begun", Evidence{Status: 200, Kind: telemetry.ErrorConnectionReset, Committed: true}, false},
		{"400", answered(wire.Chat, 400, ``), false},
	} {
		if got := (&Policy{}).Judge(hintNow, c.e).Retryable; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestProviderCode(t *testing.T) {
	for _, c := range []struct {
		f    wire.Failure
		want string
	}{
		{wire.Failure{Type: "overloaded_error"}, "overloaded_error"},
		{wire.Failure{Type: "error", Code: "server_is_overloaded"}, "server_is_overloaded"},
		{wire.Failure{Type: "provider_unavailable", Code: "502"}, "provider_unavailable"},
		{wire.Failure{Code: "502"}, ""},
		{wire.Failure{Code: "my password is 1234", Type: "x"}, "x"},
		{wire.Failure{Code: strings.Repeat("x", 65)}, ""},
		{wire.Failure{Code: "ünlesbar"}, ""},
	} {
		if got := providerCode(c.f); got != c.want {
			t.Errorf("%+v: %q, want %q", c.f, got, c.want)
		}
	}
}

func TestFailureCarriesTheStatus(t *testing.T) {
	for _, c := range []struct {
		e    Evidence
		want int
	}{{Evidence{Status: 500}, 500}, {told(wire.Failure{Status: 502}), 502}, {told(wire.Failure{}), 0}, {Evidence{Kind: telemetry.ErrorDNS}, 0}} {
		if got := (&Policy{}).Judge(hintNow, c.e).Failure; got.Status != c.want || got.ErrorType == "" {
			t.Errorf("%+v, want %d", got, c.want)
		}
	}
}

// Every class has a ruling, and every ruling stays within telemetry's vocabulary.
func TestRulingsAreWhole(t *testing.T) {
	if len(rulings) != int(isNoCount)+1 {
		t.Fatalf("%d rulings for %d classes", len(rulings), isNoCount+1)
	}
	for c := isCancelled; c <= isNoCount; c++ {
		r := rulings[c]
		if r.class == "" || (r.reason == "") != (r.scope == "") || r.reason != "" && r.next != FailOver {
			t.Errorf("class %d: %+v", c, r)
		}
	}
	for _, c := range clues {
		for _, w := range append(append(append([]string{}, c.names...), c.phrases...), c.words...) {
			if w != strings.ToLower(w) || strings.TrimSpace(w) == "" {
				t.Errorf("%q is not in lower case", w)
			}
		}
	}
}

func TestPolicyIsTheConfigurations(t *testing.T) {
	got := PolicyOf(&settings.Config{Cooling: settings.Cooling{
		Scope:     "target",
		RateLimit: settings.RateLimitBackoff{Base: 1, Cap: 2, Scope: "account"}, Auth: settings.Backoff{Base: 3, Cap: 4}, Billing: settings.Backoff{Base: 5, Cap: 6},
		Server: settings.ServerBackoff{Base: 7, Cap: 8, After: 9}, QuotaDefault: 10, HintCap: 11, ProbeEvery: 12, OutageWindow: 13, Exclusion: 14,
	}}).Health()
	want := health.Policy{
		RateLimit: health.Backoff{Base: 1, Cap: 2}, Auth: health.Backoff{Base: 3, Cap: 4}, Billing: health.Backoff{Base: 5, Cap: 6},
		Server: health.Backoff{Base: 7, Cap: 8, After: 9}, Scope: health.ScopeTarget, RateLimitScope: health.ScopeAccount, QuotaDefault: 10, HintCap: 11, ProbeEvery: 12,
		OutageWindow: 13, Exclusion: 14, ModelMissing: 5 * time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyLimitsAndOverloadMustSayWhen(t *testing.T) {
	for status := 100; status < 600; status++ {
		if MustSayWhen(status) != (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) || IsSuccess(status) != (status >= 200 && status < 300) {
			t.Error(status)
		}
	}
}

// Odd bytes never make the judge panic, and every verdict is one that can be told.
func FuzzJudge(f *testing.F) {
	f.Add(429, `{"error":{"message":"x","code":"insufficient_quota"}}`, "17", false)
	f.Add(200, `{"error":{"code":502,"message":"overloaded"}}`, "", true)
	f.Fuzz(func(t *testing.T, status int, body, retry string, inBand bool) {
		for _, w := range wire.All {
			e := answered(w.Name, status, body, "retry-after: "+retry)
			e.InBand = inBand
			v := (&Policy{}).Judge(hintNow, e)
			if (v.Move == Serve) != (v.Class == "") || v.Blame != (v.Failure.Reason != "") || v.Move == FailOver && !v.Blame || len(v.Code) > 64 {
				t.Fatalf("%+v of %+v", v, e)
			}
		}
	})
}

func BenchmarkJudge(b *testing.B) {
	for _, c := range []struct {
		name string
		e    Evidence
	}{
		{"success", Evidence{Status: 200, Complete: true}},
		{"500", answered(wire.Chat, 500, `{"error":{"message":"oops","type":"server_error"}}`)},
		{"429", answered(wire.Messages, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}`, "retry-after: 17")},
		{"429 searched to the end", answered(wire.Messages, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your rate limit"}}`)},
		{"in band", told(wire.Failure{Type: "overloaded_error", Message: "Overloaded"})},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				(&Policy{}).Judge(hintNow, c.e)
			}
		})
	}
}
