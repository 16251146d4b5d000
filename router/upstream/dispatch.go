package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

const (
	maxErrorBody = 1 << 20 // bytes of an error answer that are kept

	// errorBodyWait is how long the text of an error is waited for: its status is known and says what to do.
	errorBodyWait = 10 * time.Second

	maxResends = 2
	// resendWithin is how soon a kept-alive connection must break for its age to be the cause. A dead HTTP/2 connection takes
	// 30 s to be found out; proxies that cut a long answer off do so after 60 s.
	resendWithin = 45 * time.Second
)

// Call is one dispatch: one go-retryablehttp request, possibly several sends.
type Call struct {
	Method   string
	URL      *url.URL
	Header   http.Header // not changed; must not change until Do returns
	Segments [][]byte    // the body in pieces; must not change until Done is called
	Length   int64       // of all segments; 0 = no body
	Stream   bool        // a stream is asked for

	// Limits of each send, 0 = none. FirstByte and FirstEvent are for streams; Response is for plain answers, also for one that
	// a stream request gets (an error or application/json). Set all three for a stream.
	FirstByte, FirstEvent, Response time.Duration

	// Route is a constant path for span names and url.full, e.g. "/v1/messages".
	Route string

	// Retry tells whether to send again to the same upstream and how long to wait before. It is asked after each send that
	// failed or was answered with a status >= 300; send counts from 1, resp has its body taken out. nil = never.
	Retry func(send int, resp *http.Response, body []byte, err error) (again bool, wait time.Duration)

	// Done is called once, when no send reads the segments any more: at the end of Do or later, on any goroutine.
	Done func()
}

// Answer is what came back. Body must be closed; it is empty if the status is >= 300.
type Answer struct {
	*http.Response
	Sends     int    // requests that went out, resends included
	ErrorBody []byte // the body of a status >= 300, as far as it came, at most 1 MiB
}

// dispatch is the state of one Do. Sends come one after the other; only progress is written by other goroutines.
type dispatch struct {
	context.Context //nolint:containedctx // it is that of its own sends: whoever has their context finds the dispatch by it
	payload
	call    Call
	watch   *Watch
	whole   []byte // the body of a small call in one piece
	sends   int
	resends int           // sends that only made up for a stale connection
	wait    time.Duration // before the next send
	sent    time.Duration // start of the current send on the watch's clock

	progress atomic.Uint32
	trace    httptrace.ClientTrace
	shown    url.URL

	// The outcome of the last send, since a cancelled wait loses what go-retryablehttp had.
	answer *Answer // last, nil if there was none
	last   Answer
	body   answerBody // of last
	err    error
}

// Progress of a send.
const (
	asking  = iota // nothing asked of the network yet
	dialing        // a connection was asked for
	fresh          // a new connection was got
	reused         // one that had been used before was got
	talking        // a byte has come back
)

type dispatchKey struct{}

func dispatchOf(ctx context.Context) *dispatch { return ctx.Value(dispatchKey{}).(*dispatch) }

// Value implements context.Context.
func (d *dispatch) Value(key any) any {
	if key == (dispatchKey{}) {
		return d
	}
	return d.Context.Value(key)
}

// Do sends the call and sends it again while call.Retry asks for that. Answers below 300 are returned unread, others with
// their body in ErrorBody (redirects are not followed and end like errors). Errors are *Error. When ctx ends during a wait
// between two sends, the outcome of the last send is returned: look at ctx to know. ctx must be the one of w, which is armed
// as Call says when Do returns an answer that is to be read, and off otherwise.
func (c *Client) Do(ctx context.Context, call *Call, w *Watch) (*Answer, error) {
	d := &dispatch{Context: ctx, call: *call, watch: w, payload: payload{segments: call.Segments, done: call.Done}}
	d.call.Segments = nil // an answer that is read for long keeps the dispatch: the payload knows when to let go of them
	d.refs.Store(1)
	defer d.release()
	req := &retryablehttp.Request{Request: d.request(c.silent)}
	err := d.setBody(req)
	if err != nil {
		return nil, &Error{Kind: kindOther, Err: err}
	}
	_, err = c.retry.Do(req) // the response is the one checkRetry saw last and has closed or put into the answer
	switch {
	case d.answer != nil:
		d.answer.Sends = d.sends
		return d.answer, nil
	case d.err == nil:
		d.err = &Error{Kind: kindOther, Err: err} // no send was made
	}
	return nil, d.err
}

// setBody gives a request the call's body: a small one in one piece, else as it lies.
func (d *dispatch) setBody(req *retryablehttp.Request) error {
	switch {
	case d.call.Length <= 0:
		return nil
	case d.call.Length > joined:
		return req.SetBody(retryablehttp.ReaderFunc(d.open))
	}
	d.whole = make([]byte, 0, d.call.Length)
	for _, s := range d.segments {
		d.whole = append(d.whole, s...)
	}
	return req.SetBody(d.whole)
}

// noHeader stands for a call's own on the way down, where nobody looks at it: the client of net/http would copy it for a
// redirect that is never followed, and the instrumentation for its propagator.
var noHeader = http.Header{}

// request returns the request without its body and header; its context carries the dispatch to where sends are seen. Silent
// is without instrumentation.
func (d *dispatch) request(silent bool) *http.Request {
	d.trace = httptrace.ClientTrace{
		GetConn: func(string) { d.progress.Store(dialing) },
		GotConn: func(info httptrace.GotConnInfo) {
			if info.Reused {
				d.progress.Store(reused)
			} else {
				d.progress.Store(fresh)
			}
		},
		GotFirstResponseByte: func() { d.progress.Store(talking) },
	}
	// The real path may name a model, and the query may hold more: nobody on the way down gets to see them.
	d.shown.Scheme, d.shown.Host = d.call.URL.Scheme, d.call.URL.Host
	if !silent {
		d.shown.Opaque = "//" + d.call.URL.Host + d.call.Route // opaque: braces stay
	}
	return (&http.Request{
		Method: d.call.Method, URL: &d.shown, Header: noHeader, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(httptrace.WithClientTrace(d, &d.trace))
}

// checkRetry keeps the outcome of a send and decides whether there is another one. It never answers with an error, which
// would take the place of the outcome.
func (c *Client) checkRetry(ctx context.Context, resp *http.Response, err error) (bool, error) {
	d := dispatchOf(ctx)
	d.answer, d.err = nil, nil
	switch {
	case err != nil:
		d.err = d.wrap(ctx, err)
	case resp.StatusCode < http.StatusMultipleChoices:
		d.last = Answer{Response: resp}
		d.answer = &d.last
		return false, nil
	default:
		d.last = Answer{Response: resp, ErrorBody: d.readError(resp)}
		d.answer = &d.last
	}
	d.watch.Arm(Off, 0)
	if ctx.Err() != nil {
		return false, nil
	}
	if d.stale() {
		d.resends++
		d.wait = 0
		c.CloseIdle() // its neighbours are as old
		return true, nil
	}
	if d.call.Retry == nil {
		return false, nil
	}
	var body []byte
	if d.answer != nil {
		body = d.answer.ErrorBody
	}
	again, wait := d.call.Retry(d.sends, resp, body, d.err)
	d.wait = wait
	return again, nil
}

// readError takes the body of an error answer, so that its connection is free and its text is not lost.
func (d *dispatch) readError(resp *http.Response) []byte {
	d.watch.Arm(Response, errorBodyWait)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // what came before it broke is all there is
	_ = resp.Body.Close()
	resp.Body = http.NoBody
	return body
}

// stale tells whether the send failed because the upstream had closed the kept-alive connection: such a failure says nothing
// about the upstream (golang/go#22158), and net/http itself sends again only what it takes to be idempotent.
func (d *dispatch) stale() bool {
	return d.err != nil && d.progress.Load() == reused && d.resends < maxResends &&
		d.watch.now()-d.sent < resendWithin && !errors.As(d.err, new(streamError))
}

// streamError has the shape of net/http's HTTP/2 stream error, which converts itself to it: the upstream refused this very
// request, its connection is well.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

// wrap makes a safe *Error of what net/http said, going by how far the send had come where the error itself says too little.
func (d *dispatch) wrap(ctx context.Context, err error) error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own // without the *url.Error around it, which holds the URL
	}
	if cause := context.Cause(ctx); cause != nil { // HTTP/2 forgets it
		return &Error{Kind: Kind(cause), Err: cause}
	}
	kind := Kind(err)
	switch progress := d.progress.Load(); {
	case kind == kindTruncated:
		kind = kindReset // headers were still to come
	case kind != kindOther || progress == asking:
	case progress == dialing:
		kind = kindRefused
	case progress == talking:
		kind = kindInvalid
	default:
		kind = kindReset
	}
	return &Error{Kind: kind, Err: err}
}
