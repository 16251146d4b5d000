package settings

// CredentialHeaders are the slots in which clients put keys. All of them are removed from what goes upstream.
var CredentialHeaders = []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// HopByHop are the headers that speak of one connection (RFC 9110, 7.6.1). Headers that Connection names go too.
var HopByHop = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

// OwnRequestHeaders are set by the router or by net/http, whatever the client sent. Trace context tells a third party
// about the inside of the house and goes out only when the configuration says so.
var OwnRequestHeaders = []string{
	"Host", "Content-Length", "Expect", "Accept-Encoding", "Traceparent", "Tracestate", "Baggage",
}
