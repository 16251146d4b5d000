// Package config reads one HCL file into a settings.Config or into diagnostics that say where each mistake stands, and
// watches the file for changes; it must not know what a setting is for, and shows no credential to anybody.
package config

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/signalbox-llm/signalbox/router/secrets"
	"github.com/signalbox-llm/signalbox/router/settings"
)

// File is a configuration file as it was read. Config is only of use if the diagnostics that came with it have no errors.
type File struct {
	Config settings.Config
	Path   string
	Source []byte

	sources secrets.Sources   // where env() and secret() look; the .env is that of the first Load
	seen    map[string]digest // what this and the files that it refers to held, by path
}

// Load reads a file and what it refers to: the environment, the managed secrets and the .env beside it. The File is never
// nil.
func Load(path string) (*File, hcl.Diagnostics) {
	return loadFrom(path, secrets.Open(path, os.LookupEnv))
}

func loadFrom(path string, sources secrets.Sources) (*File, hcl.Diagnostics) {
	src, err := os.ReadFile(path)
	if err != nil {
		f := &File{Path: path, sources: sources, seen: map[string]digest{path: {}}}
		return f, hcl.Diagnostics{failure(startOf(path), "Configuration cannot be read", err.Error()+".")}
	}
	return parseFrom(src, path, sources)
}

// Parse reads src, which has come from the file called filename; env looks up environment variables. No .env is read. All
// mistakes are reported, ordered by where they stand. The File is never nil.
func Parse(src []byte, filename string, env func(string) (string, bool)) (*File, hcl.Diagnostics) {
	return parseFrom(src, filename, secrets.WithoutDotEnv(filename, env))
}

func parseFrom(src []byte, filename string, sources secrets.Sources) (*File, hcl.Diagnostics) {
	f := &File{Path: filename, Source: src, sources: sources, seen: map[string]digest{filename: digestOf(src)}}
	parsed, diags := hclsyntax.ParseConfig(src, filename, hcl.InitialPos)
	if !diags.HasErrors() {
		diags = append(diags, f.decode(parsed.Body.(*hclsyntax.Body))...)
	}
	slices.SortStableFunc(diags, func(a, b *hcl.Diagnostic) int {
		return cmp.Compare(a.Subject.Start.Byte, b.Subject.Start.Byte)
	})
	discreet(diags, src)
	return f, diags
}

// decode fills f.Config and checks it.
func (f *File) decode(body *hclsyntax.Body) hcl.Diagnostics {
	if len(body.Attributes) == 0 && len(body.Blocks) == 0 {
		return hcl.Diagnostics{failure(startOf(f.Path), "Empty configuration", "The file says nothing.")}
	}
	d := &decoder{ranges: map[string]hcl.Range{"": startOf(f.Path)}, failed: map[string]bool{}}
	body = d.locals(body, &functions{of: f})
	start, _ := settings.Profile(d.profile(body)) // Of an unknown one Validate tells.
	f.Config, d.fresh = start.Config, freshFrom(&start)
	d.body(body, nil, reflectOf(&f.Config), "")
	f.Config.Auth.IssuedKeysFile = f.beside(f.Config.Auth.IssuedKeysFile)
	if f.Config.Usage != nil {
		f.Config.Usage.Path = f.beside(f.Config.Usage.Path)
	}
	if !d.failed[""] { // Otherwise blocks are missing, and everything that refers to them would seem wrong.
		for _, p := range f.Config.Validate() {
			if !d.failed[p.Path] {
				d.diags = append(d.diags, d.diagnostic(p))
			}
		}
	}
	return d.diags
}

// beside is where a path of the file leads: a relative one starts at the file's folder, and ~ stays as it is.
func (f *File) beside(path string) string {
	rest, home := strings.CutPrefix(path, "~")
	if path == "" || filepath.IsAbs(path) || home && (rest == "" || os.IsPathSeparator(rest[0])) {
		return path
	}
	return filepath.Join(filepath.Dir(f.Path), path)
}

// profile reads ahead what everything else starts from. If it cannot be read, body tells.
func (d *decoder) profile(body *hclsyntax.Body) (name string) {
	if a := body.Attributes["profile"]; a != nil {
		if value, diags := a.Expr.Value(d.ctx); !diags.HasErrors() && value.IsWhollyKnown() {
			name, _ = toText(value)
		}
	}
	return name
}

// diagnostic puts a problem where the file has its cause: at the attribute, or else at the block around it.
func (d *decoder) diagnostic(p settings.Problem) *hcl.Diagnostic {
	at, ok := d.ranges[p.Path]
	for path := p.Path; !ok; at, ok = d.ranges[path] {
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	diag := failure(at, p.Summary, p.Detail)
	if p.Warning {
		diag.Severity = hcl.DiagWarning
	}
	return diag
}

func failure(at hcl.Range, summary, detail string) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at, Extra: &note{ours: true}}
}

func startOf(filename string) hcl.Range {
	return hcl.Range{Filename: filename, Start: hcl.InitialPos, End: hcl.InitialPos}
}
