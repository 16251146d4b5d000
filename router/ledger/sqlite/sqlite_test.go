package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/ledger/ledgertest"
)

// childFile names the variable that makes this program a child which writes rows until it is killed.
const childFile = "SIGNALBOX_LEDGER_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		child(path)
	}
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "of ?#%41 signs", "usage.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ledgertest.Check(t, s)
	for _, file := range []string{path, path + "-wal"} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v, want 0600", file, info, err)
		}
	}
	r, err := OpenReadOnly(t.Context(), path) // beside the writer
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	a, err := ledger.Ask(t.Context(), r, ledger.Question{Limit: 1})
	if err != nil || a.Store.Rows != 3 {
		t.Errorf("%+v %v", a, err)
	}
	if _, err := r.db.ExecContext(t.Context(), "DELETE FROM "+ledger.Table); err == nil {
		t.Error("a reader can delete")
	}
}

func TestManyRowsGoInChunks(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "usage.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := make([]ledger.Row, 2*chunk+3)
	for i := range rows {
		rows[i] = ledgertest.Row(i)
	}
	if _, err := s.Append(t.Context(), rows, 0); err != nil {
		t.Fatal(err)
	}
	a, err := ledger.Ask(t.Context(), s, ledger.Question{Limit: 1000})
	if err != nil || len(a.Requests) != len(rows) || a.Requests[0].Call != rows[len(rows)-1].Call {
		t.Errorf("%d rows, %v", len(a.Requests), err)
	}
	// The index serves spans of time.
	var plan, step string
	err = s.Select(t.Context(), "EXPLAIN QUERY PLAN SELECT SUM(request) FROM "+ledger.Table+" WHERE at >= $1", []any{int64(1)}, func(scan func(...any) error) error {
		var a, b, c int
		err := scan(&a, &b, &c, &step)
		plan += step + "; "
		return err
	})
	if err != nil || !strings.Contains(plan, ledger.Table+"_at") {
		t.Errorf("plan %q %v", plan, err)
	}
}

func TestPlaces(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	s, err := Open(t.Context(), "~/kept/usage.db")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := os.Stat(filepath.Join(home, "kept", "usage.db")); err != nil {
		t.Error(err)
	}
	if _, err := Open(t.Context(), home); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if _, err := OpenReadOnly(t.Context(), filepath.Join(home, "none.db")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	text := filepath.Join(home, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), text); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("a text: %v", err)
	}
}

func TestNewerFilesAreLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if _, err := Open(t.Context(), path); err == nil || !strings.Contains(err.Error(), "a newer release wrote it") {
		t.Errorf("write: %v", err)
	}
	if _, err := OpenReadOnly(t.Context(), path); err == nil || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("read: %v", err)
	}
}

// child writes a row a millisecond and says which when it has handed it over.
func child(path string) {
	s, err := Open(context.Background(), path)
	if err != nil {
		panic(err)
	}
	l := ledger.New(s, ledger.Options{})
	for i, tick := 0, time.NewTicker(time.Millisecond); ; i++ {
		<-tick.C
		row := ledgertest.Row(i)
		row.At = time.Now()
		l.Add(&row)
		fmt.Println(row.Call, row.At.UnixMicro())
	}
}

// TestKilledProcessLosesAMoment kills a process that writes. What it had handed over 250 ms before is there; how late the
// machine lets the writer run is on top of that, so the bound here is a second.
func TestKilledProcessLosesAMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childFile+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var calls []string
	var times []int64
	for lines := bufio.NewScanner(out); lines.Scan(); {
		call, at, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		calls, times = append(calls, call), append(times, n)
		if len(calls) == 700 {
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := ledger.Ask(t.Context(), s, ledger.Question{Limit: 1})
	if err != nil || len(a.Requests) != 1 {
		t.Fatalf("%+v %v", a, err)
	}
	kept := int(a.Store.Rows)
	if a.Requests[0].Call != calls[kept-1] {
		t.Errorf("%d rows, the newest is %s, want %s: there are gaps", kept, a.Requests[0].Call, calls[kept-1])
	}
	lost := time.Duration(times[len(times)-1]-times[kept-1]) * time.Microsecond
	t.Logf("of %d rows %d are kept; the last %v are lost", len(calls), kept, lost)
	if lost > time.Second {
		t.Errorf("the last %v are lost", lost)
	}
}

func BenchmarkAppend(b *testing.B) {
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "usage.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	rows := make([]ledger.Row, 256)
	for i := range rows {
		rows[i] = ledgertest.Row(i)
	}
	b.ReportAllocs()
	from, n := processor(b), 0
	for b.Loop() {
		if _, err := s.Append(b.Context(), rows, 0); err != nil {
			b.Fatal(err)
		}
		n += len(rows)
	}
	b.ReportMetric(float64((processor(b)-from).Nanoseconds())/float64(n), "cpu-ns/row")
	size, _ := s.Size(b.Context())
	b.ReportMetric(float64(size)/float64(n), "bytes/row")
}

// processor is how long this process was on a processor.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Rows that differ in what they share come back as they were written, also after a write that failed half-way, and with
// more kinds than are remembered.
func TestKinds(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "usage.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	row := func(n int) ledger.Row {
		r := ledgertest.Row(n)
		r.Upstream, r.UpstreamModel = "a:1", strings.Repeat("1;", n%7)
		r.Key = strconv.Itoa(n % 5)
		return r
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Append(cancelled, []ledger.Row{row(1)}, 0); err == nil {
		t.Error("a write was not cancelled")
	}
	var rows []ledger.Row
	for n := range 3*chunk + 5 {
		rows = append(rows, row(n))
	}
	for _, part := range [][]ledger.Row{rows[:chunk+3], rows[chunk+3:]} {
		if _, err := s.Append(t.Context(), part, 0); err != nil {
			t.Fatal(err)
		}
		clear(s.kinds)
	}
	a, err := ledger.Ask(t.Context(), s, ledger.Question{Limit: 1000})
	if err != nil || len(a.Requests) != len(rows) {
		t.Fatalf("%d rows, %v", len(a.Requests), err)
	}
	for i, got := range a.Requests {
		want := rows[len(rows)-1-i]
		if got.Call != want.Call || got.Upstream != want.Upstream || got.UpstreamModel != want.UpstreamModel || got.Key != want.Key || got.Outcome != want.Outcome {
			t.Errorf("row %d is %+v, want %+v", i, got, want)
		}
	}
	var kinds int
	if err := s.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+kindTable).Scan(&kinds); err != nil || kinds >= len(rows) {
		t.Errorf("%d kinds of %d rows, %v", kinds, len(rows), err)
	}
}
