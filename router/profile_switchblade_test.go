package router_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

const switchblade = "switchblade"

func affine(key string) routertest.Request { return plainly().With("X-Session-Affinity", key) }

func forModel(id string, r routertest.Request) routertest.Request {
	r.Body = strings.Replace(r.Body, `"model":"m"`, `"model":"`+id+`"`, 1)
	return r
}

// order is which targets a request for a model is tried at, all of them failing: "a/m b/m".
func order(t *testing.T, change func(*settings.Config), r routertest.Request, opts ...router.Option) string {
	t.Helper()
	bad := routertest.Fail(500, "boom")
	w := profiled(t, switchblade, upstreams(bad, bad, bad), change, opts...)
	w.send(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	var way []string
	for _, e := range w.events {
		if e.Phase == router.PhaseAttemptStart {
			way = append(way, e.Upstream+"/"+e.UpstreamModel)
		}
	}
	return strings.Join(way, " ")
}

func TestSwitchbladeOrdersByTheHashOfTheKey(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"s", "t", "u", "conversation 7", ""} {
		sum := sha256.Sum256([]byte(key))
		if key == "" {
			sum = sha256.Sum256([]byte("no-session"))
		}
		for _, pool := range []int{1, 2, 3, 9} {
			names := []string{"a/m", "b/m", "c/m"}
			first := int(binary.BigEndian.Uint32(sum[:]) % uint32(min(pool, 3)))
			want := slices.Concat(names[first:first+1], names[:first], names[first+1:])
			r := plainly()
			if key != "" {
				r = affine(key)
			}
			got := order(t, func(cfg *settings.Config) { cfg.Models[0].AffinityPool = pool }, r)
			if got != strings.Join(want, " ") {
				t.Errorf("key %q, pool %d: %s, want %v", key, pool, got, want)
			}
		}
	}
}

func TestSwitchbladeOrdersModelsThenTargets(t *testing.T) {
	t.Parallel()
	models := func(cfg *settings.Config) *settings.Preset {
		cfg.Models = append(cfg.Models[:0:0], cfg.Models...)
		addModel(cfg, "one", at("a", "x"), at("b", "x"))
		addModel(cfg, "two", at("a", "y"), at("c", "y"))
		cfg.Models = cfg.Models[1:]
		return addPreset(cfg, "p", "one", "two")
	}
	high := router.WithRandom(func() float64 { return 0.99 })
	for _, c := range []struct {
		name   string
		change func(*settings.Config)
		ask    string
		want   string
	}{
		{"each upstream once", func(cfg *settings.Config) { models(cfg) }, "p", "a/x b/x c/y"},
		{"a bare model", func(cfg *settings.Config) { models(cfg) }, "two", "a/y c/y"},
		{"failover", func(cfg *settings.Config) { models(cfg).Strategy = "failover" }, "p", "a/x b/x c/y"},
		{"weighted", func(cfg *settings.Config) {
			p := models(cfg)
			p.Strategy, p.Weights = "weighted", map[string]int{"one": 1, "two": 1}
		}, "p", "a/y c/y b/x"},
		{"a preset hides a model", func(cfg *settings.Config) { models(cfg); addPreset(cfg, "one", "two") }, "one", "a/y c/y"},
		{"its own id is the model", func(cfg *settings.Config) { models(cfg); addPreset(cfg, "two", "two", "one") }, "two", "a/y c/y b/x"},
		{"presets within", func(cfg *settings.Config) { models(cfg); addPreset(cfg, "q", "two", "p") }, "q", "a/y c/y b/x"},
		{"a circle is cut", func(cfg *settings.Config) {
			models(cfg)
			addPreset(cfg, "q", "r", "two")
			addPreset(cfg, "r", "q", "one")
		}, "q", "a/x b/x c/y"},
	} {
		if got := order(t, c.change, forModel(c.ask, plainly()), high); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestSwitchbladeSessionKeys(t *testing.T) {
	t.Parallel()
	sessions(t, switchblade, affine("s"), map[string]routertest.Request{
		"affinity header": affine("s"), "id header": plainly().With("X-Session-Id", "s"), "session_id": plainly().Field("session_id", `"s"`),
		"sessionId": plainly().Field("sessionId", `"s"`), "user": plainly().Field("user", `"s"`),
		"headers first": affine("s").With("X-Session-Id", "t").Field("user", `"u"`),
	}, map[string]routertest.Request{
		"nothing": plainly(), "another": affine("t"), "conversation": plainly().With("X-Conversation-Id", "s"),
		"cache key": plainly().Field("prompt_cache_key", `"s"`),
	})
}

func TestSwitchbladeMovesOnByClass(t *testing.T) {
	t.Parallel()
	movesOn(t, switchblade, "401", "402", "403", "404 model", "408", "429", "500", "503", "529", "400 billing", "400 opaque", "422 opaque", "cut", "reset")
}

// rests fails unless one failure after the other makes a sole upstream rest for these times, as 503 and Retry-After tell.
func rests(t *testing.T, name string, w *world, reply routertest.Reply, want ...time.Duration) {
	t.Helper()
	for n, d := range want {
		w.tell(0, reply)
		w.send(plainly())
		got := w.send(plainly())
		if seconds := strconv.Itoa(int(d.Seconds())); got.Header.Get("Retry-After") != seconds {
			t.Errorf("%s, failure %d: rests for %q s, want %s: %d %s", name, n+1, got.Header.Get("Retry-After"), seconds, got.Status, got.Body)
		}
		told(t, name, routertest.Chat, got, http.StatusServiceUnavailable, "router_unavailable")
		w.clock.Advance(d)
	}
	w.tell(0, good)
	w.expect(name+": over", plainly(), 200, "a")
}

func TestSwitchbladeRests(t *testing.T) {
	t.Parallel()
	const s, m, day = time.Second, time.Minute, 24 * time.Hour
	weekly := func(text string) routertest.Reply {
		return routertest.Body(429, "application/json", `{"type":"error","error":{"type":"GoUsageLimitError","message":"`+text+`"}}`)
	}
	for name, c := range map[string]struct {
		reply routertest.Reply
		want  []time.Duration
	}{
		"rate":            {failing["429"], []time.Duration{30 * s, m, 2 * m, 4 * m, 8 * m, 10 * m, 10 * m}},
		"auth":            {failing["401"], []time.Duration{m, 2 * m, 4 * m, 8 * m, 16 * m, 30 * m, 30 * m}},
		"forbidden":       {failing["403"], []time.Duration{m, 2 * m}},
		"billing":         {failing["402"], []time.Duration{30 * s, m, 2 * m, 4 * m, 5 * m, 5 * m}},
		"billing by body": {failing["400 billing"], []time.Duration{30 * s, m}},
		"server":          {failing["500"], []time.Duration{30 * s, m, 2 * m, 4 * m, 5 * m, 5 * m}},
		"network":         {failing["cut"], []time.Duration{30 * s, m}},
		"unusable":        {failing["empty 200"], []time.Duration{30 * s, m}},
		"weekly, days":    {weekly("Weekly usage limit reached. Resets in 3 days."), []time.Duration{3 * day, 3 * day}},
		"weekly":          {weekly("Weekly usage limit reached."), []time.Duration{7 * day, 7 * day}},
	} {
		w := profiled(t, switchblade, upstreams(good), nil)
		rests(t, name, w, c.reply, c.want...)
		if name == "server" {
			rests(t, "after a success", w, c.reply, 30*s)
		}
	}
}

func TestSwitchbladeScopes(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]bool{
		"429": true, "401": true, "402": true, "400 billing": true, "500": false, "cut": false, "empty 200": false, "404 model": false,
	} {
		w := profiled(t, switchblade, upstreams(failing[name]), func(cfg *settings.Config) { addModel(cfg, "n", at("a", "other")) })
		w.send(plainly())
		w.tell(0, good)
		if got := w.send(forModel("n", plainly())); (got.Status == 503) != account {
			t.Errorf("%s: another route of the account gives %d, want it to rest: %v", name, got.Status, account)
		}
		w.expect(name+": the route itself", plainly(), 503, "")
	}
}

// Two routes of one account that fail within a minute are an outage of the account; one that fails twice is not.
func TestSwitchbladeOutage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		again string
		after time.Duration
		well  bool
		out   bool
	}{
		{"two routes", "n", 59 * time.Second, false, true},
		{"a success between", "n", 59 * time.Second, true, true},
		{"too late", "n", 61 * time.Second, false, false},
		{"the same route", "m", 40 * time.Second, false, false},
	} {
		w := profiled(t, switchblade, upstreams(failing["500"]), func(cfg *settings.Config) {
			addModel(cfg, "n", at("a", "other"))
			addModel(cfg, "third", at("a", "yet another"))
		})
		w.send(plainly())
		w.clock.Advance(c.after)
		if c.well {
			w.tell(0, good)
			w.expect("a success clears only the route's own streak", plainly(), 200, "a")
			w.tell(0, failing["500"])
		}
		w.send(forModel(c.again, plainly()))
		w.tell(0, good)
		if got := w.send(forModel("third", plainly())); (got.Status == 503) != c.out {
			t.Errorf("%s: a third route gives %d, want an outage: %v", c.name, got.Status, c.out)
		}
	}
}

func TestSwitchbladeOpaqueRejection(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "  ", "{}", `{"error":{"message":""}}`, `{"error":`} {
		w := profiled(t, switchblade, upstreams(routertest.Body(400, "application/json", text), good), nil)
		w.expect(text+": moves on", affine("s"), 200, "b")
		w.tell(0, good)
		w.expect(text+": nobody else is concerned", affine("t"), 200, "a")
		w.uncool("b") // forget where the session was answered
		w.clock.Advance(29 * time.Second)
		w.expect(text+": the session leaves the route alone", forModel("m", affine("s")), 200, "b")
	}
	w := profiled(t, switchblade, upstreams(failing["400 opaque"]), nil)
	w.send(affine("s"))
	w.tell(0, good)
	got := w.expect("excluded", affine("s"), 503, "")
	if got.Header.Get("Retry-After") != "30" {
		t.Errorf("for %q s, want 30", got.Header.Get("Retry-After"))
	}
	w.clock.Advance(30 * time.Second)
	w.expect("over", affine("s"), 200, "a")
}

func TestSwitchbladeExplainedRejectionIsReturned(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(failing["400 explained"], good), nil)
	w.expect("returned", plainly(), 400, "a")
	w.expect("and nobody rests", plainly(), 400, "a")
}

func TestSwitchbladeTellsThatNobodyIsEligible(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		a, b  routertest.Reply
		want  string
		after string
	}{
		{"routes", failing["500"], failing["500"], "(2 route cooling)", "30"},
		{"route and account", failing["401"], failing["500"], "(1 account cooling, 1 route cooling)", "30"},
		{"limits only", failing["429"], failing["429"], "(2 account cooling)", "30"},
	} {
		w := profiled(t, switchblade, upstreams(c.a, c.b), nil)
		w.send(plainly())
		got := w.send(plainly())
		told(t, c.name, routertest.Chat, got, 503, "router_unavailable")
		if !strings.Contains(got.Body, "no provider is currently eligible for this request "+c.want) || got.Header.Get("Retry-After") != c.after {
			t.Errorf("%s: %s, Retry-After %q", c.name, got.Body, got.Header.Get("Retry-After"))
		}
		w.calls("nothing that rests is tried", 1, 1)
	}
}

func TestSwitchbladeTellsTheEarliestRecovery(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(failing["401"], routertest.Body(429, "application/json", `{"error":{"type":"GoUsageLimitError","message":"Resets in 3 days"}}`)), nil)
	w.send(plainly())
	w.cool("a", time.Hour)
	if got := w.expect("uncapped", plainly(), 503, ""); got.Header.Get("Retry-After") != "3600" {
		t.Errorf("Retry-After %q, want 3600", got.Header.Get("Retry-After"))
	}
}

func TestSwitchbladeCooledByHand(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(good, good), nil)
	for _, name := range []string{"a", "b"} {
		w.cool(name, 0)
	}
	got := w.expect("by hand", plainly(), 503, "")
	if !strings.Contains(got.Body, "all available backends are cooling (2 manually cooled - uncool to restore)") || got.Header.Get("Retry-After") != "" {
		t.Errorf("%s, Retry-After %q", got.Body, got.Header.Get("Retry-After"))
	}
	w.uncool("b")
	w.expect("one is back", plainly(), 200, "b")
	w.tell(1, failing["500"])
	w.send(plainly())
	w.expect("no fallback to what is held by hand", plainly(), 503, "")
	w.clock.Advance(1000 * time.Hour)
	w.tell(1, good)
	w.expect("nor does a success end it", plainly(), 200, "b")
	w.expect("nor does a success end it", plainly(), 200, "b")
	w.engine.ResetHealth()
	w.expect("reset does", plainly(), 200, "a")
}

func TestSwitchbladeOneRequestProbes(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(failing["500"]), nil)
	w.send(plainly())
	w.clock.Advance(30 * time.Second)
	w.meanwhile(0, plainly(), good, func() {
		got := w.expect("one probes", plainly(), 503, "")
		if got.Header.Get("Retry-After") != "1" || !strings.Contains(got.Body, "1 route probing") {
			t.Errorf("%s, Retry-After %q", got.Body, got.Header.Get("Retry-After"))
		}
	})
	w.expect("well", plainly(), 200, "a")
}

func TestSwitchbladeHangUpBlamesNobody(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(routertest.Nothing(routertest.Stall)), nil)
	ctx, leave := context.WithCancel(t.Context())
	go func() { w.ups[0].Await(0); leave() }()
	w.Send(ctx, plainly())
	w.completed()
	w.tell(0, good)
	w.expect("nobody was blamed", plainly(), 200, "a")
}
