package export

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// timeLimit is the exporters' own limit for one try.
const timeLimit = 10 * time.Second

// packer compresses what is sent, one body at a time, so that one writer does for all signals: it takes 400 KB. The exporters
// would, too, but with seven times the work for a fifth less on the way, and with a writer of 800 KB each that has to be made
// again whenever the garbage collector ran between two exports. Over loopback, too, compressing so costs hardly more than what
// it spares both sides in copying.
type packer struct {
	mu  sync.Mutex
	zip *gzip.Writer // nil until something is sent
	out bytes.Buffer
}

// zipper compresses what goes to base.
type zipper struct {
	*packer
	base http.RoundTripper
}

// zipping makes a client for one exporter, which must not compress then, or nil if the exporter has to see to it: variables
// about compression or the connection are heeded by the exporters themselves.
func (r receiver) zipping(signal string) *http.Client {
	if !r.gzip {
		return nil
	}
	for _, name := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
		if either(signal, name) != "" {
			return nil
		}
	}
	// As the exporters' own; idle connections end by themselves, and none is idle for long while something is sent.
	z := &zipper{r.packer, &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: timeLimit, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second,
	}}
	limit := timeLimit
	if ms, err := strconv.Atoi(either(signal, "TIMEOUT")); err == nil && ms > 0 {
		limit = time.Duration(ms) * time.Millisecond
	}
	return &http.Client{Transport: z, Timeout: limit, CheckRedirect: redirected}
}

// redirected follows where the body goes along. Elsewhere is a page for people, whose 200 would pass for an export.
func redirected(r *http.Request, via []*http.Request) error {
	if r.Body == nil || len(via) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

// bodyKey is under which a context has what a zipper sends in place of the request's own body.
type bodyKey struct{}

// withBody has a zipper send text, which must stay as it is until then.
func withBody(ctx context.Context, text []byte) context.Context {
	return context.WithValue(ctx, bodyKey{}, text)
}

// RoundTrip implements http.RoundTripper.
func (z *zipper) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	body := io.Reader(r.Body)
	if text, ok := r.Context().Value(bodyKey{}).([]byte); ok {
		body = bytes.NewReader(text)
	}
	packed, err := z.pack(body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Content-Encoding", "gzip")
	r.ContentLength = int64(len(packed))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil }
	r.Body, _ = r.GetBody()
	return z.base.RoundTrip(r)
}

// pack returns a copy, since a connection may read a body even after its answer came.
func (p *packer) pack(body io.Reader) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.zip == nil {
		p.zip, _ = gzip.NewWriterLevel(&p.out, gzip.BestSpeed) // it fails for unknown levels only
	}
	p.out.Reset()
	p.zip.Reset(&p.out)
	if _, err := io.Copy(p.zip, body); err != nil {
		return nil, err
	}
	if err := p.zip.Close(); err != nil {
		return nil, err
	}
	return bytes.Clone(p.out.Bytes()), nil
}

var _ http.RoundTripper = (*zipper)(nil)
