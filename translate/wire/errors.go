package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// maxMessage bounds what is kept of an error's text, in bytes.
const maxMessage = 4 << 10

// ErrorOf reads the body of an error answer in whatever shape; zero if it is not JSON or holds no error.
func (w *Wire) ErrorOf(body []byte) Failure {
	body = bytes.TrimSpace(body)
	if peek.Kind(body) == 'a' { // Google wraps the error of a stream without alt=sse.
		body = firstElement(body)
	}
	var o peek.Object
	if o.Scan(body) != nil {
		return Failure{}
	}
	return failureOf(&o)
}

// errorEventOf reads the data of an event that is named an error; text that is no JSON is the message.
func errorEventOf(data []byte) Failure {
	var o peek.Object
	if o.Scan(data) != nil {
		return Failure{Message: clip(string(data), maxMessage)}
	}
	return failureOf(&o)
}

// failureOf reads the error that an object has or is: nested as all four dialects do it, a mere string, FastAPI's detail,
// or flat.
func failureOf(o *peek.Object) Failure {
	raw := o.Value("error")
	if raw == nil {
		raw = o.Value("errors")
	}
	if peek.Kind(raw) == 'a' {
		raw = firstElement(raw)
	}
	e := flat(o)
	switch peek.Kind(raw) {
	case 'o':
		return nested(raw, e.Status)
	case 's':
		text := word(raw, maxMessage)
		if e.Message != "" && !strings.Contains(text, e.Message) {
			text += ": " + e.Message
		}
		e.Message = clip(text, maxMessage)
	}
	if e.Message == "" {
		return Failure{}
	}
	return e
}

// flat reads an error whose members stand among others, so that only what is surely meant counts.
func flat(o *peek.Object) (e Failure) {
	e.read(o)
	for _, name := range []string{"message", "msg", "detail", "error_description"} {
		if e.Message = text(o.Value(name)); e.Message != "" {
			break
		}
	}
	return e
}

// nested reads an error object. One that has no text of its own is its own text, for the words in it.
func nested(raw []byte, status int) Failure {
	var o peek.Object
	if o.Scan(raw) != nil {
		return Failure{}
	}
	e := flat(&o)
	if e.Type == "" {
		e.Type = word(o.Value("status"), maxWord)
	}
	var meta peek.Object
	if e.Type == "" && meta.Scan(o.Value("metadata")) == nil { // OpenRouter.
		e.Type = word(meta.Value("error_type"), maxWord)
	}
	if e.Message == "" && filled(raw) {
		e.Message = clip(string(raw), maxMessage)
	}
	if e.Status == 0 {
		e.Status = status
	}
	return e
}

// read takes the error's words and its HTTP status, which may stand in the code.
func (e *Failure) read(o *peek.Object) {
	if e.Type = word(o.Value("type"), maxWord); e.Type == "error" {
		e.Type = ""
	}
	code := o.Value("code")
	e.Code = word(code, maxWord)
	for _, raw := range [][]byte{o.Value("status"), o.Value("status_code"), o.Value("statusCode"), code} {
		if n, ok := peek.Int(raw); ok && n >= 400 && n < 600 {
			e.Status = int(n)
			return
		}
	}
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n < 600 {
		e.Status = n
	} else if peek.Kind(code) == 'n' {
		e.Code = clip(string(code), maxWord)
	}
}

// text reads a message: a string, FastAPI's list of complaints, or an object with a message.
func text(raw []byte) string {
	switch peek.Kind(raw) {
	case 's':
		return word(raw, maxMessage)
	case 'a':
		return text(firstElement(raw))
	case 'o':
		var o peek.Object
		if o.Scan(raw) == nil {
			for _, name := range []string{"message", "msg"} {
				if s := word(o.Value(name), maxMessage); s != "" {
					return s
				}
			}
		}
	}
	return ""
}

// word reads a string of at most limit bytes, "" if raw is none.
func word(raw []byte, limit int) string {
	s, _ := peek.String(raw)
	return clip(s, limit)
}

// clip cuts s to at most limit bytes, at a rune's edge. The result does not hold on to s.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return strings.Clone(s[:limit])
}

// firstElement returns the first element of an array, nil if there is none.
func firstElement(array []byte) (first []byte) {
	_ = peek.Elements(array, peek.Span{End: len(array)}, func(at peek.Span) bool {
		first = array[at.Start:at.End]
		return false
	})
	return first
}

// fault is an error of the router's own, to be told in a dialect.
type fault struct {
	status          int
	kind, word, msg string
}

// ErrorBody renders an error answer. kind is the router's own name for it, such as unknown_model; it goes into code where
// the dialect has one.
func (w *Wire) ErrorBody(status int, kind, msg string) []byte {
	return encode(w.envelope(fault{status, kind, w.word(status), msg}))
}

// ErrorEvent renders the whole frame that tells that a stream broke. The caller sees to it that a frame begun before it
// is ended first.
func (w *Wire) ErrorEvent(status int, kind, msg string) []byte {
	data := encode(w.frame(fault{status, kind, w.word(status), msg}))
	var b []byte
	if w.Name == Messages || w.Name == Responses {
		b = append(b, "event: error\n"...)
	}
	b = append(b, "data: "...)
	b = append(b, data...)
	return append(b, "\n\n"...)
}

// encode renders one line of JSON. Bytes that are no UTF-8 are replaced.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // Strings and numbers only.
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

type openaiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func openaiFault(e fault) openaiError {
	o := openaiError{Message: e.msg, Type: e.word}
	if e.kind != "" {
		o.Code = &e.kind
	}
	return o
}

func openaiEnvelope(e fault) any {
	return struct {
		Error openaiError `json:"error"`
	}{openaiFault(e)}
}

// responsesFrame has the error twice: flat as the dialect's reference says, and nested as the service sends it and as
// most SDKs look for it.
func responsesFrame(e fault) any {
	o := openaiFault(e)
	return struct {
		Type     string      `json:"type"`
		Sequence int         `json:"sequence_number"`
		Code     *string     `json:"code"`
		Message  string      `json:"message"`
		Param    *string     `json:"param"`
		Error    openaiError `json:"error"`
	}{"error", 0, o.Code, o.Message, nil, o}
}

func messagesEnvelope(e fault) any {
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    string `json:"code,omitempty"`
	}
	return struct {
		Type  string `json:"type"`
		Error inner  `json:"error"`
	}{"error", inner{e.word, e.msg, e.kind}}
}

func geminiEnvelope(e fault) any {
	type info struct {
		Type   string `json:"@type"`
		Reason string `json:"reason"`
	}
	type inner struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
		Details []info `json:"details,omitempty"`
	}
	g := inner{Code: e.status, Message: e.msg, Status: e.word}
	if e.kind != "" { // Code is the number here, so the name goes where Google puts its own.
		g.Details = []info{{"type.googleapis.com/google.rpc.ErrorInfo", e.kind}}
	}
	return struct {
		Error inner `json:"error"`
	}{g}
}

func openaiWord(status int) string {
	switch status {
	case 401:
		return "authentication_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 429:
		return "rate_limit_error"
	}
	if status < 500 {
		return "invalid_request_error"
	}
	return "server_error"
}

// messagesWord keeps overloaded_error for 529: Claude Code gives up after three of them in a row, whatever the status.
func messagesWord(status int) string {
	switch status {
	case 402:
		return "billing_error"
	case 413:
		return "request_too_large"
	case 529:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return openaiWord(status)
}

func geminiWord(status int) string {
	switch status {
	case 401:
		return "UNAUTHENTICATED"
	case 403:
		return "PERMISSION_DENIED"
	case 404:
		return "NOT_FOUND"
	case 429:
		return "RESOURCE_EXHAUSTED"
	case 501:
		return "UNIMPLEMENTED"
	case 502, 503, 529:
		return "UNAVAILABLE"
	case 504:
		return "DEADLINE_EXCEEDED"
	}
	if status < 500 {
		return "INVALID_ARGUMENT"
	}
	return "INTERNAL"
}
