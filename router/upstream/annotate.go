package upstream

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// annotate is the innermost RoundTripper: it sees every send, arms the watch for it, puts the real URL in its place, and makes
// errors safe before otelhttp writes them on its span.
type annotate struct {
	base   http.RoundTripper
	silent bool // there is no otelhttp
}

func (a annotate) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	d := dispatchOf(ctx)
	if d.sends > 1 {
		trace.SpanFromContext(ctx).SetAttributes(attribute.Int(telemetry.AttrHTTPResend, d.sends-1))
	}
	r.URL = d.call.URL // it is the dispatch's own request, or otelhttp's copy of it
	r.Header = d.header(r.Header)
	if err := d.lighten(r, a.silent); err != nil {
		return nil, d.wrap(ctx, err)
	}
	d.progress.Store(asking)
	d.send()
	resp, err := a.base.RoundTrip(r)
	if err != nil {
		return nil, d.wrap(ctx, err)
	}
	d.answered(resp)
	d.body = answerBody{ReadCloser: resp.Body, request: r}
	resp.Body = &d.body
	return resp, nil
}

// header returns the call's, with what the propagator wrote.
func (d *dispatch) header(propagated http.Header) http.Header {
	switch {
	case d.call.Header == nil:
		return propagated
	case len(propagated) == 0:
		return d.call.Header
	}
	all := maps.Clone(d.call.Header)
	maps.Copy(all, propagated)
	return all
}

// send arms the watch for a send that starts now.
func (d *dispatch) send() {
	d.sent = d.watch.now()
	switch first, event := d.call.FirstByte, d.call.FirstEvent; {
	case !d.call.Stream:
		d.watch.arm(Response, d.sent, d.call.Response)
	case event > 0 && (first <= 0 || event < first):
		d.watch.arm(FirstEvent, d.sent, event) // headers later than that would be too late as well
	default:
		d.watch.arm(FirstByte, d.sent, first)
	}
}

// answered moves the watch on once headers have come; both limits count from the send.
func (d *dispatch) answered(resp *http.Response) {
	if !d.call.Stream {
		return
	}
	mediaType, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode >= http.StatusMultipleChoices || strings.EqualFold(strings.TrimSpace(mediaType), "application/json") {
		d.watch.arm(Response, d.sent, d.call.Response)
		return
	}
	d.watch.arm(FirstEvent, d.sent, d.call.FirstEvent)
}

// answerBody makes the errors of a broken answer safe and names them.
type answerBody struct {
	io.ReadCloser
	request *http.Request // its context tells why the body ended
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if cause := context.Cause(b.request.Context()); cause != nil {
		return n, &Error{Kind: Kind(cause), Err: cause}
	}
	kind := Kind(err)
	if kind != kindTimeout && kind != kindInvalid {
		kind = kindTruncated // however it broke
	}
	return n, &Error{Kind: kind, Err: err}
}
