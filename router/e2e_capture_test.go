package router_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func capturing(mode string) func(*settings.Config) {
	return func(cfg *settings.Config) { cfg.Telemetry.Capture = mode }
}

// whose is whose contents are told: "a1>" is a request, "<a1 failed" an answer.
func whose(all []content) (list []string) {
	for _, c := range all {
		if c.request {
			list = append(list, c.who+">")
		} else {
			list = append(list, "<"+c.who+" "+c.outcome)
		}
	}
	return list
}

func TestContentsAreToldAsConfigured(t *testing.T) {
	t.Parallel()
	limit := routertest.Fail(429, "slow down please")
	forms(t, func(t *testing.T, wire string, stream bool) {
		for _, c := range []struct {
			mode string
			a, b routertest.Reply
			want []string
		}{
			{"off", limit, good, nil},
			{"all", good, good, []string{"a1>", "<a1 served"}},
			{"all", limit, good, []string{"a1>", "<a1 failed_over", "b2>", "<b2 served"}},
			{"all", routertest.Nothing(routertest.Cut), good, []string{"a1>", "b2>", "<b2 served"}},
			{"failed", good, good, nil},
			{"failed", limit, good, []string{"a1>", "<a1 failed_over"}},
			{"failed", routertest.Fail(400, "bad"), good, []string{"a1>", "<a1 failed"}},
			{"failed", limit, limit, []string{"a1>", "<a1 failed_over", "b2>", "<b2 failed"}},
		} {
			r := record(t, upstreams(c.a, c.b), capturing(c.mode))
			got := r.Send(t.Context(), routertest.NewRequest(wire, "m", stream))
			call := r.completed().Call
			r.close()
			all := r.contents()
			if diff := cmp.Diff(c.want, whose(all)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", c.mode, diff)
			}
			for i, content := range all {
				if content.cut || content.size != int64(len(content.body)) || content.attrs["signalbox.call"].AsString() != call {
					t.Errorf("%s: %+v", c.mode, content)
				}
				switch {
				case content.request:
					up := r.ups[content.who[0]-'a']
					if content.body != string(up.Calls()[0].Body) || !strings.Contains(content.body, "Say hello") {
						t.Errorf("%s: the upstream did not get %s", c.mode, content.body)
					}
				case i == len(all)-1 && c.mode == "all" && content.body != got.Body:
					t.Errorf("the client got %q, told is %q", got.Body, content.body)
				case content.outcome == "failed_over" && !strings.Contains(content.body, "slow down please"):
					t.Errorf("told is %q", content.body)
				}
			}
		}
	})
}

// Of a stream that broke what the client got is told, the error at its end included.
func TestBrokenContentsAreTold(t *testing.T) {
	t.Parallel()
	for _, wire := range routertest.Wires {
		r := record(t, upstreams(routertest.Stream(wire, words, spent).Events(7).Ending(routertest.Cut)), capturing("failed"))
		got := r.ask(wire, true)
		r.completed()
		r.close()
		all := r.contents()
		if len(all) != 2 || all[1].body != got.Body || all[1].outcome != "failed" || !strings.Contains(all[1].body, "upstream_stream_broken") {
			t.Errorf("%s: the client got %q, told is %+v", wire, got.Body, all)
		}
	}
}

// A client that leaves is no failure.
func TestLeavingIsNotTold(t *testing.T) {
	t.Parallel()
	r := record(t, upstreams(routertest.Nothing(routertest.Stall)), capturing("failed"))
	ctx, leave := context.WithCancel(t.Context())
	var client sync.WaitGroup
	client.Go(func() { r.Send(ctx, routertest.NewRequest(routertest.Chat, "m", true)) })
	r.ups[0].Await(0)
	leave()
	client.Wait()
	r.completed()
	r.close()
	if all := r.contents(); all != nil {
		t.Errorf("told: %v", whose(all))
	}
}

func TestContentsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Grüße, 世界! ", 20_000)
	for _, wire := range routertest.Wires {
		for _, stream := range []bool{false, true} {
			r := record(t, upstreams(routertest.Good(long, spent)), capturing("all"))
			got := r.Send(t.Context(), routertest.NewRequest(wire, "m", stream).Field("metadata", `{"a":"`+long+`"}`))
			r.completed()
			r.close()
			all := r.contents()
			if len(all) != 2 {
				t.Fatalf("%s: %v", wire, whose(all))
			}
			full := []string{string(r.ups[0].Calls()[0].Body), got.Body}
			for i, c := range all {
				if n := len(c.body); n > 64<<10 || n < 64<<10-utf8.UTFMax || !c.cut || c.size != int64(len(full[i])) || !strings.HasPrefix(full[i], c.body) {
					t.Errorf("%s: %d bytes of %d told, cut %v, of %d", wire, n, c.size, c.cut, len(full[i]))
				}
				if !utf8.ValidString(c.body) || c.body == "" {
					t.Errorf("%s: half a character", wire)
				}
			}
		}
	}
}

// An answer in a content coding is told as what can be read.
func TestCodedAnswersAreToldPlain(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		for _, accepted := range []string{"gzip", "identity"} {
			for _, status := range []int{200, 400} {
				plain := raw(t, routertest.Messages, stream)
				if status == 400 {
					plain = `{"type":"error","error":{"type":"invalid_request_error","message":"too few"}}`
				}
				kind := map[bool]string{false: "application/json", true: "text/event-stream"}[stream && status == 200]
				var coded bytes.Buffer
				z := gzip.NewWriter(&coded)
				_, _ = z.Write([]byte(plain))
				_ = z.Close()
				r := record(t, upstreams(routertest.Body(status, kind, coded.String()).With("Content-Encoding", "gzip")), capturing("all"))
				r.Send(t.Context(), routertest.NewRequest(routertest.Messages, "m", stream).With("Accept-Encoding", accepted))
				r.completed()
				r.close()
				if all := r.contents(); len(all) != 2 || all[1].body != plain {
					t.Errorf("stream %v, %s, %d: told is %+v", stream, accepted, status, all)
				}
			}
		}
	}
}

// With a translation each side is told in its own wire.
func TestTranslatedContentsAreTold(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		r := record(t, upstreams(good), func(cfg *settings.Config) {
			capturing("all")(cfg)
			cfg.Upstreams[0].Wires = []string{routertest.Messages}
		})
		got := r.ask(routertest.Chat, stream)
		r.completed()
		r.close()
		all := r.contents()
		if len(all) != 2 || all[0].body != string(r.ups[0].Calls()[0].Body) || all[1].body != got.Body || got.Status != 200 {
			t.Fatalf("%d %s: %+v", got.Status, got.Body, all)
		}
		if a, b := all[0].attrs["signalbox.wire"].AsString(), all[1].attrs["signalbox.wire"].AsString(); a != routertest.Messages || b != routertest.Chat {
			t.Errorf("wires %s and %s", a, b)
		}
	}
}
