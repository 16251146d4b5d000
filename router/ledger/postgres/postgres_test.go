package postgres

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/ledger/ledgertest"
)

func TestStore(t *testing.T) {
	url, _, _ := ledgertest.Postgres(t)
	stores := make([]*Store, 4) // routers that start at the same time
	var all sync.WaitGroup
	for i := range stores {
		all.Go(func() {
			s, err := Open(context.Background(), url, "signalbox@test", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	for _, s := range stores {
		defer s.Close()
		if !s.ready {
			t.Error("a store has no schema")
		}
	}
	ledgertest.Check(t, stores[0])
	// What COPY reads for more than itself comes back as it was.
	odd := ledgertest.Row(8000)
	odd.Key = "\\N\ttab\nline\rreturn\\.\n\\.\n\u2028 \b\v end\\"
	if _, err := stores[0].Append(t.Context(), []ledger.Row{odd, ledgertest.Row(8001)}, 0); err != nil {
		t.Fatal(err)
	}
	var keys int64
	err := stores[3].Select(t.Context(), "SELECT COUNT(*) FROM signalbox_usage WHERE key_name = $1 AND at = $2", []any{odd.Key, odd.At.UnixMicro()}, func(scan func(...any) error) error {
		return scan(&keys)
	})
	if err != nil || keys != 1 {
		t.Errorf("%d rows of an odd key, %v", keys, err)
	}
	// They share the table, and say whose rows are whose.
	if _, err := stores[1].Append(t.Context(), []ledger.Row{ledgertest.Row(9000)}, 0); err != nil {
		t.Fatal(err)
	}
	var rows, instances int64
	err = stores[2].Select(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT instance) FROM signalbox_usage WHERE instance = $1", []any{"signalbox@test"}, func(scan func(...any) error) error {
		return scan(&rows, &instances)
	})
	if err != nil || rows != 6 || instances != 1 {
		t.Errorf("%d rows of %d instances, %v", rows, instances, err)
	}
}

func TestAServerThatGoesAndComesBack(t *testing.T) {
	url, stop, start := ledgertest.Postgres(t)
	stop()
	var log bytes.Buffer
	begun := time.Now()
	s, err := Open(t.Context(), url, "", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || time.Since(begun) > startLimit+time.Second {
		t.Fatalf("a server that is down keeps from starting: %v after %v", err, time.Since(begun))
	}
	if !strings.Contains(log.String(), "cannot be reached") {
		t.Errorf("log %q", log.String())
	}
	l := ledger.New(s, ledger.Options{Logger: slog.New(slog.DiscardHandler)})
	row := ledgertest.Row(0)
	l.Add(&row)
	start()
	await(t, l, 1)
	stop() // with connections open
	l.Add(&row)
	start()
	await(t, l, 2)
	if err := l.Close(t.Context()); err != nil || l.Dropped() != 0 {
		t.Errorf("%v, dropped %d", err, l.Dropped())
	}
}

// await waits until there are so many rows.
func await(t *testing.T, l *ledger.Ledger, rows int64) {
	t.Helper()
	tick, late := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		if a, err := l.Ask(t.Context(), ledger.Question{Limit: 1}); err == nil && a.Store.Rows == rows {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain for %d rows", rows)
		}
	}
}

// TestConnections lends more than there are, and breaks some.
func TestConnections(t *testing.T) {
	url, _, _ := ledgertest.Postgres(t)
	cfg, err := pgconn.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(cfg)
	defer p.close()
	var lent, most atomic.Int64
	var all sync.WaitGroup
	for i := range 5 * connections {
		all.Go(func() {
			err := p.use(t.Context(), func(c *pgconn.PgConn) error {
				n := lent.Add(1)
				defer lent.Add(-1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				switch i % 4 {
				case 0: // left in a transaction that failed
					_, _ = exec(t.Context(), c, "BEGIN")
					_, _ = exec(t.Context(), c, "SELECT nothing")
				case 1: // ended in the middle
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					_, _ = exec(ctx, c, "SELECT pg_sleep(60)")
				case 2: // a row that fits nowhere
					var n int64
					err := query(t.Context(), c, "SELECT 'x', 1 UNION ALL SELECT 'y', 2", nil, func(scan func(...any) error) error { return scan(&n, &n) })
					if err == nil {
						t.Error("a word is read as a number")
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if most.Load() > connections || len(p.idle) > spare {
		t.Errorf("%d connections at once, %d idle ones", most.Load(), len(p.idle))
	}
	err = p.transaction(t.Context(), func(c *pgconn.PgConn) error {
		one, err := number(t.Context(), c, "SELECT 1")
		if err == nil && one != 1 {
			t.Errorf("one is %d", one)
		}
		return err
	})
	if err != nil {
		t.Errorf("after all that: %v", err)
	}
	// A question gives up when all are lent for too long.
	for range connections {
		p.slots <- struct{}{}
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := p.use(short, func(*pgconn.PgConn) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waited for a connection: %v", err)
	}
}

// TestScan reads every type that rows have, and refuses the rest.
func TestScan(t *testing.T) {
	type row struct {
		N     int64
		F     float64
		S     string
		PN    *int64
		PF    *float64
		Null  *int64
		Empty *float64
	}
	got := row{Null: new(int64), Empty: new(float64)}
	into := []any{&got.N, &got.F, &got.S, &got.PN, &got.PF, &got.Null, &got.Empty}
	values := [][]byte{[]byte("-12"), []byte("1e-07"), []byte("ü\t"), []byte("9223372036854775807"), []byte("0.1"), nil, nil}
	if err := scan(values, into); err != nil {
		t.Fatal(err)
	}
	want := row{N: -12, F: 1e-7, S: "ü\t", PN: new(int64(math.MaxInt64)), PF: new(0.1)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var n int64
	var odd uint8
	for name, err := range map[string]error{
		"NULL as a number": scan([][]byte{nil}, []any{&n}), "a fraction as a number": scan([][]byte{[]byte("1.5")}, []any{&n}),
		"too few places": scan(values, into[1:]), "an unknown place": scan(values[:1], []any{&odd}),
	} {
		if err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

// TestErrorsKeepTheURL has everything go wrong that can.
func TestErrorsKeepTheURL(t *testing.T) {
	url, _, _ := ledgertest.Postgres(t)
	for _, wrong := range []string{
		strings.Replace(url, "/postgres?", "/hunter2?", 1),
		strings.Replace(url, "signalbox@", "hunter2:hunter2@", 1),
	} {
		_, err := Open(t.Context(), wrong, "", slog.New(slog.DiscardHandler))
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.HasPrefix(err.Error(), "the database refuses: ") {
			t.Errorf("%v", err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, c := range []struct{ url, err, log string }{
		{"postgres://u:hunter2@h:port/db", "the URL is not one of PostgreSQL", ""},
		{"postgres://u:hunter2@127.0.0.1:1/db?sslmode=hunter2", "the URL is not one of PostgreSQL", ""},
		{"postgres://u:hunter2@" + gone.Addr().String() + "/hunter2", "", "connection refused"},
		{"postgres://u:hunter2@hunter2.invalid/db", "", "the database cannot be reached"},
		{"postgres://u:hunter2@" + silent.Addr().String() + "/hunter2?connect_timeout=1", "", "does not answer in time"},
	} {
		var log bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		s, err := Open(ctx, c.url, "", slog.New(slog.NewTextHandler(&log, nil)))
		cancel()
		text := log.String()
		if err != nil {
			text += err.Error()
		} else {
			s.Close()
		}
		if c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) || c.err == "" && err != nil || !strings.Contains(text, c.log) || strings.Contains(text, "hunter2") {
			t.Errorf("%v, log %q", err, log.String())
		}
	}
}
