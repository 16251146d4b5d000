package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestErrorBodies(t *testing.T) {
	for _, c := range []struct {
		wire        Name
		status      int
		kind        string
		body, event string
	}{
		{
			Chat, 404, "unknown_model",
			`{"error":{"message":"no \"m\"\n<x>","type":"not_found_error","param":null,"code":"unknown_model"}}`,
			"data: {\"error\":{\"message\":\"no \\\"m\\\"\\n<x>\",\"type\":\"not_found_error\",\"param\":null,\"code\":\"unknown_model\"}}\n\n",
		},
		{
			Responses, 502, "stream_truncated",
			`{"error":{"message":"no \"m\"\n<x>","type":"server_error","param":null,"code":"stream_truncated"}}`,
			"event: error\ndata: {\"type\":\"error\",\"sequence_number\":0,\"code\":\"stream_truncated\",\"message\":\"no \\\"m\\\"\\n<x>\",\"param\":null," +
				"\"error\":{\"message\":\"no \\\"m\\\"\\n<x>\",\"type\":\"server_error\",\"param\":null,\"code\":\"stream_truncated\"}}\n\n",
		},
		{
			Messages, 429, "no_targets",
			`{"type":"error","error":{"type":"rate_limit_error","message":"no \"m\"\n<x>","code":"no_targets"}}`,
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"no \\\"m\\\"\\n<x>\",\"code\":\"no_targets\"}}\n\n",
		},
		{
			Gemini, 503, "no_targets",
			`{"error":{"code":503,"message":"no \"m\"\n<x>","status":"UNAVAILABLE","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"no_targets"}]}}`,
			"data: {\"error\":{\"code\":503,\"message\":\"no \\\"m\\\"\\n<x>\",\"status\":\"UNAVAILABLE\",\"details\":[{\"@type\":\"type.googleapis.com/google.rpc.ErrorInfo\",\"reason\":\"no_targets\"}]}}\n\n",
		},
		{Chat, 500, "", `{"error":{"message":"no \"m\"\n<x>","type":"server_error","param":null,"code":null}}`, ""},
		{Messages, 500, "", `{"type":"error","error":{"type":"api_error","message":"no \"m\"\n<x>"}}`, ""},
		{Gemini, 500, "", `{"error":{"code":500,"message":"no \"m\"\n<x>","status":"INTERNAL"}}`, ""},
	} {
		w, msg := ByName(c.wire), "no \"m\"\n<x>"
		if got := string(w.ErrorBody(c.status, c.kind, msg)); got != c.body {
			t.Errorf("body\n got %s\nwant %s", got, c.body)
		}
		if got := string(w.ErrorEvent(c.status, c.kind, msg)); c.event != "" && got != c.event {
			t.Errorf("event\n got %s\nwant %s", got, c.event)
		}
	}
}

func TestErrorWords(t *testing.T) {
	for _, c := range []struct {
		status                   int
		openai, messages, gemini string
	}{
		{400, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"},
		{401, "authentication_error", "authentication_error", "UNAUTHENTICATED"},
		{402, "invalid_request_error", "billing_error", "INVALID_ARGUMENT"},
		{403, "permission_error", "permission_error", "PERMISSION_DENIED"},
		{404, "not_found_error", "not_found_error", "NOT_FOUND"},
		{405, "invalid_request_error", "invalid_request_error", "INVALID_ARGUMENT"},
		{413, "invalid_request_error", "request_too_large", "INVALID_ARGUMENT"},
		{429, "rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"},
		{500, "server_error", "api_error", "INTERNAL"},
		{501, "server_error", "api_error", "UNIMPLEMENTED"},
		{502, "server_error", "api_error", "UNAVAILABLE"},
		{503, "server_error", "api_error", "UNAVAILABLE"},
		{504, "server_error", "api_error", "DEADLINE_EXCEEDED"},
		{529, "server_error", "overloaded_error", "UNAVAILABLE"},
	} {
		if o, m, g := openaiWord(c.status), messagesWord(c.status), geminiWord(c.status); o != c.openai || m != c.messages || g != c.gemini {
			t.Errorf("%d: %s %s %s", c.status, o, m, g)
		}
	}
}

// TestErrorsAreRead reads back what each dialect writes, both plain and as an event.
func TestErrorsAreRead(t *testing.T) {
	for _, w := range All {
		body := w.ErrorBody(429, "busy", "later\xff")
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Errorf("%s: %q", w.Name, body)
		}
		e := w.ErrorOf(body)
		if e.Message != "later\ufffd" || e.Type != w.word(429) || w.Name != Gemini && e.Code != "busy" {
			t.Errorf("%s: %+v", w.Name, e)
		}
		f := &Facts{}
		classes := feed(w, string(w.ErrorEvent(429, "busy", "later")), f)
		if classNames(classes) != "F" || f.Failure.Message != "later" {
			t.Errorf("%s: %s %+v", w.Name, classNames(classes), f.Failure)
		}
	}
}

func TestErrorOf(t *testing.T) {
	w := ByName(Chat)
	for body, want := range map[string]Failure{
		`{"error":{"message":"m","type":"t","param":null,"code":"c"}}`:          {Type: "t", Code: "c", Message: "m"},
		`{"type":"error","error":{"type":"t","message":"m"},"request_id":"r"}`:  {Type: "t", Message: "m"},
		`[{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}]`:    {Type: "INVALID_ARGUMENT", Message: "m", Status: 400},
		`{"error":"overloaded","detail":"x"}`:                                   {Message: "overloaded: x"},
		`{"error":"Not Found","message":"no route","statusCode":404}`:           {Message: "Not Found: no route", Status: 404},
		`{"error":"invalid_token","error_description":"expired"}`:               {Message: "invalid_token: expired"},
		`{"detail":"Unsupported"}`:                                              {Message: "Unsupported"},
		`{"detail":[{"loc":["body"],"msg":"field required","type":"missing"}]}`: {Message: "field required"},
		`{"detail":{"code":"x","message":"m"}}`:                                 {Message: "m"},
		`{"message":"m","code":1302}`:                                           {Code: "1302", Message: "m"},
		`{"error":{"message":"m","code":"429"}}`:                                {Code: "429", Message: "m", Status: 429},
		`{"errors":[{"message":"m"}]}`:                                          {Message: "m"},
		`{"error":{"reason":"quota"}}`:                                          {Message: `{"reason":"quota"}`},
		`{"error":{}}`:                                                          {},
		`{"error":null,"id":"x","type":"message"}`:                              {},
		`{"error":{"message":["a"]}}`:                                           {Message: "a"},
		"  {\"error\":{\"message\":\"\\u00fc\"}}\n":                             {Message: "ü"},
		`<html>Bad Gateway</html>`:                                              {},
		``:                                                                      {},
		`[]`:                                                                    {},
		`"error"`:                                                               {},
		`{"error":{"message":"` + strings.Repeat("é", 4000) + `"}}`:             {Message: strings.Repeat("é", 2048)},
		`{"error":{"message":"x` + strings.Repeat("é", 4000) + `"}}`:            {Message: "x" + strings.Repeat("é", 2047)},
		`{"error":{"message":"Provider returned error","code":503,"metadata":{"error_type":"q"}}}`: {Type: "q", Message: "Provider returned error", Status: 503},
	} {
		if got := w.ErrorOf([]byte(body)); got != want {
			t.Errorf("%.80s\n got %+v\nwant %+v", body, got, want)
		}
	}
}
