// Command traffic puts accounts that are played by scripts behind a real signalbox and asks it for everything that its
// telemetry tells of, until it is interrupted. It must not know how any of that is told.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/signalbox-llm/signalbox/router/routertest"
)

// configuration is that of the sidecar; LISTEN and the names in capitals are replaced by addresses. The keys are made up,
// and look like keys so that the test can search for them.
const configuration = `
server {
  listen                  = "LISTEN"
  max_concurrent_requests = 4
}
auth {
  key "agents" {
    secret = "sk-made-up-client-0123456789"
    scope  = "inference"
  }
  key "nightly" {
    secret = "sk-made-up-nightly-0123456789"
    scope  = "inference"
  }
}
client "batch" {
  user_agent = "nightly-batch/*"
}

upstream "work" {
  base_url = "WORK"
  wires    = ["anthropic-messages", "openai-chat"]
  api_key  = "sk-made-up-work-0123456789"
  health_check {
    path     = "/v1/models"
    interval = "5s"
    failures = 3
  }
}
upstream "home" {
  base_url = "HOME"
  wires    = ["anthropic-messages", "openai-chat", "openai-responses", "gemini"]
  api_key  = "sk-made-up-home-0123456789"
}
upstream "shaky" {
  base_url = "SHAKY"
  wires    = ["openai-chat", "anthropic-messages"]
  api_key  = "sk-made-up-shaky-0123456789"
}
upstream "denied" {
  base_url = "DENIED"
  wires    = ["openai-chat"]
  api_key  = "sk-made-up-denied-0123456789"
}
upstream "tired" {
  base_url = "TIRED"
  wires    = ["openai-chat"]
  api_key  = "sk-made-up-tired-0123456789"
}

model "sonnet" {
  strategy = "affinity"
  target "work" { model = "claude-sonnet-4-5" }
  target "home" { model = "claude-sonnet-4-5" }
  price {
    input       = 3.0
    output      = 15.0
    cache_read  = 0.30
    cache_write = 3.75
    off_peak {
      factor = 0.5
    }
  }
}
model "gpt" {
  target "denied" { model = "gpt-5.1" }
  target "home"   { model = "gpt-5.1" }
}
model "gemini" {
  target "home" { model = "gemini-2.5-pro" }
}
model "poet" {
  target "shaky" { model = "poet-1" }
  target "home"  { model = "poet-1" }
}
# A single account that fails now and then: it is asked again.
model "lonely" {
  target "tired" { model = "lonely-1" }
  retry {
    max  = 2
    base = "200ms"
  }
}
cooling {
  server {
    base = "2s"
    cap  = "4s"
  }
}
`

// The keys that clients of the sidecar send.
const (
	key     = "sk-made-up-client-0123456789"
	nightly = "sk-made-up-nightly-0123456789"
)

// agents are what clients call themselves that speak a wire, as captured from real ones.
var agents = map[string]string{
	routertest.Messages: "claude-cli/2.1.332 (external, cli)", routertest.Responses: "codex_exec/0.171.0 (Debian 12.0.0; x86_64)",
	routertest.Chat: "opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14", routertest.Gemini: "google-genai-sdk/3.3.0 gl-node/v24",
}

// stage is the sidecar and the accounts behind it.
type stage struct {
	work, home, shaky, denied, tired *routertest.Upstream
	client                           *routertest.Client
	config                           string // path of the file
}

func main() {
	if err := run(); err != nil {
		slog.Error("traffic", "error", err)
		os.Exit(1) //nolint:forbidigo // this is func main
	}
}

func run() error {
	binary := flag.String("signalbox", "bin/signalbox", "the `program`")
	listen := flag.String("listen", "127.0.0.1:24141", "`address` of the sidecar")
	dir := flag.String("dir", os.TempDir(), "`folder` for the configuration")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &stage{
		work: routertest.NewUpstream(), home: routertest.NewUpstream(), shaky: routertest.NewUpstream(), tired: routertest.NewUpstream(),
		denied: routertest.NewUpstream(routertest.Fail(401, "This key has been revoked.")),
		client: routertest.NewClient("http://" + *listen), config: filepath.Join(*dir, "traffic.hcl"),
	}
	defer s.close()
	if err := s.write(*listen, ""); err != nil {
		return err
	}
	sidecar := exec.CommandContext(ctx, *binary, "serve", "-config", s.config)
	sidecar.Stdout, sidecar.Stderr = os.Stdout, os.Stderr
	sidecar.Cancel = func() error { return sidecar.Process.Signal(syscall.SIGTERM) }
	sidecar.WaitDelay = 30 * time.Second
	if err := sidecar.Start(); err != nil {
		return err
	}
	s.play(ctx, *listen)
	if err := sidecar.Wait(); err != nil && ctx.Err() == nil {
		return errors.Join(errors.New("signalbox ended"), err)
	}
	return nil
}

// write writes the configuration; a remark makes it another one, which is loaded anew.
func (s *stage) write(listen, remark string) error {
	text := strings.NewReplacer("LISTEN", listen, "WORK", s.work.URL, "HOME", s.home.URL, "SHAKY", s.shaky.URL, "DENIED", s.denied.URL, "TIRED", s.tired.URL).Replace(configuration)
	return os.WriteFile(s.config, []byte(text+remark), 0o600)
}

func (s *stage) close() {
	s.client.Close()
	for _, u := range []*routertest.Upstream{s.work, s.home, s.shaky, s.denied, s.tired} {
		u.Close()
	}
}

// play sends a round of requests again and again. Every tenth round the accounts fail.
func (s *stage) play(ctx context.Context, listen string) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if round%10 == 2 {
			s.fail()
		}
		if round%20 == 5 {
			remark := fmt.Sprintf("# round %d\n", round)
			if round%40 == 25 {
				remark = "nonsense {\n" // is refused, and what runs stays
			}
			if err := s.write(listen, remark); err != nil {
				slog.Warn("the configuration stays", "error", err)
			}
		}
		s.round(ctx, round)
	}
}

// fail scripts one failure of each kind; after it the account is well again.
func (s *stage) fail() {
	use := routertest.Usage{Input: 900, CacheRead: 4000, CacheWrite: 300, Output: 120, Reasoning: 40}
	well := routertest.Good("All is well with this account.", use).Pace(8*time.Millisecond).
		With("Anthropic-Ratelimit-Requests-Limit", "1000").With("Anthropic-Ratelimit-Requests-Remaining", "40").
		With("Anthropic-Ratelimit-Tokens-Limit", "80000").With("Anthropic-Ratelimit-Tokens-Remaining", "30000").
		With("Anthropic-Ratelimit-Unified-5h-Utilization", "0.93").With("Anthropic-Ratelimit-Unified-7d-Utilization", "0.4")
	s.work.Script(well, well, routertest.Fail(429, "You are over your limit.").With("Retry-After", "4"), well)
	s.home.Script(well)
	s.tired.Script(routertest.Fail(503, "Come back in a moment."), well)
	s.shaky.Script(routertest.Fail(500, "Something went wrong."), well.Events(6).Ending(routertest.Cut), well.Events(1).Ending(routertest.Cut),
		routertest.Fail(529, "Overloaded."), routertest.Nothing(routertest.Reset), well)
}

// round asks every model in every wire that it speaks, in conversations and without.
func (s *stage) round(ctx context.Context, round int) {
	// Each is a conversation of its own unless it says otherwise: without a session the beginning of the prompt makes one, and
	// all are alike here.
	var sent atomic.Int64
	send := func(r routertest.Request) {
		if r.Header.Get("X-Session-Id") == "" {
			r = r.With("X-Session-Id", fmt.Sprintf("round-%d-%d", round, sent.Add(1)))
		}
		s.client.Send(ctx, r.With("Authorization", "Bearer "+key))
	}
	ask := func(wire, model string, stream bool) routertest.Request {
		return routertest.NewRequest(wire, model, stream).With("User-Agent", agents[wire])
	}
	session := fmt.Sprintf("session-%d", round%7)
	for _, stream := range []bool{true, false} {
		send(ask(routertest.Messages, "sonnet", stream).With("X-Session-Id", session))
		send(ask(routertest.Chat, "sonnet", stream).With("X-Session-Id", session))
		send(ask(routertest.Chat, "poet", stream))
		send(ask(routertest.Responses, "gpt", stream))
		send(ask(routertest.Chat, "gpt", stream))
	}
	send(ask(routertest.Chat, "lonely", false))
	// In a wire that the account does not speak, with a member that its own has no place for.
	send(ask(routertest.Messages, "lonely", true).Field("top_k", "40"))
	send(ask(routertest.Chat, "nobody-has-this", false))
	send(routertest.NewCount("sonnet"))

	// Another key, and an agent that only the configuration knows.
	s.client.Send(ctx, ask(routertest.Messages, "sonnet", false).With("User-Agent", "nightly-batch/1").With("X-Session-Id", "nightly").
		With("Authorization", "Bearer "+nightly))

	// The key in the query, as clients of Gemini send it, and one that is wrong.
	asked := ask(routertest.Gemini, "gemini", false)
	asked.Path += "?key=" + key
	s.client.Send(ctx, asked)
	s.client.Send(ctx, ask(routertest.Chat, "gpt", false).With("Authorization", "Bearer sk-made-up-wrong-0123456789"))

	// More at once than the sidecar takes, so that some wait.
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { send(ask(routertest.Chat, "gpt", true)) })
	}
	all.Wait()

	// A client that leaves after the first words.
	s.client.Watch(ctx, ask(routertest.Messages, "sonnet", true).With("Authorization", "Bearer "+key),
		func(r routertest.Result) bool { return r.Body == "" })
}
