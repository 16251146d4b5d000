package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"syscall"
)

// The closed vocabulary of error.type for attempts that got no answer, and for answers that broke.
const (
	kindTimeout   = "timeout"
	kindDNS       = "dns_error"
	kindRefused   = "connection_refused"
	kindReset     = "connection_reset"
	kindTLS       = "tls_error"
	kindTruncated = "stream_truncated"
	kindInvalid   = "invalid_response"
	kindOther     = "_OTHER"
)

// Error is how a send failed. Its text is the router's own, without URL, address or bytes of the upstream, so that it may go
// into logs, spans and answers; the cause behind it may hold all of these and must not.
type Error struct {
	Kind string // of the closed vocabulary, see Kind
	Err  error
}

// Error returns safe text: the kind, and for timeouts the phase.
func (e *Error) Error() string {
	var t *Timeout
	switch {
	case errors.As(e.Err, &t):
		return t.Error()
	case errors.Is(e.Err, context.Canceled):
		return "cancelled"
	case e.Kind == kindOther:
		return "request failed"
	}
	return strings.ReplaceAll(e.Kind, "_", " ")
}

// ErrorType is what OpenTelemetry's error.type shows.
func (e *Error) ErrorType() string { return e.Kind }

// Timeout makes it a timeout to those who ask for this method.
func (e *Error) Timeout() bool { return e.Kind == kindTimeout }

func (e *Error) Unwrap() error { return e.Err }

// Kind names an error in the closed vocabulary: timeout, dns_error, connection_refused, connection_reset, tls_error,
// stream_truncated, invalid_response, or _OTHER, which is also that of a cancelled request. It is empty for no error.
func Kind(err error) string {
	var own *Error
	var dns *net.DNSError
	var slow interface{ Timeout() bool } // not net.Error, which asks for a deprecated method too
	var op *net.OpError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &own):
		return own.Kind
	case errors.As(err, &dns):
		return kindDNS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &slow) && slow.Timeout():
		return kindTimeout
	case errors.Is(err, context.Canceled):
		return kindOther
	case errors.Is(err, syscall.ECONNREFUSED):
		return kindRefused
	case isTLS(err):
		return kindTLS
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF):
		return kindReset
	case errors.Is(err, io.ErrUnexpectedEOF):
		return kindTruncated
	case isMalformed(err):
		return kindInvalid
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return kindRefused // no route, no address: nothing was there to talk to
	}
	return kindOther
}

func isTLS(err error) bool {
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	if errors.As(err, &record) || errors.As(err, &cert) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) {
		return true
	}
	// The handshake's own failures have no type, only a prefix; a remote alert is an OpError around one.
	text := err.Error()
	return strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ") || errors.Is(err, http.ErrSchemeMismatch)
}

func isMalformed(err error) bool {
	var header textproto.ProtocolError
	text := err.Error() // most of net/http's complaints have no type, nor have those of its chunk reader
	return errors.As(err, &header) || strings.Contains(text, "malformed") || strings.Contains(text, "chunk")
}
