package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/signalbox-llm/signalbox/router/secrets"
	"github.com/signalbox-llm/signalbox/router/secrets/wholefile"
)

// origin marks a value with where it came from, for Secret.Origin.
type origin string

// originOf names all that a value was made from, "" if it stands in the file.
func originOf(v cty.Value) string {
	_, marks := v.Unmark()
	var list []string
	for m := range marks {
		if o, ok := m.(origin); ok {
			list = append(list, string(o))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// functions are those that expressions can call.
type functions struct {
	of      *File
	managed func() (secrets.Book, error) // nil until it is wanted
}

func (f *functions) table() map[string]function.Function {
	name := function.Parameter{Name: "name", Type: cty.String}
	return map[string]function.Function{
		"env":    text(name, &function.Parameter{Name: "default", Type: cty.String}, f.variable),
		"file":   text(function.Parameter{Name: "path", Type: cty.String}, nil, f.file),
		"secret": text(name, nil, f.secret),
	}
}

// text makes a function of strings that gives a string.
func text(first function.Parameter, more *function.Parameter, impl func(args []string) (cty.Value, error)) function.Function {
	return function.New(&function.Spec{
		Params:   []function.Parameter{first},
		VarParam: more,
		Type:     function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = a.AsString()
			}
			return impl(words)
		},
	})
}

// file reads relative to the folder of the configuration file.
func (f *functions) file(args []string) (cty.Value, error) {
	path := args[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(f.of.Path), path)
	}
	name := "the file"
	if strings.ContainsAny(path, "./") { // Otherwise it may be a key in the wrong place.
		name = args[0]
	}
	f.of.seen[path] = digest{}
	content, err := readInput(path)
	if err != nil {
		return cty.NilVal, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	f.of.seen[path] = digestOf(content)
	value := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if value == "" {
		return cty.NilVal, fmt.Errorf("%s is empty", name)
	}
	return cty.StringVal(value).Mark(origin("file " + args[0])), nil
}

// maxInput is far above any key or certificate.
const maxInput = 1 << 20

// readInput reads a file that belongs to the configuration. What could block or never end is refused.
func readInput(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, wholefile.WithoutPath(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxInput:
		return nil, errors.New("it is larger than 1 MiB")
	}
	content, err := os.ReadFile(path)
	return content, wholefile.WithoutPath(err)
}

// locals evaluates the locals blocks of a file, each value when it is first needed, and returns the rest of the body.
func (d *decoder) locals(body *hclsyntax.Body, fn *functions) *hclsyntax.Body {
	l := &locals{decoder: d, attrs: map[string]*hclsyntax.Attribute{}, values: map[string]cty.Value{}, busy: map[string]bool{}}
	d.ctx = &hcl.EvalContext{Functions: fn.table(), Variables: map[string]cty.Value{}}
	for _, b := range body.Blocks {
		if b.Type != "locals" {
			continue
		}
		_, diags := b.Body.Content(l.schema(b.Body))
		d.diags = append(d.diags, diags...)
		for _, r := range b.LabelRanges {
			d.diags = append(d.diags, failure(r, "Extraneous label for locals", "A locals block has no name."))
		}
		for name, a := range b.Body.Attributes {
			if l.attrs[name] != nil {
				d.diags = append(d.diags, failure(a.NameRange, "Duplicate local value", "An earlier locals block defines it."))
				continue
			}
			l.attrs[name] = a
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.attrs)) {
		l.evaluate(name)
	}
	d.ctx.Variables["local"] = cty.ObjectVal(l.values)
	rest := *body
	rest.Blocks = slices.DeleteFunc(slices.Clone(body.Blocks), func(b *hclsyntax.Block) bool { return b.Type == "locals" })
	return &rest
}

type locals struct {
	*decoder
	attrs  map[string]*hclsyntax.Attribute
	values map[string]cty.Value
	busy   map[string]bool
}

func (l *locals) schema(b *hclsyntax.Body) *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for name := range b.Attributes {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: name})
	}
	return s
}

// evaluate finds the value of a local after those of the locals that it mentions. A faulty one is unknown.
func (l *locals) evaluate(name string) {
	a := l.attrs[name]
	if _, done := l.values[name]; done || a == nil {
		return
	}
	if l.busy[name] {
		l.values[name] = cty.DynamicVal
		l.diags = append(l.diags, failure(a.NameRange, "Local value refers to itself", "Directly or by way of others."))
		return
	}
	l.busy[name] = true
	for _, t := range a.Expr.Variables() {
		if len(t) > 1 && t.RootName() == "local" {
			if step, ok := t[1].(hcl.TraverseAttr); ok {
				l.evaluate(step.Name)
			}
		}
	}
	ctx := l.ctx.NewChild()
	ctx.Variables = map[string]cty.Value{"local": cty.ObjectVal(l.values)}
	value, diags := a.Expr.Value(ctx)
	if diags.HasErrors() {
		value = cty.DynamicVal
	}
	l.diags = append(l.diags, diags...)
	l.values[name] = value
}
