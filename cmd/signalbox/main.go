// Command signalbox opens the doors: it reads flags and the configuration, sets up exporters, listeners and signals, and
// hands everything to package router. It must not decide anything about a request.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"text/tabwriter"
)

// version is set by the linker for releases.
var version = ""

// command is one word after the program's name.
type command struct {
	name, args, does string
	run              func(ctx context.Context, e env, args []string) error
}

// env is the world outside, so that tests can bring their own.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

func commands() []command {
	return []command{
		{"serve", "-config FILE", "run the router", serve},
		{"check", "FILE", "read a configuration, show what is in it, and exit 1 if it is wrong", check},
		{"explain", "[-config FILE] [-path PATH] FILE|-", "say where a request would go now, and why; -h tells more", explain},
		{"chat", "[-model A,B...] [PROMPT|-]", "talk to the models of a running router; -h tells more", chatting},
		{"tail", "[URL] [-n N] [-max-reconnects N|infinity]", "show the requests of a running router as they come; -h tells more", tail},
		{"init", "[-o FILE] [-force]", "write a configuration for the keys that the environment has", initialise},
		{"secret", "set NAME | list | unset NAME  [-config FILE] [-file FILE]", "keep keys by name, set from standard input", secret},
		{"status", "[-n RECENT] [-json]", "say how the accounts of a running router are, and who served what", status},
		{"cool", "UPSTREAM[/MODEL] [-for 10m]", "take an account, or one model of it, out of use", cool},
		{"uncool", "UPSTREAM[/MODEL]", "bring it back, whatever held it off", uncool},
		{"reset", "", "lift everything that holds any account off", reset},
		{"keys", "[list] | issue NAME [-group GROUP] | revoke ID", "list, make and take back keys for agents", keys},
		{"demo", "[--once] [--otlp URL] [--every INTERVAL]", "show a failover on this machine, without any key", demo},
		{"usage", "[-since AGE] [-by NAMES] [-db FILE | -config FILE]", "say what was used and what it cost; -h tells more", showUsage},
		{"healthcheck", "[URL]", "exit 0 if a running router is ready", healthcheck},
		{"version", "", "print the version", printVersion},
	}
}

// errSaid ends a command that has already said what is wrong.
var errSaid = errors.New("")

// usageError is wrong use of the command line.
type usageError struct{ error }

func main() { os.Exit(run(context.Background(), env{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])) }

// run returns the exit status: 0, 1 for what went wrong, 2 for wrong use.
func run(ctx context.Context, e env, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(e.stdout)
		return 0
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, e, args[1:])
		wrong, isUsage := errors.AsType[usageError](err)
		switch {
		case err == nil, errors.Is(err, flag.ErrHelp):
			return 0
		case isUsage:
			fmt.Fprintf(e.stderr, "signalbox %s: %v\nusage: signalbox %s %s\n", c.name, wrong, c.name, c.args)
			return 2
		case !errors.Is(err, errSaid):
			fmt.Fprintf(e.stderr, "signalbox %s: %v\n", c.name, err)
		}
		return 1
	}
	fmt.Fprintf(e.stderr, "signalbox: there is no command %q\n\n", args[0])
	usage(e.stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Signalbox stands between coding agents and LLM accounts.\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(t, "  signalbox %s %s\t%s\n", c.name, c.args, c.does)
	}
	_ = t.Flush()
	fmt.Fprint(w, "\nStart with: signalbox demo\n")
}

// parse reads a command's flags, which may stand anywhere before a "--".
func parse(e env, name string, args []string, define func(*flag.FlagSet)) (rest []string, err error) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(e.stderr)
	define(f)
	var plain []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, plain = args[:i], args[i+1:]
	}
	for {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, usageError{errors.New("wrong flags")}
		}
		if f.NArg() == 0 {
			return append(rest, plain...), nil
		}
		rest, args = append(rest, f.Arg(0)), f.Args()[1:]
	}
}

func printVersion(_ context.Context, e env, _ []string) error {
	_, err := fmt.Fprintln(e.stdout, "signalbox", versionText())
	return err
}

// versionText is the release, or the revision that this was built from.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
