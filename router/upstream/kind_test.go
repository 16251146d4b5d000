package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// answer returns a server that reads one request, writes raw bytes and closes the connection.
func answer(raw string) func(int, *net.TCPConn, *bufio.Reader) {
	return func(_ int, c *net.TCPConn, r *bufio.Reader) {
		if _, _, err := request(r); err == nil {
			_, _ = io.WriteString(c, raw)
		}
	}
}

func TestKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("?"), kindOther},
		{context.Canceled, kindOther},
		{context.DeadlineExceeded, kindTimeout},
		{&url.Error{Op: "Post", URL: "http://x/?key=k", Err: os.ErrDeadlineExceeded}, kindTimeout},
		{fmt.Errorf("read: %w", &Timeout{Phase: Idle}), kindTimeout},
		{&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsTimeout: true}}, kindDNS},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, kindRefused},
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, kindRefused},
		{&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, kindReset},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, kindReset},
		{io.EOF, kindReset},
		{io.ErrUnexpectedEOF, kindTruncated},
		{x509.UnknownAuthorityError{}, kindTLS},
		{x509.HostnameError{Host: "x", Certificate: &x509.Certificate{}}, kindTLS},
		{tls.AlertError(40), kindTLS},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, kindTLS},
		{errors.New(`net/http: malformed HTTP response "x"`), kindInvalid},
		{fmt.Errorf("attempt: %w", &Error{Kind: kindInvalid, Err: io.EOF}), kindInvalid},
	} {
		if got := Kind(c.err); got != c.want {
			t.Errorf("Kind(%v) = %q, want %q", c.err, got, c.want)
		}
	}
}

func TestKindOfFailures(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet()
	secure.StartTLS()
	t.Cleanup(secure.Close)
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	reset := tcp(t, func(_ int, c *net.TCPConn, r *bufio.Reader) { _, _, _ = request(r); _ = c.SetLinger(0) })
	for _, c := range []struct{ name, base, want string }{
		{"refused", "http://127.0.0.1:1", kindRefused},
		{"untrusted certificate", secure.URL, kindTLS},
		{"no TLS there", strings.Replace(plain.URL, "http:", "https:", 1), kindTLS},
		{"closed before headers", tcp(t, answer("")), kindReset},
		{"reset before headers", reset, kindReset},
		{"closed within headers", tcp(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n")), kindReset},
		{"no HTTP", tcp(t, answer("SSH-2.0-OpenSSH\r\n\r\n")), kindInvalid},
		{"bad header", tcp(t, answer("HTTP/1.1 200 OK\r\nno colon\r\n\r\n")), kindInvalid},
		{"bad length", tcp(t, answer("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")), kindInvalid},
		{"bad status", tcp(t, answer("HTTP/1.1 abc OK\r\n\r\n")), kindInvalid},
		{"bad location", tcp(t, answer("HTTP/1.1 302 Found\r\nLocation: http://[::1/\r\nContent-Length: 0\r\n\r\n")), kindInvalid},
		{"short body", tcp(t, answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort")), kindTruncated},
		{"cut chunks", tcp(t, answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n")), kindTruncated},
		{"bad chunks", tcp(t, answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabcde\r\n")), kindInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := do(t, newClient(t, c.base), newCall(t, c.base, "x"))
			if err == nil {
				_, err = io.ReadAll(a.Body)
				a.Body.Close()
			}
			if Kind(err) != c.want {
				t.Errorf("%v is %q, want %q", errors.Unwrap(err), Kind(err), c.want)
			}
			var own *Error
			if !errors.As(err, &own) || strings.ContainsAny(err.Error(), `/:"`) {
				t.Errorf("unsafe text %q", err)
			}
		})
	}
}

func TestConnectLimit(t *testing.T) {
	c := New(Config{Base: parse(t, inMemory), Connect: time.Nanosecond})
	a, err := do(t, c, newCall(t, "http://192.0.2.1", "x"))
	if Kind(err) != kindTimeout {
		t.Errorf("got %v, %v", a, err)
	}
}

func TestInvalidCall(t *testing.T) {
	c := newClient(t, "http://127.0.0.1:1")
	call := newCall(t, "http://127.0.0.1:1", "x")
	call.Header["Bad\nName"] = []string{"x"}
	done := 0
	call.Done = func() { done++ }
	_, err := do(t, c, call)
	if Kind(err) != kindOther || done != 1 {
		t.Errorf("got %v, done %d times", err, done)
	}
}
