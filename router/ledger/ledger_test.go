package ledger

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shelf is a store in memory that fails or waits when told to.
type shelf struct {
	mu      sync.Mutex
	batches [][]Row
	fail    error
	gate    chan struct{} // nil: open
	closed  bool
}

func (s *shelf) Append(ctx context.Context, rows []Row, _ int) (int64, error) {
	s.mu.Lock()
	gate, fail := s.gate, s.fail
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if fail != nil {
		return 0, fail
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = append(s.batches, slices.Clone(rows))
	return 2, nil
}

func (s *shelf) set(fail error, gate chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.gate = fail, gate
}

// sizes are those of the batches.
func (s *shelf) sizes() (n []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.batches {
		n = append(n, len(b))
	}
	return n
}

func (s *shelf) rows() (n int) {
	for _, size := range s.sizes() {
		n += size
	}
	return n
}

func (s *shelf) Select(context.Context, string, []any, func(func(...any) error) error) error {
	return nil
}

func (s *shelf) Size(context.Context) (int64, error) { return 0, nil }

func (s *shelf) Kind() string { return "shelf" }

func (s *shelf) Close() error { s.closed = true; return nil }

// bubble runs f with a ledger on a shelf, in time that costs nothing.
func bubble(t *testing.T, f func(t *testing.T, l *Ledger, s *shelf, log *bytes.Buffer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, log := &shelf{}, &bytes.Buffer{}
		l := New(s, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		f(t, l, s, log)
	})
}

func add(l *Ledger, n int) {
	for range n {
		l.Add(&Row{Call: "x"})
	}
}

func TestRowsWaitForOthersButNotForLong(t *testing.T) {
	bubble(t, func(t *testing.T, l *Ledger, s *shelf, _ *bytes.Buffer) {
		add(l, 3)
		time.Sleep(interval - 1)
		synctest.Wait()
		if n := s.rows(); n != 0 {
			t.Errorf("%d rows were written before their time", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := s.rows(); n != 3 {
			t.Errorf("%d rows after %v, want 3", n, interval)
		}
		add(l, batch)
		synctest.Wait()
		if n := s.rows(); n != 3+batch {
			t.Errorf("%d rows: a whole batch must not wait", n)
		}
		add(l, 5)
		if err := l.Close(t.Context()); err != nil || s.rows() != 8+batch || !s.closed || l.Dropped() != 0 || l.pruned.Load() != 6 {
			t.Errorf("%v, %d rows, closed %v, dropped %d, pruned %d", err, s.rows(), s.closed, l.Dropped(), l.pruned.Load())
		}
	})
}

func TestAStoreThatHangsHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T, l *Ledger, s *shelf, log *bytes.Buffer) {
		gate := make(chan struct{})
		s.set(nil, gate)
		add(l, batch)
		synctest.Wait() // the writer has them and hangs
		begun := time.Now()
		add(l, queued+10)
		if waited := time.Since(begun); waited != 0 || l.Dropped() != 10 {
			t.Errorf("waited %v, dropped %d, want 10", waited, l.Dropped())
		}
		close(gate)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := s.rows(); n != batch+queued {
			t.Errorf("%d rows, want %d", n, batch+queued)
		}
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "dropped=10") {
			t.Errorf("log %q", text)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestAnOutageLosesNothingWhileThereIsRoom(t *testing.T) {
	bubble(t, func(t *testing.T, l *Ledger, s *shelf, log *bytes.Buffer) {
		s.set(errors.New("gone fishing"), nil)
		for range 150 { // seconds, with a line in the log at most once a minute
			add(l, 1)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "gone fishing"); n < 2 || n > 3 {
			t.Errorf("%d lines in the log:\n%s", n, log)
		}
		s.set(nil, nil)
		time.Sleep(retryLate + interval)
		synctest.Wait()
		if s.rows() != 150 || l.Dropped() != 0 {
			t.Errorf("%d rows, %d dropped", s.rows(), l.Dropped())
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestALongOutageKeepsTheNewest(t *testing.T) {
	bubble(t, func(t *testing.T, l *Ledger, s *shelf, _ *bytes.Buffer) {
		s.set(errors.New("no"), nil)
		add(l, batch)
		synctest.Wait()
		add(l, queued)
		time.Sleep(2 * retrySoon) // the next try sees the full queue and gives the old rows up
		synctest.Wait()
		if got := l.Dropped(); got != batch {
			t.Errorf("dropped %d, want %d", got, batch)
		}
		if err := l.Close(t.Context()); err == nil || l.Dropped() != batch+queued || !strings.Contains(err.Error(), "8192") {
			t.Errorf("%v, dropped %d", err, l.Dropped())
		}
	})
}

func TestCloseDoesNotWaitForever(t *testing.T) {
	bubble(t, func(t *testing.T, l *Ledger, s *shelf, _ *bytes.Buffer) {
		s.set(nil, make(chan struct{}))
		add(l, 7)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		err := l.Close(ctx)
		if took := time.Since(begun); took > 5*time.Second || err == nil || l.Dropped() != 7 || !s.closed {
			t.Errorf("took %v, %v, dropped %d", took, err, l.Dropped())
		}
	})
}

func TestQuestionsAreChecked(t *testing.T) {
	now := time.Date(2030, 1, 8, 12, 0, 0, 0, time.UTC)
	for query, want := range map[string]string{
		"since=yesterday":                        `"since" must be a time`,
		"since=2026-11-31":                       `"since" must be a time`,
		"until=-3h":                              `"until" must be a time`,
		"since=1h&until=2h":                      `"since" must be before`,
		"limit=0":                                `"limit" must be`,
		"limit=many":                             `"limit" must be`,
		"group_by=colour":                        `"group_by" must be one or two of model`,
		"group_by=model,day,hour":                `"group_by" takes at most 2`,
		"group_by=model,model":                   `"group_by" has model twice`,
		"nodel=x":                                `"nodel" is not known here`,
		"model=a&model=b":                        `"model" stands 2 times`,
		"":                                       "",
		"since=&model=":                          "",
		"since=7d&until=2030-01-02T00:00:00Z":    "",
		"since=1.5d&limit=1001&group_by=day,key": "",
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseQuestion(values, now)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %q", query, err, want)
		case want == "" && (q.Limit != limitDefault || len(q.Filters) != 0):
			t.Errorf("%s: %+v", query, q)
		}
	}
	q, err := ParseQuestion(url.Values{"since": {"7d"}, "until": {"90m"}, "session": {"a conversation"}}, now)
	if err != nil || !q.Since.Equal(now.AddDate(0, 0, -7)) || !q.Until.Equal(now.Add(-90*time.Minute)) || q.Filters[0].Value != HashSession("a conversation") {
		t.Errorf("%+v %v", q, err)
	}
	for since, want := range map[string]time.Time{
		"2029-12-31": time.Date(2029, 12, 31, 0, 0, 0, 0, time.UTC),
		"today":      time.Date(2030, 1, 8, 0, 0, 0, 0, time.UTC),
	} {
		here := now.In(time.FixedZone("", 14*3600)) // a day ahead of UTC
		q, err := ParseQuestion(url.Values{"since": {since}}, here)
		if err != nil || !q.Since.Equal(want) {
			t.Errorf("since %s: %v %v", since, q.Since, err)
		}
	}
	if h := HashSession("deadbeef"); h != "deadbeef" {
		t.Errorf("the hash of a hash is %s", h)
	}
}

func TestCSV(t *testing.T) {
	for _, c := range []struct {
		a    Answer
		want string
	}{
		{
			Answer{GroupBy: []string{"model", "day"}, Groups: []Group{{map[string]string{"model": "=1+1,x", "day": "2030-01-02"}, Sums{Requests: 2, Cost: 0.5}}}},
			"model,day," + strings.Join(sumNames, ",") + "\n\"'=1+1,x\",2030-01-02,2,0,0,0,0,0,0,0.5,0,0,0,0\n",
		},
		{
			Answer{Requests: []Request{{At: time.Unix(0, 0).UTC(), Call: "c", CostSource: "none", Request: true}}},
			strings.Join(requestNames, ",") + "\n1970-01-01T00:00:00Z,c,,,,,,,,,,,,,0,0,false,0,,,,,,,,,none,,,true\n",
		},
	} {
		var b strings.Builder
		if err := c.a.CSV(&b); err != nil || b.String() != c.want {
			t.Errorf("%v\n%s\nwant\n%s", err, b.String(), c.want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	l := New(&shelf{}, Options{Logger: slog.New(slog.DiscardHandler)})
	row := Row{Call: "x", Model: "m"}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Add(&row)
		}
	})
	_ = l.Close(context.Background())
	b.ReportMetric(float64(l.Dropped())/float64(b.N), "dropped/op")
}

var _ Store = (*shelf)(nil)
