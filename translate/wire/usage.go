package wire

import (
	"bytes"
	"strconv"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// tally is what dialects count that include cached tokens in the prompt: the last known of each number. The normal form
// is derived from it anew after each report, as a report may leave out what an earlier one told.
type tally struct {
	prompt    Count // Cached tokens included.
	tool      Count // Gemini: what tools added to the prompt.
	read      Count
	write     Count
	output    Count
	reasoning Count
	total     Count
}

func (t *tally) merge(v tally) {
	t.prompt.merge(v.prompt)
	t.tool.merge(v.tool)
	t.read.merge(v.read)
	t.write.merge(v.write)
	t.output.merge(v.output)
	t.reasoning.merge(v.reasoning)
	t.total.merge(v.total)
}

func (t *tally) zero() bool {
	return t.prompt.N == 0 && t.read.N == 0 && t.output.N == 0 && t.reasoning.N == 0
}

// add takes over a report unless it is all zero after one that was not: totals never fall, so that one is a placeholder.
func (t *tally) add(v tally) {
	if !v.zero() || t.zero() {
		t.merge(v)
	}
}

// input is the prompt without what was cached, never less than 0.
func (t *tally) input() Count {
	return Count{N: max(0, t.prompt.N+t.tool.N-t.read.N-t.write.N), Known: t.prompt.Known}
}

// most takes over v if it is known and not less: of several names for one number the placeholders are 0.
func (c *Count) most(v Count) {
	if v.Known && v.N >= c.N {
		*c = v
	}
}

// openai reads a usage object of the OpenAI dialects, its cousins' spellings included; false if raw is no object.
func (f *Facts) openai(raw []byte) bool {
	o := f.object(low, raw)
	if o == nil {
		return false
	}
	var t tally
	for _, m := range o.Members {
		v := raw[m.Value.Start:m.Value.End]
		switch string(raw[m.Key.Start+1 : m.Key.End-1]) {
		case "prompt_tokens", "input_tokens":
			t.prompt.most(tokens(v))
		case "completion_tokens", "output_tokens":
			t.output.most(tokens(v))
		case "total_tokens":
			t.total = tokens(v)
		case "prompt_tokens_details", "input_tokens_details", "completion_tokens_details", "output_tokens_details":
			f.details(v, &t)
		case "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens": // Kimi, DeepSeek, LiteLLM.
			t.read.most(tokens(v))
		case "cache_creation_input_tokens":
			t.write.most(tokens(v))
		case "reasoning_tokens":
			t.reasoning.most(tokens(v))
		case "cost": // OpenRouter.
			f.cost(v)
		}
	}
	f.tally.add(t)
	f.Usage = f.tally.openai()
	return true
}

// details reads the parts of the prompt or of the completion.
func (f *Facts) details(raw []byte, t *tally) {
	o := f.object(bottom, raw)
	if o == nil {
		return
	}
	for _, m := range o.Members {
		v := raw[m.Value.Start:m.Value.End]
		switch string(raw[m.Key.Start+1 : m.Key.End-1]) {
		case "cached_tokens":
			t.read.most(tokens(v))
		case "cache_write_tokens", "cache_creation_tokens":
			t.write.most(tokens(v))
		case "reasoning_tokens":
			t.reasoning.most(tokens(v))
		}
	}
}

func (t *tally) openai() Usage {
	u := Usage{Input: t.input(), CacheRead: t.read, CacheWrite: t.write, Output: t.output, Reasoning: t.reasoning}
	// xAI leaves reasoning out of the completion, which only the total tells.
	if t.output.Known && t.reasoning.N > 0 && t.total.N == t.prompt.N+t.output.N+t.reasoning.N {
		u.Output.N += t.reasoning.N
	}
	return u
}

func (f *Facts) cost(raw []byte) {
	if usd, err := strconv.ParseFloat(string(raw), 64); err == nil && usd > 0 {
		f.Cost = usd
	}
}

// maxTries bounds how often a name is looked for in a tail that repeats it.
const maxTries = 8

// tailValue finds the last member of that name in the tail of a text whose value is of that kind, 's' or 'o', and returns
// the value. Within a JSON string a name's quotes would be escaped, so that no text can pass for a member.
func tailValue(tail []byte, name string, kind byte) []byte {
	for end, try := len(tail), 0; try < maxTries; try++ {
		at := bytes.LastIndex(tail[:end], []byte(name))
		if at <= 0 {
			break
		}
		end = at
		rest, ok := bytes.CutPrefix(tail[at+len(name):], []byte{'"'})
		if !ok || tail[at-1] != '"' {
			continue
		}
		if rest, ok = bytes.CutPrefix(trimLeft(rest), []byte{':'}); !ok {
			continue
		}
		if rest = trimLeft(rest); peek.Kind(rest) == kind {
			return whole(rest)
		}
	}
	return nil
}

func trimLeft(b []byte) []byte { return bytes.TrimLeft(b, " \t\r\n") }

// whole cuts text off behind the string or object that it begins with; nil if that does not end.
func whole(text []byte) []byte {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if i >= len(text) {
				return nil
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		default:
			continue
		}
		if depth == 0 {
			return text[:i+1]
		}
	}
	return nil
}
