package translate

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

var update = flag.Bool("update", false, "write what comes out into the cases")

// TestCases plays the files in testdata, one directory for each pair. A file begins with what it is about; lines such as
// "reasoning: replayed" set options. Then come request, answer, stream and "error STATUS" as the translation gets them, and
// behind each what must come of it; usage is what the upstream's own bytes say it used.
func TestCases(t *testing.T) {
	for _, p := range Pairs() {
		files, err := filepath.Glob(filepath.Join("testdata", string(p.Client)+"_"+string(p.Upstream), "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatal("no cases: ", err)
		}
		for _, file := range files {
			t.Run(filepath.Base(filepath.Dir(file))+"/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				c := readCase(t, file)
				c.play(t, &p)
				if *update {
					c.write(t, file)
				}
			})
		}
	}
}

// madeUp finds the ids that are made up where the upstream gave none.
var madeUp = regexp.MustCompile(`(msg_|chatcmpl-)[A-Z2-7]{26}`)

// testCase is a file: what it is about, and its named sections in order.
type testCase struct {
	about    string
	sections []section
}

type section struct{ name, text string }

func readCase(tb testing.TB, file string) *testCase {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	c := &testCase{}
	text := &c.about
	for line := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(name, " --\n") {
			c.sections = append(c.sections, section{name: strings.TrimSuffix(name, " --\n")})
			text = &c.sections[len(c.sections)-1].text
			continue
		}
		*text += line
	}
	return c
}

func (c *testCase) write(t *testing.T, file string) {
	var b strings.Builder
	b.WriteString(c.about)
	for _, s := range c.sections {
		fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.text)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (c *testCase) section(name string) (string, bool) {
	for _, s := range c.sections {
		if s.name == name {
			return s.text, true
		}
	}
	return "", false
}

// option is the value of a line in what a case is about.
func (c *testCase) option(name string) string {
	for line := range strings.Lines(c.about) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// want compares what came out with a section, or puts it there.
func (c *testCase) want(t *testing.T, after, name, got string) {
	t.Helper()
	got = madeUp.ReplaceAllString(got, "${1}MADE-UP")
	if !strings.HasSuffix(got, "\n") {
		got += "\n"
	}
	if *update {
		c.put(after, name, got)
		return
	}
	if want, _ := c.section(name); want != got {
		t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(want, got))
	}
}

func (c *testCase) put(after, name, text string) {
	for i := range c.sections {
		if c.sections[i].name == name {
			c.sections[i].text = text
			return
		}
	}
	for i := range c.sections {
		if c.sections[i].name == after {
			rest := append([]section{{name, text}}, c.sections[i+1:]...)
			c.sections = append(c.sections[:i+1:i+1], rest...)
			return
		}
	}
}

func (c *testCase) play(t *testing.T, p *Pair) {
	request, ok := c.section("request")
	if !ok {
		t.Fatal("no request")
	}
	tr := c.start(t, p, request)
	for _, s := range c.sections {
		switch status, isError := strings.CutPrefix(s.name, "error "); {
		case s.name == "answer":
			got, err := tr.Response([]byte(strings.TrimSuffix(s.text, "\n")))
			if err != nil {
				got = []byte("error: " + err.Error())
			} else if !json.Valid(got) {
				t.Errorf("not JSON: %s", got)
			}
			c.want(t, s.name, "want answer", string(got))
		case s.name == "stream":
			c.stream(t, p, tr, s.text)
		case isError:
			n, _ := strconv.Atoi(status)
			c.want(t, s.name, "want "+s.name, string(tr.Error(n, []byte(strings.TrimSuffix(s.text, "\n")))))
		}
	}
	if r := tr.Report(); len(r.Dropped)+len(r.Changed) > 0 || *update {
		got := ""
		for _, name := range r.Dropped {
			got += "dropped " + name + "\n"
		}
		for _, name := range r.Changed {
			got += "changed " + name + "\n"
		}
		if got != "" {
			c.want(t, c.sections[len(c.sections)-1].name, "report", got)
		}
	} else if want, ok := c.section("report"); ok {
		t.Errorf("nothing reported, want %s", want)
	}
}

// start translates the request twice, as it must always look the same.
func (c *testCase) start(t *testing.T, p *Pair, request string) Translation {
	var in struct {
		Model string
	}
	_ = json.Unmarshal([]byte(request), &in)
	o := Options{Alias: in.Model, Now: time.Unix(1700000000, 0)}
	o.ReplayReasoning = c.option("reasoning") == "replayed"
	o.MaxTokens, _ = strconv.ParseInt(c.option("max tokens"), 10, 64)
	body := []byte(strings.TrimSuffix(request, "\n"))
	tr := p.New(o)
	got, err := tr.Request(body)
	if err != nil {
		got = []byte("error: " + err.Error())
	} else if !json.Valid(got) {
		t.Errorf("not JSON: %s", got)
	}
	if again, _ := p.New(o).Request(body); err == nil && !bytes.Equal(got, again) {
		t.Errorf("the same request looks different:\n%s\n%s", got, again)
	}
	clear(body) // no translation keeps it
	c.want(t, "request", "want request", string(got))
	return tr
}

// stream plays a stream as a whole and byte by byte.
func (c *testCase) stream(t *testing.T, p *Pair, tr Translation, text string) {
	f := &wire.Facts{}
	clean := c.option("end") != "broken"
	got := string(run(tr, p.Upstream, f, text, len(text), clean))
	c.want(t, "stream", "want stream", got)
	if f.Usage.Known() {
		c.want(t, "want stream", "usage", show(f.Usage))
	}
	answer, err := read(p.Client, []byte(got))
	if err != nil {
		t.Errorf("grammar: %v", err)
	}
	if answer.Usage != nil && f.Usage.Known() {
		var own wire.Facts
		wire.ByName(p.Client).ReadUsage(answer.Usage, &own)
		if total := f.Usage.TotalInput().N; own.Usage.TotalInput().N != total || own.Usage.Output.N != f.Usage.Output.N {
			t.Errorf("the client is told %s, the upstream says %s", show(own.Usage), show(f.Usage))
		}
	}
	request, _ := c.section("request")
	again := c.start(t, p, request)
	if slow := string(run(again, p.Upstream, &wire.Facts{}, text, 1, clean)); madeUp.ReplaceAllString(slow, "") != madeUp.ReplaceAllString(got, "") {
		t.Errorf("byte by byte (-whole +slow):\n%s", cmp.Diff(got, slow))
	}
}

// run plays an upstream's stream in chunks of size bytes and returns the client's.
func run(tr Translation, upstream wire.Name, f *wire.Facts, text string, size int, clean bool) (out []byte) {
	var s sse.Scanner
	var ev sse.Event
	for chunk := []byte(text); len(chunk) > 0; chunk = chunk[min(size, len(chunk)):] {
		s.Feed(bytes.Clone(chunk[:min(size, len(chunk))]))
		for s.Next(&ev) {
			wire.ByName(upstream).Event(&ev, f)
			out = tr.Event(out, &ev)
		}
	}
	if s.Finish(&ev) {
		wire.ByName(upstream).Event(&ev, f)
		out = tr.Event(out, &ev)
	}
	return tr.End(out, clean)
}

// show writes a usage in a line; unknown numbers are left out.
func show(u wire.Usage) (text string) {
	for _, c := range []struct {
		name string
		wire.Count
	}{{"in", u.Input}, {"read", u.CacheRead}, {"write", u.CacheWrite}, {"out", u.Output}, {"think", u.Reasoning}} {
		if c.Known {
			text += fmt.Sprintf(" %s=%d", c.name, c.N)
		}
	}
	return strings.TrimSpace(text)
}

func TestLookup(t *testing.T) {
	if n := len(Pairs()); n != 2 {
		t.Errorf("%d pairs", n)
	}
	for _, p := range Pairs() {
		if got := Lookup(p.Client, p.Upstream); got == nil || got.Client != p.Client || got.Upstream != p.Upstream {
			t.Errorf("%s to %s is not found", p.Client, p.Upstream)
		}
	}
	if p := Lookup(wire.Gemini, wire.Chat); p != nil {
		t.Errorf("there is no such pair: %v", p)
	}
}
