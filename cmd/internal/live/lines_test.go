package live

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/control"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// frame is one of a request that went well, with changes.
func frame(change func(*control.Frame)) control.Frame {
	f := control.Frame{
		ID: 2, Type: "end", Call: "cabcdefghij", TraceID: "0123", At: noon, Wire: "anthropic-messages", Path: "/v1/messages", Model: "sonnet",
		Key: "laptop", Client: "claude-code", Session: "1a47e90b", Kind: "sticky", Upstream: "work", Index: new(0), UpstreamModel: "claude-sonnet",
		Status: 200, Outcome: "success", Attempts: new(1), Stream: true, DurationMS: new(1234.5), FirstChunkMS: new(200.0),
		InputTokens: new(int64(15230)), CacheReadTokens: new(int64(14000)), OutputTokens: new(int64(512)), CostUSD: new(0.0156),
	}
	if change != nil {
		change(&f)
	}
	return f
}

// bare takes away what a request that never was sent does not have.
func bare(f *control.Frame) {
	f.Kind, f.Upstream, f.Index, f.UpstreamModel, f.Attempts = "none", "", nil, "", new(0)
	f.FirstChunkMS, f.InputTokens, f.CacheReadTokens, f.OutputTokens, f.CostUSD = nil, nil, nil, nil, nil
}

var frames = []control.Frame{
	frame(func(f *control.Frame) {
		f.ID, f.Type, f.Status, f.DurationMS, f.InputTokens, f.CacheReadTokens, f.OutputTokens, f.CostUSD = 1, "start", 0, nil, nil, nil, nil, nil
	}),
	frame(nil),
	frame(func(f *control.Frame) {
		f.Path, f.Kind, f.Outcome, f.Upstream, f.Index = "/v1/messages/count_tokens", "failover", "success_after_failover", "", new(11)
		f.DurationMS, f.CacheReadTokens, f.OutputTokens, f.CostUSD = new(61234.0), nil, nil, nil
	}),
	frame(func(f *control.Frame) {
		f.Outcome, f.Status, f.ErrorClass, f.DurationMS, f.CostUSD = "failed", 500, "provider_server_error", new(0.4), new(0.0)
		f.Path, f.Model, f.Upstream = "/v1/an/unusually/long/path/that/is/never/cut", "a-model-with-a-long-name", "an-upstream-with-a-name"
	}),
	frame(func(f *control.Frame) {
		bare(f)
		f.Outcome, f.Status, f.ErrorClass, f.Model, f.DurationMS = "rejected", 404, "caller_model_unknown", "_unknown", new(0.0)
	}),
	frame(func(f *control.Frame) {
		f.Outcome, f.Status, f.ErrorClass, f.CostUSD = "cancelled", 0, "caller_cancelled", new(12.5)
	}),
	{Type: "gap", Reason: "dropped"},
}

const golden = `
12:00:00 [....] /v1/messages              sticky      #0/work                     sonnet                                           cabcdefghij
12:00:00 [ OK ] /v1/messages              sticky      #0/work        200    1.234 sonnet                 15230/14000/512 $0.015600 cabcdefghij
12:00:00 [ OK ] /v1/messages/count_tokens failover    #11            200   61.234 sonnet                       15230/-/-           cabcdefghij
12:00:00 [FAIL] /v1/an/unusually/long/path/that/is/never/cut sticky      #0/an-upstream-with-a-name 500    0.000 a-model-with-a-long-name   15230/14000/512   $0.0000 cabcdefghij provider_server_error
12:00:00 [FAIL] /v1/messages              none        --             404    0.000 _unknown                                         cabcdefghij caller_model_unknown
12:00:00 [GONE] /v1/messages              sticky      #0/work               1.234 sonnet                 15230/14000/512  $12.5000 cabcdefghij caller_cancelled
-- gap: some requests are not shown --
`

func TestLines(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	for i := range frames {
		got.WriteString("\n" + Style{Zone: time.UTC}.Line(&frames[i]))
	}
	if diff := cmp.Diff(golden, got.String()+"\n"); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Colours are of the outcome, and change nothing else.
func TestColours(t *testing.T) {
	t.Parallel()
	want := []string{yellow + "[....]", green + "[ OK ]", yellow + "[ OK ]", red + "[FAIL]", red + "[FAIL]", "[GONE]", "-- gap"}
	for i := range frames {
		got := Style{Colours: true, Zone: time.UTC}.Line(&frames[i])
		if !strings.Contains(got, want[i]) {
			t.Errorf("%q does not have %q", got, want[i])
		}
		for _, code := range []string{red, green, yellow, normal} {
			got = strings.ReplaceAll(got, code, "")
		}
		if plain := (Style{Zone: time.UTC}).Line(&frames[i]); got != plain {
			t.Errorf("without its colours: %q, want %q", got, plain)
		}
	}
	zone := time.FixedZone("", 5*3600)
	if got := (Style{Zone: zone}).Line(&frames[1]); !strings.HasPrefix(got, "17:00:00 ") {
		t.Errorf("not local time: %s", got)
	}
}

// What comes from outside commands no terminal, and takes one line.
func TestNothingCommandsTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "a\x1b[2J\r\n\x07\u009b31m\u202eb\xff\t\x00"
	f := frame(func(f *control.Frame) {
		f.Path, f.Model, f.Kind, f.Upstream, f.Call, f.ErrorClass = evil, evil+strings.Repeat("x", 500), evil, evil, evil, evil
	})
	got := Style{}.Line(&f)
	if Printable(got) != got || len(got) > 400 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if !strings.Contains(got, "a?[2J????31m?b") {
		t.Errorf("the rest is gone, too: %q", got)
	}
}
