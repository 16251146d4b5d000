package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// check reads a configuration as serve would, shows what it found, and fails if anything is wrong.
func check(_ context.Context, e env, args []string) error {
	rest, err := parse(e, "check", args, func(*flag.FlagSet) {})
	if err != nil {
		return err
	}
	if len(rest) != 1 {
		return usageError{errors.New("one file is wanted")}
	}
	file, diags := config.Load(rest[0])
	if err := config.Write(e.stderr, diags, file, isTerminal(e.stderr)); err != nil {
		return err
	}
	if err := list(e.stdout, &file.Config); err != nil {
		return err
	}
	if diags.HasErrors() {
		fmt.Fprintf(e.stderr, "%s is refused.\n", rest[0])
		return errSaid
	}
	_, err = fmt.Fprintf(e.stdout, "%s is valid.\n", rest[0])
	return err
}

// list shows upstreams with where their credential comes from, never the credential, and models with their targets.
func list(w io.Writer, c *settings.Config) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(c.Upstreams) > 0 {
		fmt.Fprintln(t, "UPSTREAM\tWIRES\tCREDENTIAL\tBASE URL")
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", u.Name, strings.Join(u.Wires, " "), credentialState(u), u.BaseURL)
	}
	if len(c.Models) > 0 {
		if err := t.Flush(); err != nil { // the models have columns of their own
			return err
		}
		fmt.Fprintln(w)
		fmt.Fprintln(t, "MODEL\tSTRATEGY\tTARGETS")
	}
	for i := range c.Models {
		m := &c.Models[i]
		var targets []string
		for _, target := range m.Targets {
			name := target.Upstream
			if target.Model != "" {
				name += " as " + target.Model
			}
			targets = append(targets, name)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.ID, m.Strategy, strings.Join(targets, ", "))
	}
	if len(c.Upstreams)+len(c.Models) > 0 {
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// credentialState tells whether an upstream has a key and where from: "set (env NAME)", "unset (env NAME)", "literal".
func credentialState(u *settings.Upstream) string {
	origin := u.APIKey.Origin()
	switch {
	case u.APIKey.IsZero() && origin != "":
		return "unset (" + origin + ")"
	case u.APIKey.IsZero():
		return "unset"
	case origin == "literal":
		return origin
	}
	return "set (" + origin + ")"
}
