package router_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// simTrouble is what is wrong with an upstream of the simulation for a while.
type simTrouble string

const (
	simLimit    simTrouble = "429 that says when"
	simMute     simTrouble = "429 without a word"
	simQuota    simTrouble = "usage limit"
	simBadKey   simTrouble = "401"
	simBroken   simTrouble = "500"
	simOverload simTrouble = "529"
	simRefuse   simTrouble = "connection refused"
	simStall    simTrouble = "no answer"
)

// simWindow is one trouble, from and to counted from the start of the simulation.
type simWindow struct {
	from, to time.Duration
	kind     simTrouble
	hint     time.Duration // Retry-After of simLimit
	seen     bool          // by somebody
	failed   int           // probes that found it lasting after that
}

// probes is how many probes can find a trouble of this length lasting: the first failure begins a rest, and each probe that
// fails the next, so that the k-th is sent the first k rests after the trouble began at the earliest.
func (w *simWindow) probes() int {
	rest, limit := 30*time.Second, 5*time.Minute
	switch w.kind {
	case simLimit:
		rest, limit = w.hint, w.hint
	case simMute:
		limit = 10 * time.Minute
	case simQuota:
		rest, limit = simProbeEvery, simProbeEvery
	case simBadKey:
		rest, limit = time.Minute, 30*time.Minute
	}
	n := 0
	for left := w.to - w.from - rest; left >= 0; left -= rest {
		n++
		rest = min(2*rest, limit)
	}
	return n
}

const (
	simProbeEvery = time.Hour       // of a usage limit; the default of probe_every
	simCacheTTL   = 5 * time.Minute // of the providers' prompt caches
	simCount      = 10              // upstreams, named a to j
	simCeiling    = 4               // requests in flight at the last of them
)

// simUpstream is one account at a provider. It is asked by its script what it does with a request that comes in now.
type simUpstream struct {
	name    string
	windows []*simWindow

	mu    sync.Mutex
	cache map[string]time.Duration // conversation: when its last turn here ended
}

// trouble is what is wrong at a moment, nil if nothing is.
func (u *simUpstream) trouble(at time.Duration) *simWindow {
	for _, w := range u.windows {
		if w.from <= at && at < w.to {
			return w
		}
	}
	return nil
}

// simScript is a day of ten upstreams. Its first six hours have every trouble once.
func simScript() []*simUpstream {
	ups := make([]*simUpstream, simCount)
	for i := range ups {
		ups[i] = &simUpstream{name: string(rune('a' + i)), cache: map[string]time.Duration{}}
		// The line to the world is down for all of them at once. What is first in the list counts.
		ups[i].add(simRefuse, 0, 3*time.Minute, 5*time.Hour+10*time.Minute)
	}
	const a, b, c, d, e, f, g, h, i, j = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
	at := func(hours float64) time.Duration { return time.Duration(hours * float64(time.Hour)).Round(time.Second) }
	ups[a].add(simLimit, 20*time.Second, 5*time.Minute, at(2.5), at(15))
	ups[b].add(simLimit, 45*time.Second, 10*time.Minute, at(0.7), at(4), at(8), at(11), at(16), at(19), at(22))
	ups[c].add(simMute, 0, 15*time.Minute, at(1.5), at(7), at(13), at(20))
	ups[d].add(simRefuse, 0, 20*time.Minute, at(3))
	ups[d].add(simRefuse, 0, 90*time.Minute, at(14))
	ups[e].add(simBroken, 0, 15*time.Minute, at(2), at(10), at(18))
	ups[f].flap(30*time.Second, 40*time.Second, time.Hour, at(3.6), at(17))
	ups[g].add(simQuota, 0, 6*time.Hour, at(4.5))
	ups[h].add(simBadKey, 0, 2*time.Hour, at(3.25))
	ups[i].add(simStall, 0, 10*time.Minute, at(5.4), at(12))
	ups[j].add(simOverload, 0, 5*time.Minute, at(1), at(9), at(21))
	return ups
}

func (u *simUpstream) add(kind simTrouble, hint, length time.Duration, starts ...time.Duration) {
	for _, from := range starts {
		u.windows = append(u.windows, &simWindow{from: from, to: from + length, kind: kind, hint: hint})
	}
}

// flap has the upstream down and up in turn.
func (u *simUpstream) flap(up, down, length time.Duration, starts ...time.Duration) {
	for _, from := range starts {
		for at := from; at < from+length; at += up + down {
			u.add(simRefuse, 0, down, at)
		}
	}
}

// dial connects the engine with the upstream that the host names, without a network.
func (s *simulation) dial(_ context.Context, _, address string) (net.Conn, error) {
	u := s.ups[address[0]-'a']
	if w := u.trouble(s.now()); w != nil && w.kind == simRefuse {
		return nil, syscall.ECONNREFUSED
	}
	client, server := net.Pipe()
	s.conns.Go(func() {
		defer server.Close()
		in := bufio.NewReader(server)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil || s.serve(u, body, server, in) != nil {
				return
			}
		}
	})
	return client, nil
}

// serve answers one request as the script says. What is wrong when it comes in decides, not what is so later.
func (s *simulation) serve(u *simUpstream, body []byte, out io.Writer, in io.Reader) error {
	var conversation string
	var first, rest time.Duration // until the first words, and from there to the end
	if _, err := fmt.Fscanf(bytes.NewReader(body[bytes.IndexByte(body, '<'):]), simPrompt, &conversation, &first, &rest); err != nil {
		return err
	}
	at := s.now()
	w := u.trouble(at)
	if w == nil {
		return u.answer(s, at, conversation, first, rest, out)
	}
	switch w.kind {
	case simRefuse:
		return syscall.ECONNRESET // nobody is behind a connection from before, either
	case simStall:
		_, err := io.Copy(io.Discard, in) // until the engine hangs up
		return cmp.Or(err, io.EOF)
	}
	time.Sleep(first / 10)
	status, extra, kind, message := http.StatusInternalServerError, "", "api_error", "internal server error"
	switch w.kind {
	case simLimit:
		status, extra, kind, message = http.StatusTooManyRequests, fmt.Sprintf("Retry-After: %d\r\n", w.hint/time.Second), "rate_limit_error", "slow down"
	case simMute:
		status, kind, message = http.StatusTooManyRequests, "rate_limit_error", "slow down"
	case simQuota:
		status, kind, message = http.StatusTooManyRequests, "rate_limit_error", "you have reached your usage limit"
		extra = fmt.Sprintf("Anthropic-Ratelimit-Unified-Status: rejected\r\nAnthropic-Ratelimit-Unified-Reset: %d\r\n", epoch.Add(w.to).Unix())
	case simBadKey:
		status, kind, message = http.StatusUnauthorized, "authentication_error", "invalid x-api-key"
	case simOverload:
		status, kind, message = 529, "overloaded_error", "overloaded"
	}
	text := fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
	_, err := fmt.Fprintf(out, "HTTP/1.1 %d Failed\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", status, extra, len(text), text)
	return err
}

// answer streams an answer, and says whether the conversation's prompt was still in the cache.
func (u *simUpstream) answer(s *simulation, at time.Duration, conversation string, first, rest time.Duration, out io.Writer) error {
	u.mu.Lock()
	last, known := u.cache[conversation]
	u.mu.Unlock()
	usage := `"cache_creation_input_tokens":1000,"cache_read_input_tokens":0`
	if known && at-last < simCacheTTL {
		usage = `"cache_creation_input_tokens":10,"cache_read_input_tokens":1000`
	}
	begin := fmt.Sprintf(simBegin, usage)
	time.Sleep(first)
	if _, err := fmt.Fprintf(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(begin)+len(simEnd), begin); err != nil {
		return err
	}
	time.Sleep(rest)
	u.mu.Lock()
	u.cache[conversation] = s.now()
	u.mu.Unlock()
	_, err := io.WriteString(out, simEnd)
	return err
}

// simPrompt is what a turn says: its conversation, and how long its answer takes.
const simPrompt = "<%s %d %d>"

const simBegin = "event: message_start\n" +
	`data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,` +
	`"usage":{"input_tokens":3,%s,"output_tokens":1}}}` + "\n\n" +
	"event: content_block_start\n" +
	`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
	"event: content_block_delta\n" +
	`data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}` + "\n\n"

var simEnd = strings.Join([]string{
	"event: content_block_stop", `data: {"type":"content_block_stop","index":0}`, "",
	"event: message_delta", `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}`, "",
	"event: message_stop", `data: {"type":"message_stop"}`, "", "",
}, "\n")
