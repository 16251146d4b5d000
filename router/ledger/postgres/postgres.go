// Package postgres keeps the ledger in a PostgreSQL database, which several routers may share. It must not know who writes
// it, nor what is asked, and no error of it shows the address of the database.
package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/signalbox-llm/signalbox/router/ledger"
)

// Store is a table in a PostgreSQL database.
type Store struct {
	pool     *pool
	instance string

	mu    sync.Mutex
	ready bool // the schema is there
}

// Limits of what waits for the database.
const (
	startLimit   = 5 * time.Second // a router starts without it
	connectLimit = 5 * time.Second // one connection
)

// schemaLock keeps routers that start at the same time from making the same table; any number that nobody else has.
const schemaLock = 0x5167_6e61_6c62_6f78

// schemaVersion stands in the table signalbox_schema.
const schemaVersion = 1

// Open opens the database at url and makes the table if there is none. instance is written into each row, so that routers
// can be told apart. A database that cannot be reached is no error: it is tried again with every write, and until then rows
// wait or are lost. One that refuses is.
func Open(ctx context.Context, url, instance string, log *slog.Logger) (*Store, error) {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, errors.New("the URL is not one of PostgreSQL: postgres://USER:PASSWORD@HOST:PORT/DATABASE") // err would show it
	}
	cfg.ConnectTimeout = connectLimit
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "signalbox"
	}
	s := &Store{pool: newPool(cfg), instance: clean(instance)}
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
	err := s.pool.transaction(ctx, func(c *pgconn.PgConn) error {
		there, err := exists(ctx, c)
		if err != nil {
			return err
		}
		if there { // a role that may only write needs no more
			return checkVersion(ctx, c)
		}
		if _, err := exec(ctx, c, "SELECT pg_advisory_xact_lock($1)", int64(schemaLock)); err != nil {
			return err
		}
		if there, err = exists(ctx, c); err != nil {
			return err
		}
		if there {
			return checkVersion(ctx, c)
		}
		return create(ctx, c)
	})
	s.ready = err == nil
	return err
}

// exists looks for the schema in the catalogue itself: to_regclass answers from a cache, which waiting for a lock does not
// refresh.
func exists(ctx context.Context, c *pgconn.PgConn) (there bool, err error) {
	n, err := number(ctx, c, "SELECT COUNT(*) FROM pg_class WHERE relname = 'signalbox_schema' AND pg_table_is_visible(oid)")
	return n > 0, err
}

func create(ctx context.Context, c *pgconn.PgConn) error {
	steps := ledger.Schema("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "instance TEXT NOT NULL")
	steps = append(steps, "CREATE TABLE signalbox_schema (version INTEGER NOT NULL)", fmt.Sprintf("INSERT INTO signalbox_schema VALUES (%d)", schemaVersion))
	for _, step := range steps {
		if _, err := exec(ctx, c, step); err != nil {
			return err
		}
	}
	return nil
}

// errVersion is a schema that another release has made.
var errVersion = errors.New("another release made the tables there")

func checkVersion(ctx context.Context, c *pgconn.PgConn) error {
	v, err := number(ctx, c, "SELECT version FROM signalbox_schema")
	if err != nil {
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
	data := s.lines(rows)
	err = s.pool.transaction(ctx, func(c *pgconn.PgConn) error {
		if _, err := c.CopyFrom(ctx, bytes.NewReader(data), copyRows); err != nil || keep <= 0 {
			return err
		}
		gone, err := exec(ctx, c, ledger.Prune, keep)
		pruned = gone.RowsAffected()
		return err
	})
	if err != nil {
		return 0, plain(err)
	}
	return pruned, nil
}

// Select implements ledger.Reader.
func (s *Store) Select(ctx context.Context, text string, args []any, each func(scan func(into ...any) error) error) error {
	if err := s.prepare(ctx); err != nil {
		return plain(err)
	}
	return plain(s.pool.use(ctx, func(c *pgconn.PgConn) error { return query(ctx, c, text, args, each) }))
}

// Size implements ledger.Reader: the table with its indices.
func (s *Store) Size(ctx context.Context) (n int64, err error) {
	err = s.pool.use(ctx, func(c *pgconn.PgConn) (err error) {
		n, err = number(ctx, c, "SELECT pg_total_relation_size('"+ledger.Table+"')")
		return err
	})
	return n, plain(err)
}

// Kind implements ledger.Reader.
func (s *Store) Kind() string { return "postgres" }

// Close implements ledger.Store.
func (s *Store) Close() error {
	s.pool.close()
	return nil
}

var _ ledger.Store = (*Store)(nil)
