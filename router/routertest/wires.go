package routertest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// as is the call as if it had been made on that wire.
func (c *Call) as(wire string) *Call { return &Call{N: c.N, Model: c.Model, Wire: wire} }

func whole(body string) content {
	return content{kind: "application/json", chunks: []string{body}, whole: true}
}

func count(u Usage) string { return fmt.Sprintf(`{"input_tokens":%d}`, u.prompt()) }

// answer is a whole answer as the wire's provider gives it.
func answer(c *Call, text string, u Usage) string {
	model, said := quote(c.Model), quote(text)
	switch c.Wire {
	case Responses:
		return response(c, "completed", said, u)
	case Messages:
		return fmt.Sprintf(`{"id":"msg_%d","type":"message","role":"assistant","model":%s,"content":[{"type":"text","text":%s}],`+
			`"stop_reason":"end_turn","stop_sequence":null%s}`, c.N, model, said, used(c.Wire, u))
	case Gemini:
		return geminiChunk(c, text, true, u)
	}
	return fmt.Sprintf(`{"id":"chatcmpl-%d","object":"chat.completion","created":1700000000,"model":%s,"choices":[{"index":0,`+
		`"message":{"role":"assistant","content":%s},"finish_reason":"stop"}]%s}`, c.N, model, said, used(c.Wire, u))
}

// stream is an answer in events. The text comes in as many as it has words.
func stream(c *Call, text string, u Usage) content {
	words := strings.SplitAfter(text, " ")
	out := content{kind: "text/event-stream"}
	switch c.Wire {
	case Responses:
		out.chunks = responsesStream(c, text, words, u)
	case Messages:
		out.chunks = messagesStream(c, words, u)
	case Gemini:
		for i, w := range words {
			out.chunks = append(out.chunks, "data: "+geminiChunk(c, w, i == len(words)-1, u)+"\r\n\r\n")
		}
	default:
		out.chunks = chatStream(c, words, u)
	}
	return out
}

func chatStream(c *Call, words []string, u Usage) []string {
	event := func(choices, rest string) string {
		return fmt.Sprintf(`data: {"id":"chatcmpl-%d","object":"chat.completion.chunk","created":1700000000,"model":%s,"choices":[%s]%s}`+"\n\n",
			c.N, quote(c.Model), choices, rest)
	}
	out := []string{event(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "")}
	for _, w := range words {
		out = append(out, event(`{"index":0,"delta":{"content":`+quote(w)+`},"finish_reason":null}`, ""))
	}
	out = append(out, event(`{"index":0,"delta":{},"finish_reason":"stop"}`, ""))
	if u != (Usage{}) {
		out = append(out, event("", used(c.Wire, u)))
	}
	return append(out, "data: [DONE]\n\n")
}

// messagesStream tells what went in at the start, and what came out at the end.
func messagesStream(c *Call, words []string, u Usage) []string {
	begun, end := u, ""
	if u != (Usage{}) {
		begun.Output = 1
		end = fmt.Sprintf(`,"usage":{"output_tokens":%d}`, u.Output)
	}
	out := []string{
		named("message_start", fmt.Sprintf(`{"type":"message_start","message":{"id":"msg_%d","type":"message","role":"assistant","model":%s,`+
			`"content":[],"stop_reason":null,"stop_sequence":null%s}}`, c.N, quote(c.Model), used(c.Wire, begun))),
		named("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
	}
	for _, w := range words {
		out = append(out, named("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":`+quote(w)+`}}`))
	}
	return append(out,
		named("content_block_stop", `{"type":"content_block_stop","index":0}`),
		named("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null}`+end+`}`),
		named("message_stop", `{"type":"message_stop"}`))
}

func responsesStream(c *Call, text string, words []string, u Usage) []string {
	var out []string
	event := func(name, rest string) {
		out = append(out, named(name, fmt.Sprintf(`{"type":%q,"sequence_number":%d,%s}`, name, len(out), rest)))
	}
	at := fmt.Sprintf(`"item_id":"item_%d","output_index":0,"content_index":0,`, c.N)
	part := `{"type":"output_text","text":` + quote(text) + `,"annotations":[]}`
	event("response.created", `"response":`+response(c, "in_progress", "", Usage{}))
	event("response.in_progress", `"response":`+response(c, "in_progress", "", Usage{}))
	event("response.output_item.added", `"output_index":0,"item":`+item(c, "in_progress", ""))
	event("response.content_part.added", at+`"part":{"type":"output_text","text":"","annotations":[]}`)
	for _, w := range words {
		event("response.output_text.delta", at+`"delta":`+quote(w))
	}
	event("response.output_text.done", at+`"text":`+quote(text))
	event("response.content_part.done", at+`"part":`+part)
	event("response.output_item.done", `"output_index":0,"item":`+item(c, "completed", part))
	event("response.completed", `"response":`+response(c, "completed", quote(text), u))
	return out
}

// response is the object that a Responses stream repeats and a plain call is answered with; said is quoted.
func response(c *Call, status, said string, u Usage) string {
	output := ""
	if said != "" {
		output = item(c, "completed", `{"type":"output_text","text":`+said+`,"annotations":[]}`)
	}
	return fmt.Sprintf(`{"id":"resp_%d","object":"response","created_at":1700000000,"status":%q,"error":null,"model":%s,"output":[%s]%s}`,
		c.N, status, quote(c.Model), output, used(c.Wire, u))
}

func item(c *Call, status, part string) string {
	return fmt.Sprintf(`{"id":"item_%d","type":"message","role":"assistant","status":%q,"content":[%s]}`, c.N, status, part)
}

func geminiChunk(c *Call, text string, last bool, u Usage) string {
	finish := ""
	if last {
		finish = `,"finishReason":"STOP"`
	}
	return fmt.Sprintf(`{"candidates":[{"index":0,"content":{"role":"model","parts":[{"text":%s}]}%s}]%s,"modelVersion":%s,"responseId":"gemini-%d"}`,
		quote(text), finish, used(c.Wire, u), quote(c.Model), c.N)
}

// failure is an error body; statuses that a wire has no word for have a general one.
func failure(wire string, status int, message string) string {
	switch wire {
	case Messages:
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%s}}`, word(status, "api_error", messagesErrors), quote(message))
	case Gemini:
		return fmt.Sprintf(`{"error":{"code":%d,"message":%s,"status":%q}}`, status, quote(message), word(status, "INTERNAL", geminiErrors))
	}
	kind := word(status, "server_error", openaiErrors)
	return fmt.Sprintf(`{"error":{"message":%s,"type":%q,"param":null,"code":%q}}`, quote(message), kind, kind)
}

var (
	openaiErrors = map[int]string{
		400: "invalid_request_error", 401: "invalid_api_key", 402: "insufficient_quota", 403: "permission_error", 404: "model_not_found",
		429: "rate_limit_exceeded",
	}
	messagesErrors = map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
		413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
	}
	geminiErrors = map[int]string{
		400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED",
		503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
	}
)

func word(status int, general string, words map[int]string) string {
	if w, ok := words[status]; ok {
		return w
	}
	return general
}

// used is the member that tells usage, with a comma before it; a zero Usage is not told.
func used(wire string, u Usage) string {
	if u == (Usage{}) {
		return ""
	}
	switch wire {
	case Responses:
		return fmt.Sprintf(`,"usage":{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"output_tokens":%d,`+
			`"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}`, u.prompt(), u.CacheRead, u.CacheWrite, u.Output, u.Reasoning, u.prompt()+u.Output)
	case Messages: // has no word for reasoning; it is part of the output
		return fmt.Sprintf(`,"usage":{"input_tokens":%d,"cache_creation_input_tokens":%d,"cache_read_input_tokens":%d,"output_tokens":%d}`,
			u.Input, u.CacheWrite, u.CacheRead, u.Output)
	case Gemini: // has no word for cache writes, and counts thoughts apart
		return fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"thoughtsTokenCount":%d,`+
			`"totalTokenCount":%d}`, u.prompt(), u.CacheRead, u.Output-u.Reasoning, u.Reasoning, u.prompt()+u.Output)
	}
	return fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
		`"prompt_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},"completion_tokens_details":{"reasoning_tokens":%d}}`,
		u.prompt(), u.Output, u.prompt()+u.Output, u.CacheRead, u.CacheWrite, u.Reasoning)
}

func named(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func quote(s string) string {
	b, _ := json.Marshal(s) // a string can always be written
	return string(b)
}
