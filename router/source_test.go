package router

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/translate/sse"
)

// pieces is a body that is read in pieces of given lengths, the last of them again and again.
type pieces struct {
	left    []byte
	lengths []int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.lengths[0])], p.left)
	p.left = p.left[n:]
	if len(p.lengths) > 1 {
		p.lengths = p.lengths[1:]
	}
	return n, nil
}

func (p *pieces) Close() error { return nil }

// stripped reads a stream as an attempt does, and takes out the events whose data begins with "drop".
func stripped(t interface{ Fatal(args ...any) }, body string, lengths ...int) (out string, largest int) {
	src, _ := newSource(&http.Response{Body: &pieces{[]byte(body), lengths}}, "", true)
	defer src.close()
	var strip stripper
	var scanner sse.Scanner
	var ev sse.Event
	var sent strings.Builder
	for {
		raw, plain, err := src.next()
		scanner.Feed(plain)
		for scanner.Next(&ev) {
			strip.event(src, ev.End, bytes.HasPrefix(ev.Data, []byte("drop")))
		}
		if len(plain) > 0 {
			raw = strip.take(src)
		}
		sent.Write(raw)
		largest = max(largest, len(src.kept))
		switch {
		case errors.Is(err, io.EOF):
			sent.Write(strip.rest(src))
			return sent.String(), largest
		case err != nil:
			t.Fatal(err)
		}
	}
}

func TestStripperTakesOutWhatIsToldAndNothingElse(t *testing.T) {
	events := rapid.SampledFrom([]string{
		"data: a\n\n", "data: drop\n\n", "data: drop\r\n\r\n", ": ping\n\n", "\n", "event: x\ndata: b\n\n", "data: drop " + strings.Repeat("y", 3000) + "\n\n",
		"data: " + strings.Repeat("z", 5000) + "\n\n", "data: " + strings.Repeat("z", 20000) + "\n\n",
	})
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(events, 0, 20).Draw(t, "events")
		lengths := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 30), rapid.IntRange(1, largeSize)), 1, 50).Draw(t, "lengths")
		end := rapid.SampledFrom([]string{"", "data: half", "data: drop\n"}).Draw(t, "end")
		want := ""
		for _, ev := range drawn {
			if !strings.HasPrefix(ev, "data: drop") {
				want += ev
			}
		}
		got, _ := stripped(t, strings.Join(drawn, "")+end, lengths...)
		// The LF of a blank line that is split from its CR belongs to what follows.
		if clean(got) != clean(want+end) {
			t.Fatalf("%d bytes, want %d", len(got), len(want+end))
		}
	})
}

// clean leaves the blank lines out.
func clean(stream string) string {
	return strings.Join(strings.FieldsFunc(stream, func(r rune) bool { return r == '\n' || r == '\r' }), "\n")
}

func TestAnEventThatIsLargeIsNotHeldBack(t *testing.T) {
	t.Parallel()
	body := "data: drop" + strings.Repeat("x", 100<<10) + "\n\ndata: a\n\ndata: drop\n\n"
	for _, n := range []int{1000, largeSize} {
		got, largest := stripped(t, body, n)
		if got != strings.TrimSuffix(body, "data: drop\n\n") {
			t.Errorf("in pieces of %d: %d bytes of %d", n, len(got), len(body))
		}
		if largest > maxPart {
			t.Errorf("in pieces of %d: %d bytes held back, want at most %d", n, largest, maxPart)
		}
	}
}

func TestSourceHoldsASmallBufferWhileLittleComes(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("x", 3*largeSize)
	src, _ := newSource(&http.Response{Body: &pieces{[]byte(body), []int{100, 100, largeSize, largeSize, 100}}}, "", false)
	defer src.close()
	var got []byte
	for i, large := range []bool{false, false, false, true, true, false} {
		_, plain, err := src.next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, plain...)
		if (src.large != nil) != large {
			t.Errorf("read %d of %d bytes: a large buffer: %v, want %v", i, len(plain), src.large != nil, large)
		}
	}
	if !strings.HasPrefix(body, string(got)) || len(got) != 100+100+smallSize+largeSize+100+100 {
		t.Errorf("%d bytes read", len(got))
	}
}
