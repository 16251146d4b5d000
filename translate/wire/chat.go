package wire

import "github.com/signalbox-llm/signalbox/translate/peek"

// chatEvent reads one chunk of a chat completion.
func chatEvent(_, data []byte, f *Facts) Class {
	if f.Output && f.shape.fits(data) {
		return Output
	}
	o := f.object(top, data)
	if o == nil {
		return Output
	}
	choices, usage := o.Value("choices"), o.Value("usage")
	if chatError(o, f) == Failed {
		f.openai(usage)
		return Failed
	}
	f.identify(o.Value("id"), o.Value("model"))
	if choices == nil && usage == nil {
		return Output
	}
	c := chatChoices(choices, "delta", f)
	groq := o.Value("x_groq")
	if g := f.object(middle, groq); g != nil {
		f.openai(g.Value("usage"))
		if e := g.Value("error"); truthy(e) {
			c = f.fail(Failure{Message: text(e)})
		}
	}
	// Some servers leave the choices of the usage chunk out altogether.
	used := f.openai(usage)
	f.UsageOnly = used && !filled(choices)
	if c == Output && !used && groq == nil {
		f.noteShape(o, data)
	}
	return c
}

// chatError looks for the error that a chunk or a body may be instead of an answer.
func chatError(o *peek.Object, f *Facts) Class {
	if truthy(o.Value("error")) || peek.Equal(o.Value("object"), "error") {
		return f.fail(failureOf(o))
	}
	return Preamble
}

// chatChoices reads all choices: a chunk says what it does in the member delta, a body in message, the
// completions of old in text.
func chatChoices(choices []byte, says string, f *Facts) Class {
	c := Preamble
	if peek.Kind(choices) != 'a' {
		return c
	}
	_ = peek.Elements(choices, peek.Span{End: len(choices)}, func(at peek.Span) bool {
		o := f.object(middle, choices[at.Start:at.End])
		if o == nil {
			return true
		}
		reason := o.Value("finish_reason")
		if peek.Equal(reason, "error") || truthy(o.Value("error")) {
			c = f.fail(choiceFailure(o))
			return false
		}
		if filled(o.Value("text")) || f.says(o.Value(says), "role") {
			f.Output = true
			c = max(c, Output)
		}
		if f.finish(reason) {
			f.Terminal = true
			c = max(c, Terminal)
		}
		f.openai(o.Value("usage"))
		return true
	})
	return c
}

// choiceFailure is the error of a choice that only says "error" or has an object that says more.
func choiceFailure(o *peek.Object) Failure {
	if truthy(o.Value("error")) {
		return failureOf(o)
	}
	return Failure{Type: "error"}
}

// says reports whether raw is an object that has a member with anything in it, apart from the one that labels it. Servers
// differ in what they call text, reasoning and calls, so that no list of names would do.
func (f *Facts) says(raw []byte, label string) bool {
	o := f.object(low, raw)
	if o == nil {
		return false
	}
	for _, m := range o.Members {
		if filled(raw[m.Value.Start:m.Value.End]) && !peek.Equal(raw[m.Key.Start:m.Key.End], label) {
			return true
		}
	}
	return false
}

// chatCut reads the tail of a chunk too large to keep. Whatever is that large is output.
func chatCut(_, tail []byte, f *Facts) Class {
	f.Output = true
	f.openai(tailValue(tail, "usage", 'o'))
	if f.finish(tailValue(tail, "finish_reason", 's')) {
		f.Terminal = true
		return Terminal
	}
	return Output
}

// chatBody reads a whole chat completion.
func chatBody(o *peek.Object, f *Facts) Class {
	choices := o.Value("choices")
	if !filled(choices) && chatError(o, f) == Failed {
		return Failed
	}
	f.identify(o.Value("id"), o.Value("model"))
	c := chatChoices(choices, "message", f)
	f.openai(o.Value("usage"))
	if c == Failed {
		return c
	}
	return Nothing
}
