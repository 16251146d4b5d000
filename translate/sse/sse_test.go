package sse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// frame is an event in a form that outlives the scanner's memory.
type frame struct {
	Name, Data string
	Comment    bool
	Cut        bool
}

func frameOf(ev *Event) frame {
	f := frame{string(ev.Name), string(ev.Data), ev.Comment, ev.Cut}
	if ev.Data == nil {
		f.Data = "none"
	}
	if ev.Comment != (ev.Data == nil) || ev.Name != nil && len(ev.Name) == 0 {
		f.Data = "contradiction"
	}
	return f
}

// read feeds the stream in pieces that cut tells the lengths of, each in memory that is used again, and returns the
// frames and the pieces of the stream that belong to them, the last of them what is left.
func read(t *testing.T, s *Scanner, stream []byte, cut func() int) (frames []frame, pieces []string) {
	t.Helper()
	var ev Event
	var memory, piece []byte
	for len(stream) > 0 {
		n := min(max(cut(), 0), len(stream))
		memory = append(memory[:0], stream[:n]...)
		s.Feed(memory)
		stream = stream[n:]
		from := 0
		for s.Next(&ev) {
			if ev.End < from || ev.End > len(memory) {
				t.Fatalf("event ends at %d of %d after %d", ev.End, len(memory), from)
			}
			frames = append(frames, frameOf(&ev))
			pieces = append(pieces, string(append(piece, memory[from:ev.End]...)))
			piece, from = piece[:0], ev.End
		}
		piece = append(piece, memory[from:]...)
		for i := range memory {
			memory[i] = 'X'
		}
	}
	if s.Finish(&ev) {
		frames = append(frames, frameOf(&ev))
	}
	if s.Pending() {
		t.Error("pending after the end")
	}
	return frames, append(pieces, string(piece))
}

func whole() int  { return 1 << 30 }
func single() int { return 1 }

func TestScanner(t *testing.T) {
	event := func(name, data string) frame { return frame{Name: name, Data: data} }
	comment := frame{Data: "none", Comment: true}
	tests := []struct {
		name, stream string
		want         []frame
	}{
		{"nothing", "", nil},
		{"data", "data: a\n\n", []frame{event("", "a")}},
		{"named", "event: e\ndata: a\n\n", []frame{event("e", "a")}},
		{"name last", "data: a\nevent: e\n\n", []frame{event("e", "a")}},
		{"two names", "event: e\nevent: f\ndata: a\n\n", []frame{event("f", "a")}},
		{"name taken back", "event: e\nevent\ndata: a\n\n", []frame{event("", "a")}},
		{"name only", "event: e\n\ndata: a\n\n", []frame{{Name: "e", Data: "none", Comment: true}, event("", "a")}},
		{"CRLF", "event: e\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []frame{event("e", "a"), event("", "b")}},
		{"CR", "event: e\rdata: a\r\rdata: b\r\r", []frame{event("e", "a"), event("", "b")}},
		{"mixed", "event: e\rdata: a\r\n\ndata: b\n\r\ndata: c\n\rdata: d\r\r\n", []frame{event("e", "a"), event("", "b"), event("", "c"), event("", "d")}},
		{"no space", "event:e\ndata:a\n\n", []frame{event("e", "a")}},
		{"two spaces", "event:  e\ndata:  a \n\n", []frame{event(" e", " a ")}},
		{"tab", "data:\ta\n\n", []frame{event("", "\ta")}},
		{"colons", "data: a: b\n\ndata::\n\n", []frame{event("", "a: b"), event("", ":")}},
		{"lines", "data: a\ndata: b\ndata:\ndata: c\n\n", []frame{event("", "a\nb\n\nc")}},
		{"lines around another field", "data: a\nid: 1\n: x\ndata: b\n\n", []frame{event("", "a\nb")}},
		{"empty data", "data:\n\ndata: \n\ndata\n\n", []frame{event("", ""), event("", ""), event("", "")}},
		{"empty lines of data", "data\ndata\n\n", []frame{event("", "\n")}},
		{"comment", ": x\n\n:\n\n:data: a\n\n", []frame{comment, comment, comment}},
		{"comment before data", ": x\ndata: a\n\n", []frame{event("", "a")}},
		{"other fields", "id: 1\nretry: 10\n\nid: 2\ndata: a\n\n", []frame{comment, event("", "a")}},
		{"fields that are not", "Data: a\ndatax: b\ndat: c\n data: d\nevents: e\ndata : f\ndata\x00: g\n\n", []frame{comment}},
		{"blank lines", "\n\r\n\rdata: a\n\n\n", []frame{comment, comment, comment, event("", "a"), comment}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []frame{event("", "a"), comment}},
		{"byte order mark and name", "\xef\xbb\xbfevent: e\ndata: a\n\n", []frame{event("e", "a")}},
		{"byte order mark alone", "\xef\xbb\xbf\n\xef\xbb\xbfdata: a\n\n", []frame{comment, comment}},
		{"two byte order marks", "\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []frame{comment}},
		{"half a byte order mark", "\xef\xbbdata: a\n\ndata: b\n\n", []frame{comment, event("", "b")}},
		{"no blank line", "data: a\n\ndata: b\n", []frame{event("", "a"), event("", "b")}},
		{"no line end", "data: a\n\nevent: e\ndata: [DONE]", []frame{event("", "a"), event("e", "[DONE]")}},
		{"no colon at the end", "data", []frame{event("", "")}},
		{"half a field at the end", "data: a\n\ndat", []frame{event("", "a")}},
		{"name at the end", "data: a\n\nevent: e", []frame{event("", "a")}},
		{"CR at the end", "data: a\r", []frame{event("", "a")}},
		{"no UTF-8", "data: \xff\x00\xfe\n\n", []frame{event("", "\xff\x00\xfe")}},
		{"no stream at all", "<html>\n\n{\"error\":1}", []frame{comment}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			for _, cut := range []func() int{whole, single, func() int { return 2 }, func() int { return 3 }, func() int { return 7 }} {
				s.Reset()
				got, pieces := read(t, &s, []byte(tt.stream), cut)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("in pieces of %d: %s", cut(), diff)
				}
				if joined := strings.Join(pieces, ""); joined != tt.stream {
					t.Errorf("in pieces of %d: bytes are %q", cut(), joined)
				}
			}
		})
	}
}

func TestEnd(t *testing.T) {
	var s Scanner
	_, got := read(t, &s, []byte("data: a\n\n: x\r\n\r\n\ndata: b\r\rdata: c\n"), whole)
	if diff := cmp.Diff([]string{"data: a\n\n", ": x\r\n\r\n", "\n", "data: b\r\r", "data: c\n"}, got); diff != "" {
		t.Error(diff)
	}
	s.Reset()
	_, got = read(t, &s, []byte("data: a\r\n\r\ndata: b\r\n\r\n"), single)
	if diff := cmp.Diff([]string{"data: a\r\n\r", "\ndata: b\r\n\r", "\n"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestAtOnce holds that an event is told as soon as its blank line may be over, and what is pending in between.
func TestAtOnce(t *testing.T) {
	var s Scanner
	var ev Event
	steps := []struct {
		chunk   string
		events  int
		pending bool
	}{
		{"", 0, false},
		{"data: a\r", 0, true},
		{"\n", 0, true},
		{"\r", 1, false},
		{"", 0, false},
		{"\n", 0, false},
		{"\n", 1, false},
		{"d", 0, true},
		{"ata: b\n\ndata: c\n", 1, true},
		{"\ndata: d\n\n", 2, false},
		{":", 0, true},
		{"\n\n", 1, false},
	}
	for i, step := range steps {
		s.Feed([]byte(step.chunk))
		n := 0
		for s.Next(&ev) {
			n++
		}
		if n != step.events || s.Pending() != step.pending {
			t.Errorf("step %d %q: %d events, pending %v", i, step.chunk, n, s.Pending())
		}
	}
	if s.Finish(&ev) {
		t.Error("an event at the end")
	}
}

func TestNotCopied(t *testing.T) {
	chunk := []byte("event: e\ndata: abc\n\n")
	var s Scanner
	var ev Event
	s.Feed(chunk)
	if !s.Next(&ev) || &ev.Data[0] != &chunk[15] || &ev.Name[0] != &chunk[7] {
		t.Errorf("copied: %v", ev)
	}
}

func TestReset(t *testing.T) {
	var s Scanner
	var ev Event
	s.Feed([]byte("data: a\nevent: e\ndata: b"))
	s.Next(&ev)
	s.Reset()
	if s.Pending() || s.Next(&ev) || s.Finish(&ev) {
		t.Error("something is left")
	}
	got, _ := read(t, &s, []byte("\xef\xbb\xbfdata: c\n\n"), single)
	if diff := cmp.Diff([]frame{{Data: "c"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestLarge(t *testing.T) {
	// Every place of the text is different from its surroundings, so that a wrong cut shows.
	var b strings.Builder
	for i := 0; b.Len() < 3*usual; i++ {
		fmt.Fprintf(&b, "%d,", i)
	}
	text := b.String()
	end := func(n int, s string) string { return s[len(s)-n:] }
	tests := []struct {
		name, stream string
		want         frame
	}{
		{"just not", "data: " + text[:usual] + "\n\n", frame{Data: text[:usual]}},
		{"just", "data: " + text[:usual+1] + "\n\n", frame{Data: end(tail, text[:usual+1]), Cut: true}},
		{"well", "event: e\ndata: " + text + "\n\n", frame{Name: "e", Data: end(tail, text), Cut: true}},
		{"lines just not", "data: " + text[:usual-3] + "\ndata: ab\n\n", frame{Data: text[:usual-3] + "\nab"}},
		{"lines just", "data: " + text[:usual-2] + "\ndata: ab\n\n", frame{Data: end(tail, text[:usual-2]+"\nab"), Cut: true}},
		{"lines", "data: " + text + "\ndata: " + text[:9] + "\n\n", frame{Data: end(tail, text+"\n"+text[:9]), Cut: true}},
		{"small lines", strings.Repeat("data: 0123456\n", usual/8+9) + "\n", frame{Data: end(tail, strings.Repeat("0123456\n", usual/8+9)[:8*(usual/8+9)-1]), Cut: true}},
		{"empty lines", strings.Repeat("data\n", usual+2) + "\n", frame{Data: strings.Repeat("\n", tail), Cut: true}},
		{"comment", ":" + text + "\n\n", frame{Data: "none", Comment: true}},
		{"name", "event: " + text + "\ndata: a\n\n", frame{Name: text[:maxName], Data: "a"}},
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range tests {
		for name, cut := range map[string]func() int{
			"whole": whole, "bytes": single, "4 KB": func() int { return 4096 }, "random": func() int { return random.IntN(200_000) },
		} {
			t.Run(tt.name+"/"+name, func(t *testing.T) {
				var s Scanner
				got, _ := read(t, &s, []byte(tt.stream+"data: next\n\n"), cut)
				if len(got) != 2 || got[0] != tt.want || got[1] != (frame{Data: "next"}) {
					t.Errorf("%d events, %d bytes, want %d, cut %v", len(got), len(got[0].Data), len(tt.want.Data), got[0].Cut)
				}
				if cap(s.data) > 2*usual || cap(s.name) > 2*maxName {
					t.Errorf("%d bytes kept", cap(s.data)+cap(s.name))
				}
			})
		}
	}
}

// slow is the event stream grammar the slow way, for streams of small events.
func slow(stream string) (frames []frame) {
	stream = strings.TrimPrefix(stream, "\xef\xbb\xbf")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(stream, "\n")
	var name string
	var values []string
	flush := func() {
		f := frame{Name: name, Data: strings.Join(values, "\n")}
		if values == nil {
			f.Data, f.Comment = "none", true
		}
		frames = append(frames, f)
		name, values = "", nil
	}
	for i, line := range lines {
		if i == len(lines)-1 && line == "" {
			break
		}
		if line == "" {
			flush()
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value[:min(len(value), maxName)]
		case "data":
			values = append(values, value)
		}
	}
	if values != nil {
		flush()
	}
	return frames
}

func FuzzScanner(f *testing.F) {
	for _, s := range []string{
		"event: e\r\ndata: a\r\n\r\n", "data: a\rdata:b\r\r\n: c\n\n", "\xef\xbb\xbfdata\n\nid: 1\nevent:e", "\n\r\n\r\r", "data: a\r\n\r", "\xef\xbbdata: a\n\n",
	} {
		f.Add([]byte(s), uint64(1))
	}
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		if len(stream) > usual {
			return
		}
		want := slow(string(stream))
		random := rand.New(rand.NewPCG(seed, 0))
		var s Scanner
		for name, cut := range map[string]func() int{"whole": whole, "bytes": single, "random": func() int { return random.IntN(12) }} {
			s.Reset()
			got, pieces := read(t, &s, stream, cut)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: %q\n%s", name, stream, diff)
			}
			if joined := strings.Join(pieces, ""); joined != string(stream) {
				t.Fatalf("%s: bytes are %q, not %q", name, joined, stream)
			}
		}
	})
}

var delta = []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"some words\"}}\n\n")

func BenchmarkScanner(b *testing.B) {
	for _, bench := range []struct {
		name  string
		size  int
		chunk []byte
	}{
		{"event a chunk", len(delta), delta},
		{"32 events a chunk", 32 * len(delta), bytes.Repeat(delta, 32)},
		{"two chunks an event", len(delta) / 2, delta},
		{"CRLF", len(delta) + 3, bytes.ReplaceAll(delta, []byte("\n"), []byte("\r\n"))},
		{"CR, 32 events a chunk", 32 * len(delta), bytes.ReplaceAll(bytes.Repeat(delta, 32), []byte("\n"), []byte("\r"))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			var s Scanner
			var ev Event
			events := 0
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.chunk)))
			for b.Loop() {
				for rest := bench.chunk; len(rest) > 0; {
					n := min(bench.size, len(rest))
					s.Feed(rest[:n])
					for s.Next(&ev) {
						events++
					}
					rest = rest[n:]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}

func TestAllocations(t *testing.T) {
	var s Scanner
	var ev Event
	chunks := [][]byte{delta, delta[:50], delta[50:], []byte("data: a\ndata: b\r\n\r"), []byte("\n: c\n\nda"), []byte("ta: d\n\n"), []byte("data: e")}
	n := testing.AllocsPerRun(100, func() {
		events := 0
		for _, c := range chunks {
			s.Feed(c)
			for s.Next(&ev) {
				events++
			}
		}
		if s.Finish(&ev); events != 5 || string(ev.Data) != "e" {
			t.Fatalf("%d events, %q", events, ev.Data)
		}
		s.Reset()
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A scanner with a limit of its own keeps events whole up to that.
func TestLimit(t *testing.T) {
	long := strings.Repeat("x", 3*usual)
	for limit, cut := range map[int]bool{0: true, len(long) - 1: true, len(long): false} {
		for _, size := range []int{len(long) + 16, 4096} { // in one chunk, and in many
			s, stream := Scanner{Limit: limit}, []byte("data: "+long+"\n\n")
			var ev Event
			found := false
			for len(stream) > 0 && !found {
				n := min(size, len(stream))
				s.Feed(stream[:n])
				found, stream = s.Next(&ev), stream[n:]
			}
			if !found || ev.Cut != cut || !cut && string(ev.Data) != long {
				t.Errorf("limit %d, chunks of %d: found %v, cut %v, %d bytes", limit, size, found, ev.Cut, len(ev.Data))
			}
		}
	}
}
