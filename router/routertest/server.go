package routertest

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
)

// server serves a handler until it is closed, and then waits for it.
type server struct {
	http http.Server
	busy sync.WaitGroup // the accept loop and the connections
}

// start serves h on l.
func (s *server) start(l net.Listener, h http.Handler) {
	s.http.Handler = h
	s.http.ErrorLog = log.New(io.Discard, "", 0)
	s.http.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew: // told within the accept loop, so that the count cannot be zero
			s.busy.Add(1)
		case http.StateHijacked, http.StateClosed:
			s.busy.Done()
		case http.StateActive, http.StateIdle:
		}
	}
	s.busy.Go(func() { _ = s.http.Serve(l) })
}

func (s *server) close() {
	_ = s.http.Close()
	s.busy.Wait()
}

// FreeAddress is an address of this machine where nobody listens, for a program that is told where to listen. Its port is none
// of those that systems hand out themselves (IANA: from 49152, Linux: from 32768): no connection and no listener that asks
// for any port takes it in the meantime.
func FreeAddress() string {
	const first, end = 10_000, 32_768
	var err error
	for range end - first {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(end-first))); err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
	}
	panic(fmt.Sprintf("routertest: no free port on loopback: %v", err))
}

// loopback opens a port on this machine, without which no test can go on.
func loopback() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("routertest: no port on loopback: %v", err))
	}
	return l
}
