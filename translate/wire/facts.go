package wire

import (
	"slices"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// Count is a number of tokens that may be unknown; the zero value is unknown.
type Count struct {
	N     int64
	Known bool
}

// Usage is what an answer used, in the normal form that is the same for all dialects.
type Usage struct {
	Input        Count // Prompt tokens that were neither read from nor written to a cache.
	CacheRead    Count
	CacheWrite   Count // All cache writes, the two below included.
	CacheWrite5m Count
	CacheWrite1h Count
	Output       Count // Reasoning included.
	Reasoning    Count
}

// Merge takes over what v knows: reports are running totals, so the later one wins, and an unknown never erases.
func (u *Usage) Merge(v Usage) {
	u.Input.merge(v.Input)
	u.CacheRead.merge(v.CacheRead)
	u.CacheWrite.merge(v.CacheWrite)
	u.CacheWrite5m.merge(v.CacheWrite5m)
	u.CacheWrite1h.merge(v.CacheWrite1h)
	u.Output.merge(v.Output)
	u.Reasoning.merge(v.Reasoning)
}

// TotalInput is input, cache reads and cache writes together, known if the input is.
func (u Usage) TotalInput() Count {
	return Count{N: u.Input.N + u.CacheRead.N + u.CacheWrite.N, Known: u.Input.Known}
}

// Known reports whether anything was reported.
func (u Usage) Known() bool { return u != Usage{} }

func (c *Count) merge(v Count) {
	if v.Known {
		*c = v
	}
}

// maxTokens is more than any answer can use; what is larger is a mistake, and would overflow a sum.
const maxTokens = 1 << 40

// tokens reads a number of tokens; a negative, fractional, absurd or missing one is unknown.
func tokens(raw []byte) Count {
	n, ok := peek.Int(raw)
	if !ok || n < 0 || n > maxTokens {
		return Count{}
	}
	return Count{N: n, Known: true}
}

// Failure is an error told in band or in an error answer's body.
type Failure struct {
	Type    string // The provider's word for the kind of error.
	Code    string // The provider's finer word, if it has one.
	Message string // At most 4 KiB.
	Status  int    // The HTTP status that the error itself names, 0 if none.
}

// Facts is what an answer has told so far. It belongs to one exchange; Reset makes it fit for the next attempt.
type Facts struct {
	ID, Model string   // As the first event or the body named them.
	Finish    []string // Finish reasons as the dialect spells them, each once.
	Usage     Usage
	Cost      float64 // USD, as the upstream itself reported it; 0 if it did not.
	Failure   Failure
	Failed    bool // An in-band error was seen.
	Output    bool // Output was seen, a refusal included.
	Terminal  bool // The end of the answer was seen.
	UsageOnly bool // The last event was openai-chat's extra usage chunk: no choices, but usage.
	Events    int  // Events that were more than a comment or a ping.

	tally   tally
	shape   shape // of the chunks that tell nothing new
	scratch [levels]peek.Object
}

// The levels of nesting at which objects are looked into, each with a scanner of its own.
const (
	top = iota
	middle
	low
	bottom
	levels
)

// maxMembers bounds the scanners that are kept for reuse.
const maxMembers = 256

// maxWord bounds, in bytes, identifiers and words taken from an answer; longer ones are no identifiers.
const maxWord = 1 << 10

// Reset forgets everything but the scanners' buffers.
func (f *Facts) Reset() {
	fresh := Facts{shape: shape{text: f.shape.text[:0]}}
	for i := range f.scratch {
		// Only the member list is kept, so that no answer's bytes are held.
		if m := f.scratch[i].Members; cap(m) <= maxMembers {
			fresh.scratch[i].Members = m[:0]
		}
	}
	*f = fresh
}

// object scans raw at a level of nesting; nil if it is not an object.
func (f *Facts) object(level int, raw []byte) *peek.Object {
	if peek.Kind(raw) != 'o' {
		return nil
	}
	o := &f.scratch[level]
	if o.Scan(raw) != nil {
		return nil
	}
	return o
}

// identify notes id and model; the first that are not empty stay.
func (f *Facts) identify(id, model []byte) {
	note(&f.ID, id)
	note(&f.Model, model)
}

func note(to *string, raw []byte) {
	if *to == "" && len(raw) <= maxWord {
		*to, _ = peek.String(raw)
	}
}

// finish notes a finish reason and reports whether raw is one. A refusal is an answer that the client must see.
func (f *Facts) finish(raw []byte) bool {
	if peek.Kind(raw) != 's' || len(raw) > maxWord || peek.Equal(raw, "") {
		return false
	}
	for _, seen := range f.Finish {
		if peek.Equal(raw, seen) {
			return true
		}
	}
	reason, _ := peek.String(raw)
	f.Finish = append(f.Finish, reason)
	f.Output = f.Output || slices.Contains(refusals, reason)
	return true
}

// refusals are the finish reasons that are an answer even without any text.
var refusals = []string{
	"content_filter", "refusal", "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE",
	"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR",
}

// fail notes an in-band error; the first one stays, as later ones repeat it.
func (f *Facts) fail(e Failure) Class {
	if f.Failure == (Failure{}) {
		f.Failure = e
	}
	f.Failed = true
	return Failed
}

// settle turns what a body's reader found into the body's class.
func (f *Facts) settle(c Class) Class {
	switch {
	case c == Failed:
		return Failed
	case c == Output || f.Output:
		f.Output = true
		return Output
	case f.Usage.Output.N > 0:
		return Output
	}
	return Nothing
}

// truthy reports whether a member says something: not null, false, 0, "", [] or {}.
func truthy(raw []byte) bool {
	if len(raw) == 0 || raw[0] == 'f' || peek.IsNull(raw) {
		return false
	}
	return raw[0] == 't' || peek.Kind(raw) == 'n' && string(raw) != "0" || filled(raw)
}

// filled reports whether raw is a string, an array or an object with something in it.
func filled(raw []byte) bool {
	switch peek.Kind(raw) {
	case 's':
		return len(raw) > 2
	case 'a', 'o':
		for _, c := range raw[1 : len(raw)-1] {
			if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
				return true
			}
		}
	}
	return false
}
