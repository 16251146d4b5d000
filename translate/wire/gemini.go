package wire

import (
	"bytes"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// geminiEvent reads one chunk, which is a whole answer in small.
func geminiEvent(_, data []byte, f *Facts) Class {
	if peek.Kind(data) == 'a' {
		data = firstElement(data)
	}
	o := f.object(top, data)
	if o == nil {
		return Output
	}
	return geminiChunk(o, f)
}

// geminiChunk reads a chunk or a body.
func geminiChunk(o *peek.Object, f *Facts) Class {
	candidates, usage, feedback := o.Value("candidates"), o.Value("usageMetadata"), o.Value("promptFeedback")
	if truthy(o.Value("error")) && !filled(candidates) {
		return f.fail(failureOf(o))
	}
	f.identify(o.Value("responseId"), o.Value("modelVersion"))
	if candidates == nil && usage == nil && feedback == nil {
		return Output
	}
	f.gemini(usage)
	c := geminiCandidates(candidates, f)
	// A blocked prompt has no candidates, and is an answer that the client must see.
	if p := f.object(middle, feedback); p != nil && !filled(candidates) && f.finish(p.Value("blockReason")) {
		f.Output, f.Terminal = true, true
		return Terminal
	}
	return c
}

func geminiCandidates(candidates []byte, f *Facts) Class {
	c := Preamble
	if peek.Kind(candidates) != 'a' {
		return c
	}
	_ = peek.Elements(candidates, peek.Span{End: len(candidates)}, func(at peek.Span) bool {
		o := f.object(middle, candidates[at.Start:at.End])
		if o == nil {
			return true
		}
		reason := o.Value("finishReason")
		if content := f.object(low, o.Value("content")); content != nil && geminiParts(content.Value("parts"), f) {
			f.Output = true
			c = max(c, Output)
		}
		if !peek.Equal(reason, "FINISH_REASON_UNSPECIFIED") && f.finish(reason) {
			f.Terminal = true
			c = max(c, Terminal)
		}
		return true
	})
	return c
}

// geminiParts reports whether a part has anything in it.
func geminiParts(parts []byte, f *Facts) bool {
	found := false
	if peek.Kind(parts) == 'a' {
		_ = peek.Elements(parts, peek.Span{End: len(parts)}, func(at peek.Span) bool {
			found = f.says(parts[at.Start:at.End], "")
			return !found
		})
	}
	return found
}

// geminiCut reads the tail of a chunk too large to keep, an image mostly. Whatever is that large is output.
func geminiCut(_, tail []byte, f *Facts) Class {
	f.Output = true
	f.gemini(tailValue(tail, "usageMetadata", 'o'))
	if f.finish(tailValue(tail, "finishReason", 's')) {
		f.Terminal = true
		return Terminal
	}
	return Output
}

func geminiBody(o *peek.Object, f *Facts) Class {
	if c := geminiChunk(o, f); c == Failed || f.Output {
		return c
	}
	return Nothing
}

// geminiArray reads the stream that is answered as one JSON array of chunks if the request lacks alt=sse.
func geminiArray(body []byte, f *Facts) Class {
	body = bytes.TrimSpace(body)
	c := Nothing
	err := peek.Elements(body, peek.Span{End: len(body)}, func(at peek.Span) bool {
		if o := f.object(top, body[at.Start:at.End]); o != nil {
			c = max(c, geminiBody(o, f))
		}
		return c != Failed
	})
	if err != nil {
		return Nothing
	}
	return f.settle(c)
}

// gemini reads usageMetadata. Thoughts are output that the candidates' count leaves out.
func (f *Facts) gemini(raw []byte) {
	o := f.object(low, raw)
	if o == nil {
		return
	}
	f.tally.add(tally{
		prompt:    tokens(o.Value("promptTokenCount")),
		tool:      tokens(o.Value("toolUsePromptTokenCount")),
		read:      tokens(o.Value("cachedContentTokenCount")),
		output:    tokens(o.Value("candidatesTokenCount")),
		reasoning: tokens(o.Value("thoughtsTokenCount")),
	})
	t := &f.tally
	f.Usage = Usage{
		Input:     t.input(),
		CacheRead: t.read,
		Output:    Count{N: t.output.N + t.reasoning.N, Known: t.output.Known || t.reasoning.Known},
		Reasoning: t.reasoning,
	}
}
