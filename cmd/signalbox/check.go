package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
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
	if err := config.Write(e.stderr, diags, file, colours(e.stderr)); err != nil {
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

// list shows upstreams with where their credential comes from, never the credential, models with their targets, presets,
// and where usage is kept.
// Each has columns of its own.
func list(w io.Writer, c *settings.Config) error {
	for _, part := range []func(io.Writer, *settings.Config){listUpstreams, listModels, listPresets, listUsage} {
		var rows bytes.Buffer
		if part(&rows, c); rows.Len() == 0 {
			continue
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		_, _ = rows.WriteTo(t) // Flush tells
		if err := t.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return nil
}

func listUpstreams(t io.Writer, c *settings.Config) {
	if len(c.Upstreams) > 0 {
		fmt.Fprintln(t, "UPSTREAM\tWIRES\tCREDENTIAL\tBASE URL")
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", u.Name, strings.Join(u.Wires, " "), credentialState(u), withoutUser(u.BaseURL))
	}
}

// withoutUser is a base URL without the user and password in it, which are refused, but shown here all the same.
func withoutUser(base string) string {
	if u, err := url.Parse(base); err == nil && u.User != nil {
		u.User = url.User("redacted")
		return u.String()
	}
	return base
}

func listModels(t io.Writer, c *settings.Config) {
	if len(c.Models) > 0 {
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
}

func listPresets(t io.Writer, c *settings.Config) {
	if len(c.Presets) > 0 {
		fmt.Fprintln(t, "PRESET\tSTRATEGY\tMODELS")
	}
	for i := range c.Presets {
		p := &c.Presets[i]
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.ID, p.Strategy, strings.Join(p.Models, ", "))
	}
}

func listUsage(t io.Writer, c *settings.Config) {
	if c.Usage != nil {
		fmt.Fprintf(t, "USAGE\n%s\n", storePlace(c.Usage))
	}
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
