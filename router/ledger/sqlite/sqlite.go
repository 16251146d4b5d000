// Package sqlite keeps the ledger in a file. It must not know who writes it, nor what is asked.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver, which needs no C

	"github.com/signalbox-llm/signalbox/router/ledger"
)

// Store is a SQLite file. One goroutine writes; any number may ask.
type Store struct {
	db    *sql.DB
	conn  *sql.Conn // of the writer
	many  *sql.Stmt // inserts chunk rows
	one   *sql.Stmt
	prune *sql.Stmt
	args  []any

	kinds          map[string]int64 // ids by what kindKey makes of the columns
	newKind, ofOld *sql.Stmt
	values         []any // of one row, in the order of ledger.Columns
	key            []byte

	path string
	file fs.FileInfo // of the writer
}

// chunk is how many rows one statement inserts: much of the cost is by statement.
const chunk = 32

// migrations bring a file from the version that is their index to the next; user_version says how far it is.
func migrations() [][]string { return [][]string{schema()} }

// Open opens the file at path, whose ~ is the user's home, for writing. It is made if there is none, for its owner alone.
func Open(ctx context.Context, path string) (*Store, error) {
	path, err := place(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite would let the group read it
	if err != nil {
		return nil, err
	}
	file, err := f.Stat()
	f.Close()
	if err != nil {
		return nil, err
	}
	db, err := open(path, "rwc")
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, kinds: map[string]int64{}, path: path, file: file}
	if err := s.prepare(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// OpenReadOnly opens a file that exists, for questions alone; a router may be writing to it.
func OpenReadOnly(ctx context.Context, path string) (*Store, error) {
	path, err := place(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	db, err := open(path, "ro")
	if err != nil {
		return nil, err
	}
	s := &Store{db: db}
	v, err := version(ctx, db)
	if err == nil && v != len(migrations()) {
		err = fmt.Errorf("it is no usage store of this release (version %d, not %d)", v, len(migrations()))
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// place is where the file is; what is a directory already cannot be it.
func place(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || os.IsPathSeparator(rest[0])) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = home + rest
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil
	}
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; name a file in it", path)
	}
	return path, err
}

// open sets up a pool. With NORMAL a row survives the end of the process, though not a loss of power at once.
func open(path, mode string) (*sql.DB, error) {
	q := url.Values{"mode": {mode}, "_txlock": {"immediate"}, "_pragma": {"busy_timeout(5000)"}}
	if mode != "ro" {
		q.Add("_pragma", "page_size(8192)") // of a new file: half the writes of the usual size
		q.Add("_pragma", "journal_mode(WAL)")
		q.Add("_pragma", "synchronous(NORMAL)")
		q.Add("_pragma", "wal_autocheckpoint(2000)") // each one waits for the disk twice
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", dsn.String())
	if err == nil {
		db.SetMaxOpenConns(4)
		db.SetMaxIdleConns(1)
	}
	return db, err
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func version(ctx context.Context, db querier) (v int, err error) {
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&v)
	return v, err
}

// prepare brings the schema up to date and prepares the writer's statements.
func (s *Store) prepare(ctx context.Context) (err error) {
	if s.conn, err = s.db.Conn(ctx); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	names := own()
	values := "(" + places(len(names)) + ")"
	// Without OR ROLLBACK every page is first copied, for the case that a statement fails half-way.
	insert := "INSERT OR ROLLBACK INTO " + rowTable + " (" + strings.Join(names, ", ") + ") VALUES " + values
	kind := strings.Join(kindColumns, ", ")
	for _, p := range []struct {
		into **sql.Stmt
		text string
	}{
		{&s.one, insert},
		{&s.many, insert + strings.Repeat(", "+values, chunk-1)},
		{&s.prune, numbered(strings.ReplaceAll(ledger.Prune, ledger.Table, rowTable))},
		{&s.newKind, "INSERT OR IGNORE INTO " + kindTable + " (" + kind + ") VALUES (" + places(len(kindColumns)) + ")"},
		{&s.ofOld, "SELECT id FROM " + kindTable + " WHERE (" + kind + ") = (" + places(len(kindColumns)) + ")"},
	} {
		if *p.into, err = s.conn.PrepareContext(ctx, p.text); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) migrate(ctx context.Context) error {
	tx, err := s.conn.BeginTx(ctx, nil) // immediate, so that two processes do not both see an old version
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	v, err := version(ctx, tx)
	if err != nil {
		return err
	}
	if v > len(migrations()) {
		return fmt.Errorf("a newer release wrote it (version %d, not %d)", v, len(migrations()))
	}
	for _, steps := range migrations()[v:] {
		for _, step := range steps {
			if _, err := tx.ExecContext(ctx, step); err != nil {
				return err
			}
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(migrations()))); err != nil {
		return err
	}
	return tx.Commit()
}

// errGone is a file that was deleted or replaced under the writer: SQLite would go on writing into what nobody can open again.
var errGone = errors.New("the file was deleted or replaced; restart the router to begin a new one")

// Append implements ledger.Store.
func (s *Store) Append(ctx context.Context, rows []ledger.Row, keep int) (pruned int64, err error) {
	if is, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(is, s.file) {
		return 0, errGone
	}
	tx, err := s.conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	defer func() {
		if err != nil {
			clear(s.kinds) // those that were new are gone again
		}
	}()
	for len(rows) > 0 {
		n, insert := 1, s.one
		if len(rows) >= chunk {
			n, insert = chunk, s.many
		}
		s.args = s.args[:0]
		for i := range rows[:n] {
			if err := s.bind(ctx, &rows[i]); err != nil {
				return 0, err
			}
		}
		if _, err := insert.ExecContext(ctx, s.args...); err != nil {
			return 0, err
		}
		rows = rows[n:]
	}
	if keep > 0 {
		gone, err := s.prune.ExecContext(ctx, keep)
		if err != nil {
			return 0, err
		}
		if pruned, err = gone.RowsAffected(); err != nil {
			return 0, err
		}
	}
	return pruned, tx.Commit()
}

// Select implements ledger.Reader.
func (s *Store) Select(ctx context.Context, query string, args []any, each func(scan func(into ...any) error) error) error {
	rows, err := s.db.QueryContext(ctx, numbered(query), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// numbered writes the places of arguments as SQLite does: $1 would be a name here.
func numbered(query string) string { return strings.ReplaceAll(query, "$", "?") }

// Size implements ledger.Reader: the pages of the file, as far as they are in use or were.
func (s *Store) Size(ctx context.Context) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").Scan(&n)
	return n, err
}

// Kind implements ledger.Reader.
func (s *Store) Kind() string { return "sqlite" }

// Close implements ledger.Store.
func (s *Store) Close() error {
	for _, stmt := range []*sql.Stmt{s.many, s.one, s.prune, s.newKind, s.ofOld} {
		if stmt != nil {
			stmt.Close()
		}
	}
	if s.conn != nil {
		s.conn.Close()
	}
	return s.db.Close()
}

var _ ledger.Store = (*Store)(nil)
