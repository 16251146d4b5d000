package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// maxCheckBody is how many bytes of a check's answer are read: enough for most lists of models, whose connection then stays
// warm. What is longer costs that connection.
const maxCheckBody = 64 << 10

// Check asks the upstream for u once, without redirects, and drops what it answers; nothing is sent again but what net/http
// itself makes up for on a stale connection. The path of u becomes a span's name, so it must be one of the configuration.
// limit is that of the whole check, 0 = none. Errors are *Error; with one of them, status is that of an answer that broke
// off, else 0. What status means is the caller's to say; the span of the check counts 200 to 299 as success, and a check
// that ctx called off as neither.
func (c *Client) Check(ctx context.Context, header http.Header, u *url.URL, limit time.Duration) (status int, err error) {
	ctx, span := c.tracer.Start(ctx, telemetry.SpanProbe+" "+c.config.Name, trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String(telemetry.AttrUpstream, c.config.Name)))
	defer span.End()
	status, err = c.check(ctx, &Call{Method: http.MethodGet, URL: u, Header: header, Route: u.Path, Response: limit})
	if status != 0 {
		span.SetAttributes(attribute.Int(telemetry.AttrHTTPStatus, status))
	}
	switch {
	case err == nil && status/100 == 2, err != nil && errors.Is(ctx.Err(), context.Canceled):
	case err != nil:
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(attribute.String(telemetry.AttrErrorType, Kind(err)))
	default:
		span.SetStatus(codes.Error, "")
		span.SetAttributes(attribute.String(telemetry.AttrErrorType, strconv.Itoa(status)))
	}
	return status, err
}

// check makes the one send, past go-retryablehttp.
func (c *Client) check(ctx context.Context, call *Call) (status int, err error) {
	ctx, w := NewWatch(ctx)
	defer w.Stop()
	d := &dispatch{Context: ctx, call: *call, watch: w, sends: 1}
	resp, err := c.retry.HTTPClient.Do(d.request(c.silent))
	if err != nil {
		return 0, d.wrap(ctx, err)
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxCheckBody))
	return resp.StatusCode, err // of answerBody, so an *Error
}
