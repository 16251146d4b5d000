package secrets

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newStore(t testing.TB) Store { return At(filepath.Join(t.TempDir(), "keys.json")) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, s Store) Book {
	t.Helper()
	b, err := s.Read()
	must(t, err)
	return b
}

func snapshots(t testing.TB, s Store) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path()), "keys.history", "*.json"))
	must(t, err)
	return list
}

func TestSetAndUnset(t *testing.T) {
	s := newStore(t)
	if b := read(t, s); len(b.Names()) != 0 {
		t.Errorf("no file has %v", b.Names())
	}
	must(t, s.Set("B", "two\nlines <&>", "", noon))
	must(t, s.Set("A", "one", "", noon))
	must(t, s.Set("A", "one", "", noon)) // Nothing new, so nothing is written.
	if n := len(snapshots(t, s)); n != 1 {
		t.Errorf("%d snapshots of the one content before", n)
	}
	content, err := s.Content()
	must(t, err)
	if diff := cmp.Diff("{\n  \"A\": \"one\",\n  \"B\": \"two\\nlines <&>\"\n}\n", string(content)); diff != "" {
		t.Error(diff)
	}
	must(t, s.Unset("A", "", noon))
	if err := s.Unset("A", "", noon); !errors.Is(err, ErrUnset) {
		t.Errorf("unset again: %v", err)
	}
	if diff := cmp.Diff([]string{"B"}, read(t, s).Names()); diff != "" {
		t.Error(diff)
	}
	must(t, s.Unset("B", "", noon))
	if b := read(t, s); len(b.Names()) != 0 {
		t.Errorf("an empty file has %v", b.Names())
	}
}

func TestRefusedValues(t *testing.T) {
	s := newStore(t)
	for _, c := range []struct{ name, value string }{
		{"A", ""},
		{"A", strings.Repeat("x", MaxValue+1)},
		{"A", "\xff"},
		{"a", "x"},
		{"1A", "x"},
		{"A-B", "x"},
		{"A\n", "x"},
		{"", "x"},
	} {
		if err := s.Set(c.name, c.value, "", noon); err == nil {
			t.Errorf("%q with %d bytes is accepted", c.name, len(c.value))
		}
	}
	if _, err := os.Stat(s.Path()); err == nil {
		t.Error("something is written")
	}
	must(t, s.Set("_A1", strings.Repeat("x", MaxValue), "", noon))
}

func TestRevision(t *testing.T) {
	s := newStore(t)
	before := read(t, s).Revision()
	must(t, s.Set("A", "one", before, noon))
	if err := s.Set("A", "two", before, noon); !errors.Is(err, ErrStale) {
		t.Errorf("a stale value: %v", err)
	}
	if err := s.Unset("A", before, noon); !errors.Is(err, ErrStale) {
		t.Errorf("a stale unset: %v", err)
	}
	b := read(t, s)
	if v, _ := b.Lookup("A"); v != "one" {
		t.Errorf("now %q", v)
	}
	must(t, s.Set("A", "two", b.Revision(), noon))
}

// TestRefusedFiles: a file that cannot be trusted or understood is neither read nor written over.
func TestRefusedFiles(t *testing.T) {
	const key = "sk-QZQZ"
	for name, prepare := range map[string]func(path string) error{
		"open to others": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(`{"A":"`+key+`"}`), 0o600), os.Chmod(path, 0o604))
		},
		"no JSON":       func(path string) error { return os.WriteFile(path, []byte(key), 0o600) },
		"null":          func(path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
		"a number":      func(path string) error { return os.WriteFile(path, []byte(`{"A":1,"B":"`+key+`"}`), 0o600) },
		"a wrong name":  func(path string) error { return os.WriteFile(path, []byte(`{"`+key+`":"x"}`), 0o600) },
		"an empty one":  func(path string) error { return os.WriteFile(path, []byte(`{"A":""}`), 0o600) },
		"broken UTF-8":  func(path string) error { return os.WriteFile(path, []byte("{\"A\":\"\xff"+key+"\"}"), 0o600) },
		"a folder":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a large file":  func(path string) error { return os.WriteFile(path, make([]byte, maxFile+1), 0o600) },
		"more than one": func(path string) error { return os.WriteFile(path, []byte(`{"A":"`+key+`"}{}`), 0o600) },
	} {
		s := newStore(t)
		must(t, prepare(s.Path()))
		if runtime.GOOS == "windows" && name == "open to others" {
			continue
		}
		_, err := s.Read()
		for _, err := range []error{err, s.Set("A", "x", "", noon), s.Unset("A", "", noon)} {
			if err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), s.Path()) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := len(snapshots(t, s)); n != 0 {
			t.Errorf("%s: %d snapshots", name, n)
		}
	}
}

func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing there")
	}
	s := newStore(t)
	folder := filepath.Join(filepath.Dir(s.Path()), "keys.history")
	must(t, os.Mkdir(folder, 0o755))
	must(t, s.Set("A", "one", "", noon))
	must(t, s.Set("A", "two", "", noon))
	for path, want := range map[string]os.FileMode{s.Path(): 0o600, folder: 0o700, snapshots(t, s)[0]: 0o600, filepath.Join(folder, "lock"): 0o600} {
		info, err := os.Stat(path)
		must(t, err)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
	}
	all, err := os.ReadDir(filepath.Dir(s.Path()))
	must(t, err)
	if len(all) != 2 {
		t.Errorf("left behind: %v", all)
	}
}

func TestSnapshots(t *testing.T) {
	s := newStore(t)
	for i := range kept + 5 {
		must(t, s.Set("A", fmt.Sprintf("value %d", i), "", noon.Add(time.Duration(i)*time.Minute)))
	}
	list := snapshots(t, s)
	if len(list) != kept {
		t.Fatalf("%d snapshots, want %d", len(list), kept)
	}
	for i, path := range []string{list[0], list[kept-1]} { // The oldest that is left, and what was there last.
		book := read(t, At(path))
		want := fmt.Sprintf("value %d", []int{4, kept + 3}[i])
		if got, _ := book.Lookup("A"); got != want {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
}

func TestLink(t *testing.T) {
	s := newStore(t)
	must(t, s.Set("A", "one", "", noon))
	link := At(filepath.Join(t.TempDir(), "link.json"))
	if err := os.Symlink(s.Path(), link.Path()); err != nil {
		t.Skip(err)
	}
	must(t, link.Set("B", "two", "", noon))
	if diff := cmp.Diff([]string{"A", "B"}, read(t, s).Names()); diff != "" {
		t.Error(diff)
	}
}

// TestWriters: each of many writers at once adds a name and takes one out again, and readers see whole files only.
func TestWriters(t *testing.T) {
	s := newStore(t)
	const writers = 12
	var all sync.WaitGroup
	fail := make(chan error, 3*writers)
	for i := range writers {
		all.Go(func() {
			own := At(s.Path())
			fail <- own.Set(fmt.Sprintf("KEEP_%02d", i), "x", "", noon)
			fail <- own.Set(fmt.Sprintf("GO_%02d", i), strings.Repeat("x", 500), "", noon)
			fail <- own.Unset(fmt.Sprintf("GO_%02d", i), "", noon)
		})
		all.Go(func() {
			_, err := s.Read()
			if err != nil {
				t.Errorf("a reader: %v", err)
			}
		})
	}
	all.Wait()
	close(fail)
	for err := range fail {
		must(t, err)
	}
	names := read(t, s).Names()
	if len(names) != writers || !strings.HasPrefix(names[0], "KEEP_") {
		t.Errorf("left are %v", names)
	}
}

func TestNothingIsPrinted(t *testing.T) {
	const key = "sk-QZQZ"
	s := newStore(t)
	must(t, s.Set("A", key, "", noon))
	book, dot := read(t, s), ParseDotEnv("A="+key)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "book", book, "dot", dot)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "book", book, "dot", dot)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", book, book, book, book), fmt.Sprintf("%v %+v %#v", dot, dot, dot), log.String()} {
		if strings.Contains(text, key) {
			t.Errorf("printed: %s", text)
		}
	}
}

// TestRoundTrip: what is written is what is read, for every text.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[A-Z_][A-Z0-9_]{0,20}`)
		values := rapid.MapOfN(name, rapid.StringN(1, 200, MaxValue), 0, 5).Draw(t, "values")
		content, err := encode(values)
		if err != nil {
			t.Fatal(err)
		}
		book, err := Parse(content)
		if diff := cmp.Diff(values, book.values, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Fatalf("%v, -want +got:\n%s", err, diff)
		}
	})
}
