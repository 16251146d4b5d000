package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/signalbox-llm/signalbox/router/ledger"
)

// Values go to the database and come from it as text, which knows all types there are here.

// copyRows takes what lines makes.
var copyRows = "COPY " + ledger.Table + " (instance, " + strings.Join(ledger.ColumnNames(), ", ") + ") FROM STDIN"

// lines are rows as COPY reads them: a line each, tabs between values, \N for NULL.
func (s *Store) lines(rows []ledger.Row) (b []byte) {
	var values []any
	for i := range rows {
		values = rows[i].Values(append(values[:0], s.instance))
		for j, v := range values {
			if j > 0 {
				b = append(b, '\t')
			}
			b = appendCopied(b, v)
		}
		b = append(b, '\n')
	}
	return b
}

// escapes are of what COPY would take for the end of a value or of a row.
var escapes = strings.NewReplacer("\\", "\\\\", "\t", "\\t", "\n", "\\n", "\r", "\\r")

func appendCopied(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "\\N"...)
	case string:
		return append(b, escapes.Replace(clean(v))...)
	default:
		return fmt.Append(b, v)
	}
}

// clean leaves out what PostgreSQL takes in no text; some of it comes from clients.
func clean(text string) string {
	if utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
}

// exec runs a statement whose rows nobody wants.
func exec(ctx context.Context, c *pgconn.PgConn, text string, args ...any) (pgconn.CommandTag, error) {
	return start(ctx, c, text, args).Close()
}

// number asks for one.
func number(ctx context.Context, c *pgconn.PgConn, text string) (n int64, err error) {
	err = query(ctx, c, text, nil, func(scan func(...any) error) error { return scan(&n) })
	return n, err
}

// query runs a question, and calls each for every row.
func query(ctx context.Context, c *pgconn.PgConn, text string, args []any, each func(scan func(into ...any) error) error) error {
	r := start(ctx, c, text, args)
	for r.NextRow() {
		if err := each(func(into ...any) error { return scan(r.Values(), into) }); err != nil {
			_, _ = r.Close()
			return err
		}
	}
	_, err := r.Close()
	return err
}

func start(ctx context.Context, c *pgconn.PgConn, text string, args []any) *pgconn.ResultReader {
	values := make([][]byte, len(args))
	for i, v := range args {
		values[i] = fmt.Append(nil, v)
	}
	return c.ExecParams(ctx, text, values, nil, nil, nil)
}

// scan reads a row; a place for what may be NULL is a pointer to a pointer.
func scan(values [][]byte, into []any) error {
	if len(values) != len(into) {
		return errors.New("the database answers with other columns than it was asked for")
	}
	for i, v := range values {
		if err := read(v, into[i]); err != nil {
			return err
		}
	}
	return nil
}

func read(v []byte, into any) (err error) {
	switch into := into.(type) {
	case *string:
		*into = string(v)
	case *int64:
		*into, err = strconv.ParseInt(string(v), 10, 64)
	case *float64:
		*into, err = strconv.ParseFloat(string(v), 64)
	case **int64:
		*into = nil
		if v != nil {
			*into = new(int64)
			return read(v, *into)
		}
	case **float64:
		*into = nil
		if v != nil {
			*into = new(float64)
			return read(v, *into)
		}
	default:
		err = fmt.Errorf("a %T is no place for a value of the database", into)
	}
	return err
}
