package router

import (
	"net/http"
	"testing"
)

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
