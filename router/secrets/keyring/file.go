package keyring

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/signalbox-llm/signalbox/router/secrets/wholefile"
)

// maxFile is how many bytes a file may have: room for some ten thousand keys.
const maxFile = 4 << 20

// errChanged is why a file is not written: it is no longer the one that was read.
var errChanged = errors.New("others keep writing it")

// row is a key as the file has it.
type row struct {
	Key
	Hash hash `json:"sha256"`
}

// hash is that of the secret, which is random enough to need no salt and no slow function.
type hash [sha256.Size]byte

// MarshalText writes it as hexadecimal digits.
func (h hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (h *hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errors.New("a sha256 has 64 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// stamp tells one state of a file from another; nil info means that there is no file.
type stamp struct{ info fs.FileInfo }

func look(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

func (s stamp) same(o stamp) bool {
	if s.info == nil || o.info == nil {
		return s.info == o.info
	}
	return os.SameFile(s.info, o.info) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// document is all that the file holds.
type document struct {
	Keys []row `json:"keys"`
}

// load reads a file; one that is not there has no keys, if its folder is. Unknown members are errors: a misspelt "revoked"
// would let somebody in.
func load(path string) (*keys, error) {
	is := look(path) // before it is read: what is written meanwhile is noticed the next time
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = os.Stat(filepath.Dir(path)); err == nil {
			return index(path, stamp{}, nil)
		}
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxFile:
		return nil, fmt.Errorf("%s: it is larger than %d bytes", path, maxFile)
	}
	var doc document
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err = d.Decode(&doc); err == nil && d.More() {
		err = errors.New("something follows the object")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: it is no file of issued keys: %w", path, err)
	}
	return index(path, is, doc.Keys)
}

// index checks the rows and makes them findable.
func index(path string, is stamp, rows []row) (*keys, error) {
	k := &keys{path: path, stamp: is, rows: rows, works: make(map[[sha256.Size]byte]*Key, len(rows))}
	ids, hashes := map[string]bool{}, map[hash]bool{}
	for i := range rows {
		r := &rows[i]
		switch {
		case r.ID == "", ids[r.ID]:
			return nil, fmt.Errorf("%s: key %d has no id of its own", path, i+1)
		case !validName(r.Name):
			return nil, fmt.Errorf("%s: key %d: %w", path, i+1, ErrName)
		case r.Hash == hash{}, hashes[r.Hash]:
			return nil, fmt.Errorf("%s: key %d has no sha256 of its own", path, i+1)
		}
		ids[r.ID], hashes[r.Hash] = true, true
		if !r.Revoked {
			k.works[r.Hash] = &r.Key
		}
	}
	return k, nil
}

// save replaces the file in one step, unless it is not the one that was read.
func save(path string, was stamp, rows []row) (*keys, error) {
	at, err := filepath.EvalSymlinks(path) // a link stays a link
	if err != nil {
		at = path
	}
	raw, err := json.MarshalIndent(document{rows}, "", "  ")
	if err != nil {
		return nil, err
	}
	if len(raw) >= maxFile { // it could not be read again, nor a key in it be revoked
		return nil, fmt.Errorf("it would be larger than %d bytes; take revoked keys out of it", maxFile)
	}
	var next *keys
	err = wholefile.Replace(at, append(raw, '\n'), func(temp string) (err error) {
		if next, err = index(path, look(temp), rows); err == nil && !look(path).same(was) { // somebody who takes no lock, such as an editor
			err = errChanged
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return next, nil
}
