// Package postgres keeps the ledger in a PostgreSQL database, which several routers may share. It must not know who writes
// it, nor what is asked, and no error of it shows the address of the database.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-llm/signalbox/router/ledger"
)

// Store is a table in a PostgreSQL database.
type Store struct {
	pool     *pgxpool.Pool
	instance string

	mu    sync.Mutex
	ready bool // the schema is there
}

// Limits of what waits for the database.
const (
	startLimit   = 5 * time.Second // a router starts without it
	connectLimit = 5 * time.Second // one connection
	connections  = 4               // one writes, the others ask
)

// schemaLock keeps routers that start at the same time from making the same table; any number that nobody else has.
const schemaLock = 0x5167_6e61_6c62_6f78

// schemaVersion stands in the table signalbox_schema.
const schemaVersion = 1

// Open opens the database at url and makes the table if there is none. instance is written into each row, so that routers
// can be told apart. A database that cannot be reached is no error: it is tried again with every write, and until then rows
// wait or are lost. One that refuses is.
func Open(ctx context.Context, url, instance string, log *slog.Logger) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL is not one of PostgreSQL: postgres://USER:PASSWORD@HOST:PORT/DATABASE") // err would show it
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = connections, connectLimit
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "signalbox"
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, plain(err)
	}
	s := &Store{pool: pool, instance: clean(instance)}
	limited, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := s.prepare(limited); err != nil {
		if refused(err) {
			s.Close()
			return nil, plain(err)
		}
		log.Warn("the usage database cannot be reached; it is tried again", "problem", plain(err))
	}
	return s, nil
}

// prepare makes the schema, once.
func (s *Store) prepare(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return nil
	}
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		there, err := exists(ctx, tx)
		if err != nil {
			return err
		}
		if there { // a role that may only write needs no more
			return checkVersion(ctx, tx)
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
			return err
		}
		if there, err = exists(ctx, tx); err != nil {
			return err
		}
		if there {
			return checkVersion(ctx, tx)
		}
		return create(ctx, tx)
	})
	s.ready = err == nil
	return err
}

// exists looks for the schema in the catalogue itself: to_regclass answers from a cache, which waiting for a lock does not
// refresh.
func exists(ctx context.Context, tx pgx.Tx) (there bool, err error) {
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_class WHERE relname = 'signalbox_schema' AND pg_table_is_visible(oid))").Scan(&there)
	return there, err
}

func create(ctx context.Context, tx pgx.Tx) error {
	steps := ledger.Schema("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "instance TEXT NOT NULL")
	steps = append(steps, "CREATE TABLE signalbox_schema (version INTEGER NOT NULL)", fmt.Sprintf("INSERT INTO signalbox_schema VALUES (%d)", schemaVersion))
	for _, step := range steps {
		if _, err := tx.Exec(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// errVersion is a schema that another release has made.
var errVersion = errors.New("another release made the tables there")

func checkVersion(ctx context.Context, tx pgx.Tx) error {
	var v int
	if err := tx.QueryRow(ctx, "SELECT version FROM signalbox_schema").Scan(&v); err != nil {
		return err
	}
	if v != schemaVersion {
		return fmt.Errorf("%w (version %d, not %d)", errVersion, v, schemaVersion)
	}
	return nil
}

// Append implements ledger.Store.
func (s *Store) Append(ctx context.Context, rows []ledger.Row, keep int) (pruned int64, err error) {
	if err := s.prepare(ctx); err != nil {
		return 0, plain(err)
	}
	columns, next := append([]string{"instance"}, ledger.ColumnNames()...), 0
	values := make([]any, 0, len(columns))
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{ledger.Table}, columns, pgx.CopyFromFunc(func() ([]any, error) {
			if next == len(rows) {
				return nil, nil
			}
			values = rows[next].Values(append(values[:0], s.instance))
			next++
			for i, v := range values {
				if text, ok := v.(string); ok {
					values[i] = clean(text)
				}
			}
			return values, nil
		}))
		if err != nil || keep <= 0 {
			return err
		}
		gone, err := tx.Exec(ctx, ledger.Prune, keep)
		pruned = gone.RowsAffected()
		return err
	})
	if err != nil {
		return 0, plain(err)
	}
	return pruned, nil
}

// clean leaves out what PostgreSQL takes in no text; some of it comes from clients.
func clean(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}

// Select implements ledger.Reader.
func (s *Store) Select(ctx context.Context, query string, args []any, each func(scan func(into ...any) error) error) error {
	if err := s.prepare(ctx); err != nil {
		return plain(err)
	}
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return plain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return plain(err)
		}
	}
	return plain(rows.Err())
}

// Size implements ledger.Reader: the table with its indices.
func (s *Store) Size(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT pg_total_relation_size('"+ledger.Table+"')").Scan(&n)
	return n, plain(err)
}

// Kind implements ledger.Reader.
func (s *Store) Kind() string { return "postgres" }

// Close implements ledger.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}

var _ ledger.Store = (*Store)(nil)
