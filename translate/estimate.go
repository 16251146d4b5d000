package translate

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/signalbox-llm/signalbox/translate/peek"
)

// What an estimate reckons with. Current tokenizers of English text and code take three to four bytes a token, other scripts
// one or two letters; providers bill an image of usual size with about 1,500 tokens.
const (
	bytesPerToken   = 3.5
	lettersPerToken = 1.5
	tokensPerImage  = 1500
	tokensPerTurn   = 4
	blobLength      = 512 // what is longer and all base64 is an image or a document
)

// EstimateTokens is about how many input tokens a Messages request has, for when nobody can count them: the text of its
// system prompt, messages and tools. It is a guess within a third or so, never 0.
func EstimateTokens(body []byte) int64 {
	var o peek.Object
	if o.Scan(body) != nil {
		return 1
	}
	tokens := 3.0
	for _, name := range []string{"system", "messages", "tools"} {
		d := json.NewDecoder(bytes.NewReader(o.Value(name)))
		for {
			t, err := d.Token()
			if err != nil {
				break
			}
			switch t := t.(type) {
			case string:
				tokens += textTokens(t)
			case json.Delim:
				if t == '{' {
					tokens += tokensPerTurn / 2
				}
			}
		}
	}
	return int64(tokens)
}

func textTokens(s string) float64 {
	if len(s) > blobLength && isBlob(s) {
		return tokensPerImage
	}
	letters := utf8.RuneCountInString(s)
	wide := len(s) - letters // bytes beyond one each: at least one for every letter that is not ASCII
	if wide == 0 {
		return float64(letters) / bytesPerToken
	}
	plain := 0
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			plain++
		}
	}
	return float64(plain)/bytesPerToken + float64(letters-plain)/lettersPerToken
}

// isBlob reports whether a long text is base64: nobody writes so many words without a space.
func isBlob(s string) bool {
	if strings.HasPrefix(s, "data:") {
		return true
	}
	letter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' }
	return strings.IndexFunc(s, func(r rune) bool { return !letter(r) && !strings.ContainsRune("+/=-_", r) }) < 0
}
