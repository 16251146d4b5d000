package wire

import "testing"

// TestReadUsage: reports merge as those of a stream do, in each dialect's own way.
func TestReadUsage(t *testing.T) {
	for _, c := range []struct {
		wire    Name
		reports []string
		want    string
	}{
		{Messages, []string{`{"input_tokens":3,"cache_read_input_tokens":20,"output_tokens":1}`, `{"input_tokens":0,"output_tokens":9}`}, " in=3 read=20 out=9"},
		{Chat, []string{`{"prompt_tokens":0,"completion_tokens":0}`, `{"prompt_tokens":23,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":20}}`}, " in=3 read=20 out=9"},
		{Chat, []string{`7`}, ""},
		{Messages, []string{`[]`}, ""},
	} {
		var f Facts
		for _, raw := range c.reports {
			ByName(c.wire).ReadUsage([]byte(raw), &f)
		}
		if got := show(f.Usage); got != c.want {
			t.Errorf("%s %s: usage%s, want%s", c.wire, c.reports, got, c.want)
		}
	}
}
