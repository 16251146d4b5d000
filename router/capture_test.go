package router

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestHeadersAreToldWithoutCredentials(t *testing.T) {
	t.Parallel()
	own := map[string]settings.Secret{"x-title": settings.NewSecret("agents of ours", "")}
	kept := http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {"claude-cli/2.0.1 (external, cli)"}, "Anthropic-Version": {"2023-06-01"},
		"Anthropic-Beta":                         {"claude-code-20250219,interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14"},
		"Anthropic-Ratelimit-Tokens-Limit":       {"80000"},
		"X-Ratelimit-Remaining-Tokens":           {"12"},
		"X-Request-Id":                           {"0198c1d2-5b3e-7c4f-9a10-0123456789ab"},
		"Date":                                   {"Mon, 02 Jan 2006 15:04:05 GMT"},
		"X-Stainless-Runtime-Version":            {"v24.3.0"},
		"Anthropic-Ratelimit-Unified-5h-Reset":   {"1764460800"},
		"Content-Security-Policy-That-Is-So-Odd": {"default-src 'none'"},
	}
	hidden := http.Header{
		"Authorization": {"Bearer short"}, "Proxy-Authorization": {"Basic YQ=="}, "X-Api-Key": {"k"}, "Api-Key": {"k"}, "X-Goog-Api-Key": {"k"},
		"Cookie": {"a=b"}, "Set-Cookie": {"a=b", "c=d"}, "X-Csrf-Token": {"t"}, "Session-Id": {"s"}, "Openai-Organization": {"org"},
		"X-Title": {"agents of ours"}, "X-Odd": {"see sk-ant-api03-abcdefghijkl"}, "X-Jwt": {"eyJhbGciOiJIUzI1NiJ9.e30.abc"},
		"X-Quoted": {"you sent the-known-one"}, "X-Long": {"0123456789abcdef0123456789abcdef"}, "X-Url": {"https://a.example/?q=AIzaSyA-0123456789"},
	}
	all := http.Header{}
	for _, h := range []http.Header{kept, hidden} {
		maps.Copy(all, h)
	}
	got := secrets{[]byte("the-known-one")}.header(all, own)
	for name, values := range hidden {
		for i := range values {
			if got[name][i] != redacted {
				t.Errorf("%s: %s is told", name, values[i])
			}
		}
		delete(got, name)
	}
	if diff := cmp.Diff(kept, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h := (secrets{}).header(http.Header{"A": {strings.Repeat("a", 9999), "\xff"}}, nil); len(h["A"][0]) != 256 || !utf8.ValidString(h["A"][1]) {
		t.Errorf("%d bytes, %q", len(h["A"][0]), h["A"][1])
	}
}

// Wherever a credential stands in a body, whole or cut off by the bound, none of it is told.
func TestBodiesAreToldWithoutCredentials(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`#[A-Z]{5,40}`).Draw(t, "secret")
		longer := secret + "#MORE"
		s := secrets{[]byte(longer), []byte(secret)}
		var e excerpt
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			e.add([]byte(strings.Repeat("ä", rapid.SampledFrom([]int{0, 7, maxCaptured/2 - 20, maxCaptured / 2}).Draw(t, "before"))))
			e.add([]byte(strings.Repeat("x", rapid.IntRange(0, 50).Draw(t, "odd"))))
			e.add([]byte(rapid.SampledFrom([]string{secret, longer}).Draw(t, "which")))
		}
		if len(e.kept) > maxCaptured || e.cut() != (e.size > maxCaptured) {
			t.Fatalf("%d bytes kept of %d", len(e.kept), e.size)
		}
		got := string(s.body(e))
		if strings.Contains(got, "#") || !utf8.ValidString(got) {
			t.Errorf("told: ...%s", got[max(0, len(got)-80):])
		}
	})
}

func TestCaptureThatIsOffCostsNothing(t *testing.T) { //nolint:paralleltest // allocations are counted
	x := &exchange{snap: &snapshot{cfg: settings.Defaults()}}
	a, header, segments := &attempt{x: x, src: &source{}}, http.Header{"A": {"b"}}, [][]byte{[]byte("body")}
	if n := testing.AllocsPerRun(100, func() {
		c := x.newCapture(t.Context())
		c.request(header, segments)
		c.answer(a, segments[0])
		c.decoded(a, segments[0])
		c.tell(a)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
