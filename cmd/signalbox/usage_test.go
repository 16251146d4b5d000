package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/routertest"
)

// TestUsageCommand runs a router with a store, and asks it, its file and its configuration.
func TestUsageCommand(t *testing.T) {
	t.Setenv("SIGNALBOX_KEY", "")
	t.Setenv("SIGNALBOX_ADMIN_KEY", "")
	t.Setenv("TEST_KEY", "k")
	up := routertest.NewUpstream(routertest.Good("hello", routertest.Usage{Input: 1200, CacheRead: 50_000, Output: 34}))
	defer up.Close()
	dir := t.TempDir()
	file, db := filepath.Join(dir, "config.hcl"), filepath.Join(dir, "usage.db")
	l := routertest.FreeAddress()
	write(t, file, fmt.Sprintf(`
server { listen = %q }
upstream "team" {
  base_url = %q
  wires    = ["anthropic-messages"]
  api_key  = env("TEST_KEY")
}
model "sonnet" {
  price {
    input      = 3
    output     = 15
    cache_read = 0.3
  }
  target "team" { model = "claude" }
}
usage {
  path     = "usage.db"
  max_rows = 5000
}
`, l, up.URL))
	if status, out, errs := invoke("check", file); status != 0 || !strings.Contains(out, "SQLite, "+db+", the newest 5,000 rows") {
		t.Errorf("check: %d %s%s", status, out, errs)
	}
	ctx, stop := context.WithCancel(t.Context())
	var log output
	ended := make(chan int)
	go func() { ended <- run(ctx, env{nil, &log, &log}, []string{"serve", "-config", file}) }()
	eventually(t, "the router", func() bool { return strings.Contains(log.String(), "signalbox is ready") })
	client := routertest.NewClient("http://" + l)
	defer client.Close()
	for range 3 {
		client.Send(t.Context(), routertest.NewRequest(routertest.Messages, "sonnet", true).With("X-Session-Id", "a conversation"))
	}
	client.Send(t.Context(), routertest.NewRequest(routertest.Messages, "nobody", false))
	t.Setenv("SIGNALBOX_URL", "http://"+l)
	eventually(t, "the rows", func() bool {
		_, out, _ := invoke("usage")
		return strings.Contains(strings.Join(strings.Fields(out), " "), "TOTAL 4")
	})
	want := "sonnet 3 153,600 150,000 102 $0.4050 $0.0573"
	check := func(want string, args ...string) {
		t.Helper()
		status, out, errs := invoke(append([]string{"usage"}, args...)...)
		if status != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("usage %v: %d\n%s%s", args, status, out, errs)
		}
	}
	check(want)
	check("TOTAL 4 153,600", "-since", "1h")
	check(want, "-session", "a conversation")
	check("TOTAL 0 0", "-session", "another")
	check("TOTAL of 4", "-by", "request")
	check("OUTPUT COST WHY", "-by", "request")
	check("$0.0191 by the strategy", "-by", "request")
	check("nobody could, caller_model_unknown", "-by", "request")
	check("TOTAL 4", "-since", "2000-01-01", "-until", "2999-12-31")
	_, list, _ := invoke("usage", "-model", "sonnet", "-limit", "1", "-format", "json", "-by", "request")
	var asked ledger.Answer
	if err := json.Unmarshal([]byte(list), &asked); err != nil || len(asked.Requests) != 1 {
		t.Fatal(err, list)
	}
	call := asked.Requests[0].Call
	check("call "+call+" ended at ", "-call", call)
	check("model sonnet (wire anthropic-messages, streamed) served by team/claude why ", "-call", call)
	check("outcome success, status 200 attempts 1 took ", "-call", call)
	check("input tokens 51,200 of it cached 50,000 ", "-call", call)
	check("cost $0.0191 (calculated) cache saved ", "-call", call)
	check("TOTAL of 1 ", "-call", call, "-by", "request")
	check("TOTAL 1 ", "-call", call, "-by", "model")
	check(`"call": "`+call+`"`, "-call", call, "-format", "json")
	check(`"requests": []`, "-by", "request", "-limit", "1", "-outcome", "none of these", "-format", "json")
	check("model,day,requests", "-by", "model,day", "-format", "csv")
	check(want, "-db", db)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-by", "colour"}, 2, "group_by"},
		{[]string{"-since", "soon"}, 2, "since"},
		{[]string{"-format", "xml"}, 2, "-format"},
		{[]string{"-call", "none"}, 1, "no request with the call none is kept"},
		{[]string{"-db", filepath.Join(dir, "none")}, 1, "no such file"},
		{[]string{"-url", "http://127.0.0.1:1"}, 1, "no Signalbox is running there"},
	} {
		if status, _, errs := invoke(append([]string{"usage"}, c.args...)...); status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("%v: %d %s", c.args, status, errs)
		}
	}
	client.Send(t.Context(), routertest.NewRequest(routertest.Messages, "sonnet", false))
	stop()
	if status := <-ended; status != 0 {
		t.Errorf("serve ended with %d:\n%s", status, log.String())
	}
	check("sonnet 4", "-config", file) // the last request is in the books
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, strings.Replace(string(text), `"usage.db"`, `"."`, 1))
	if status, _, errs := invoke("serve", "-config", file); status != 1 || !strings.Contains(errs, "is a directory") {
		t.Errorf("a directory: %d %s", status, errs)
	}
}

// TestUsageOfOneRequest draws what the command cannot be made to see.
func TestUsageOfOneRequest(t *testing.T) {
	failed := ledger.Request{
		At: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Call: "c1", Wire: "openai-chat", Model: "sonnet", Upstream: "spare", UpstreamModel: "b", Decision: "failover",
		Outcome: "failed", ErrorClass: "provider_overloaded", Status: 529, Attempts: 2, DurationMS: 1500, CostSource: "unreported", Request: true,
	}
	before := ledger.Request{
		At: failed.At, Call: "c1", Wire: "openai-chat", Model: "sonnet", Upstream: "work", UpstreamModel: "a", Outcome: "failed_over", ErrorClass: "provider_server_error",
		Attempts: 1, DurationMS: 12, Uncached: new(int64(7)), Cost: new(0.5), CostSource: "calculated", Savings: new(0.0),
	}
	var out strings.Builder
	p := newPainter(&out)
	p.request(&failed)
	p.request(&before)
	want := `call c1
    ended at  2030-01-02 03:04:05 UTC
    model  sonnet (wire openai-chat)
    asked last  spare/b
    why  others had failed
    outcome  failed, status 529
    error  provider_overloaded
    attempts  2
    took  1.5 s
    cost  unreported
call c1, attempt 1, which was not the last
    ended at  2030-01-02 03:04:05 UTC
    model  sonnet (wire openai-chat)
    asked  work/a
    outcome  failed_over
    error  provider_server_error
    took  12 ms
    input tokens  7
    cost  $0.5000 (calculated)
`
	got := regexp.MustCompile(`(\S) {2,}`).ReplaceAllString(out.String(), "$1  ")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if why := whyOf(&before); why != "attempt 1 of the request, provider_server_error" {
		t.Errorf("why: %s", why)
	}
}

func TestUsageCountsInEnglish(t *testing.T) {
	for n, want := range map[int64]string{1: "1 request of unknown cost is not in it\n1 row was lost", 1200: "1,200 requests of unknown cost are not in it\n1,200 rows were lost"} {
		var out strings.Builder
		newPainter(&out).spent(&ledger.Answer{GroupBy: []string{"model"}, Totals: ledger.Sums{Unreported: n}, Dropped: n})
		if !strings.Contains(out.String(), want) {
			t.Errorf("%d:\n%s", n, out.String())
		}
	}
}
