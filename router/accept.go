package router

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"

	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// accept checks the caller's key and reads the whole request body: a body that is still being read while the answer
// comes makes net/http cut streams.
func (x *exchange) accept() error {
	if err := x.authenticate(); err != nil {
		return err
	}
	if err := x.findUpstream(); err != nil {
		return err
	}
	var err error
	x.await(func() { x.body, err = x.r.readBody(x.req, x.w, int64(x.snap.cfg.Server.MaxBody)) })
	switch {
	case err == nil:
		return nil
	case x.stopping(): // its connection was closed on it
		return stopping()
	case x.clientGone():
		return errGone
	}
	return err
}

// findUpstream resolves the upstream that the path names, by its name or, under /backends, by its index.
func (x *exchange) findUpstream() error {
	if x.upstream == "" {
		return nil
	}
	a := x.snap.byName[x.upstream]
	if i, err := strconv.Atoi(x.upstream); a == nil && err == nil && i >= 0 && i < len(x.snap.accounts) && strconv.Itoa(i) == x.upstream {
		a = x.snap.accounts[i]
	}
	if a == nil || x.group != "" && !slices.Contains(a.groups, x.group) {
		e := &Error{Kind: "unknown_upstream", Status: http.StatusNotFound, class: callerInvalid}
		if e.Msg = fmt.Sprintf("unknown backend %q", clip(x.upstream, 64)); x.upstream == nobody {
			e.Msg = "the path means to name an upstream; it has to begin with /backends/NAME/ or /upstreams/NAME/"
		}
		return e
	}
	x.named, x.upstream = x.upstream, a.cfg.Name
	return nil
}

// authenticate finds the caller's key. An embedding program that has named the key has already done so.
func (x *exchange) authenticate() error {
	if x.given.Key != "" {
		x.key, x.group = x.given.Key, x.given.Group
		return nil
	}
	c, err := x.r.authorize(x.snap, x.req, ScopeInference)
	x.key, x.group = c.Key, c.Group
	return err
}

// Keyring knows inference keys that are issued while the router runs. It is asked for every key that the configuration
// does not have.
type Keyring interface {
	// Find returns the name and the group of a key; ok is false if it was never issued, or revoked.
	Find(key string) (name, group string, ok bool)
	// Active reports whether keys are issued at all. Nobody gets in without a key then, even if none is configured.
	Active() bool
}

// The scopes of a key. Admin implies inference.
const (
	ScopeInference = "inference"
	ScopeAdmin     = "admin"
)

// Caller is who sent a request, as its key tells; empty where nobody needs one.
type Caller struct {
	Key   string // its name
	Group string // that the caller is restricted to; empty = all upstreams
}

// Authorize checks a request's key against the configuration in force and the keyring, and tells whose it is. Without any
// keys configured or issued everybody may do everything.
func (r *Router) Authorize(req *http.Request, scope string) (Caller, *Error) {
	c, err := r.authorize(r.snap.Load(), req, scope)
	if err != nil {
		return Caller{}, asError(err)
	}
	return c, nil
}

// authorize finds who sent a request and may do what scope says.
func (r *Router) authorize(s *snapshot, req *http.Request, scope string) (Caller, error) {
	ring := r.opts.keys
	if len(s.cfg.Auth.Keys) == 0 && s.cfg.Auth.IssuedKeysFile == "" && (ring == nil || !ring.Active()) {
		return Caller{}, nil
	}
	given, forbidden := credentials(req), false
	for _, c := range given {
		for i := range s.cfg.Auth.Keys {
			k := &s.cfg.Auth.Keys[i]
			if !k.Secret.Matches(c) {
				continue
			}
			if scope != ScopeAdmin || k.Scope == ScopeAdmin {
				return Caller{k.Name, k.Group}, nil
			}
			forbidden = true
		}
		if ring == nil {
			continue
		}
		if name, group, ok := ring.Find(c); ok {
			if scope != ScopeAdmin {
				return Caller{name, group}, nil
			}
			forbidden = true
		}
	}
	e := &Error{Kind: "unauthorized", Status: http.StatusUnauthorized, class: telemetry.ClassUnauthenticated}
	switch {
	case forbidden:
		e.Kind, e.Status, e.Msg = "forbidden", http.StatusForbidden, "this key may not use the control plane; use a key with scope admin"
	case len(given) == 0:
		e.Msg = "no key given; send it as Authorization: Bearer, x-api-key or x-goog-api-key"
	default:
		e.Msg = "the key is not known here"
	}
	return Caller{}, e
}

// cookies belong between the client and the router, where they can hold a key too.
const cookies = "Cookie"

// credentials lists the keys that a request carries, in the order in which they count.
func credentials(req *http.Request) []string {
	var all []string
	for _, name := range settings.CredentialHeaders {
		v := strings.TrimSpace(req.Header.Get(name))
		if name == "Authorization" {
			scheme, rest, ok := strings.Cut(v, " ")
			if !ok || !strings.EqualFold(scheme, "bearer") {
				continue
			}
			v = strings.TrimSpace(rest)
		}
		if v != "" {
			all = append(all, v)
		}
	}
	if strings.Contains(req.URL.RawQuery, "key=") {
		if q, err := url.ParseQuery(req.URL.RawQuery); err == nil && q.Get("key") != "" {
			all = append(all, q.Get("key"))
		}
	}
	return all
}

// body is a request body in one buffer, shared by every send of it. The buffer goes back to the pool when the exchange
// and every send are done with it: the write loop of an attempt that was given up may read it longer than the attempt.
type body struct {
	bytes []byte
	plain bool // was sent without a content coding
	uses  atomic.Int32
	r     *Router
	done  func() // release, made once
}

const (
	pooledBody = 4 << 20   // larger buffers are not kept
	totalShare = 16        // all bodies together may take this many times max_body
	totalFloor = 256 << 20 // or this much, if that is more
)

var bodies = sync.Pool{New: func() any { return &body{} }}

func (b *body) hold() { b.uses.Add(1) }

func (b *body) release() {
	if b == nil || b.uses.Add(-1) > 0 {
		return
	}
	b.r.buffered.Add(-int64(cap(b.bytes)))
	if b.r, b.bytes = nil, b.bytes[:0]; cap(b.bytes) > pooledBody {
		b.bytes = nil
	}
	bodies.Put(b)
}

// readBody reads a request body of at most limit bytes, before and after its content coding is undone.
func (r *Router) readBody(req *http.Request, w http.ResponseWriter, limit int64) (*body, error) {
	if req.ContentLength > limit {
		w.Header().Set("Connection", "close") // the rest is not read
		return nil, tooLarge(limit)
	}
	src, err := decoder(req.Header.Get("Content-Encoding"), http.MaxBytesReader(w, req.Body, limit), limit)
	if err != nil {
		return nil, err
	}
	b, _ := bodies.Get().(*body)
	if b.r, b.plain = r, src.plain; b.done == nil {
		b.done = b.release
	}
	r.buffered.Add(int64(cap(b.bytes)))
	b.hold()
	if err := b.fill(src.Reader, req.ContentLength, limit); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

// fill reads src to its end, growing the buffer as it must and never past what all bodies together may take.
func (b *body) fill(src io.Reader, expected, limit int64) error {
	total := max(totalFloor, totalShare*limit)
	if err := b.grow(int(max(expected, 0))+1, total); err != nil {
		return err
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(2*cap(b.bytes), total); err != nil {
				return err
			}
		}
		n, err := src.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case int64(len(b.bytes)) > limit:
			return tooLarge(limit)
		case err == io.EOF:
			return nil
		case isTooLarge(err):
			return tooLarge(limit)
		case err != nil:
			return &Error{Kind: "read_body_failed", Status: http.StatusBadRequest, Msg: "the request body could not be read to its end", Err: err, class: callerInvalid}
		}
	}
}

func isTooLarge(err error) bool {
	if err == nil {
		return false
	}
	_, over := errors.AsType[*http.MaxBytesError](err)
	return over || errors.Is(err, zstd.ErrDecoderSizeExceeded)
}

func (b *body) grow(size int, total int64) error {
	more := size - cap(b.bytes)
	if more <= 0 {
		return nil
	}
	if b.r.buffered.Add(int64(more)) > total {
		b.r.buffered.Add(-int64(more))
		return saturated("too many request bodies are held at once")
	}
	b.bytes = append(make([]byte, 0, size), b.bytes...)
	return nil
}

// decoded is a body with its content coding undone.
type decoded struct {
	io.Reader
	plain bool
}

// decoder undoes a content coding. What comes out is bounded by fill; zstd's own memory is bounded here.
func decoder(coding string, src io.Reader, limit int64) (decoded, error) {
	var out io.Reader
	var err error
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
		return decoded{src, true}, nil
	case "gzip", "x-gzip":
		out, err = gzip.NewReader(src)
	case "deflate":
		out, err = zlib.NewReader(src)
	case "zstd":
		out, err = zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(limit)+1), zstd.WithDecoderMaxWindow(8<<20))
	default:
		return decoded{}, &Error{
			Kind: "unsupported_encoding", Status: http.StatusUnsupportedMediaType, class: callerInvalid,
			Msg: "the request's Content-Encoding is not understood; send it plain, or with gzip, zstd or deflate",
		}
	}
	if err != nil {
		return decoded{}, &Error{Kind: "read_body_failed", Status: http.StatusBadRequest, Msg: "the request body is not in the coding that Content-Encoding names", Err: err, class: callerInvalid}
	}
	return decoded{out, false}, nil
}
