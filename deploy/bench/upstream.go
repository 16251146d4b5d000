package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// upstream is a fake provider of Chat Completions.
type upstream struct {
	is       atomic.Pointer[behaviour]
	requests atomic.Int64
}

// upstreamCommand runs fake upstreams until it is told to end: each has an address, and one for its control.
func upstreamCommand(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("upstream", flag.ContinueOnError)
	listen := f.String("listen", "", "`addresses`, with commas")
	control := f.String("control", "", "`addresses`, one for each of those")
	if err := f.Parse(args); err != nil {
		return err
	}
	addresses, controls := strings.Split(*listen, ","), strings.Split(*control, ",")
	if len(addresses) != len(controls) {
		return errors.New("each address needs one for control")
	}
	failed := make(chan error, len(controls))
	for i := range addresses {
		u := &upstream{}
		b, err := parseBehaviour("")
		if err != nil {
			return err
		}
		u.is.Store(b)
		l, err := listenLocally(addresses[i])
		if err != nil {
			return err
		}
		go accept(l, u.serve)
		if l, err = listenLocally(controls[i]); err != nil {
			return err
		}
		srv := &http.Server{Handler: u.control(), ReadHeaderTimeout: time.Second}
		go func() { failed <- srv.Serve(l) }()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// listenLocally refuses addresses that other machines reach: whatever listens here answers everybody.
func listenLocally(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%s is not a loopback address", address)
	}
	return net.Listen("tcp", address)
}

// accept serves connections until the listener or the process ends.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

func (u *upstream) serve(conn net.Conn) {
	c := newWireConn(conn)
	var body []byte
	for {
		b, err := c.head()
		if err != nil {
			return
		}
		h := parseHead(b)
		chat := bytes.Contains(h.first, []byte("/chat/completions"))
		body = body[:0]
		if h.length > 0 {
			body = slices.Grow(body, int(h.length))
		}
		if err := c.body(h, func(part []byte) { body = append(body, part...) }); err != nil {
			return
		}
		if !chat {
			if _, err := c.Write(answer(http.StatusNotFound, "{}")); err != nil {
				return
			}
			continue
		}
		u.requests.Add(1)
		if u.answer(c, body) != nil {
			return
		}
	}
}

func (u *upstream) answer(c *wireConn, body []byte) error {
	is := u.is.Load()
	if is.wait > 0 {
		time.Sleep(is.wait)
	}
	if is.mode == "hang" {
		_, err := io.Copy(io.Discard, c) // until the other side closes
		return errors.Join(err, io.EOF)
	}
	if is.failed != nil {
		_, err := c.Write(is.failed)
		return err
	}
	if bytes.Contains(body, []byte(`"stream":true`)) {
		return is.write(c)
	}
	_, err := c.Write(is.plain)
	return err
}

// write sends a stream. Chunks leave when they are due from its beginning, so that a late one does not delay the others.
func (b *behaviour) write(c net.Conn) error {
	s := b.stream
	chunk := slices.Clone(s.chunk)
	if _, err := c.Write(s.first); err != nil {
		return err
	}
	due := time.Now()
	for range b.chunks {
		if b.delay > 0 {
			due = due.Add(b.delay)
			time.Sleep(time.Until(due))
		}
		putMark(chunk[s.mark:], time.Now())
		if _, err := c.Write(chunk); err != nil {
			return err
		}
	}
	_, err := c.Write(s.last)
	return err
}

// control is the other address: POST /is sets the behaviour, GET /requests counts.
func (u *upstream) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /is", func(w http.ResponseWriter, r *http.Request) {
		b, err := parseBehaviour(r.URL.RawQuery)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		u.is.Store(b)
	})
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, u.requests.Load()) })
	return mux
}
