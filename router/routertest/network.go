package routertest

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// Network joins what is in one synctest bubble, where no real connection can be waited for. The zero value is ready.
type Network struct {
	mu    sync.Mutex
	hosts map[string]*listener
}

// listener takes the connections to one address of a Network.
type listener struct {
	address string
	conns   chan net.Conn
	once    sync.Once
	done    chan struct{}
}

// Listen takes the connections that are dialled to an address ("a.test:80") from now on.
func (n *Network) Listen(address string) net.Listener {
	l := &listener{address: address, conns: make(chan net.Conn), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = map[string]*listener{}
	}
	n.hosts[address] = l
	return l
}

// Dial connects with whoever listens at an address; it has the form that http.Transport wants.
func (n *Network) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.hosts[address]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nobody listens at %s", address)
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error { l.once.Do(func() { close(l.done) }); return nil }

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l }

// Network implements net.Addr.
func (l *listener) Network() string { return "memory" }

// String implements net.Addr.
func (l *listener) String() string { return l.address }

var _ net.Listener = (*listener)(nil)
