package postgres

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

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
	// They share the table, and say whose rows are whose.
	if _, err := stores[1].Append(t.Context(), []ledger.Row{ledgertest.Row(9000)}, 0); err != nil {
		t.Fatal(err)
	}
	var rows, instances int
	err := stores[2].Select(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT instance) FROM signalbox_usage WHERE instance = $1", []any{"signalbox@test"}, func(scan func(...any) error) error {
		return scan(&rows, &instances)
	})
	if err != nil || rows != 4 || instances != 1 {
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
