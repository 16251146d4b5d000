// Command bench measures what Signalbox costs beside other proxies on this machine: it starts them all with a cheap upstream,
// loads them in turns, and prints tables. It must not know anything of Signalbox but its command line and its address.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// command is one word after the program's name.
type command struct {
	name, does string
	run        func(ctx context.Context, args []string) error
}

func commands() []command {
	return []command{
		{"compare", "Signalbox beside other proxies, and what must hold under load", compareCommand},
		{"growth", "what a request costs as configurations, sessions, streams, bodies and time grow", growthCommand},
		{"profile", "profiles of Signalbox under load, and the top of each", profileCommand},
		{"upstream", "started by the others: a fake upstream", upstreamCommand},
		{"sink", "started by the others: takes telemetry and forgets it", sinkCommand},
		{"proxy", "started by the others: httputil.ReverseProxy", proxyCommand},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 {
		for _, c := range commands() {
			if c.name == args[0] {
				return c.run(ctx, args[1:])
			}
		}
	}
	lines := []string{"which of these?"}
	for _, c := range commands() {
		lines = append(lines, fmt.Sprintf("  bench %-9s %s", c.name, c.does))
	}
	return errors.New(strings.Join(lines, "\n"))
}
