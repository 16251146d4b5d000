package router_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// retried has model m repeat at the same target.
func retried(n int) func(*settings.Config) {
	return func(cfg *settings.Config) { cfg.Models[0].Retry.Max = n }
}

func TestSwitchbladeDoesNotRetryUnlessTold(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(failing["503"], failing["503"]), nil)
	w.send(plainly())
	w.calls("by default", 1, 1)
	want := settings.Retry{Max: 0, Base: time.Second, Cap: 8 * time.Second, Multiplier: 2, Budget: 15 * time.Second}
	if from, _ := settings.Profile(switchblade); from.Model.Retry != want {
		t.Errorf("%+v, want %+v", from.Model.Retry, want)
	}
}

func TestSwitchbladeRetriesWhereNothingElseIsEligible(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(failing["503"], failing["503"]), retried(2))
	w.send(plainly())
	w.calls("failover first", 1, 3)
	w.expect("booked once, so both rest", plainly(), 503, "")
	w.clock.Advance(30 * time.Second)
	w.tell(1, good)
	w.expect("for as long as after one failure", plainly(), 200, "b")

	w = profiled(t, switchblade, upstreams(failing["503"]), retried(2))
	w.tell(0, failing["503"], failing["503"], good)
	w.expect("the last retry is good", plainly(), 200, "a")
	w.expect("and nothing rests", plainly(), 200, "a")
}

func TestSwitchbladeRetriesWhatMayPass(t *testing.T) {
	t.Parallel()
	weekly := routertest.Body(429, "application/json", `{"error":{"type":"GoUsageLimitError","message":"Weekly usage limit reached."}}`)
	for name, c := range map[string]struct {
		reply routertest.Reply
		want  int
	}{
		"502": {routertest.Fail(502, "boom"), 3}, "503": {failing["503"], 3}, "504": {routertest.Fail(504, "boom"), 3}, "network": {failing["cut"], 3},
		"429 of load": {routertest.Fail(429, "the engine is overloaded"), 3}, "429": {failing["429"], 1}, "weekly": {weekly, 1},
		"401": {failing["401"], 1}, "500": {failing["500"], 1}, "400": {failing["400 explained"], 1}, "opaque": {failing["400 opaque"], 1},
		"a stream": {routertest.Stream(routertest.Chat, words, spent).Events(3).Ending(routertest.Cut), 1},
	} {
		w := profiled(t, switchblade, upstreams(c.reply), retried(2))
		w.send(routertest.NewRequest(routertest.Chat, "m", true))
		w.calls(name, c.want)
	}
}

func TestSwitchbladeTellsTheLastBodyWhenAllFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b string }{{"429", "500"}, {"500", "401"}, {"500", "429"}, {"401", "cut"}} {
		w := profiled(t, switchblade, upstreams(failing[c.a], failing[c.b]), nil)
		got, last := w.send(plainly()), w.ups[1]
		if c.b == "cut" {
			last = w.ups[0]
		}
		if got.Status != http.StatusServiceUnavailable || got.Body != last.Await(0).Sent() {
			t.Errorf("%s, %s: got %d %s", c.a, c.b, got.Status, got.Body)
		}
	}
	w := profiled(t, switchblade, upstreams(failing["cut"], failing["reset"]), nil)
	w.expect("nobody said anything", plainly(), 503, "")
}

// What has nothing usable is the client's all the same, unchanged, and the route's failure.
func TestSwitchbladeDeliversWhatIsOfNoUse(t *testing.T) {
	t.Parallel()
	begun := routertest.Stream(routertest.Chat, words, spent)
	idle := func(cfg *settings.Config) { cfg.Upstreams[0].Timeouts.Idle = 30 * time.Millisecond }
	for name, c := range map[string]struct {
		stream bool
		reply  routertest.Reply
		cut    bool
	}{
		"plain, empty":     {false, failing["empty 200"], false},
		"plain, HTML":      {false, failing["HTML 200"], false},
		"plain, an error":  {false, failing["in band"], false},
		"stream, empty":    {true, routertest.Stream(routertest.Chat, "", routertest.Usage{}), false},
		"stream, cut":      {true, begun.Events(5).Ending(routertest.Cut), true},
		"stream, cut soon": {true, begun.Events(1).Ending(routertest.Cut), true},
		"stream, stalled":  {true, begun.Events(5).Ending(routertest.Stall), true},
	} {
		w := profiled(t, switchblade, upstreams(c.reply, good), idle)
		got := w.send(routertest.NewRequest(routertest.Chat, "m", c.stream))
		if sent := w.ups[0].Await(0).Sent(); got.Status != 200 || got.Body != sent || (got.Err != nil) != c.cut {
			t.Errorf("%s: got %d %v %q, want %q", name, got.Status, got.Err, got.Body, sent)
		}
		w.calls(name, 1, 0)
		w.tell(0, good)
		w.expect(name+": the route rests", plainly(), 200, "b")
	}
}

// prefers is a world in which session s prefers b, since a failed once; a is well again.
func prefers(t *testing.T, r routertest.Request, change func(*settings.Config), opts ...router.Option) *world {
	t.Helper()
	w := profiled(t, switchblade, upstreams(failing["500"], good, good), change, opts...)
	w.expect("a fails", r, 200, "b")
	w.clock.Advance(30 * time.Second)
	w.tell(0, good)
	w.expect("a is well", affine("another"), 200, "a")
	return w
}

func TestSwitchbladePrefersWhatGaveUsableOutput(t *testing.T) {
	t.Parallel()
	w := prefers(t, affine("s"), func(cfg *settings.Config) { addModel(cfg, "n", at("a", "other"), at("b", "other")) })
	w.clock.Advance(10000 * time.Hour)
	w.expect("however long ago", affine("s"), 200, "b")
	w.expect("another model", forModel("n", affine("s")), 200, "a")
	w.tell(1, failing["500"], good)
	w.expect("not eligible: as ordered", affine("s"), 200, "a")
	w.clock.Advance(30 * time.Second)
	w.expect("which is preferred from now on", affine("s"), 200, "a")
}

func TestSwitchbladePrefersNothingWithoutUsableOutput(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(failing["500"], failing["empty 200"]), nil)
	w.expect("b has nothing", affine("s"), 200, "b")
	w.clock.Advance(30 * time.Second)
	w.tell(0, good)
	w.tell(1, good)
	w.expect("as ordered", affine("s"), 200, "a")
}

func TestSwitchbladePrefersNothingWithoutAKey(t *testing.T) {
	t.Parallel()
	w := prefers(t, plainly(), nil)
	w.expect("no session", plainly(), 200, "a")
}

func TestSwitchbladePreferenceIsTheCredentials(t *testing.T) {
	t.Parallel()
	by := func(key string) routertest.Request { return affine("s").With("Authorization", "Bearer "+key) }
	w := profiled(t, switchblade, upstreams(failing["500"], good), func(cfg *settings.Config) {
		for _, name := range []string{"one", "two"} {
			k := settings.DefaultKey()
			k.Name, k.Secret = name, settings.NewSecret("sk-"+name, "")
			cfg.Auth.Keys = append(cfg.Auth.Keys, k)
		}
	})
	w.expect("a fails", by("sk-one"), 200, "b")
	w.clock.Advance(30 * time.Second)
	w.tell(0, good)
	w.expect("another credential", by("sk-two"), 200, "a")
	w.expect("the same", by("sk-one"), 200, "b")
}

func TestSwitchbladeOperatorsClearPreferences(t *testing.T) {
	t.Parallel()
	for name, order := range map[string]func(r *router.Router){
		"cool another":   func(r *router.Router) { _ = r.Cool("c", "", time.Hour) },
		"cool a target":  func(r *router.Router) { _ = r.Cool("c", "m", time.Hour) },
		"uncool another": func(r *router.Router) { _, _ = r.Uncool("a", "") },
		"uncool":         func(r *router.Router) { _, _ = r.Uncool("b", "m") },
		"reset":          func(r *router.Router) { r.ResetHealth() },
	} {
		w := prefers(t, affine("s"), nil)
		order(w.engine)
		w.expect(name, affine("s"), 200, "a")
	}
}

func TestSwitchbladeReloadDropsPreferencesOfWhatIsGone(t *testing.T) {
	t.Parallel()
	w := prefers(t, affine("s"), nil)
	load := func(targets ...settings.Target) {
		cfg := profileConfig(t, switchblade, w.ups)
		cfg.Models[0].Targets = targets
		if err := w.engine.Load(cfg); err != nil {
			t.Fatal(err)
		}
	}
	load(at("a", ""), at("b", ""), at("c", ""))
	w.expect("still there", affine("s"), 200, "b")
	load(at("c", ""), at("a", ""))
	w.expect("gone", affine("s"), 200, "c")
}

// A preference puts a target of a model first, and no model before another.
func TestSwitchbladePreferenceNeverReordersModels(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"affinity", "failover", "weighted"} {
		w := prefers(t, forModel("p", affine("s")), func(cfg *settings.Config) {
			addModel(cfg, "one", at("a", ""))
			addModel(cfg, "two", at("b", ""), at("c", ""))
			addPreset(cfg, "p", "one", "two").Strategy = strategy
		})
		w.expect(strategy, forModel("p", affine("s")), 200, "a")
	}
}

func TestSwitchbladeHealthIsCheckedAgainBeforeEachDispatch(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(good, good, good), nil)
	w.meanwhile(0, affine("s"), failing["500"], func() {
		w.cool("b", 0)
	})
	w.calls("b was in the plan", 1, 0, 1)
}

func TestSwitchbladeModelIsTheUpstreams(t *testing.T) {
	t.Parallel()
	w := profiled(t, switchblade, upstreams(good), func(cfg *settings.Config) { cfg.Models[0].Targets[0].Model = "theirs" })
	if got := w.expect("as it came", plainly(), 200, "a"); !strings.Contains(got.Body, `"model":"theirs"`) {
		t.Errorf("%s", got.Body)
	}
}
