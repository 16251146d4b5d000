// Package keyring keeps the inference keys that are issued while the router runs, in a file that has their hashes only. It
// must not know what a key is good for, nor who asks.
package keyring

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-llm/signalbox/router/secrets/wholefile"
)

// Prefix is what every issued key begins with, so that scanners for secrets know one when they see it.
const Prefix = "sk-sb-"

const (
	randomBytes = 24
	maxName     = 64          // characters
	lookEvery   = time.Second // at most this often is the file looked at
)

// What an order can be refused for.
var (
	ErrOff     = errors.New("no file for issued keys is configured")
	ErrUnknown = errors.New("there is no issued key with this id")
	ErrTaken   = errors.New("another key that works has this name")
	ErrName    = errors.New("a name has 1 to 64 characters, no control characters and no space around it")
)

// Key is one issued key without its secret.
type Key struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Group     string    `json:"group,omitempty"` // of upstreams that it may use; empty = all
	CreatedAt time.Time `json:"createdAt"`
	Revoked   bool      `json:"revoked"`
}

// Ring is the keys of one file. What others write into that file (a replica, an editor) is noticed within a second of
// use; a file that cannot be read then leaves the keys as they were, and is logged. It is safe for concurrent use.
type Ring struct {
	now    func() time.Time
	log    *slog.Logger
	keys   atomic.Pointer[keys]
	looked atomic.Int64 // when the file was last looked at, Unix nanoseconds

	mu    sync.Mutex // held while the file is read or written
	wrong string     // what was wrong with it when it was last read, so that it is told once
}

// keys is what a file held; it is replaced, never changed.
type keys struct {
	path  string // empty = off
	stamp stamp
	rows  []row // in the order in which they were issued
	works map[[sha256.Size]byte]*Key
}

// New returns a ring that is off until Use names its file. Log gets what is wrong with it later.
func New(now func() time.Time, log *slog.Logger) *Ring {
	r := &Ring{now: now, log: log}
	r.keys.Store(&keys{})
	return r
}

// Use changes to another file, or with an empty path to none. A file that is not there yet has no keys; one that cannot be
// read or used is an error, and nothing changes. The path that is in use already is left alone.
func (r *Ring) Use(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if path == r.keys.Load().path {
		return nil
	}
	next := &keys{}
	if path != "" {
		var err error
		if next, err = load(path); err != nil {
			return err
		}
	}
	r.wrong = ""
	r.looked.Store(r.now().UnixNano())
	r.keys.Store(next)
	return nil
}

// Active reports whether there is a file.
func (r *Ring) Active() bool { return r.keys.Load().path != "" }

// Find returns the name and the group of a key that was issued and not revoked.
func (r *Ring) Find(key string) (name, group string, ok bool) {
	var room [128]byte // on the stack: every request comes by here
	k := r.fresh().works[sha256.Sum256(append(room[:0], key...))]
	if k == nil {
		return "", "", false
	}
	return k.Name, k.Group, true
}

// List returns all keys, revoked ones too, oldest first.
func (r *Ring) List() []Key {
	rows := r.fresh().rows
	list := make([]Key, len(rows))
	for i := range rows {
		list[i] = rows[i].Key
	}
	return list
}

// Issue makes a key. The secret is returned here and never again. Two keys that work never have one name, by which they
// would be taken for the same caller.
func (r *Ring) Issue(name, group string) (k Key, secret string, err error) {
	if !validName(name) {
		return k, "", ErrName
	}
	random := make([]byte, randomBytes)
	_, _ = rand.Read(random) // it never fails
	secret = Prefix + base64.RawURLEncoding.EncodeToString(random)
	k = Key{ID: "k" + strings.ToLower(rand.Text()[:10]), Name: name, Group: group, CreatedAt: r.now().UTC().Truncate(time.Second)}
	err = r.change(func(rows []row) ([]row, error) {
		if slices.ContainsFunc(rows, func(o row) bool { return o.Name == name && !o.Revoked }) {
			return nil, ErrTaken
		}
		return append(rows, row{Key: k, Hash: hash(sha256.Sum256([]byte(secret)))}), nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

// Revoke makes a key useless for ever; its row stays, so that what it did keeps a name. Twice is no error.
func (r *Ring) Revoke(id string) (k Key, err error) {
	err = r.change(func(rows []row) ([]row, error) {
		i := slices.IndexFunc(rows, func(o row) bool { return o.ID == id })
		if i < 0 {
			return nil, ErrUnknown
		}
		rows[i].Revoked = true
		k = rows[i].Key
		return rows, nil
	})
	return k, err
}

// attempts is how often a change is made anew because others wrote the file meanwhile.
const attempts = 5

// change writes the file with other rows; edit gets a copy of what it holds now.
func (r *Ring) change(edit func([]row) ([]row, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := r.keys.Load().path
	if path == "" {
		return ErrOff
	}
	unlock, err := wholefile.Lock(path + ".lock") // other replicas
	if err != nil {
		return fmt.Errorf("the file of issued keys cannot be locked: %w", err)
	}
	defer unlock()
	for range attempts {
		now, err := load(path)
		if err != nil {
			return err
		}
		rows, err := edit(slices.Clone(now.rows))
		if err != nil {
			return err
		}
		next, err := save(path, now.stamp, rows)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return fmt.Errorf("the file of issued keys: %w", err)
		}
		r.keys.Store(next)
		return nil
	}
	return fmt.Errorf("the file of issued keys: %w", errChanged)
}

// fresh returns the keys, after a look at the file if the last one is a second ago. Only one caller looks, and the others
// do not wait for it.
func (r *Ring) fresh() *keys {
	now, last := r.now().UnixNano(), r.looked.Load()
	if age := time.Duration(now - last); age >= 0 && age < lookEvery || !r.looked.CompareAndSwap(last, now) || !r.mu.TryLock() {
		return r.keys.Load()
	}
	defer r.mu.Unlock()
	have := r.keys.Load()
	if have.path == "" {
		return have
	}
	if look(have.path).same(have.stamp) {
		return have
	}
	next, err := load(have.path)
	if err != nil {
		if r.wrong != err.Error() {
			r.wrong = err.Error()
			r.log.Error("the file of issued keys cannot be used; the keys it had stay as they were", "error", err)
		}
		return have
	}
	r.wrong = ""
	r.keys.Store(next)
	r.log.Info("the file of issued keys was read anew", "keys", len(next.works))
	return next
}

// validName reports whether people can tell a key by this name.
func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && utf8.RuneCountInString(name) <= maxName &&
		strings.TrimSpace(name) == name && !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}
