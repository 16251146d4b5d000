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
	"strings"
	"text/tabwriter"

	"github.com/signalbox-llm/signalbox/cmd/internal/heap"
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
		{"explain", "[-config FILE] [-path PATH] FILE|-", "say where a request would go now, and why", explain},
		{"chat", "[-model A,B...] [PROMPT|-]", "talk to the models of a running router", chatting},
		{"tail", "[URL] [-n N] [-max-reconnects N|infinity]", "show the requests of a running router as they come", tail},
		{"init", "[-o FILE] [-force]", "write a configuration for the keys that the environment has", initialise},
		{"secret", "set NAME | list | unset NAME  [-config FILE] [-file FILE]", "keep keys by name, set from standard input", secret},
		{"status", "[-n RECENT] [-json]", "say how the accounts of a running router are, and who served what", status},
		{"cool", "UPSTREAM[/MODEL] [-for 10m]", "take an account, or one model of it, out of use", cool},
		{"uncool", "UPSTREAM[/MODEL]", "bring it back, whatever held it off", uncool},
		{"reset", "", "lift everything that holds any account off", reset},
		{"keys", "[list] | issue NAME [-group GROUP] | revoke ID", "list, make and take back keys for agents", keys},
		{"demo", "[--once] [--otlp URL] [--every INTERVAL]", "show a failover on this machine, without any key", demo},
		{"usage", "[-since TIME] [-by NAMES | -call ID] [-db FILE | -config FILE]", "say what was used and what it cost", showUsage},
		{"healthcheck", "[URL]", "exit 0 if a running router is ready", healthcheck},
		{"version", "", "print the version", printVersion},
	}
}

// words explain the arguments that are no flags.
var words = map[string][][2]string{
	"check":       {{"FILE", "the configuration"}},
	"explain":     {{"FILE|-", "a request's body, or a whole request with path, headers and body; - is standard input"}},
	"chat":        {{"PROMPT|-", "what to ask, in quotation marks; - is standard input; without it the talk goes on line by line"}},
	"tail":        {{"URL", "the running router, as -url"}},
	"secret":      {{"set NAME", "store what standard input has, or what is typed"}, {"list", "show all names, where they are set and who uses them"}, {"unset NAME", "forget it"}},
	"cool":        {{"UPSTREAM[/MODEL]", "an account, or one model of it, by its name there"}},
	"uncool":      {{"UPSTREAM[/MODEL]", "an account, or one model of it, by its name there"}},
	"keys":        {{"list", "show all; the same as no argument"}, {"issue NAME", "make one and print it, this once"}, {"revoke ID", "take one back for good"}},
	"healthcheck": {{"URL", "what to ask in place of http://127.0.0.1:4141/readyz"}},
}

// errSaid ends a command that has already said what is wrong.
var errSaid = errors.New("")

// usageError is wrong use of the command line.
type usageError struct{ error }

func main() {
	heap.KeepFloor()
	os.Exit(run(context.Background(), env{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:]))
}

// run returns the exit status: 0, 1 for what went wrong, 2 for wrong use.
func run(ctx context.Context, e env, args []string) int {
	if len(args) == 2 && args[0] == "help" {
		args = []string{args[1], "-h"}
	}
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
			fmt.Fprintf(e.stderr, "signalbox %s: %v\nusage: signalbox %s\nsignalbox %s -h tells more\n", c.name, wrong, c.line(), c.name)
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
		fmt.Fprintf(t, "  signalbox %s\t%s\n", c.line(), c.does)
	}
	_ = t.Flush()
	fmt.Fprint(w, "\nsignalbox COMMAND -h tells more of each. Start with: signalbox demo\n")
}

// line is how the command is called, without the program's name.
func (c command) line() string { return strings.TrimSpace(c.name + " " + c.args) }

// help says what a command does, and what its arguments and flags are.
func help(w io.Writer, f *flag.FlagSet) {
	for _, c := range commands() {
		if c.name == f.Name() {
			fmt.Fprintf(w, "signalbox %s: %s\n\nusage: signalbox %s\n", c.name, c.does, c.line())
		}
	}
	if list := words[f.Name()]; len(list) > 0 {
		fmt.Fprint(w, "\narguments:\n")
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, word := range list {
			fmt.Fprintf(t, "  %s\t%s\n", word[0], word[1])
		}
		_ = t.Flush()
	}
	f.SetOutput(w)
	first := true
	f.VisitAll(func(*flag.Flag) {
		if first {
			fmt.Fprint(w, "\nflags, which may stand anywhere:\n")
		}
		first = false
	})
	f.PrintDefaults()
}

// parse reads a command's flags, which may stand anywhere before a "--".
func parse(e env, name string, args []string, define func(*flag.FlagSet)) (rest []string, err error) {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard) // run and help say it
	define(f)
	var plain []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, plain = args[:i], args[i+1:]
	}
	for {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				help(e.stdout, f)
				return nil, err
			}
			return nil, usageError{err}
		}
		if f.NArg() == 0 {
			return append(rest, plain...), nil
		}
		rest, args = append(rest, f.Arg(0)), f.Args()[1:]
	}
}

func printVersion(_ context.Context, e env, args []string) error {
	rest, err := parse(e, "version", args, func(*flag.FlagSet) {})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("unexpected %q", rest[0])}
	}
	_, err = fmt.Fprintln(e.stdout, "signalbox", versionText())
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
