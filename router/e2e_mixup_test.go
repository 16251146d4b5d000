package router_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// mark stands in each request wherever a client writes something: in the model, in headers, and all over the body.
var mark = regexp.MustCompile(`mk[0-9]{6}z`)

// marked is request n, with so many marks in its body.
func marked(n, marks int) (r routertest.Request, m string) {
	m = fmt.Sprintf("mk%06dz", n)
	if r = routertest.NewRequest(routertest.Wires[n%len(routertest.Wires)], "m-"+m, n%3 > 0); n%13 == 0 {
		r = routertest.NewCount("m-" + m)
	}
	r.Body = strings.Replace(r.Body, "Say hello.", strings.Repeat(m+" ", marks), 1)
	return r.With("X-Session-Id", m).With("X-Mark", m), m
}

// only fails if a text has any other mark than m, and reports whether it has that.
func only(t *testing.T, what, text, m string) bool {
	t.Helper()
	found := mark.FindAllString(text, -1)
	for _, other := range found {
		if other != m {
			t.Errorf("%s of %s has %s in it", what, m, other)
			break
		}
	}
	return len(found) > 0
}

// strict checks that all of a request belongs together before an upstream answers it, or while it does so.
type strict struct {
	t   *testing.T
	all *routertest.Upstream
}

func (s strict) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, key := r.Header.Get("X-Mark"), r.Header.Get("Authorization")+r.Header.Get("X-Api-Key")+r.Header.Get("X-Goog-Api-Key")
	if gen := r.Header.Get("X-Gen"); gen == "" || !strings.HasSuffix(key, gen) {
		s.t.Errorf("the key %q came with the header of configuration %q", key, gen)
	}
	only(s.t, "the path", r.URL.Path, m)
	only(s.t, "the header", fmt.Sprint(r.Header), m)
	sent := r.Body
	if rand.IntN(4) == 0 { // the answer does not wait for the body
		_ = http.NewResponseController(w).EnableFullDuplex()
		r.Body = io.NopCloser(strings.NewReader(`{"model":"m-` + m + `","stream":true}`))
		var reading sync.WaitGroup
		reading.Go(func() { s.body(sent, m) })
		defer reading.Wait()
	} else {
		r.Body = io.NopCloser(bytes.NewReader(s.body(sent, m)))
	}
	s.all.ServeHTTP(w, r)
}

// body reads one as it comes, with pauses, so that it may outlast the request that it belongs to.
func (s strict) body(from io.Reader, m string) (all []byte) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		all = append(all, buf[:n]...)
		if err == nil {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Microsecond)
			continue
		}
		if there := only(s.t, "the body", string(all), m); err == io.EOF && (!there || all[len(all)-1] != '}') {
			s.t.Errorf("the body of %s is %.100q", m, all)
		}
		return all
	}
}

// Whatever breaks at whatever point, no request gets, or leaves anywhere, a byte of another one.
func TestNothingIsMixedUp(t *testing.T) {
	t.Parallel()
	replies := []routertest.Reply{
		good, good.Pace(time.Millisecond), good.Events(4).Ending(routertest.Cut), good.Events(5).Ending(routertest.Stall), good,
		routertest.Fail(http.StatusInternalServerError, "broken"), routertest.Fail(http.StatusTooManyRequests, "slow down"),
		routertest.Nothing(routertest.Cut), routertest.Nothing(routertest.Reset), routertest.Nothing(routertest.Stall), good.Events(4).Ending(routertest.Reset),
		routertest.Body(http.StatusTemporaryRedirect, "text/plain", "there").With("Location", "/there"),
	}
	var ups []*routertest.Upstream
	var urls []string
	for range 3 {
		script := make([]routertest.Reply, 4000)
		for i := range script {
			script[i] = replies[rand.IntN(len(replies))]
		}
		u := routertest.NewUpstream(script...)
		s := httptest.NewServer(strict{t, u})
		t.Cleanup(s.Close)
		ups, urls = append(ups, u), append(urls, s.URL)
	}
	change := func(gen int) func(*settings.Config) {
		return func(c *settings.Config) {
			c.Telemetry.Capture, c.Cooling.NoneEligible, c.Telemetry.PropagateUpstream = "all", "clear", gen%2 == 0
			c.Models[0].ID, c.Models[0].Retry.Max, c.Models[0].Retry.Base = "m-*", gen%3, time.Microsecond
			c.Models[0].Strategy = []string{"weighted", "rendezvous", "least_busy"}[gen%3]
			c.Server.RequestTimeout = 500 * time.Millisecond
			for i := range c.Upstreams {
				u, limit := &c.Upstreams[i], 25*time.Millisecond
				u.BaseURL, u.APIKey = urls[i], settings.NewSecret(fmt.Sprintf("sk-of-gen%d", gen), "")
				u.Headers = map[string]settings.Secret{"X-Gen": settings.NewSecret(fmt.Sprintf("gen%d", gen), "")}
				u.Wires = [][]string{routertest.Wires, {routertest.Messages}, {routertest.Chat}}[i]
				u.Timeouts = settings.Timeouts{Connect: time.Second, FirstByte: limit, FirstEvent: limit, Idle: limit, Response: 2 * limit}
				u.Set = settings.Fields{"user": []byte(fmt.Sprintf(`"gen%d"`, gen))}
			}
		}
	}
	w := record(t, ups, change(0))
	ctx, stop := context.WithCancel(t.Context())
	var clients, others sync.WaitGroup
	others.Go(func() {
		for gen := 1; ctx.Err() == nil; gen++ {
			if err := w.engine.Load(w.config(change(gen))); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	var calls sync.Map // marks by call
	for worker := range mixers {
		clients.Go(func() {
			for n := range mixed {
				r, m := marked(worker*mixed+n, []int{1, 20, 500, 10_000}[rand.IntN(4)])
				one, cancel := context.WithCancel(t.Context())
				if rand.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(30_000))*time.Microsecond, cancel)
				}
				got := w.Send(one, r)
				cancel()
				only(t, "the answer", fmt.Sprint(got.Header)+got.Body, m)
				if call := got.Header.Get("X-Router-Call"); call != "" {
					if other, twice := calls.LoadOrStore(call, m); twice {
						t.Errorf("%s and %s have the same call", m, other)
					}
				}
			}
		})
	}
	clients.Wait()
	stop()
	others.Wait()
	w.once()
	known := map[string]string{}
	calls.Range(func(call, m any) bool { known[call.(string)] = m.(string); return true })
	w.unmixed(known)
}

// unmixed fails if anything that was told of one call or trace has the marks of two requests.
func (r *recorded) unmixed(calls map[string]string) {
	r.t.Helper()
	traces := map[string]string{}
	belongs := func(what string, marks map[string]string, id, text string) {
		m, ok := marks[id]
		if !ok {
			m = mark.FindString(text)
			marks[id] = m
		}
		if m == "" {
			delete(marks, id)
			return
		}
		only(r.t, what, text, m)
	}
	for _, e := range r.events {
		belongs("the event", calls, e.Call, e.UpstreamModel+" "+e.Session)
		belongs("the event's trace", traces, e.TraceID, calls[e.Call])
	}
	for _, s := range r.spans.GetSpans() {
		belongs("the span", traces, s.SpanContext.TraceID().String(), fmt.Sprint(s.Name, s.Attributes, s.Events, s.Status))
		for _, a := range s.Attributes {
			if a.Key == telemetry.AttrCall {
				belongs("the span's call", calls, a.Value.AsString(), traces[s.SpanContext.TraceID().String()])
			}
		}
	}
	told := 0
	for _, rec := range r.logs.records {
		told += len(rec.Body().AsString())
		text := rec.Body().AsString()
		rec.WalkAttributes(func(kv attribute.KeyValue) bool { text += fmt.Sprint(kv.Key, kv.Value.String()); return true })
		belongs("the record", traces, rec.TraceID().String(), text)
	}
	for line := range strings.Lines(r.text.String()) {
		if _, after, ok := strings.Cut(line, `"call":"`); ok {
			call, _, _ := strings.Cut(after, `"`)
			belongs("the line", calls, call, line)
		}
	}
	if len(calls) < mixers*mixed/2 || len(traces) < len(calls) || told == 0 {
		r.t.Errorf("%d calls in %d traces with %d bytes of contents are all that was seen", len(calls), len(traces), told)
	}
	if got := router.Buffered(r.engine); got != 0 {
		r.t.Errorf("%d bytes of bodies were never given back", got)
	}
}

// As many clients send so many requests each.
const mixers, mixed = 16, 12
