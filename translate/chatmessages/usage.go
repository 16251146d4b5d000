package chatmessages

import (
	"github.com/signalbox-llm/signalbox/translate/model"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// messagesUsage appends a usage object of the Messages dialect, where input leaves cached tokens out. The two members that
// clients count on are there even if the upstream reported nothing.
func messagesUsage(b []byte, u wire.Usage) []byte {
	b = append(b, '{')
	b = model.Int(b, "input_tokens", u.Input.N)
	if u.CacheWrite.Known {
		b = model.Int(b, "cache_creation_input_tokens", u.CacheWrite.N)
	}
	if u.CacheRead.Known {
		b = model.Int(b, "cache_read_input_tokens", u.CacheRead.N)
	}
	b = model.Int(b, "output_tokens", u.Output.N)
	return append(b, '}')
}

// chatUsage appends a usage object of the chat dialect, where the prompt has cached tokens in it.
func chatUsage(b []byte, u wire.Usage) []byte {
	prompt := u.Input.N + u.CacheRead.N + u.CacheWrite.N
	b = append(b, '{')
	b = model.Int(b, "prompt_tokens", prompt)
	b = model.Int(b, "completion_tokens", u.Output.N)
	b = model.Int(b, "total_tokens", prompt+u.Output.N)
	if u.CacheRead.Known || u.CacheWrite.Known {
		b = append(model.Key(b, "prompt_tokens_details"), '{')
		b = model.Int(b, "cached_tokens", u.CacheRead.N)
		if u.CacheWrite.N > 0 { // As OpenRouter calls it.
			b = model.Int(b, "cache_write_tokens", u.CacheWrite.N)
		}
		b = append(b, '}')
	}
	if u.Reasoning.Known {
		b = append(model.Key(b, "completion_tokens_details"), '{')
		b = append(model.Int(b, "reasoning_tokens", u.Reasoning.N), '}')
	}
	return append(b, '}')
}
