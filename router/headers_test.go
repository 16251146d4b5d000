package router

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// What goes on is end to end: nothing that speaks of the client's connection, by its name or because Connection says so.
func TestHeadersOfTheConnectionStayBehind(t *testing.T) {
	t.Parallel()
	in := http.Header{"User-Agent": {"agent/1"}, "X-Mine": {"1", "2"}, "X-Hop": {"1"}, "X-Other-Hop": {"1"}}
	for _, name := range settings.HopByHop {
		in[name] = []string{"x"}
	}
	in["Connection"] = []string{"close, x-hop", "X-Other-Hop"}
	w := wire.ByName(wire.Chat)
	a := &attempt{w: w, t: &target{account: &account{}}, x: &exchange{req: &http.Request{Header: in}, body: &body{plain: true}}}
	want := http.Header{"User-Agent": {"agent/1"}, "X-Mine": {"1", "2"}, "Accept-Encoding": {"identity"}}
	if diff := cmp.Diff(want, a.requestHeader()); diff != "" {
		t.Error(diff)
	}
}

// Most texts are quoted without the help of the standard library.
func TestQuote(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[az"\\<>&~ /]{0,6}`)).Draw(t, "s")
		want, err := json.Marshal(s)
		if got := quote(s); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// A gauge that is no number would spoil every sum that it is part of.
func TestQuotaBelievesNumbersOnly(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"NaN", "Inf", "-1", "1e999", "x"} {
		var q quota
		q.note(http.Header{
			"Anthropic-Ratelimit-Unified-5h-Utilization": {said}, "X-Ratelimit-Limit-Requests": {"Inf"}, "X-Ratelimit-Remaining-Requests": {said},
		})
		for _, s := range q.list() {
			if s.Utilization != 1 { // less than nothing left of an endless limit is as good as none
				t.Errorf("%s: %+v", said, s)
			}
		}
	}
}
