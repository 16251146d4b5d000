package control

import (
	"net/http"
	"slices"

	"github.com/signalbox-llm/signalbox/router"
)

// card is one model as the lists of OpenAI and of its imitators show it.
type card struct {
	ID            string   `json:"id"`
	Object        string   `json:"object"`
	Created       int64    `json:"created"` // Unix seconds: the start of this process, since models have no date here
	OwnedBy       string   `json:"owned_by"`
	ContextLength int      `json:"context_length,omitempty"`
	MaxModelLen   int      `json:"max_model_len,omitempty"`
	Limits        *limits  `json:"limits,omitempty"`
	Endpoints     []string `json:"supported_endpoint_types"`

	// What Anthropic's list has beside that, so that both kinds of SDK can read it.
	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

type limits struct {
	MaxInput  int `json:"max_input_tokens,omitempty"`
	MaxOutput int `json:"max_output_tokens,omitempty"`
}

// endpointTypes names the wires as the lists of other gateways do.
var endpointTypes = map[string]string{
	"openai-chat": "openai", "openai-responses": "responses", "anthropic-messages": "anthropic", "gemini": "gemini",
}

// offered are the models that the caller may use.
func (h *Handler) offered(req *http.Request) []router.ModelInfo {
	caller, _ := h.engine.Authorize(req, router.ScopeInference) // who may not ask has been turned away; where all may, no group confines them
	return h.engine.Models(caller.Group)
}

func (h *Handler) cards(req *http.Request) []card {
	started := h.engine.Status().StartedAt
	cards := []card{}
	for _, m := range h.offered(req) {
		c := card{
			ID: m.ID, Object: "model", Created: started.Unix(), OwnedBy: "signalbox", ContextLength: m.ContextWindow,
			MaxModelLen: m.ContextWindow, Endpoints: []string{}, Type: "model", DisplayName: m.ID,
			CreatedAt: started.UTC().Format("2006-01-02T15:04:05Z"),
		}
		if m.MaxInput > 0 || m.MaxOutput > 0 {
			c.Limits = &limits{MaxInput: m.MaxInput, MaxOutput: m.MaxOutput}
		}
		for _, w := range m.Wires {
			c.Endpoints = append(c.Endpoints, endpointTypes[w])
		}
		cards = append(cards, c)
	}
	return cards
}

// models lists what clients may ask for, in the order of the configuration. A glob is listed as it is written: there is
// no telling what it stands for.
func (h *Handler) models(w http.ResponseWriter, req *http.Request) {
	cards := h.cards(req)
	list := map[string]any{"object": "list", "data": cards, "has_more": false}
	if len(cards) > 0 {
		list["first_id"], list["last_id"] = cards[0].ID, cards[len(cards)-1].ID
	}
	reply(w, http.StatusOK, list)
}

func (h *Handler) model(w http.ResponseWriter, req *http.Request, id string) {
	cards := h.cards(req)
	i := slices.IndexFunc(cards, func(c card) bool { return c.ID == id })
	if i < 0 {
		router.WriteError(w, &router.Error{Kind: "unknown_model", Status: http.StatusNotFound, Msg: "there is no such model; GET /v1/models lists them"})
		return
	}
	reply(w, http.StatusOK, cards[i])
}
