package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// get asks the sidecar for a list. The status is 0 if nothing came.
func (c *Chat) get(ctx context.Context, from *url.URL, into any) (status int, err error) {
	resp, err := c.send(ctx, http.MethodGet, from, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// Not by way of refused, which asks for the list of models itself.
		if resp.StatusCode == http.StatusUnauthorized {
			return resp.StatusCode, fmt.Errorf("%s; %s", resp.Status, c.aboutKey(""))
		}
		return resp.StatusCode, fmt.Errorf("%s answered %s; is there a Signalbox?", from.Redacted(), resp.Status)
	}
	return resp.StatusCode, json.NewDecoder(io.LimitReader(resp.Body, limit)).Decode(into)
}

// models lists what the sidecar offers.
func (c *Chat) models(ctx context.Context) ([]string, error) {
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if _, err := c.get(ctx, wire.ByName(wire.Chat).JoinURL(c.base, "/models", ""), &list); err != nil {
		return nil, fmt.Errorf("the list of models: %w", err)
	}
	var ids []string
	for _, m := range list.Data {
		ids = append(ids, clean(m.ID))
	}
	return ids, nil
}

// price is USD per token. Without a price of its own, cached input costs what input does.
type price struct {
	Input      float64  `json:"input_cost_per_token"`
	Output     float64  `json:"output_cost_per_token"`
	CacheRead  *float64 `json:"cache_read_input_token_cost"`
	CacheWrite *float64 `json:"cache_creation_input_token_cost"`
}

// of is what so many tokens cost, in USD; what nobody told is not in it.
func (p price) of(t *Tokens) float64 {
	n := func(tokens *int64) float64 {
		if tokens == nil {
			return 0
		}
		return float64(*tokens)
	}
	read, write := p.Input, p.Input
	if p.CacheRead != nil {
		read = *p.CacheRead
	}
	if p.CacheWrite != nil {
		write = *p.CacheWrite
	}
	plain := max(0, n(t.Input)-n(t.CacheRead)-n(t.CacheWrite))
	return plain*p.Input + n(t.CacheRead)*read + n(t.CacheWrite)*write + n(t.Output)*p.Output
}

// askPrices asks once what models cost. A sidecar that does not tell has none.
func (c *Chat) askPrices(ctx context.Context) {
	if c.prices != nil {
		return
	}
	var list struct {
		Data []struct {
			Model string `json:"model_name"`
			Price price  `json:"model_info"`
		} `json:"data"`
	}
	from := url.URL{Scheme: c.base.Scheme, User: c.base.User, Host: c.base.Host, Path: "/model_group/info"}
	status, err := c.get(ctx, &from, &list)
	if status == 0 {
		return
	}
	c.prices = map[string]price{}
	if err != nil {
		return
	}
	for _, m := range list.Data {
		if m.Price.Input > 0 || m.Price.Output > 0 {
			c.prices[m.Model] = m.Price
		}
	}
}
