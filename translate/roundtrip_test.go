package translate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/signalbox-llm/signalbox/translate/wire"
)

// turn is what one side says, whatever the dialect.
type turn struct {
	Role    string
	Text    string
	Calls   []said
	Results []said // The id and the text of each.
	Images  []string
}

// conversation is all that a request must not lose on its way there and back.
type conversation struct {
	System string
	Turns  []turn
	Tools  []string
	Schema []string
}

// drawConversation draws turns that alternate, with a result for each call.
func drawConversation(t *rapid.T) (c conversation) {
	words := rapid.Map(anyText, func(s string) string { return "x" + s + "y" })
	c.System = words.Draw(t, "system")
	for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
		c.Tools = append(c.Tools, fmt.Sprintf("tool-%d", i))
		c.Schema = append(c.Schema, `{"type":"object","required":["z","a"],"properties":{"z":{"maximum":9007199254740993},"a":{"default":1.0}}}`)
	}
	var open []said
	for i := range rapid.IntRange(1, 7).Draw(t, "turns") {
		if i%2 == 1 {
			u := turn{Role: "assistant", Text: words.Draw(t, "text")}
			for j := range rapid.IntRange(0, 3).Draw(t, "calls") {
				u.Calls = append(u.Calls, said{Kind: "tool_use", ID: fmt.Sprintf("call_%d_%d", i, j), Name: "tool-1", Text: drawInput(t)})
			}
			c.Turns, open = append(c.Turns, u), u.Calls
			continue
		}
		u := turn{Role: "user", Text: words.Draw(t, "text")}
		for _, call := range open {
			u.Results = append(u.Results, said{ID: call.ID, Text: words.Draw(t, "result")})
		}
		for range rapid.IntRange(0, 2).Draw(t, "images") {
			u.Images = append(u.Images, rapid.SampledFrom([]string{"data:image/png;base64,AAAA", "https://example.org/a.png"}).Draw(t, "image"))
		}
		c.Turns = append(c.Turns, u)
	}
	return c
}

// render writes a conversation as a request.
func (c conversation) render(client wire.Name) string {
	var ms, tools []string
	body := `{"model":"m","max_tokens":5,`
	for i := range c.Tools {
		if client == wire.Chat {
			tools = append(tools, fmt.Sprintf(`{"type":"function","function":{"name":%q,"parameters":%s}}`, c.Tools[i], c.Schema[i]))
		} else {
			tools = append(tools, fmt.Sprintf(`{"name":%q,"input_schema":%s}`, c.Tools[i], c.Schema[i]))
		}
	}
	if client == wire.Chat {
		ms = append(ms, `{"role":"system","content":`+quote(c.System)+`}`)
	} else {
		body += `"system":` + quote(c.System) + `,`
	}
	for _, u := range c.Turns {
		if client == wire.Chat {
			ms = append(ms, u.chat()...)
		} else {
			ms = append(ms, u.messages())
		}
	}
	return body + `"tools":[` + strings.Join(tools, ",") + `],"messages":[` + strings.Join(ms, ",") + `]}`
}

func (u turn) messages() string {
	var blocks []string
	for _, r := range u.Results {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s}`, r.ID, quote(r.Text)))
	}
	blocks = append(blocks, `{"type":"text","text":`+quote(u.Text)+`}`)
	for _, c := range u.Calls {
		blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, c.ID, c.Name, c.Text))
	}
	for _, i := range u.Images {
		source := `{"type":"url","url":` + quote(i) + `}`
		if data, inline := strings.CutPrefix(i, "data:image/png;base64,"); inline {
			source = `{"type":"base64","media_type":"image/png","data":` + quote(data) + `}`
		}
		blocks = append(blocks, `{"type":"image","source":`+source+`}`)
	}
	return fmt.Sprintf(`{"role":%q,"content":[%s]}`, u.Role, strings.Join(blocks, ","))
}

func (u turn) chat() (ms []string) {
	for _, r := range u.Results {
		ms = append(ms, fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, r.ID, quote(r.Text)))
	}
	parts := []string{`{"type":"text","text":` + quote(u.Text) + `}`}
	for _, i := range u.Images {
		parts = append(parts, `{"type":"image_url","image_url":{"url":`+quote(i)+`}}`)
	}
	m := fmt.Sprintf(`{"role":%q,"content":[%s]`, u.Role, strings.Join(parts, ","))
	var calls []string
	for _, c := range u.Calls {
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, c.ID, c.Name, quote(c.Text)))
	}
	if calls != nil {
		m += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
	}
	return append(ms, m+`}`)
}

// parse reads a request back, of either dialect as far as both are drawn here.
func parse(t *rapid.T, body []byte) (c conversation) {
	var r struct {
		System   json.RawMessage
		Messages []struct {
			Role      string
			Content   json.RawMessage
			ToolID    string `json:"tool_call_id"`
			ToolCalls []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct {
			Name     string
			Schema   json.RawMessage `json:"input_schema"`
			Function struct {
				Name       string
				Parameters json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatal(err)
	}
	c.System = parseContent(t, r.System).Text
	for _, tool := range r.Tools {
		c.Tools = append(c.Tools, tool.Name+tool.Function.Name)
		c.Schema = append(c.Schema, string(tool.Schema)+string(tool.Function.Parameters))
	}
	var results []said
	for _, m := range r.Messages {
		u := parseContent(t, m.Content)
		u.Role = m.Role
		switch m.Role {
		case "system":
			c.System += u.Text
			continue
		case "tool":
			results = append(results, said{ID: m.ToolID, Text: u.Text})
			continue
		case "user":
			u.Results, results = append(results, u.Results...), nil
		}
		for _, call := range m.ToolCalls {
			u.Calls = append(u.Calls, said{Kind: "tool_use", ID: call.ID, Name: call.Function.Name, Text: call.Function.Arguments})
		}
		c.Turns = append(c.Turns, u)
	}
	return c
}

func parseContent(t *rapid.T, raw json.RawMessage) (u turn) {
	if raw == nil || string(raw) == "null" || json.Unmarshal(raw, &u.Text) == nil {
		return u
	}
	var blocks []struct {
		Type, Text, ID, Name string
		Input, Content       json.RawMessage
		ToolID               string                           `json:"tool_use_id"`
		ImageURL             struct{ URL string }             `json:"image_url"`
		Source               struct{ Type, URL, Data string } `json:"source"`
	}
	if err := json.Unmarshal(raw, &blocks); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			u.Text += b.Text
		case "tool_use":
			u.Calls = append(u.Calls, said{Kind: "tool_use", ID: b.ID, Name: b.Name, Text: string(b.Input)})
		case "tool_result":
			u.Results = append(u.Results, said{ID: b.ToolID, Text: parseContent(t, b.Content).Text})
		case "image_url":
			u.Images = append(u.Images, b.ImageURL.URL)
		case "image":
			if b.Source.Type == "base64" {
				b.Source.URL = "data:image/png;base64," + b.Source.Data
			}
			u.Images = append(u.Images, b.Source.URL)
		default:
			t.Fatalf("a block of type %q", b.Type)
		}
	}
	return u
}

// TestThereAndBack: a request that goes through a pair and back through the other one is the same conversation, and so is
// what stands between.
func TestThereAndBack(t *testing.T) {
	for _, p := range Pairs() {
		t.Run(string(p.Client), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := drawConversation(t)
				body := []byte(want.render(p.Client))
				for _, step := range []*Pair{&p, Lookup(p.Upstream, p.Client)} {
					tr := step.New(Options{Alias: "m"})
					out, err := tr.Request(body)
					if err != nil {
						t.Fatalf("%v\n%s", err, body)
					}
					if d := cmp.Diff(want, parse(t, out)); d != "" {
						t.Fatalf("-want +got:\n%s\n%s\nfrom\n%s", d, out, body)
					}
					if r := tr.Report(); len(r.Dropped)+len(r.Changed) > 0 {
						t.Fatalf("reported %+v", r)
					}
					body = out
				}
			})
		})
	}
}
