package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A sub-agent shares its parent's key and has one of its own beside it.
func TestSubAgentsShareTheConversation(t *testing.T) {
	t.Parallel()
	const turn = "x-codex-turn-metadata"
	for name, c := range map[string]struct {
		headers map[string]string
		body    string
		want    Key
	}{
		"nobody":                {nil, `{}`, Key{Kind: Main}},
		"claude":                {map[string]string{"x-claude-code-session-id": "s"}, `{}`, Key{ID: "s", Source: "x-claude-code-session-id", Kind: Main}},
		"claude, sub":           {map[string]string{"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}, `{}`, Key{ID: "s", Source: "x-claude-code-session-id", Agent: "a", Kind: Subagent}},
		"codex":                 {map[string]string{"session-id": "s", "thread-id": "s"}, `{"prompt_cache_key":"s"}`, Key{ID: "s", Source: "session-id", Kind: Main}},
		"codex, sub":            {map[string]string{"session-id": "s", "thread-id": "a"}, `{"prompt_cache_key":"s"}`, Key{ID: "s", Source: "session-id", Agent: "a", Kind: Subagent, CacheKey: "a"}},
		"codex, sub, own cache": {map[string]string{"session-id": "s", "thread-id": "a"}, `{"prompt_cache_key":"mine"}`, Key{ID: "s", Source: "session-id", Agent: "a", Kind: Subagent}},
		"codex, sub, no cache":  {map[string]string{"session-id": "s", "thread-id": "a"}, `{}`, Key{ID: "s", Source: "session-id", Agent: "a", Kind: Subagent}},
		"a thread alone":        {map[string]string{"thread-id": "a"}, `{"user":"u"}`, Key{ID: "u", Source: "user", Kind: Main}},
		"turn":                  {map[string]string{turn: `{"thread_id":"s"}`}, `{"prompt_cache_key":"p"}`, Key{ID: "s", Source: turn, Kind: Main}},
		"turn, sub":             {map[string]string{turn: `{"session_id":"s","parent_thread_id":"p","thread_id":"a"}`}, `{"prompt_cache_key":"s"}`, Key{ID: "s", Source: turn, Agent: "a", Kind: Subagent, CacheKey: "a"}},
		"turn, sub, no session": {map[string]string{turn: `{"parent_thread_id":"p","thread_id":"a"}`}, `{}`, Key{ID: "p", Source: turn, Agent: "a", Kind: Subagent}},
		"turn beside a header":  {map[string]string{"session-id": "s", turn: `{"thread_id":"a"}`}, `{}`, Key{ID: "s", Source: "session-id", Agent: "a", Kind: Subagent}},
		"turn that is no JSON":  {map[string]string{turn: `{"thread_id"`}, `{"user":"u"}`, Key{ID: "u", Source: "user", Kind: Main}},
		"opencode":              {map[string]string{"x-session-id": "s", "x-session-affinity": "s"}, `{}`, Key{ID: "s", Source: "x-session-id", Kind: Main}},
		"opencode, sub":         {map[string]string{"x-session-id": "a", "x-session-affinity": "a", "x-parent-session-id": "s"}, `{"prompt_cache_key":"a"}`, Key{ID: "s", Source: "x-parent-session-id", Agent: "a", Kind: Subagent}},
		"a parent of no one":    {map[string]string{"x-parent-session-id": "s"}, `{}`, Key{Kind: Main}},
		"an agent of no one":    {map[string]string{"x-claude-code-agent-id": "a"}, `{}`, Key{Kind: Subagent}},
		"new on every request":  {map[string]string{"x-request-id": "1", "x-client-request-id": "2", "idempotency-key": "3"}, `{"id":"4"}`, Key{Kind: Main}},
	} {
		if diff := cmp.Diff(c.want, Find(request(t, "openai-responses", []byte(c.body), c.headers))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// Every source is found when all before it are silent.
func TestSourcesInOrder(t *testing.T) {
	t.Parallel()
	order := []struct{ source, header, body string }{
		{"x-claude-code-session-id", "x-claude-code-session-id", ""},
		{"session-id", "session-id", ""},
		{"session_id", "session_id", ""},
		{"x-session-id", "x-session-id", ""},
		{"x-session-affinity", "x-session-affinity", ""},
		{"x-conversation-id", "x-conversation-id", ""},
		{"x-sticky-key", "x-sticky-key", ""},
		{"x-omp-session", "x-omp-session", ""},
		{"x-codex-turn-metadata", "x-codex-turn-metadata", ""},
		{"subagent-marker", "", `"system":"__SUBAGENT_MARKER__{\"session_id\":\"9\",\"agent_id\":\"a\"}"`},
		{"metadata.user_id", "", `"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"10\"}"}`},
		{"prompt_cache_key", "", `"prompt_cache_key":"11"`},
		{"conversation", "", `"conversation":{"id":"12"}`},
		{"session_id", "", `"session_id":"13"`},
		{"sessionId", "", `"sessionId":"14"`},
		{"user", "", `"user":"15"`},
	}
	for first := range order {
		headers := map[string]string{}
		var members []string
		for i, s := range order[first:] {
			switch id := fmt.Sprint(first + i); {
			case s.header == "x-codex-turn-metadata":
				headers[s.header] = `{"thread_id":"` + id + `"}`
			case s.header != "":
				headers[s.header] = id
			default:
				members = append(members, s.body)
			}
		}
		k := Find(request(t, "anthropic-messages", []byte("{"+strings.Join(members, ",")+"}"), headers))
		if k.Source != order[first].source || k.ID != fmt.Sprint(first) {
			t.Errorf("from %s on: %+v", order[first].source, k)
		}
	}
	names := Names()
	for _, s := range order {
		if !slices.Contains(names, s.source) {
			t.Errorf("%s is not among the names", s.source)
		}
	}
	if slices.Sort(names); len(slices.Compact(names)) != len(Names()) {
		t.Errorf("a name stands twice: %v", names)
	}
}

func TestFormsOfBodyKeys(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"metadata":{"user_id":"user_ab_account__session_s"}}`:  "s",
		`{"metadata":{"user_id":"{\"device_id\":\"d\"}"}}`:       "",
		`{"metadata":{"user_id":"{\"session_id\":"}}`:            "",
		`{"metadata":{"user_id":"somebody"}}`:                    "",
		`{"metadata":{"user_id":7}}`:                             "",
		`{"metadata":"x"}`:                                       "",
		`{"conversation":"c"}`:                                   "c",
		`{"conversation":{"id":7}}`:                              "",
		`{"conversation":null}`:                                  "",
		`{"user":7}`:                                             "",
		`{"user":""}`:                                            "",
		`{"prompt_cache_key":"\u0041"}`:                          "A",
		`{"metadata":{"user_id":"somebody"},"sessionId":"else"}`: "else",
	} {
		if k := Find(request(t, "openai-responses", []byte(body), nil)); k.ID != want {
			t.Errorf("%s: %+v, want %q", body, k, want)
		}
	}
}

func TestOnlyTheNamedSourcesAreAsked(t *testing.T) {
	t.Parallel()
	headers := map[string]string{"x-session-id": "h", "x-session-affinity": "a"}
	for _, c := range []struct {
		only []string
		want string
	}{
		{nil, "x-session-id=h"},
		{[]string{"user", "x-session-id"}, "user=u"},
		{[]string{"session_id", "x-session-affinity"}, "session_id=b"},
		{[]string{"x-conversation-id", "unheard of"}, "="},
		{[]string{}, "="},
	} {
		r := request(t, "openai-chat", []byte(`{"user":"u","session_id":"b"}`), headers)
		r.Only = c.only
		if k := Find(r); k.Source+"="+k.ID != c.want {
			t.Errorf("%v: %+v, want %s", c.only, k, c.want)
		}
	}
}

// What an embedding program knows beats every source; sub-agent and kind are still told.
func TestGivenKey(t *testing.T) {
	t.Parallel()
	r := request(t, "anthropic-messages", []byte(`{}`), map[string]string{"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"})
	r.Given, r.Only = "mine", []string{"user"}
	if diff := cmp.Diff(Key{ID: "mine", Source: Given, Agent: "a", Kind: Subagent}, Find(r)); diff != "" {
		t.Error(diff)
	}
}

func TestKeyAsText(t *testing.T) {
	main, sub := Key{ID: "s"}, Key{ID: "s", Agent: "a"}
	if main.String() != "s" || sub.String() != "s\x00a" {
		t.Errorf("%q, %q", main.String(), sub.String())
	}
	if n := testing.AllocsPerRun(100, func() { _ = main.String() }); n != 0 {
		t.Errorf("%v allocations for a key without agent", n)
	}
}

// Ids are remembered by the thousand, and a body field may be as large as the body.
func TestLongIDsAreDigested(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300_000)
	find := func(id, agent string) Key {
		return Find(request(t, "openai-chat", []byte(`{"user":"`+id+`"}`), map[string]string{"x-claude-code-agent-id": agent}))
	}
	one, two := find(long+"1", long+"2"), find(long+"2", long+"1")
	if n := max(len(one.ID), len(one.Agent)); n > 256 {
		t.Errorf("an id of %d bytes is kept", n)
	}
	if one.ID == two.ID || one.ID != two.Agent || one.Agent != two.ID {
		t.Error("ids are not told apart by their digests")
	}
	if k := find(long[:256], ""); k.ID != long[:256] {
		t.Error("an id that is not too long is changed")
	}
}
