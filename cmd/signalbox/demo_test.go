package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// console is what a command has written so far.
type console struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

// await waits until the console shows a pattern, and returns its first group.
func (c *console) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(routertest.Patience); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if m := re.FindStringSubmatch(c.String()); m != nil {
			return m[len(m)-1]
		}
	}
	t.Fatalf("there is no %q in\n%s", pattern, c.String())
	return ""
}

// quiet takes colours and exporters out of the environment.
func quiet(t *testing.T) {
	for _, name := range []string{"FORCE_COLOR", "NO_COLOR", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		t.Setenv(name, "")
	}
}

func TestDemoShowsWhatItAnnounces(t *testing.T) {
	quiet(t)
	var out, errs console
	if status := run(t.Context(), env{nil, &out, &errs}, []string{"demo", "--once"}); status != 0 {
		t.Fatalf("status %d\n%s%s", status, out.String(), errs.String())
	}
	if errs.String() != "" {
		t.Errorf("standard error: %s", errs.String())
	}
	rest := out.String()
	for _, want := range []string{ // in this order
		`upstream "busy" \{`,
		`anthropic-messages  stream  small +200 in .* from steady: Hello from steady\.`,
		`├ chat llm-small +steady +200 served .* 42 in \(30 cached\) 5 out`,
		`openai-chat +whole`, `openai-responses +stream`, `gemini +whole`, `gemini +stream`, `count .*\{"input_tokens":42\}`,
		`stream  large .* at try 2 from steady`,
		`chat llm-large +busy +429 failed_over provider_rate_limited`,
		`signalbox\.cooling\.started +busy +for 20 s, rate_limit`,
		`signalbox\.failover +busy > steady`,
		`chat llm-large +steady +200 served`,
		`signalbox\.target\.skipped +busy`,
		`stream  poet .* at try 2 from steady`,
		`signalbox\.failover +shaky > steady +provider_stream_truncated`,
		`stream  novelist .* from shaky: Once upon a \.\.\. and then an error event, and the connection was cut`,
		`refused: .*"code":"unknown_model"`,
		`signalbox\.requests +model=_unknown outcome=rejected +1 request\n`,
		`signalbox\.failovers +upstream=busy error\.class=provider_rate_limited +1 failover\n`,
		`All 13 requests went as announced\.\n$`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("%q is missing, or not where it should be:\n%s", want, out.String())
		}
		rest = rest[at[1]:]
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("there are colours although this is no terminal")
	}
}

func TestDemoStaysUntilItIsTold(t *testing.T) {
	quiet(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, errs console
	status := make(chan int)
	go func() { status <- run(ctx, env{nil, &out, &errs}, []string{"demo"}) }()
	url := out.await(t, `curl -sS (http://\S+)/_router/status\n`)

	client := routertest.NewClient(url)
	defer client.Close()
	for _, c := range regexp.MustCompile(`curl -sSN '(http://[^/]+)(/[^']+)' -H \S+ \S+ -d '(.*)'\n`).FindAllStringSubmatch(out.String(), -1) {
		got := client.Send(t.Context(), routertest.Request{Path: c[2], Body: c[3]})
		if c[1] != url || got.Status != http.StatusOK {
			t.Errorf("%s: %+v", c[0], got)
		}
		out.await(t, `(?s)`+regexp.QuoteMeta(c[0])+`.*└ route .*\n\n`)
	}
	stop()
	if got := <-status; got != 0 {
		t.Errorf("status %d: %s", got, errs.String())
	}
}

func TestDemoSendsToACollector(t *testing.T) {
	quiet(t)
	var mu sync.Mutex
	paths := map[string]int{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		defer mu.Unlock()
		paths[r.URL.Path]++
	}))
	defer collector.Close()
	var out, errs console
	if status := run(t.Context(), env{nil, &out, &errs}, []string{"demo", "--once", "--otlp", collector.URL}); status != 0 {
		t.Fatalf("status %d: %s", status, errs.String())
	}
	out.await(t, "sent to "+collector.URL)
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/v1/traces", "/v1/metrics"} {
		if paths[path] == 0 {
			t.Errorf("nothing came to %s: %v", path, paths)
		}
	}
}

func TestDemoRepeatsForACollector(t *testing.T) {
	quiet(t)
	traces := make(chan struct{}, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/v1/traces" {
			select {
			case traces <- struct{}{}:
			default:
			}
		}
	}))
	defer collector.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, errs console
	status := make(chan int)
	go func() {
		status <- run(ctx, env{nil, &out, &errs}, []string{"demo", "--every", "1ms", "--otlp", collector.URL})
	}()
	out.await(t, "The same again every 1ms")
	for len(traces) > 0 {
		<-traces
	}
	select {
	case <-traces:
	case <-time.After(routertest.Patience):
		t.Error("nothing is sent again")
	}
	stop()
	if got := <-status; got != 0 {
		t.Errorf("status %d: %s", got, errs.String())
	}
}

func TestDemoTellsThatACollectorIsNotThere(t *testing.T) {
	quiet(t)
	nobody := httptest.NewServer(nil)
	nobody.Close()
	var out, errs console
	if status := run(t.Context(), env{nil, &out, &errs}, []string{"demo", "--once", "--otlp", nobody.URL}); status != 1 {
		t.Errorf("status %d", status)
	}
	out.await(t, "All 13 requests went as announced")
	errs.await(t, nobody.URL+" did not take the telemetry: .*refused")
}

func TestDemoColours(t *testing.T) {
	for _, c := range []struct {
		force, no string
		want      bool
	}{{"", "", false}, {"1", "", true}, {"0", "", false}, {"1", "1", false}} {
		t.Setenv("FORCE_COLOR", c.force)
		t.Setenv("NO_COLOR", c.no)
		var out console
		newPainter(&out).line(red, "hot")
		if got := strings.HasPrefix(out.String(), "\x1b[31mhot\x1b[0m"); got != c.want {
			t.Errorf("FORCE_COLOR=%q NO_COLOR=%q: %q", c.force, c.no, out.String())
		}
	}
}

func TestDemoRefusesWrongUse(t *testing.T) {
	for _, args := range [][]string{{"demo", "more"}, {"demo", "--twice"}} {
		var out, errs console
		if status := run(t.Context(), env{nil, &out, &errs}, args); status != 2 {
			t.Errorf("%q: status %d", args, status)
		}
	}
}

// TestDemoNoticesDifferences feeds the comparison with what a broken router would do.
func TestDemoNoticesDifferences(t *testing.T) {
	box := &spanBox{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(box))
	_, span := provider.Tracer("").Start(t.Context(), "route large")
	span.End()
	st := rescued(routertest.Messages, "large", "busy")
	st.broken = true
	got := strings.Join(st.differences(routertest.Result{Status: http.StatusTooManyRequests}, box.kept), "\n")
	for _, want := range []string{
		"the status should be 200 and is 429", "that the connection is cut should be true and is false",
		`the answer should be Hello from steady. and is `, "the last event should be error and is ", "there should be a route span and is none",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing:\n%s", want, got)
		}
	}
}

func TestDemoWritesNumbersForPeople(t *testing.T) {
	if got := duration(90 * time.Second); got != "1m30s" {
		t.Error(got)
	}
	if got := (total{sum: 3, count: 2, most: 2}).value("{attempt}"); got != "2 x 1.5 attempts on average, 2 attempts at most" {
		t.Error(got)
	}
	if got := (total{sum: 0.5}).value("1"); got != "0.5" {
		t.Error(got)
	}
}
