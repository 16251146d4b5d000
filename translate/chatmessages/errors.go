package chatmessages

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// errorBody renders the body of an upstream's error answer in the client's dialect.
func errorBody(client, upstream *wire.Wire, status int, body []byte) []byte {
	e := upstream.ErrorOf(body)
	if e.Message == "" {
		e.Message = plainText(body)
	}
	if e.Message == "" {
		e.Message = "The upstream answered with status " + strconv.Itoa(status) + " and no explanation."
	}
	return client.ErrorBody(status, kind(e), e.Message)
}

// plainText is an error body that is a few words instead of JSON; markup is nothing to show.
func plainText(body []byte) string {
	const enough = 1 << 10
	body = bytes.TrimSpace(body)
	if len(body) == 0 || len(body) > enough || bytes.IndexByte([]byte("<{["), body[0]) >= 0 {
		return ""
	}
	return strings.ToValidUTF8(string(body), "\uFFFD")
}

// kind is the finest word that the provider has for an error. Towards chat clients it becomes the code.
func kind(e wire.Failure) string {
	if e.Code != "" {
		return e.Code
	}
	return e.Type
}

// statuses tells by the words in which providers name an error what its HTTP status would be. The first that fits counts.
var statuses = []struct {
	word   string
	status int
}{
	{"overloaded", 529},
	{"rate_limit", 429},
	{"too_many", 429},
	{"quota", 429},
	{"resource_exhausted", 429},
	{"billing", 402},
	{"insufficient", 402},
	{"authentication", 401},
	{"api_key", 401},
	{"unauthorized", 401},
	{"permission", 403},
	{"not_found", 404},
	{"too_large", 413},
	{"invalid", 400},
	{"unavailable", 503},
	{"timeout", 504},
}

// statusOf is the HTTP status that an error in band stands for, so that it gets the client's own word.
func statusOf(e wire.Failure) int {
	if e.Status != 0 {
		return e.Status
	}
	words := strings.ToLower(e.Code + " " + e.Type)
	for _, s := range statuses {
		if strings.Contains(words, s.word) {
			return s.status
		}
	}
	return 500
}

// errorEvent appends the frame that tells of an error in band.
func errorEvent(dst []byte, client *wire.Wire, e wire.Failure) []byte {
	if e.Message == "" {
		e.Message = "The upstream reported an error."
		if k := kind(e); k != "" {
			e.Message = "The upstream reported an error: " + k + "."
		}
	}
	return append(dst, client.ErrorEvent(statusOf(e), kind(e), e.Message)...)
}

// Failures that the translation itself tells of.
var (
	failCut = wire.Failure{
		Status: 502, Code: "upstream_error", Message: "The upstream ended its answer before it was complete.",
	}
	failBroken = wire.Failure{
		Status: 502, Code: "upstream_error", Message: "The connection to the upstream broke before its answer was complete.",
	}
	failUnreadable = wire.Failure{
		Status: 502, Code: "upstream_error", Message: "The upstream sent an event that cannot be read.",
	}
	failTooLarge = wire.Failure{
		Status: 502, Code: "upstream_error", Message: "The upstream's answer is larger than can be translated.",
	}
)
