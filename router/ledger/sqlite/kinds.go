package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/signalbox-llm/signalbox/router/ledger"
)

// Most rows say the same of who asked for what and how it went. What they share is a row of a table of its own, a kind, so
// that a row costs half as much to write and to keep. Questions see one table, which is a view.
const (
	rowTable  = ledger.Table + "_rows"
	kindTable = ledger.Table + "_kinds"
)

// kindColumns are shared.
var kindColumns = []string{
	"wire", "model", "upstream", "upstream_model", "key_name", "agent", "decision", "outcome", "error_class", "status", "attempts", "stream",
	"cost_source", "request",
}

// maxKinds is how many kinds are remembered; a file may have more.
const maxKinds = 10_000

// own are the columns that a row has itself, and the one that names its kind.
func own() []string {
	names := []string{"kind"}
	for _, name := range ledger.ColumnNames() {
		if !slices.Contains(kindColumns, name) {
			names = append(names, name)
		}
	}
	return names
}

// schema makes the tables, the view and the index.
func schema() []string {
	rows, kinds, view := []string{"id INTEGER PRIMARY KEY", "kind INTEGER NOT NULL"}, []string{"id INTEGER PRIMARY KEY"}, []string{"r.id"}
	for _, c := range ledger.Columns {
		column := c.Name + " " + c.Type
		if slices.Contains(kindColumns, c.Name) {
			kinds, view = append(kinds, column), append(view, "k."+c.Name)
		} else {
			rows, view = append(rows, column), append(view, "r."+c.Name)
		}
	}
	return []string{
		"CREATE TABLE " + kindTable + " (" + strings.Join(kinds, ", ") + ", UNIQUE (" + strings.Join(kindColumns, ", ") + "))",
		"CREATE TABLE " + rowTable + " (" + strings.Join(rows, ", ") + ")",
		"CREATE INDEX " + ledger.Table + "_at ON " + rowTable + " (at)",
		// LEFT, so that a question that needs no kind does not look for it.
		"CREATE VIEW " + ledger.Table + " AS SELECT " + strings.Join(view, ", ") + " FROM " + rowTable + " r LEFT JOIN " + kindTable + " k ON k.id = r.kind",
	}
}

func places(n int) string { return "?" + strings.Repeat(", ?", n-1) }

// isKind tells of each of ledger.Columns whether it is shared.
var isKind = func() []bool {
	var list []bool
	for _, name := range ledger.ColumnNames() {
		list = append(list, slices.Contains(kindColumns, name))
	}
	return list
}()

// bind appends a row's arguments, after that of its kind, which is made if it is new.
func (s *Store) bind(ctx context.Context, row *ledger.Row) error {
	s.values, s.key = row.Values(s.values[:0]), s.key[:0]
	at := len(s.args)
	s.args = append(s.args, nil)
	for i, v := range s.values {
		if !isKind[i] {
			s.args = append(s.args, v)
			continue
		}
		switch v := v.(type) {
		case string:
			s.key = strconv.AppendInt(s.key, int64(len(v)), 10)
			s.key = append(append(s.key, ':'), v...)
		case int64:
			s.key = append(strconv.AppendInt(s.key, v, 10), ';')
		}
	}
	id, ok := s.kinds[string(s.key)]
	if !ok {
		var err error
		if id, err = s.kind(ctx); err != nil {
			return err
		}
	}
	s.args[at] = id
	return nil
}

// kind finds or makes the kind of the row that is bound.
func (s *Store) kind(ctx context.Context) (id int64, err error) {
	var args []any
	for _, name := range kindColumns {
		args = append(args, s.values[slices.Index(ledger.ColumnNames(), name)])
	}
	if _, err := s.newKind.ExecContext(ctx, args...); err != nil {
		return 0, err
	}
	if err := s.ofOld.QueryRowContext(ctx, args...).Scan(&id); err != nil {
		return 0, fmt.Errorf("the kind of a row: %w", err)
	}
	if len(s.kinds) >= maxKinds {
		clear(s.kinds)
	}
	s.kinds[string(s.key)] = id
	return id, nil
}
