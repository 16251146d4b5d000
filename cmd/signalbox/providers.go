package main

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/signalbox-llm/signalbox/router/secrets"
)

// provider is what init knows of one: where it is, what it speaks, and what it calls its models.
type provider struct {
	name     string   // of its upstream
	keys     []string // variables that hold a key; _2, _WORK and the like after them are further accounts
	base     string
	wires    []string
	auth     string   // empty: as the wire has it
	messages string   // where it speaks anthropic-messages, if that is another address
	models   []string // patterns of what clients ask it for
	ask      string   // one of those
	standIn  string   // its model for those who ask for Claude where nobody has that; empty: it has names for them itself
}

const (
	chatWire      = "openai-chat"
	responsesWire = "openai-responses"
	messagesWire  = "anthropic-messages"
	geminiWire    = "gemini"
)

// providers stand in the order in which their accounts come into the file, and are tried where one stands in for another.
var providers = []provider{
	{name: "anthropic", keys: []string{"ANTHROPIC_API_KEY"}, base: "https://api.anthropic.com", wires: []string{messagesWire}, ask: "claude-sonnet-4-5"},
	{
		name: "openai", keys: []string{"OPENAI_API_KEY"}, base: "https://api.openai.com/v1",
		wires: []string{chatWire, responsesWire}, ask: "gpt-5.5", standIn: "gpt-5.5",
	},
	{
		name: "openrouter", keys: []string{"OPENROUTER_API_KEY"}, base: "https://openrouter.ai/api/v1",
		wires: []string{chatWire, responsesWire, messagesWire}, auth: "bearer", models: []string{"*/*"}, ask: "gpt-5.5",
	},
	{
		name: "gemini", keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, base: "https://generativelanguage.googleapis.com/v1beta",
		wires: []string{geminiWire}, models: []string{"gemini-*"}, ask: "gemini-2.5-pro",
	},
	{
		name: "deepseek", keys: []string{"DEEPSEEK_API_KEY"}, base: "https://api.deepseek.com", wires: []string{chatWire},
		messages: "https://api.deepseek.com/anthropic", models: []string{"deepseek-*"}, ask: "deepseek-v4-flash",
	},
	{
		name: "moonshot", keys: []string{"MOONSHOT_API_KEY"}, base: "https://api.moonshot.ai/v1", wires: []string{chatWire},
		messages: "https://api.moonshot.ai/anthropic", models: []string{"kimi-*", "moonshot-*"}, ask: "kimi-k2.6", standIn: "kimi-k2.6",
	},
	{
		name: "zai", keys: []string{"ZAI_API_KEY"}, base: "https://api.z.ai/api/paas/v4", wires: []string{chatWire},
		messages: "https://api.z.ai/api/anthropic", models: []string{"glm-*"}, ask: "glm-5.1", standIn: "glm-5.1",
	},
	{
		name: "xai", keys: []string{"XAI_API_KEY"}, base: "https://api.x.ai/v1", wires: []string{chatWire, responsesWire},
		models: []string{"grok-*"}, ask: "grok-4.5", standIn: "grok-4.5",
	},
	{
		name: "mistral", keys: []string{"MISTRAL_API_KEY"}, base: "https://api.mistral.ai/v1", wires: []string{chatWire},
		models: []string{"mistral-*", "codestral-*", "devstral-*"}, ask: "mistral-large-latest", standIn: "mistral-large-latest",
	},
	{
		name: "groq", keys: []string{"GROQ_API_KEY"}, base: "https://api.groq.com/openai/v1", wires: []string{chatWire, responsesWire},
		models: []string{"openai/gpt-oss-*", "llama-*"}, ask: "openai/gpt-oss-120b", standIn: "openai/gpt-oss-120b",
	},
}

// account is one key that was found.
type account struct {
	*provider
	upstream string // its name in the file
	key      string // the variable that has it
}

// findAccounts looks for the keys of all providers among names. Two names with one value are one account.
func findAccounts(names []string, value func(string) string) (found []account) {
	seen := map[string]bool{}
	for i := range providers {
		p := &providers[i]
		for _, key := range p.keys {
			for _, name := range slices.Sorted(slices.Values(names)) {
				suffix, mine := suffixOf(name, key)
				if v := value(name); mine && v != "" && !seen[v] {
					seen[v] = true
					found = append(found, account{p, p.unused(found, suffix), name})
				}
			}
		}
	}
	return found
}

// accountSuffix is compiled when there is a name that may have one: of all commands only init looks for it.
var accountSuffix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:_[A-Z0-9_]*[A-Z0-9])?$`) })

// suffixOf is what a name has behind key: "" or such as "-work". That of a file with the key in it is no account.
func suffixOf(name, key string) (string, bool) {
	rest, ok := strings.CutPrefix(name, key)
	if !ok || !accountSuffix().MatchString(rest) || strings.HasSuffix(rest, "_FILE") || strings.HasSuffix(rest, "_PATH") {
		return "", false
	}
	return strings.ToLower(strings.ReplaceAll(rest, "_", "-")), true
}

// unused is a name for an upstream that no other has.
func (p *provider) unused(found []account, suffix string) string {
	name := p.name + suffix
	for slices.ContainsFunc(found, func(a account) bool { return a.upstream == name }) {
		name += "-google" // The only provider with two names for its key.
	}
	return name
}

// keyNames are all names that init looks for.
func keyNames() (names []string) {
	for _, p := range providers {
		names = append(names, p.keys...)
	}
	return names
}

// knownNames are the names that env finds something for: of the environment, the managed secrets and .env.
func knownNames(environ []string, book secrets.Book, dotEnv secrets.DotEnv) []string {
	names := slices.Concat(book.Names(), dotEnv.Names())
	for _, line := range environ {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
