package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// process is a router with its control plane in a synctest bubble: upstreams a and b serve model m, in this order.
type process struct {
	t      *testing.T
	engine *router.Router
	plane  *control.Handler
	ups    []*routertest.Upstream
	front  *routertest.Front
}

// startProcess starts one at front.test.
func startProcess(t *testing.T, n *routertest.Network, keep int) *process {
	t.Helper()
	p := &process{t: t}
	cfg, m := settings.Defaults(), settings.DefaultModel()
	cfg.Server.RecentRequests, cfg.Affinity.PrefixKey = keep, false
	m.ID = "m"
	for _, name := range []string{"a", "b"} {
		p.ups = append(p.ups, routertest.NewUpstreamOn(n.Listen(name+".test:80")))
		a, target := settings.DefaultUpstream(), settings.DefaultTarget()
		a.Name, a.BaseURL, a.Wires, a.APIKey = name, "http://"+name+".test:80", routertest.Wires, settings.NewSecret("sk-of-"+name, "")
		target.Upstream = name
		cfg.Upstreams, m.Targets = append(cfg.Upstreams, a), append(m.Targets, target)
	}
	m.Strategy = "failover"
	cfg.Models = []settings.Model{m}
	engine, err := router.New(cfg, router.WithDialer(n.Dial), router.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	p.engine, p.plane = engine, control.New(engine, control.Options{})
	p.front = routertest.ServeOn(n.Listen("front.test:80"), p.plane.Or(engine.Handler()))
	return p
}

// stop ends it as serve does.
func (p *process) stop() {
	p.plane.SetReady(false)
	synctest.Wait()
	p.front.Close()
	for _, u := range p.ups {
		u.Close()
	}
	p.engine.Close()
}

// serve has a request for a model answered, of which only m is known.
func (p *process) serve(model string) {
	body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"a secret"}]}`, model)
	req := httptest.NewRequestWithContext(p.t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	p.engine.Handler().ServeHTTP(httptest.NewRecorder(), req)
}

// ask sends a request and lets everything go on. The answer is waited for by calling what is returned.
func (p *process) ask(model string) (end func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.serve(model)
	}()
	synctest.Wait()
	return func() {
		<-over
		synctest.Wait()
	}
}

var errRefused = errors.New("refused")

// tail follows the process at front.test.
func newTestTail(n *routertest.Network, out *terminal) (*Tail, *http.Client) {
	client := &http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	style := Style{}
	return &Tail{
		History: 20, MaxReconnects: -1,
		Open: func(ctx context.Context, path, place string) (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://front.test"+path, nil)
			if err != nil {
				return nil, err
			}
			if place != "" {
				req.Header.Set("Last-Event-ID", place)
			}
			resp, err := client.Do(req)
			if err != nil {
				return nil, errors.New("unreachable")
			}
			if resp.StatusCode != http.StatusOK {
				resp.Body.Close()
				return nil, errRefused
			}
			return resp, nil
		},
		Final: func(err error) bool { return errors.Is(err, errRefused) },
		Show: func(frames ...control.Frame) {
			for i := range frames {
				fmt.Fprintln(out, style.Line(&frames[i]))
			}
		},
		Say: func(text string) { fmt.Fprintln(out, text) },
	}, client
}

// brief is a line without what is different each time, and without the spaces between columns.
func brief(line string) string {
	words := strings.Fields(line)
	if words[0] == "--" || strings.HasPrefix(line, "in flight") {
		return line
	}
	kept := words[1:]
	for i, w := range kept {
		if len(w) == 11 && strings.HasPrefix(w, "c") {
			kept[i] = "CALL"
		}
	}
	return strings.Join(kept, " ")
}
