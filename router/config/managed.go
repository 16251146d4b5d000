package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/signalbox-llm/signalbox/router/secrets"
)

// variableName reports whether text looks like the name of an environment variable. Anything else may be a key in the wrong
// place.
func variableName(text string) bool {
	for i, c := range []byte(text) {
		if lower := c | 0x20; (lower < 'a' || lower > 'z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return text != ""
}

// variable is env("NAME"), which finds a managed secret or what .env says where the environment itself has nothing.
func (f *functions) variable(args []string) (cty.Value, error) {
	name := args[0]
	if !variableName(name) {
		return cty.NilVal, errors.New("the argument is not the name of an environment variable")
	}
	if len(args) > 2 {
		return cty.NilVal, errors.New("it takes a name and a default, no more")
	}
	if value, _ := f.of.sources.Env(name); value != "" {
		return cty.StringVal(value).Mark(origin("env " + name)), nil
	}
	book, err := f.book()
	if err != nil {
		return cty.NilVal, fmt.Errorf("environment variable %s is not set, and %w", name, err)
	}
	switch value, owner := f.of.sources.Owned(name, book); {
	case owner == secrets.Managed:
		return cty.StringVal(value).Mark(origin("secret " + name)), nil
	case owner == secrets.Beside:
		return cty.StringVal(value).Mark(origin(".env " + name)), nil
	case len(args) == 2 && args[1] == "":
		return cty.StringVal("").Mark(origin("env " + name)), nil
	case len(args) == 2: // The default stands in the file, so it is as literal as any.
		return cty.StringVal(args[1]), nil
	}
	return cty.NilVal, f.missing(name)
}

// missing is what env says when nobody has a value.
func (f *functions) missing(name string) error {
	state, advice := "is not set", ""
	if _, set := f.of.sources.Env(name); set {
		state = "is set but empty"
	}
	if secrets.ValidName(name) {
		advice = "; set it, or store it with: signalbox secret set " + name
	}
	if trouble := f.of.sources.DotEnv.Trouble(); trouble != "" {
		advice += " (" + trouble + ")"
	}
	return fmt.Errorf("environment variable %s %s%s", name, state, advice)
}

// secret is secret("NAME"), which looks nowhere but in the managed secrets.
func (f *functions) secret(args []string) (cty.Value, error) {
	name := args[0]
	if !secrets.ValidName(name) {
		return cty.NilVal, errors.New("the argument is not the name of a secret, which has capital letters, digits and _")
	}
	book, err := f.book()
	if err != nil {
		return cty.NilVal, err
	}
	value, ok := book.Lookup(name)
	if !ok {
		advice := "store it with: signalbox secret set " + name
		if _, owner := f.of.sources.Owned(name, book); owner != secrets.Nobody { // There, setting it is refused.
			advice = fmt.Sprintf("env(%q) would find one (%s)", name, owner)
		}
		return cty.NilVal, fmt.Errorf("%s has no %s; %s", f.of.sources.Store.Path(), name, advice)
	}
	return cty.StringVal(value).Mark(origin("secret " + name)), nil
}

// book reads the managed secrets when they are first wanted, so that all of one reading are of one revision.
func (f *functions) book() (secrets.Book, error) {
	if f.managed == nil {
		f.managed = sync.OnceValues(f.readBook)
	}
	return f.managed()
}

func (f *functions) readBook() (secrets.Book, error) {
	store := f.of.sources.Store
	f.of.seen[store.Path()] = digest{}
	content, err := store.Content()
	switch {
	case errors.Is(err, os.ErrNotExist):
		return secrets.Parse(nil)
	case err != nil:
		return secrets.Book{}, fmt.Errorf("%s is not read: %w", store.Path(), err)
	}
	f.of.seen[store.Path()] = digestOf(content)
	book, err := secrets.Parse(content)
	if err != nil {
		return book, fmt.Errorf("%s is not read: %w", store.Path(), err)
	}
	return book, nil
}

// Reference is a place in a configuration that reads a name by env or secret.
type Reference struct {
	Name    string
	Setting string // what the value is for, such as upstream.work.api_key
	Line    int
}

// References finds all places of a file that name what they read, in the order of the file. A file with mistakes gives
// those that can be found all the same. The error is that of reading it.
func References(path string) ([]Reference, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	parsed, _ := hclsyntax.ParseConfig(src, path, hcl.InitialPos) // check tells of mistakes.
	if parsed == nil {
		return nil, nil
	}
	list := referencesIn(parsed.Body.(*hclsyntax.Body), "")
	slices.SortFunc(list, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Setting, b.Setting))
	})
	return list, nil
}

func referencesIn(body *hclsyntax.Body, path string) (list []Reference) {
	for name, a := range body.Attributes {
		_ = hclsyntax.VisitAll(a.Expr, func(node hclsyntax.Node) hcl.Diagnostics {
			call, ok := node.(*hclsyntax.FunctionCallExpr)
			if !ok || call.Name != "env" && call.Name != "secret" || len(call.Args) == 0 {
				return nil
			}
			arg, diags := call.Args[0].Value(nil)
			if !diags.HasErrors() && arg.Type() == cty.String && arg.IsKnown() && !arg.IsNull() && variableName(arg.AsString()) {
				list = append(list, Reference{arg.AsString(), join(path, name), call.NameRange.Start.Line})
			}
			return nil
		})
	}
	for _, b := range body.Blocks {
		at := join(path, strings.Join(append([]string{b.Type}, b.Labels...), "."))
		list = append(list, referencesIn(b.Body, at)...)
	}
	return list
}
