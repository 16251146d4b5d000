package routertest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
)

// Request is what a client sends. Requests are values: each method returns a changed copy.
type Request struct {
	Path   string // with a query, if there is one
	Header http.Header
	Body   string
}

// NewRequest asks a model something, as a client of that wire does.
func NewRequest(wire, model string, stream bool) Request {
	r := Request{Header: http.Header{"Content-Type": {"application/json"}}}
	tail := ""
	if stream {
		tail = `,"stream":true`
	}
	head := `{"model":` + quote(model) + `,`
	const hello = `"messages":[{"role":"user","content":"Say hello."}]`
	switch wire {
	case Responses:
		r.Path, r.Body = "/v1/responses", head+`"input":"Say hello."`+tail+`}`
	case Messages:
		r.Path, r.Body = "/v1/messages", head+`"max_tokens":256,`+hello+tail+`}`
		r.Header.Set("Anthropic-Version", "2023-06-01")
	case Gemini:
		action := ":generateContent"
		if stream {
			action = ":streamGenerateContent?alt=sse"
		}
		r.Path, r.Body = "/v1beta/models/"+model+action, `{"contents":[{"role":"user","parts":[{"text":"Say hello."}]}]}`
	default:
		r.Path, r.Body = "/v1/chat/completions", head+hello+tail+`}`
	}
	return r
}

// NewCount asks how many tokens a prompt has, which only the Messages wire can.
func NewCount(model string) Request {
	r := NewRequest(Messages, model, false)
	r.Path += "/count_tokens"
	r.Body = strings.Replace(r.Body, `"max_tokens":256,`, "", 1)
	return r
}

// With sets a header.
func (r Request) With(name, value string) Request {
	r.Header = r.Header.Clone()
	r.Header.Set(name, value)
	return r
}

// Field adds a member to the body; value is JSON.
func (r Request) Field(name, value string) Request {
	r.Body = strings.TrimSuffix(r.Body, "}") + `,` + quote(name) + `:` + value + `}`
	return r
}

// Result is an answer, read to its end.
type Result struct {
	Status int // 0 if nothing came
	Header http.Header
	Body   string
	Err    error // nil if it ended as its framing says, ErrHungUp if the client itself left, else what broke it
}

// ErrHungUp is the end of an answer that the client did not want to read further.
var ErrHungUp = errors.New("the client hung up")

// Client sends requests to one address.
type Client struct {
	URL string // without a path

	http http.Client
}

// NewClient returns a client with a pool of its own. It takes answers as they are: no redirects, no compression.
func NewClient(url string) *Client {
	return &Client{URL: url, http: http.Client{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Send sends a request and reads the whole answer.
func (c *Client) Send(ctx context.Context, r Request) Result {
	return c.Watch(ctx, r, func(Result) bool { return true })
}

// Watch sends a request and shows what has come so far when the headers have come, and after each read. It hangs up when
// more returns false.
func (c *Client) Watch(ctx context.Context, r Request, more func(Result) bool) (out Result) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+r.Path, strings.NewReader(r.Body))
	if err != nil {
		return Result{Err: err}
	}
	req.Header = r.Header.Clone()
	resp, err := c.http.Do(req)
	if err != nil {
		return Result{Err: err}
	}
	defer resp.Body.Close()
	out.Status, out.Header = resp.StatusCode, resp.Header
	buf := make([]byte, 32<<10)
	var body strings.Builder
	for {
		if !more(out) {
			out.Err = ErrHungUp
			return out
		}
		n, err := resp.Body.Read(buf)
		body.Write(buf[:n])
		out.Body = body.String()
		if err == io.EOF {
			return out
		}
		if err != nil {
			out.Err = err
			return out
		}
	}
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Front is a handler behind a port of this machine, and a client of it.
type Front struct {
	*Client
	server server
}

// Serve starts serving a handler. A recorder would not do: it cannot tell an aborted answer from a clean one.
func Serve(h http.Handler) *Front { return ServeOn(loopback(), h) }

// ServeOn is Serve on a listener, which Close closes.
func ServeOn(l net.Listener, h http.Handler) *Front {
	f := &Front{Client: NewClient("http://" + l.Addr().String())}
	f.server.start(l, h)
	return f
}

// Close ends the serving and waits for the requests in flight.
func (f *Front) Close() {
	f.Client.Close()
	f.server.close()
}

// Event is one frame of a stream.
type Event struct{ Name, Data string }

// Events are the frames of a stream that are whole.
func (r Result) Events() (events []Event) {
	var ev Event
	for line := range strings.Lines(r.Body) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		switch value = strings.TrimPrefix(value, " "); name {
		case "event":
			ev.Name = value
		case "data":
			ev.Data += value
		case "":
			if ev != (Event{}) {
				events = append(events, ev)
			}
			ev = Event{}
		}
	}
	return events
}

// Text is what the model said, in a stream or a whole answer of any wire.
func (r Result) Text() string {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		return said(r.Body)
	}
	var text strings.Builder
	for _, ev := range r.Events() {
		text.WriteString(said(ev.Data))
	}
	return text.String()
}

// said finds the text in an answer or an event; each wire has it elsewhere.
func said(data string) string {
	type texts []struct{ Text string }
	var a struct {
		Delta   any // a string, or an object with a text
		Choices []struct{ Delta, Message struct{ Content string } }
		Content texts
		Output  []struct{ Content texts }

		Candidates []struct{ Content struct{ Parts texts } }
	}
	if json.Unmarshal([]byte(data), &a) != nil {
		return ""
	}
	out := ""
	switch d := a.Delta.(type) {
	case string:
		out = d
	case map[string]any:
		out, _ = d["text"].(string)
	}
	for _, c := range a.Choices {
		out += c.Delta.Content + c.Message.Content
	}
	for _, o := range a.Output {
		a.Content = append(a.Content, o.Content...)
	}
	for _, c := range a.Candidates {
		a.Content = append(a.Content, c.Content.Parts...)
	}
	for _, t := range a.Content {
		out += t.Text
	}
	return out
}
