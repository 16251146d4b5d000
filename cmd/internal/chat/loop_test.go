package chat

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

func TestLoop(t *testing.T) {
	w, file := lab(t), filepath.Join(t.TempDir(), "talk.md")
	w.work.Script(routertest.Good("one", usage), routertest.Good("two", usage), routertest.Good("three", usage))
	w.home.Script(routertest.Good("from home", usage))
	s := w.chat(func(o *Options) {
		o.In = strings.NewReader("hello\n\nagain\n/model gpt\nyou, too\n/model\n/reset\n/model sonnet\nanew\n/export " + file + "\n/what\n/quit\nnever\n")
	})
	if err := s.Loop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := s.out.String(); got != "one\ntwo\nfrom home\nthree\n" {
		t.Errorf("the answers are %q", got)
	}
	shows(t, s.notes.String(), "/quit ends.\nsonnet> ", "gpt> ", "there are: sonnet, gpt", "written to "+file, "/model A[,B...]")
	for call, want := range map[*routertest.Call]string{
		w.work.Calls()[1]: `"messages":[{"content":"hello","role":"user"},{"content":"one","role":"assistant"},{"content":"again","role":"user"}]`,
		w.home.Calls()[0]: `{"content":"two","role":"assistant"},{"content":"you, too","role":"user"}]`, // what others said
		w.work.Calls()[2]: `"messages":[{"content":"anew","role":"user"}]`,
	} {
		shows(t, string(call.Body), want)
	}
	var sessions []string
	for _, r := range w.asked {
		sessions = append(sessions, r.Header.Get("X-Session-Id"))
	}
	if sessions[0] != sessions[2] || sessions[2] == sessions[3] {
		t.Errorf("sessions: %q", sessions)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), "## User\n\nanew\n\n## sonnet\n\nthree\n") {
		t.Errorf("%s %v", text, err)
	}
}

func TestLoopGoesOnAfterTrouble(t *testing.T) {
	w := lab(t)
	var cancel context.CancelFunc // the answer's, as Ctrl-C would
	w.work.Script(routertest.Good("a b c", usage).Ending(routertest.Stall).Events(2), routertest.Fail(400, "not this"), routertest.Good("at last", usage))
	s := w.chat(func(o *Options) {
		o.In = strings.NewReader("one\ntwo\nthree\n")
		o.Interruptible = func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel = context.WithCancel(ctx)
			return ctx, cancel
		}
	})
	ended := make(chan error)
	go func() { ended <- s.Loop(t.Context()) }()
	call := w.work.Await(0)
	cancel()
	if !call.HungUp() {
		t.Error("the upstream is not told that nobody listens")
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	shows(t, s.out.String(), "at last\n")
	shows(t, s.notes.String(), "cancelled\n", "400 ", "not this", "── work")
}

// TestColumnsLoseNothing puts any text into columns, in any pieces: every word arrives in its column, and no line is wider
// than it.
func TestColumnsLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("ab \n\té漢🙂")), 0, 200, -1).Draw(t, "text")
		width := rapid.IntRange(2, 20).Draw(t, "width")
		var out strings.Builder
		v := newColumns(&Chat{o: Options{Out: &out, Notes: &strings.Builder{}}}, []string{"m", "n"}, width)
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			for n < len(rest) && rest[n]&0xc0 == 0x80 { // pieces are whole runes
				n++
			}
			v.show(0, piece{text: rest[:n]})
			rest = rest[n:]
		}
		v.end(1, &Answer{})
		v.end(0, &Answer{})
		var got strings.Builder
		for row := range strings.Lines(out.String()) {
			left, _, _ := strings.Cut(row, gutter)
			left, _, _ = strings.Cut(left, " |")
			if left = strings.TrimRight(left, "\n"); breadth([]rune(left)) > width {
				t.Fatalf("%q is wider than %d", left, width)
			}
			got.WriteString(left)
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		if diff := cmp.Diff("m"+strings.Repeat("-", width)+squeeze(text), squeeze(got.String())); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestModels(t *testing.T) {
	if diff := cmp.Diff([]string{"a", "b/c"}, Models(" a,, b/c ,")); diff != "" {
		t.Error(diff)
	}
}

// TestDialectsAreComplete keeps a new wire from being forgotten here.
func TestDialectsAreComplete(t *testing.T) {
	for _, w := range wire.All {
		if d := dialects[w.Name]; d.body == nil || d.event == nil {
			t.Errorf("%s is missing", w.Name)
		}
	}
}
