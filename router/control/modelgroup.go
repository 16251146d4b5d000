package control

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/signalbox-llm/signalbox/router/catalog"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// modelGroup is one model as LiteLLM's proxy describes it, for clients that look there for costs and abilities.
type modelGroup struct {
	Name string         `json:"model_name"`
	Info modelGroupInfo `json:"model_info"`
}

// modelGroupInfo has null where nothing is known. Costs are in USD per token.
type modelGroupInfo struct {
	MaxInput         *int     `json:"max_input_tokens"`
	MaxTokens        *int     `json:"max_tokens"` // of the answer
	Mode             string   `json:"mode"`
	Provider         string   `json:"litellm_provider"`
	InputCost        *float64 `json:"input_cost_per_token"`
	OutputCost       *float64 `json:"output_cost_per_token"`
	CacheReadCost    *float64 `json:"cache_read_input_token_cost"`
	CacheWriteCost   *float64 `json:"cache_creation_input_token_cost"`
	Providers        []string `json:"providers"` // the upstreams
	Vision           bool     `json:"supports_vision"`
	FunctionCalling  bool     `json:"supports_function_calling"`
	Reasoning        bool     `json:"supports_reasoning"`
	PromptCaching    bool     `json:"supports_prompt_caching"`
	AdaptiveThinking bool     `json:"supports_adaptive_thinking"`
	Efforts          []string `json:"supported_reasoning_efforts"`
}

// modelGroups lists costs and abilities of what the caller may ask for, in the order of the list of models.
func (h *Handler) modelGroups(w http.ResponseWriter, req *http.Request) {
	groups := []modelGroup{}
	for _, m := range h.offered(req) {
		able := func(flag string) bool { return slices.Contains(m.Abilities, flag) }
		info := modelGroupInfo{
			MaxInput: known(m.MaxInput), MaxTokens: known(m.MaxOutput), Mode: "chat", Provider: m.Provider, Providers: m.Providers,
			Vision: able(catalog.Vision), FunctionCalling: able(catalog.FunctionCalling), Reasoning: able(catalog.Reasoning),
			PromptCaching: able(catalog.PromptCaching), AdaptiveThinking: able(catalog.AdaptiveThinking),
			Efforts: append([]string{}, m.Efforts...),
		}
		info.price(m.Price)
		groups = append(groups, modelGroup{m.ID, info})
	}
	reply(w, http.StatusOK, map[string]any{"data": groups})
}

// price tells costs as requests are charged with them: cached tokens without a price of their own cost what input does.
func (i *modelGroupInfo) price(p *telemetry.Price) {
	if p == nil {
		return
	}
	perToken := func(perMillion float64) *float64 { return new(perMillion / 1e6) }
	i.InputCost, i.OutputCost = perToken(p.Input), perToken(p.Output)
	i.CacheReadCost, i.CacheWriteCost = perToken(cmp.Or(p.CacheRead, p.Input)), perToken(cmp.Or(p.CacheWrite, p.Input))
}

// known is nil for a figure that nobody told.
func known(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
