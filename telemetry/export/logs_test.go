package export

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// sizes keeps how many records came at once, and refuses the second lot.
type sizes struct{ lots []int }

func (s *sizes) Shutdown(context.Context) error   { return nil }
func (s *sizes) ForceFlush(context.Context) error { return nil }

func (s *sizes) Export(_ context.Context, records []sdklog.Record) error {
	if s.lots = append(s.lots, len(records)); len(s.lots) == 2 {
		return errors.New("refused")
	}
	return nil
}

// Records with contents go out in portions that receivers take, small ones all together.
func TestLogsGoOutInPortions(t *testing.T) {
	large, small := strings.Repeat("x", 64<<10), "x"
	for _, c := range []struct {
		body string
		n    int
		want int
	}{{small, 512, 1}, {large, 32, 1}, {large, 512, 16}, {strings.Repeat("x", 5<<20), 2, 2}, {small, 0, 1}} {
		records := make([]sdklog.Record, c.n)
		for i := range records {
			if records[i].SetBody(attribute.StringValue(c.body)); i%2 == 1 {
				records[i].SetBody(attribute.ByteSliceValue([]byte(c.body)))
			}
		}
		var got sizes
		err := portions{&got}.Export(t.Context(), records)
		sum := 0
		for _, n := range got.lots {
			sum += n
		}
		if len(got.lots) != c.want || sum != c.n || (err != nil) != (c.want > 1) {
			t.Errorf("%d records of %d bytes went out as %v, error %v", c.n, len(c.body), got.lots, err)
		}
	}
}
