package main

import (
	"context"
	"flag"
	"net"
)

// sinkCommand takes OTLP over HTTP until it is told to end. It reads and forgets, so that sending is all that telemetry costs.
func sinkCommand(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("sink", flag.ContinueOnError)
	listen := f.String("listen", "", "`address`")
	if err := f.Parse(args); err != nil {
		return err
	}
	l, err := listenLocally(*listen)
	if err != nil {
		return err
	}
	go accept(l, swallow)
	<-ctx.Done()
	return nil
}

func swallow(conn net.Conn) {
	c := newWireConn(conn)
	thanks := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n") // an empty message
	for {
		b, err := c.head()
		if err != nil {
			return
		}
		if c.body(parseHead(b), func([]byte) {}) != nil {
			return
		}
		if _, err := c.Write(thanks); err != nil {
			return
		}
	}
}
