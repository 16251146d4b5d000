// Package secrets keeps credentials by name in a file that its owner alone can read, and says which of environment, file
// and .env a name has its value from; it must not know what a credential is for, and no error of it holds one.
package secrets

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/signalbox-llm/signalbox/router/secrets/wholefile"
)

// MaxValue is the longest value in bytes. The shortest has one byte.
const MaxValue = 8192

// maxFile is the most that is read, in bytes.
const maxFile = 1 << 20

// Errors of Set and Unset that callers may want to tell apart.
var (
	ErrStale = errors.New("the managed secrets have changed in the meantime")
	ErrUnset = errors.New("there is no managed secret of that name")
)

// ValidName reports whether a secret can have that name: capital letters, digits and _, no digit first.
func ValidName(name string) bool {
	for i, c := range []byte(name) {
		if (c < 'A' || c > 'Z') && c != '_' && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// Book is what a file held when it was read. It prints nothing of its values.
type Book struct {
	values   map[string]string
	revision string
}

// Lookup returns the value of a name.
func (b Book) Lookup(name string) (string, bool) {
	value, ok := b.values[name]
	return value, ok
}

// Names returns the names in order.
func (b Book) Names() []string { return slices.Sorted(maps.Keys(b.values)) }

// Revision stands for the content; Set and Unset refuse to change another one than they are told.
func (b Book) Revision() string { return b.revision }

// String implements fmt.Stringer.
func (b Book) String() string { return fmt.Sprintf("[%d secrets]", len(b.values)) }

// GoString implements fmt.GoStringer.
func (b Book) GoString() string { return b.String() }

// Store is a file of managed secrets: a JSON object of strings by name, which nobody but its owner may read. It is
// replaced as a whole; what it held before the last 20 changes is in a folder beside it, NAME.history.
type Store struct{ path string }

// At is the store in the file of that path, which need not exist.
func At(path string) Store { return Store{path} }

// Path is where the file is, or would be.
func (s Store) Path() string { return s.path }

// Content returns the file as it is. It refuses one that others can read.
func (s Store) Content() ([]byte, error) {
	return readFile(s.path, func(info fs.FileInfo) error {
		if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" { // Where modes mean nothing.
			return fmt.Errorf("others than its owner may use it (mode %04o); mend that with: chmod 600 %s", mode, s.path)
		}
		return nil
	})
}

// Read returns what the file holds, nothing if there is no file.
func (s Store) Read() (Book, error) {
	content, err := s.Content()
	if errors.Is(err, fs.ErrNotExist) {
		return Parse(nil)
	}
	if err != nil {
		return Book{}, fmt.Errorf("%s is not read: %w", s.path, err)
	}
	book, err := Parse(content)
	if err != nil {
		err = fmt.Errorf("%s is not read: %w", s.path, err)
	}
	return book, err
}

// Parse reads the content of a file; no content is no secrets. Its errors repeat nothing of it but names.
func Parse(content []byte) (Book, error) {
	hash := sha256.Sum256(content)
	b := Book{map[string]string{}, hex.EncodeToString(hash[:])}
	if len(content) == 0 {
		return b, nil
	}
	if err := json.Unmarshal(content, &b.values); err != nil || b.values == nil || !utf8.Valid(content) {
		return Book{}, errors.New(`it is not a JSON object of strings, such as {"NAME": "value"}`)
	}
	for _, name := range b.Names() {
		if !ValidName(name) {
			return Book{}, errors.New("it has a name of other characters than capital letters, digits and _")
		}
		if err := validValue(b.values[name]); err != nil {
			return Book{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return b, nil
}

func validValue(value string) error {
	switch {
	case value == "":
		return errors.New("the value is empty")
	case len(value) > MaxValue:
		return fmt.Errorf("the value is longer than %d bytes", MaxValue)
	case !utf8.ValidString(value):
		return errors.New("the value is not UTF-8 text")
	}
	return nil
}

// Set gives a name a value. If base is not empty and not the revision of what is there, nothing changes and the error is
// ErrStale. Several writers may be at work at once; none undoes what another did.
func (s Store) Set(name, value, base string, now time.Time) error {
	if !ValidName(name) {
		return errors.New("a name has capital letters, digits and _ only, and no digit first")
	}
	if err := validValue(value); err != nil {
		return err
	}
	return s.change(base, now, func(values map[string]string) error {
		values[name] = value
		return nil
	})
}

// Unset takes a name out, with base as for Set. The error is ErrUnset if it is not there.
func (s Store) Unset(name, base string, now time.Time) error {
	return s.change(base, now, func(values map[string]string) error {
		if _, ok := values[name]; !ok {
			return ErrUnset
		}
		delete(values, name)
		return nil
	})
}

// change writes what edit makes of the secrets, and keeps what was there.
func (s Store) change(base string, now time.Time, edit func(map[string]string) error) error {
	if target, err := filepath.EvalSymlinks(s.path); err == nil { // Otherwise a link would be replaced by a file.
		s.path = target
	}
	past, err := s.history()
	if err != nil {
		return err
	}
	unlock, err := wholefile.Lock(past.lockFile())
	if err != nil {
		return fmt.Errorf("%s cannot be locked: %w", s.path, err)
	}
	defer unlock()
	old, err := s.Content()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not read: %w", s.path, err)
	}
	book, err := Parse(old)
	if err != nil {
		return fmt.Errorf("%s is not read: %w", s.path, err)
	}
	if base != "" && base != book.revision {
		return ErrStale
	}
	if err := edit(book.values); err != nil {
		return err
	}
	next, err := encode(book.values)
	if err != nil || bytes.Equal(old, next) {
		return err
	}
	if len(old) > 0 {
		if err := past.keep(old, book.revision, now); err != nil {
			return err
		}
	}
	return wholefile.Replace(s.path, next, nil)
}

func encode(values map[string]string) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(values); err != nil {
		return nil, errors.New("the secrets cannot be written as JSON")
	}
	if out.Len() > maxFile {
		return nil, errors.New("the file of secrets would be larger than 1 MiB")
	}
	return out.Bytes(), nil
}

// readFile reads a file, unless allow says why not. What could block or never end is refused in any case. Its errors have no path.
func readFile(path string, allow func(fs.FileInfo) error) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, wholefile.WithoutPath(err)
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, wholefile.WithoutPath(err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil { // Of what is read, which may be another one by now.
		return nil, wholefile.WithoutPath(err)
	}
	if info.Size() > maxFile {
		return nil, errors.New("it is larger than 1 MiB")
	}
	if err := allow(info); err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFile))
	return content, wholefile.WithoutPath(err)
}
