package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/secrets"
)

// keeper is what a secret command works on.
type keeper struct {
	env     env
	config  string // the configuration whose secrets these are
	sources secrets.Sources
	book    secrets.Book // the managed secrets as they were at the start
	uses    []config.Reference
	lost    error // why nothing is known of the configuration
}

// secret sets, lists or unsets managed secrets. No value is ever shown, or taken from the command line, where the shell's
// history and everybody's process list would have it.
func secret(_ context.Context, e env, args []string) error {
	k, rest, err := newKeeper(e, args)
	if err != nil {
		return err
	}
	if len(rest) == 0 || !slices.Contains([]string{"set", "list", "unset"}, rest[0]) {
		return usageError{errors.New("set, list or unset is wanted")}
	}
	word, rest, want := rest[0], rest[1:], 1
	if word == "list" {
		want = 0
	}
	switch {
	case len(rest) > want && word == "set": // Not repeated: it is the secret, most likely.
		return usageError{errors.New("one name is wanted; the value is read from standard input, never from the command line")}
	case len(rest) != want:
		return usageError{fmt.Errorf("%s takes %s", word, []string{"no name", "one name"}[want])}
	}
	if k.book, err = k.sources.Store.Read(); err != nil {
		return err
	}
	switch word {
	case "set":
		return k.set(rest[0])
	case "unset":
		return k.unset(rest[0])
	}
	return k.list()
}

// newKeeper reads the flags and the configuration; rest is what is no flag.
func newKeeper(e env, args []string) (k *keeper, rest []string, err error) {
	path, file := "config.hcl", ""
	rest, err = parse(e, "secret", args, func(f *flag.FlagSet) {
		f.StringVar(&path, "config", path, "the configuration `file` that the secrets are for")
		f.StringVar(&file, "file", file, "the `file` of the managed secrets; else SIGNALBOX_SECRETS, else secrets.json beside the configuration")
	})
	if err != nil {
		return nil, nil, err
	}
	k = &keeper{env: e, config: path, sources: secrets.Open(path, os.LookupEnv)}
	if file != "" {
		k.sources.Store = secrets.At(file)
	}
	k.uses, k.lost = config.References(path)
	return k, rest, nil
}

// owner says who owns a name, and refuses names that no secret can have.
func (k *keeper) owner(name string) (secrets.Owner, error) {
	if !secrets.ValidName(name) {
		return "", errors.New("that is no name of a secret: capital letters, digits and _, and no digit first")
	}
	_, owner := k.sources.Owned(name, k.book)
	if owner == secrets.Shell {
		return "", fmt.Errorf("%s belongs to the environment of this shell, which wins over managed secrets; unset it there first", name)
	}
	return owner, nil
}

func (k *keeper) set(name string) error {
	if _, err := k.owner(name); err != nil {
		return err
	}
	value, base, err := k.read(name)
	if err != nil {
		return err
	}
	err = k.sources.Store.Set(name, value, base, time.Now())
	if errors.Is(err, secrets.ErrStale) {
		return fmt.Errorf("%w, while this waited for the value; nothing is stored, so try again", err)
	}
	if err != nil {
		return fmt.Errorf("%s is not stored: %w", name, err)
	}
	fmt.Fprintf(k.env.stdout, "%s is stored in %s.\n", name, k.sources.Store.Path())
	if _, beside := k.sources.DotEnv.Lookup(name); beside {
		fmt.Fprintf(k.env.stdout, "%s has it too, and does not count any more; take it out there.\n", k.sources.DotEnv.Path())
	}
	k.effect(name)
	return nil
}

// read takes the value from standard input, asking for it on a terminal. What was asked for is stored only if the secrets
// are still those of before, since people decide by what they saw.
func (k *keeper) read(name string) (value, base string, err error) {
	if f, ok := k.env.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		value, err = k.ask(f, name)
		base = k.book.Revision()
	} else {
		var raw []byte
		raw, err = io.ReadAll(io.LimitReader(k.env.stdin, secrets.MaxValue+3)) // More is refused as too long.
		value = strings.TrimPrefix(string(raw), "\ufeff")                      // some shells of Windows put one before what they pipe
	}
	value = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
	if err == nil && value == "" {
		err = fmt.Errorf("there is no value on standard input: %s is not stored", name)
	}
	return value, base, err
}

// ask reads a line without showing it. Interrupting it leaves the terminal as it was.
func (k *keeper) ask(f *os.File, name string) (string, error) {
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(f.Fd()), before) }()
	const most = 4095 // A terminal's line ends there, without a word.
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{f, k.env.stderr}, "")
	value, err := t.ReadPassword("Value of " + name + " (not shown): ")
	switch {
	case errors.Is(err, io.EOF):
		return "", errors.New("cancelled, nothing is stored")
	case len(value) > most:
		return "", fmt.Errorf("a terminal takes %d bytes at most; give a longer value by a file: signalbox secret set %s < FILE", most, name)
	}
	return value, err
}

func (k *keeper) unset(name string) error {
	owner, err := k.owner(name)
	if err != nil {
		return err
	}
	_, managed := k.book.Lookup(name)
	if !managed && owner == secrets.Beside {
		return fmt.Errorf("%s belongs to %s; take it out there and start the router anew", name, k.sources.DotEnv.Path())
	}
	if err := k.sources.Store.Unset(name, "", time.Now()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	fmt.Fprintf(k.env.stdout, "%s is taken out of %s.\n", name, k.sources.Store.Path())
	if _, beside := k.sources.DotEnv.Lookup(name); beside {
		fmt.Fprintf(k.env.stdout, "What %s says of it counts again.\n", k.sources.DotEnv.Path())
	}
	if where := k.usedBy(name); where != "" {
		fmt.Fprintf(k.env.stdout, "It was for %s. Whether that can do without: signalbox check %s\n", where, k.config)
	}
	return nil
}

// effect says what becomes of a new value in a router that runs.
func (k *keeper) effect(name string) {
	where := k.usedBy(name)
	switch {
	case k.lost != nil:
		fmt.Fprintf(k.env.stdout, "%s cannot be read, so who uses it is not known.\n", k.config)
	case where == "":
		fmt.Fprintf(k.env.stdout, "%s does not name it, so nothing changes: use it there by secret(%q) or env(%q).\n", k.config, name, name)
	case slices.ContainsFunc(k.uses, func(r config.Reference) bool { return r.Name == name && fixed(r.Setting) }):
		fmt.Fprintf(k.env.stdout, "A running router needs a restart for %s.\n", where)
	default:
		fmt.Fprintf(k.env.stdout, "A running router reads it by itself for %s, unless its own environment has %s.\n", where, name)
	}
}

// fixed tells of settings that a reload leaves as they are, as config.Restart does.
func fixed(setting string) bool {
	return setting == "server.listen" || setting == "server.admin_listen" || strings.HasPrefix(setting, "telemetry.") || strings.HasPrefix(setting, "usage.")
}

// usedBy lists the settings that a name is for, with their lines.
func (k *keeper) usedBy(name string) string {
	var list []string
	for _, r := range k.uses {
		if r.Name == name {
			list = append(list, fmt.Sprintf("%s (line %d)", r.Setting, r.Line))
		}
	}
	return strings.Join(list, ", ")
}

// list shows every name that the configuration, the managed secrets or .env has, and no value.
func (k *keeper) list() error {
	names := slices.Concat(k.book.Names(), k.sources.DotEnv.Names())
	for _, r := range k.uses {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if k.lost != nil {
		fmt.Fprintf(k.env.stderr, "%s cannot be read, so what it needs is not here.\n", k.config)
	}
	if trouble := k.sources.DotEnv.Trouble(); trouble != "" {
		fmt.Fprintln(k.env.stderr, trouble)
	}
	if len(names) == 0 {
		_, err := fmt.Fprintf(k.env.stdout, "There are no secrets in %s, and %s names none.\n", k.sources.Store.Path(), filepath.Base(k.config))
		return err
	}
	t := tabwriter.NewWriter(k.env.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSET\tSOURCE\tEDITABLE\tUSED BY")
	for _, name := range slices.Compact(names) {
		_, owner := k.sources.Owned(name, k.book)
		editable := owner != secrets.Shell && secrets.ValidName(name)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", name, yes(owner != secrets.Nobody), owner, yes(editable), k.usedBy(name))
	}
	return t.Flush()
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
