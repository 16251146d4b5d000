package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// checked is what a check leaves behind.
type checked struct {
	status int
	kind   string
	code   codes.Code
	text   string
	attrs  map[attribute.Key]string
}

// look makes one check of base and returns its outcome and its two spans, the one of its send first.
func look(t *testing.T, base string) (checked, []sdktrace.ReadOnlySpan) {
	t.Helper()
	c, spans, reader := recorded(t, base, nil)
	ctx, outer := c.config.TracerProvider.Tracer("").Start(t.Context(), "outer")
	status, err := c.Check(ctx, http.Header{"Authorization": {"Bearer SECRET"}}, parse(t, base+"/v1/models?key=SECRET"), 5*time.Second)
	outer.End()
	if _, own := errors.AsType[*Error](err); err != nil && !own {
		t.Errorf("the error is a %T", err)
	}
	noSecrets(t, spans, reader)
	all := spans.Ended()
	if len(all) != 3 || all[1].Name() != "probe a" || all[1].SpanKind() != trace.SpanKindClient || all[1].Parent().IsValid() {
		t.Fatalf("spans %v", all)
	}
	return checked{status, Kind(err), all[1].Status().Code, all[1].Status().Description, attributes(all[1])}, all[:2]
}

func TestCheck(t *testing.T) {
	answered := func(text string) string {
		return tcp(t, answer("HTTP/1.1 "+text+"\r\nContent-Length: 6\r\nLocation: /elsewhere\r\n\r\nSECRET"))
	}
	up, status, kind := attribute.Key(telemetry.AttrUpstream), attribute.Key(telemetry.AttrHTTPStatus), attribute.Key(telemetry.AttrErrorType)
	type attrs = map[attribute.Key]string
	for name, c := range map[string]struct {
		base string
		want checked
	}{
		"well":       {answered("200 OK"), checked{200, "", codes.Unset, "", attrs{up: "a", status: "200"}}},
		"redirected": {answered("302 Found"), checked{302, "", codes.Error, "", attrs{up: "a", status: "302", kind: "302"}}},
		"bad key":    {answered("401 Unauthorized"), checked{401, "", codes.Error, "", attrs{up: "a", status: "401", kind: "401"}}},
		"down":       {answered("503 Service Unavailable"), checked{503, "", codes.Error, "", attrs{up: "a", status: "503", kind: "503"}}},
		"gone": {"http://127.0.0.1:1", checked{
			0, kindRefused, codes.Error, "connection refused", attrs{up: "a", kind: kindRefused},
		}},
		"garbage": {tcp(t, answer("SECRET\r\n\r\n")), checked{
			0, kindInvalid, codes.Error, "invalid response", attrs{up: "a", kind: kindInvalid},
		}},
		"cut": {tcp(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nSECRET")), checked{
			200, kindTruncated, codes.Error, "stream truncated", attrs{up: "a", status: "200", kind: kindTruncated},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, spans := look(t, c.base)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(checked{})); diff != "" {
				t.Error(diff)
			}
			send := spans[0]
			if send.Name() != "GET /v1/models" || attributes(send)["url.full"] != c.base+"/v1/models" {
				t.Errorf("the send's span is %q with %v", send.Name(), attributes(send))
			}
			if send.Parent().SpanID() != spans[1].SpanContext().SpanID() {
				t.Error("the send's span is not below the check's")
			}
		})
	}
}

// What a check sends is what the caller gave it, once, over the pool of the other sends.
func TestCheckRequest(t *testing.T) {
	var got []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization")+" "+strconv.FormatBool(r.Header.Get("Traceparent") != ""))
		w.WriteHeader(http.StatusBadGateway)
	})
	c, _, _ := recorded(t, s.URL, traceContext())
	a, err := do(t, c, newCall(t, s.URL, "x"))
	text(t, a, err)
	header := http.Header{"Authorization": {"Bearer k"}}
	reused := false
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	if status, err := c.Check(ctx, header, parse(t, s.URL+"/v1/models?limit=1"), time.Minute); status != 502 || err != nil {
		t.Errorf("got %d, %v", status, err)
	}
	if diff := cmp.Diff([]string{"POST /v1/messages  true", "GET /v1/models?limit=1 Bearer k true"}, got); diff != "" {
		t.Error(diff)
	}
	if !reused {
		t.Error("the check made a connection of its own")
	}
	if len(header) != 1 {
		t.Errorf("the header was changed: %v", header)
	}
}

func TestCheckReadsLittle(t *testing.T) {
	wrote := make(chan int, 1)
	base := tcp(t, func(_ int, c *net.TCPConn, r *bufio.Reader) {
		if _, _, err := request(r); err != nil {
			return
		}
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"))
		n, block := 0, bytes.Repeat([]byte("m"), 64<<10)
		for {
			k, err := c.Write(block)
			if n += k; err != nil {
				wrote <- n
				return
			}
		}
	})
	if status, err := newClient(t, base).Check(t.Context(), nil, parse(t, base+"/v1/models"), time.Minute); status != 200 || err != nil {
		t.Errorf("got %d, %v", status, err)
	}
	if n := <-wrote; n >= 100<<20 { // the kernel's buffers take some
		t.Errorf("the check let the upstream write %d bytes", n)
	}
}

func TestCheckEnds(t *testing.T) {
	for name, c := range map[string]struct {
		headers       bool // do they come
		limit, cancel time.Duration
		status        int
		kind, text    string
		after         time.Duration
		code          codes.Code
	}{
		"no headers": {false, 5 * time.Second, time.Hour, 0, kindTimeout, "upstream timeout: response", 5 * time.Second, codes.Error},
		"no body":    {true, 5 * time.Second, time.Hour, 200, kindTimeout, "upstream timeout: response", 5 * time.Second, codes.Error},
		"called off": {false, 5 * time.Second, 3 * time.Second, 0, kindOther, "cancelled", 3 * time.Second, codes.Unset},
		"no limit":   {false, 0, time.Hour, 0, kindOther, "cancelled", time.Hour, codes.Unset},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recorder, spans := tracers()
				client, end := bubbleOf(t, Config{TracerProvider: recorder}, func(w http.ResponseWriter, r *http.Request) {
					if c.headers {
						_ = http.NewResponseController(w).Flush()
					}
					<-r.Context().Done()
				})
				defer end()
				ctx, cancel := context.WithCancel(t.Context())
				defer time.AfterFunc(c.cancel, cancel).Stop()
				start := time.Now()
				status, err := client.Check(ctx, nil, parse(t, inMemory+"/v1/models"), c.limit)
				if status != c.status || Kind(err) != c.kind || err.Error() != c.text || time.Since(start) != c.after {
					t.Errorf("got %d, %v after %v", status, err, time.Since(start))
				}
				all := spans.Ended()
				span := all[len(all)-1]
				if _, told := attributes(span)["error.type"]; span.Status().Code != c.code || told != (c.code == codes.Error) {
					t.Errorf("the span of the check has %v, %v", span.Status(), attributes(span))
				}
			})
		})
	}
}
