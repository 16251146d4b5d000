package router_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// simSessions is how many people sit before an agent at the same time.
const simSessions = 50

// simulation is one run of the engine in a synctest bubble: its clock is the bubble's. Everything that is drawn is drawn from
// generators of its own conversation, and lasts an odd number of nanoseconds, so that no two requests meet at one instant
// and the order of all that happens does not depend on the scheduler.
type simulation struct {
	t      testing.TB
	span   time.Duration
	seed   uint64
	start  time.Time
	ups    []*simUpstream
	engine *router.Router
	judge  *judge
	conns  sync.WaitGroup
}

func (s *simulation) now() time.Duration { return time.Since(s.start) }

// clock is what the engine takes the time to be. A bubble begins in a year whose seconds are no time stamp to it.
func (s *simulation) clock() time.Time { return epoch.Add(s.now()) }

// simulate runs one policy for a span of virtual time. It must be called outside of a bubble.
func simulate(t *testing.T, span time.Duration, seed uint64, change func(*settings.Config)) (out simResult) {
	t.Helper()
	from := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := &simulation{t: t, span: span, seed: seed, start: time.Now(), ups: simScript()}
		s.judge = newJudge(s)
		var mu sync.Mutex
		draws := rand.New(rand.NewPCG(seed, 0))
		engine, err := router.New(s.config(change), router.WithClock(s.clock), router.WithDialer(s.dial), router.WithLogger(slog.New(slog.DiscardHandler)),
			router.WithRandom(func() float64 {
				mu.Lock()
				defer mu.Unlock()
				return draws.Float64()
			}))
		if err != nil {
			t.Fatal(err)
		}
		s.engine = engine
		engine.OnEvent(s.judge.event)
		var slots sync.WaitGroup
		for i := range simSessions {
			slots.Go(func() { s.person(i) })
		}
		slots.Wait()
		synctest.Wait() // the connections have come to rest
		engine.Close()
		s.conns.Wait()
		out = s.judge.result()
	})
	out.real = time.Since(from)
	return out
}

func (s *simulation) config(change func(*settings.Config)) settings.Config {
	cfg := settings.Defaults()
	cfg.Server.RecentRequests = 0
	cfg.Cooling.NoneEligible = "reject" // so that no request may ever reach a target that rests
	m := settings.DefaultModel()
	m.ID = "m"
	m.AffinityPool = simCount
	for i, up := range s.ups {
		a := settings.DefaultUpstream()
		a.Name, a.BaseURL, a.Wires = up.name, "http://"+up.name+".test", []string{"anthropic-messages"}
		a.APIKey = settings.NewSecret("sk-of-"+a.Name, "test")
		if i == simCount-1 {
			a.MaxConcurrent = simCeiling
		}
		cfg.Upstreams = append(cfg.Upstreams, a)
		t := settings.DefaultTarget()
		t.Upstream, t.Model = a.Name, "model"
		m.Targets = append(m.Targets, t)
	}
	cfg.Models = []settings.Model{m}
	change(&cfg)
	return cfg
}

// speaker is one conversation: a session's main thread, or a sub-agent of it.
type speaker struct {
	id, session, agent string
	random             *rand.Rand
	turns              int
	log                *conversation
}

func (s *simulation) speaker(session, agent string, seed uint64) *speaker {
	id := session
	if agent != "" {
		id += "/" + agent
	}
	return &speaker{id: id, session: session, agent: agent, random: rand.New(rand.NewPCG(s.seed, seed)), log: s.judge.conversation(id)}
}

// between is a duration from one to another.
func (p *speaker) between(from, to time.Duration) time.Duration {
	return from + time.Duration(p.random.Int64N(int64(to-from)))
}

// person works with an agent all day: sessions of some hours, each in bursts of turns with pauses of up to an hour.
func (s *simulation) person(slot int) {
	for n := 0; s.now() < s.span; n++ {
		p := s.speaker(fmt.Sprintf("s%d-%d", slot, n), "", uint64(slot+1)<<32|uint64(n)<<16)
		if n == 0 {
			time.Sleep(p.between(0, 10*time.Minute))
		}
		over := min(s.span, s.now()+p.between(time.Hour, 4*time.Hour))
		for agents := uint64(0); s.now() < over; time.Sleep(p.between(5*time.Minute, time.Hour)) {
			for range 5 + p.random.IntN(36) {
				if s.now() >= over {
					break
				}
				s.turn(p)
				if p.random.IntN(20) == 0 {
					agents = s.delegate(p, uint64(slot+1)<<32|uint64(n)<<16, agents)
				}
				time.Sleep(p.between(20*time.Second, 240*time.Second))
			}
		}
	}
}

// delegate has up to three sub-agents work at the same time while the main thread waits for them.
func (s *simulation) delegate(p *speaker, seed, agents uint64) uint64 {
	var busy sync.WaitGroup
	for range 1 + p.random.IntN(3) {
		agents++
		child := s.speaker(p.session, "agent-"+strconv.FormatUint(agents, 10), seed|agents)
		busy.Go(func() {
			for range 3 + child.random.IntN(6) {
				time.Sleep(child.between(5*time.Second, 60*time.Second))
				s.turn(child)
			}
		})
	}
	busy.Wait()
	return agents
}

// turn asks until there is an answer, and waits in between as it is told.
func (s *simulation) turn(p *speaker) {
	for range 40 {
		wait := s.ask(p)
		if wait == 0 {
			return
		}
		time.Sleep(wait + p.between(0, time.Second))
	}
	s.judge.fault("%s: no answer after 40 tries", p.id)
}

// ask sends a request through the engine's handler and returns how long to wait before it is sent again, 0 if it went well.
func (s *simulation) ask(p *speaker) time.Duration {
	p.turns++
	call := fmt.Sprintf("%s#%d", p.id, p.turns)
	s.judge.asks(call, p.log)
	body := fmt.Appendf(nil, `{"model":"m","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"`+simPrompt+`"}]}`,
		p.id, p.between(500*time.Millisecond, 3*time.Second), p.between(time.Second, 15*time.Second))
	ctx := router.WithRoute(context.Background(), router.RouteContext{RequestID: call})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/messages", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header["Content-Type"] = []string{"application/json"}
	req.Header["X-Claude-Code-Session-Id"] = []string{p.session}
	if p.agent != "" {
		req.Header["X-Claude-Code-Agent-Id"] = []string{p.agent}
	}
	w := &answerWriter{header: http.Header{}}
	s.engine.Handler().ServeHTTP(w, req)
	whole := w.status == http.StatusOK && strings.HasSuffix(w.body.String(), simEnd)
	s.judge.answered(call, w.status, whole)
	if whole {
		return 0
	}
	seconds, err := strconv.Atoi(w.header.Get("Retry-After"))
	if err != nil || seconds < 1 {
		seconds = 5
	}
	return time.Duration(seconds) * time.Second
}

// answerWriter keeps an answer.
type answerWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) { w.status = status }

func (w *answerWriter) Write(p []byte) (int, error) { return w.body.Write(p) }

// Flush has nothing to do.
func (w *answerWriter) Flush() {}

var _ http.Flusher = (*answerWriter)(nil)
