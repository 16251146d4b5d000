package telemetry

import (
	"slices"
	"strings"
)

// knownClients are agents and SDKs by how their User-Agent begins, as captured from them or, for kilo, pi, gemini-cli, qwen-code
// and the SDKs for Python, as their sources have it. An agent built on an SDK sends a name of its own in front.
var knownClients = []struct{ begins, name string }{
	{"claude-cli/", "claude-code"},
	{"claude-code/", "claude-code"},
	{"codex", "codex"}, // codex_exec/, codex_cli_rs/, codex_vscode/
	{"opencode/", "opencode"},
	{"kilo/", "kilo"},
	{"kilocode/", "kilo"},
	{"pi/", "pi"},
	{"GeminiCLI", "gemini-cli"}, // GeminiCLI/, GeminiCLI-acp-zed/
	{"QwenCode/", "qwen-code"},
	{"OpenAI/", "openai-sdk"},
	{"AsyncOpenAI/", "openai-sdk"},
	{"Anthropic/", "anthropic-sdk"},
	{"AsyncAnthropic/", "anthropic-sdk"},
	{"google-genai-sdk/", "google-genai-sdk"},
	{"ai/", "ai-sdk"},
	{"ai-sdk", "ai-sdk"}, // ai-sdk-openai/, ai-sdk-anthropic/
}

// ClientType is the type of a well-known agent or SDK by its User-Agent, "" for others. It is for telemetry only: what a client
// may do, and how it is treated, is decided by the client rules of the configuration.
func ClientType(userAgent string) string {
	for i := range knownClients {
		if strings.HasPrefix(userAgent, knownClients[i].begins) {
			return knownClients[i].name
		}
	}
	return ""
}

// ClientTypes lists what ClientType can return for an agent that it knows, each once.
func ClientTypes() []string {
	var all []string
	for _, c := range knownClients {
		if !slices.Contains(all, c.name) {
			all = append(all, c.name)
		}
	}
	return all
}
