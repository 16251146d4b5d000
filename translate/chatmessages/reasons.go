package chatmessages

import (
	"strings"

	"github.com/signalbox-llm/signalbox/translate/model"
)

// messagesReasons says as a stop reason what a chat server's finish reason means, in lower case. Beside OpenAI's own words
// stand those of servers that only resemble it: Mistral, GLM, Gemini and some that pass a runtime's word through.
var messagesReasons = map[string]string{
	"stop": "end_turn", "end_turn": "end_turn", "eos": "end_turn", "stop_sequence": "end_turn",
	"length": "max_tokens", "max_tokens": "max_tokens", "model_length": "max_tokens", "max_output_tokens": "max_tokens",
	"model_context_window_exceeded": "model_context_window_exceeded",
	"tool_calls":                    "tool_use", "function_call": "tool_use", "tool_use": "tool_use", "tool_call": "tool_use",
	"content_filter": "refusal", "refusal": "refusal", "sensitive": "refusal", "safety": "refusal", "recitation": "refusal",
	"blocklist": "refusal", "prohibited_content": "refusal", "spii": "refusal",
}

// brokenReasons are finish reasons that tell of a failure of the server: GLM's and DeepSeek's.
var brokenReasons = map[string]bool{"error": true, "network_error": true, "insufficient_system_resource": true}

// stopReason is the Messages stop reason of an answer. A call of a tool has to be run, whatever reason a server gives for
// having ended; and one that calls none must not ask for it.
func stopReason(finish string, tools, refused bool, report *model.Report) string {
	reason, known := messagesReasons[strings.ToLower(finish)]
	if !known {
		if finish != "" {
			report.Change("finish_reason")
		}
		reason = "end_turn"
	}
	switch {
	case tools && reason == "end_turn":
		return "tool_use"
	case !tools && reason == "tool_use":
		reason = "end_turn"
	}
	if refused && reason == "end_turn" {
		return "refusal"
	}
	return reason
}

// chatReasons says as a finish reason what a stop reason means.
var chatReasons = map[string]string{
	"end_turn": "stop", "stop_sequence": "stop", "pause_turn": "stop",
	"max_tokens": "length", "model_context_window_exceeded": "length",
	"tool_use": "tool_calls",
	"refusal":  "content_filter",
}

// finishReason is the chat finish reason of an answer, as stopReason.
func finishReason(stop string, tools bool, report *model.Report) string {
	reason, known := chatReasons[stop]
	if !known {
		if stop != "" {
			report.Change("stop_reason")
		}
		reason = "stop"
	}
	switch {
	case tools && reason == "stop" && stop != "pause_turn":
		return "tool_calls"
	case !tools && reason == "tool_calls":
		return "stop"
	}
	return reason
}
