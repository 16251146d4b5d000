package translate

import (
	"strings"
	"testing"
)

func TestEstimateTokens(t *testing.T) {
	english := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100) // 10 tokens a sentence with any tokenizer of today
	image := strings.Repeat("iVBORw0KGgo", 500)
	for name, c := range map[string]struct {
		body     string
		from, to int64
	}{
		"a greeting": {`{"messages":[{"role":"user","content":"Hello, Claude"}]}`, 6, 20},
		"english":    {`{"system":"` + english + `","messages":[]}`, 900, 1400},
		"chinese":    {`{"messages":[{"role":"user","content":"` + strings.Repeat("敏捷的棕色狐狸", 100) + `"}]}`, 400, 900},
		"an image": {
			`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + image + `"}}]}]}`, 1500, 1550,
		},
		"tools":       {`{"messages":[],"tools":[{"name":"read","description":"` + english + `","input_schema":{"type":"object"}}]}`, 900, 1450},
		"nothing":     {`{}`, 1, 3},
		"no object":   {`[]`, 1, 1},
		"not counted": {`{"metadata":{"x":"` + english + `"},"messages":[]}`, 1, 10},
	} {
		if got := EstimateTokens([]byte(c.body)); got < c.from || got > c.to {
			t.Errorf("%s: %d, want %d to %d", name, got, c.from, c.to)
		}
	}
}
