package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-llm/signalbox/translate/sse"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// Answer is what came of asking one model.
type Answer struct {
	Model         string   `json:"model"`
	Status        int      `json:"status"` // of HTTP; 0 if nothing came
	Upstream      string   `json:"upstream,omitempty"`
	UpstreamModel string   `json:"upstream_model,omitempty"`
	Attempts      int      `json:"attempts,omitempty"`
	Call          string   `json:"call,omitempty"`
	Reasoning     string   `json:"reasoning,omitempty"`
	Text          string   `json:"text"`
	TTFTMS        float64  `json:"ttft_ms,omitempty"` // until the first thought or word
	DurationMS    float64  `json:"duration_ms"`
	Usage         *Tokens  `json:"usage,omitempty"` // nil: not told
	CostUSD       *float64 `json:"cost_usd,omitempty"`
	CostFrom      string   `json:"cost_from,omitempty"` // upstream, or price: worked out from the sidecar's price
	Error         string   `json:"error,omitempty"`

	err error
}

// Tokens are numbers of tokens, nil where nobody told.
type Tokens struct {
	Input      *int64 `json:"input,omitempty"` // cache reads and writes included
	CacheRead  *int64 `json:"cache_read,omitempty"`
	CacheWrite *int64 `json:"cache_write,omitempty"`
	Output     *int64 `json:"output,omitempty"` // reasoning included
	Reasoning  *int64 `json:"reasoning,omitempty"`
}

// limit is how much of an answer that is no stream is read.
const limit = 4 << 20

// stream asks a model, and shows its answer piece by piece.
func (c *Chat) stream(ctx context.Context, model string, talk []message, show func(piece)) *Answer {
	a, begun := &Answer{Model: model}, c.o.Now()
	facts := &wire.Facts{}
	err := c.read(ctx, a, facts, talk, func(p piece) {
		if a.TTFTMS == 0 {
			a.TTFTMS = milliseconds(c.o.Now().Sub(begun))
		}
		if p.thought {
			a.Reasoning += p.text
		} else {
			a.Text += p.text
		}
		show(p)
	})
	a.DurationMS = milliseconds(c.o.Now().Sub(begun))
	if err != nil && ctx.Err() != nil {
		err = errors.New("cancelled")
	}
	if err != nil {
		a.err, a.Error = err, err.Error()
	}
	c.count(a, facts)
	return a
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// read sends the request and reads the answer to its end.
func (c *Chat) read(ctx context.Context, a *Answer, facts *wire.Facts, talk []message, say func(piece)) error {
	body, err := json.Marshal(c.talk.body(&c.o, a.Model, talk))
	if err != nil {
		return err
	}
	query := ""
	if c.wire.Name == wire.Gemini {
		query = "alt=sse"
	}
	resp, err := c.send(ctx, http.MethodPost, c.wire.JoinURL(c.base, c.wire.Path(wire.Generate, a.Model, true), query), body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	h := resp.Header
	a.Status, a.Upstream, a.UpstreamModel = resp.StatusCode, h.Get("X-Router-Upstream"), h.Get("X-Router-Upstream-Model")
	a.Call = h.Get("X-Router-Call")
	a.Attempts, _ = strconv.Atoi(h.Get("X-Router-Attempts"))
	if resp.StatusCode != http.StatusOK {
		return c.refused(ctx, resp)
	}
	if kind, _, _ := mime.ParseMediaType(h.Get("Content-Type")); kind != "text/event-stream" {
		return fmt.Errorf("the answer is no stream of events but %q", h.Get("Content-Type"))
	}
	err = c.events(resp.Body, facts, say)
	switch {
	case facts.Failed:
		return fmt.Errorf("the stream broke: %s", tell(facts.Failure))
	case err != nil:
		return fmt.Errorf("the stream broke: %w", err)
	case !facts.Terminal:
		return errors.New("the stream broke: it ended without its end mark")
	}
	return nil
}

func (c *Chat) events(r io.Reader, facts *wire.Facts, say func(piece)) error {
	var scan sse.Scanner
	var ev sse.Event
	take := func() {
		if c.wire.Event(&ev, facts); ev.Cut {
			return
		}
		for _, p := range c.talk.event(ev.Data) {
			say(p)
		}
	}
	for buf := make([]byte, 32<<10); ; {
		n, err := r.Read(buf)
		scan.Feed(buf[:n])
		for scan.Next(&ev) {
			take()
		}
		if err == nil {
			continue
		}
		if scan.Finish(&ev) {
			take()
		}
		if err == io.EOF {
			return nil
		}
		return err
	}
}

// send asks the sidecar something. Without a body it is a GET.
func (c *Chat) send(ctx context.Context, method string, to *url.URL, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "signalbox-chat/"+c.o.Version)
	req.Header.Set("X-Session-Id", c.session)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.o.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.o.Key)
	}
	resp, err := c.http.Do(req)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nobody listens at %s; start the sidecar with: signalbox serve -config config.hcl", c.base.Host)
	}
	return resp, err
}

// refused says why there is no answer, and what to do about it.
func (c *Chat) refused(ctx context.Context, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return fmt.Errorf("%s, and then: %w", resp.Status, err)
	}
	said := fmt.Sprintf("%d", resp.StatusCode)
	if f := c.wire.ErrorOf(body); f.Message != "" {
		said += " " + tell(f)
	} else {
		said = resp.Status + "; is there a Signalbox at " + c.base.Host + "?"
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		said += "; " + c.aboutKey(resp.Header.Get("X-Router-Upstream"))
	case http.StatusNotFound:
		// The router may have listed them itself.
		if ids, err := c.models(ctx); err == nil && !strings.Contains(said, strings.Join(ids, ", ")) {
			said += "; there are: " + strings.Join(ids, ", ")
		}
	}
	return errors.New(said)
}

// aboutKey tells whose key was not accepted, and where to look.
func (c *Chat) aboutKey(upstream string) string {
	switch {
	case upstream != "":
		return "it was " + clean(upstream) + " that did not accept its api_key in the configuration"
	case c.o.Key == "":
		return "no key was sent: put one into SIGNALBOX_KEY of the environment (.env is not read), or into a file for -key-file; it is the secret of a key in the configuration's auth block"
	}
	return "the key that was sent is from " + c.o.KeyFrom + "; it should be the secret of a key in the configuration's auth block"
}

// tell is an error as the other side told it.
func tell(f wire.Failure) string {
	word := f.Code
	if word == "" {
		word = f.Type
	}
	return clean(strings.Trim(word+": "+f.Message, ": "))
}

// told is a count, or nil.
func told(c wire.Count) *int64 {
	if !c.Known {
		return nil
	}
	return &c.N
}

// count notes what the answer used and what that costs.
func (c *Chat) count(a *Answer, facts *wire.Facts) {
	u := &facts.Usage
	if u.Known() {
		a.Usage = &Tokens{
			Input: told(u.TotalInput()), CacheRead: told(u.CacheRead), CacheWrite: told(u.CacheWrite), Output: told(u.Output), Reasoning: told(u.Reasoning),
		}
	}
	if facts.Cost > 0 {
		a.CostUSD, a.CostFrom = new(facts.Cost), "upstream"
		return
	}
	if p, ok := c.prices[a.Model]; ok && a.Usage != nil {
		a.CostUSD, a.CostFrom = new(p.of(a.Usage)), "price"
	}
}
