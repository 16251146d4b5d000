package router_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const module = "github.com/signalbox-llm/signalbox"

// What a wall may name beside import paths.
const (
	foreign = "<another module>"
	kin     = "<router or another family>"
)

// wall says what the packages of a room must not import. Paths within the module are written without it. "/..." takes in
// the packages below; a forbidden path stands for everything below it and for its major versions.
type wall struct {
	who    string
	except []string
	never  []string
	deep   bool // not by way of other packages, either
	why    string
}

var walls = []wall{
	{
		who: "...", except: []string{"cmd/...", "deploy/bench/profile", "telemetry/export/..."}, deep: true,
		never: []string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", "google.golang.org/grpc"},
		why:   "only telemetry/export is the SDK; an embedding program brings its own",
	},
	{
		who: "...", except: []string{"cmd/...", "deploy/bench/profile", "router/config/..."}, deep: true,
		never: []string{"github.com/hashicorp/hcl", "github.com/zclconf/go-cty"},
		why:   "an embedding program need not read HCL",
	},
	{
		who: "...", except: []string{"router/config/..."},
		never: []string{"github.com/hashicorp/hcl", "github.com/zclconf/go-cty"},
		why:   "only router/config imports hcl",
	},
	{
		who: "...", except: []string{"cmd/...", "router/ledger/sqlite/..."}, deep: true,
		never: []string{"modernc.org"},
		why:   "drivers are imported by cmd alone",
	},
	{
		who: "...", except: []string{"cmd/...", "router/ledger/postgres/..."}, deep: true,
		never: []string{"github.com/jackc"},
		why:   "drivers are imported by cmd alone",
	},
	{
		who: "...", except: []string{"cmd/...", "router/state/redis/..."}, deep: true,
		never: []string{"github.com/redis"},
		why:   "drivers are imported by cmd alone",
	},
	{
		who: "...", except: []string{"cmd/...", "deploy/bench/profile", "router/config/..."}, deep: true,
		never: []string{"golang.org/x/term", "github.com/fsnotify/fsnotify", "github.com/mattn/go-isatty"},
		why:   "terminals and watched files belong to the command",
	},
	{who: "translate/...", never: []string{foreign}, why: "what bytes mean needs the standard library alone"},
	{
		who: "translate/...", deep: true, never: []string{"net/http", "router", "telemetry", "cmd"},
		why: "translate knows nothing of routing or telemetry",
	},
	{who: "router/strategy/...", never: []string{"net/http"}, deep: true, why: "an order is worked out, nothing else"},
	{who: "router/health/...", never: []string{"net/http"}, deep: true, why: "health is told what happened"},
	{who: "telemetry/...", never: []string{"router", "translate", "cmd"}, deep: true, why: "arrows point one way"},
	{
		who: "router/...", except: []string{"router", "router/settings", "router/verdict", "router/config/...", "router/control/...", "router/routertest/...", "router/state/..."},
		never: []string{kin}, why: "families meet only in router",
	},
	{
		who: "router", deep: true, never: []string{"router/config", "router/control", "router/state", "router/routertest"},
		why: "arrows point one way",
	},
	{who: "router/...", never: []string{"cmd"}, deep: true, why: "arrows point one way"},
}

// later are the rooms of walls that nobody has moved into yet.
var later = []string{}

func TestWallsStand(t *testing.T) {
	t.Parallel()
	packages := house(t)
	for _, w := range walls {
		inhabited := false
		for _, p := range packages {
			if !w.holds(p.name()) {
				continue
			}
			inhabited = true
			for _, found := range w.breaches(p) {
				t.Errorf("%s imports %s: %s", p.name(), found, w.why)
			}
		}
		if inhabited == slices.Contains(later, w.who) {
			t.Errorf("wall %q: inhabited %v, against the list of those that stand empty", w.who, inhabited)
		}
	}
}

// A wall that lets everything through would pass unnoticed.
func TestWallsStopTrespassers(t *testing.T) {
	t.Parallel()
	own := module + "/"
	for _, c := range []struct {
		who, direct, reached string
		stopped              bool
	}{
		{"router", "", "go.opentelemetry.io/otel/sdk/trace", true},
		{"router", "", "github.com/hashicorp/hcl/v2", true},
		{"router", "github.com/hashicorp/hcl/v2", "", true},
		{"router", "", "modernc.org/sqlite", true},
		{"router", "", "github.com/redis/rueidis", true},
		{"router", "", "google.golang.org/grpc/codes", true},
		{"router", "go.opentelemetry.io/otel/trace", "", false},
		{"router", "github.com/hashicorp/go-retryablehttp", "", false},
		{"router", own + "router/config", "", true},
		{"router", own + "router/strategy", "", false},
		{"router/config", "github.com/hashicorp/hcl/v2/gohcl", "", false},
		{"router/config", own + "router", "", false},
		{"cmd/signalbox", "", "github.com/hashicorp/hcl/v2", false},
		{"cmd/signalbox", "github.com/hashicorp/hcl/v2", "", true},
		{"telemetry", "", "go.opentelemetry.io/otel/sdk/metric", true},
		{"telemetry/export", "go.opentelemetry.io/otel/sdk/metric", "", false},
		{"translate/wire", "golang.org/x/text", "", true},
		{"translate/wire", "", "net/http", true},
		{"translate/wire", "net/url", "", false},
		{"translate/wire", own + "translate/sse", "", false},
		{"translate", "", own + "telemetry", true},
		{"router/strategy", "", "net/http", true},
		{"router/strategy", "github.com/cespare/xxhash/v2", "", false},
		{"router/health", own + "router/strategy", "", true},
		{"router/health", own + "router", "", true},
		{"router/ledger/sqlite", own + "router/ledger", "", false},
		{"router/ledger/sqlite", own + "router/affinity", "", true},
		{"router/session", own + "translate/peek", "", false},
		{"router/session", own + "cmd/signalbox", "", true},
	} {
		p := goPackage{ImportPath: own + c.who, Imports: []string{c.direct}, Deps: []string{c.direct, c.reached}}
		var found []string
		for _, w := range walls {
			if w.holds(p.name()) {
				found = append(found, w.breaches(p)...)
			}
		}
		if stopped := len(found) > 0; stopped != c.stopped {
			t.Errorf("%s to %s%s: stopped %v, want %v", c.who, c.direct, c.reached, stopped, c.stopped)
		}
	}
}

func TestTestsUseNoAssertionLibrary(t *testing.T) {
	t.Parallel()
	for _, p := range house(t) {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if under(path, "github.com/stretchr/testify") {
				t.Errorf("%s imports %s: compare with go-cmp", p.name(), path)
			}
		}
	}
}

// maxLines and maxFiles keep a file and a package at a size that can be read in one go; tests do not count.
const (
	maxLines = 400
	maxFiles = 25
)

func TestRoomsAreSmall(t *testing.T) {
	t.Parallel()
	for _, p := range house(t) {
		if n := len(p.sources()); n > maxFiles {
			t.Errorf("%s has %d files, more than %d", p.name(), n, maxFiles)
		}
		for _, file := range p.sources() {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte("\n")); n > maxLines {
				t.Errorf("%s/%s has %d lines, more than %d", p.name(), filepath.Base(file), n, maxLines)
			}
		}
	}
}

func TestPackagesSayWhatTheyDo(t *testing.T) {
	t.Parallel()
	for _, p := range house(t) {
		doc := ""
		for _, file := range p.sources() {
			doc += parse(t, file, parser.PackageClauseOnly|parser.ParseComments).Doc.Text()
		}
		start := "Package " + p.Name + " "
		if p.Name == "main" {
			start = "Command " + filepath.Base(p.Dir) + " "
		}
		if !strings.HasPrefix(doc, start) {
			t.Errorf("%s: the package comment must start with %q", p.name(), start)
		}
	}
}

// maxSleep is how long a test may sleep where time is real; in files that use testing/synctest it costs nothing.
const maxSleep = time.Second

func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, p := range house(t) {
		for _, file := range p.tests() {
			f := parse(t, file, 0)
			if slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == `"testing/synctest"` }) {
				continue
			}
			for _, d := range sleeps(f) {
				if d >= maxSleep {
					t.Errorf("%s/%s sleeps %v of real time: use testing/synctest", p.name(), filepath.Base(file), d)
				}
			}
		}
	}
}

func TestSleepsAreSeen(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "", `package p
func f() { time.Sleep(20 * time.Millisecond); time.Sleep(time.Second * 3); time.Sleep(time.Minute); time.Sleep(2_000_000_000) }`, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{20 * time.Millisecond, 3 * time.Second, time.Minute, 2 * time.Second}
	if got := sleeps(f); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// holds tells whether the wall stands around the package.
func (w wall) holds(name string) bool {
	matches := func(pattern string) bool {
		room, below := strings.CutSuffix(pattern, "...")
		return name == strings.TrimSuffix(room, "/") || below && strings.HasPrefix(name, room)
	}
	return matches(w.who) && !slices.ContainsFunc(w.except, matches)
}

// breaches lists what the package imports through the wall.
func (w wall) breaches(p goPackage) (found []string) {
	paths := p.Imports
	if w.deep {
		paths = p.Deps
	}
	for _, path := range paths {
		for _, never := range w.never {
			if forbids(never, path, p.name()) {
				found = append(found, path)
			}
		}
	}
	return found
}

// forbids tells whether the package of that name must not import path, if never is what it must not know.
func forbids(never, path, name string) bool {
	own, inside := strings.CutPrefix(path, module+"/")
	first, _, _ := strings.Cut(path, "/")
	switch never {
	case foreign:
		return !inside && strings.Contains(first, ".")
	case kin:
		family := strings.Join(strings.Split(name, "/")[:2], "/")
		return inside && under(own, "router") && !under(own, family)
	}
	if inside {
		return under(own, never)
	}
	return under(path, never)
}

func under(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// goPackage is what `go list -json` says about a package.
type goPackage struct {
	Dir, Name, ImportPath              string
	GoFiles, CgoFiles, IgnoredGoFiles  []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string
	Deps                               []string // Imports and theirs
}

func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module+"/") }

// sources are the files that are no tests, whatever system they are for.
func (p goPackage) sources() (files []string) {
	for _, f := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
		if !strings.HasSuffix(f, "_test.go") {
			files = append(files, filepath.Join(p.Dir, f))
		}
	}
	return files
}

func (p goPackage) tests() (files []string) {
	for _, f := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		files = append(files, filepath.Join(p.Dir, f))
	}
	return files
}

// house lists the packages of the module.
func house(t *testing.T) []goPackage {
	t.Helper()
	packages, err := goList()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

var goList = sync.OnceValues(func() (packages []goPackage, err error) {
	// go test takes a result from its cache unless what the test itself looked at has changed, and go list is another process.
	if err := filepath.WalkDir("..", lookAt); err != nil {
		return nil, err
	}
	list := exec.Command("go", "list", "-json", "./...")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		if err := dec.Decode(&p); err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	return packages, nil
})

// lookAt reads the folders that can hold packages.
func lookAt(_ string, entry fs.DirEntry, err error) error {
	if err == nil && entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." || entry.Name() == "exam-out") {
		return filepath.SkipDir
	}
	return err
}

func parse(t *testing.T, file string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// sleeps lists how long the calls of time.Sleep in a file are, of those written as constants.
func sleeps(f *ast.File) (found []time.Duration) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && len(call.Args) == 1 && isTime(call.Fun, "Sleep") {
			found = append(found, duration(call.Args[0]))
		}
		return true
	})
	return found
}

// duration is the value of a constant expression such as 3 * time.Second; 0 if it is none.
func duration(e ast.Expr) time.Duration {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, _ := strconv.ParseInt(e.Value, 0, 64)
		return time.Duration(n)
	case *ast.ParenExpr:
		return duration(e.X)
	case *ast.BinaryExpr:
		if e.Op == token.MUL {
			return duration(e.X) * duration(e.Y)
		}
	case *ast.SelectorExpr:
		for name, unit := range map[string]time.Duration{
			"Microsecond": time.Microsecond, "Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
		} {
			if isTime(e, name) {
				return unit
			}
		}
	}
	return 0
}

func isTime(e ast.Expr, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "time"
}
