package router

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// checkedAccounts returns an account for each interval; none is checked whose interval is 0.
func checkedAccounts(intervals ...time.Duration) (accounts []*account) {
	for i, interval := range intervals {
		u := &settings.Upstream{Name: string(rune('a' + i)), Enabled: true}
		if interval > 0 {
			u.HealthCheck = &settings.HealthCheck{Interval: interval}
		}
		accounts = append(accounts, &account{cfg: u, index: i})
	}
	return accounts
}

// checkLog notes what happened when.
type checkLog struct {
	start time.Time
	mu    sync.Mutex
	lines []string
}

func (l *checkLog) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, time.Since(l.start).String()+" "+fmt.Sprintf(format, args...))
}

func (l *checkLog) told(a *account, ok bool) { l.note("%s %v", a.cfg.Name, ok) }

func TestChecksSpreadAndRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		accounts := checkedAccounts(20*time.Second, 0, 30*time.Second, 20*time.Second, 20*time.Second, 20*time.Second)
		accounts[4].cfg.Enabled = false
		l := &checkLog{start: time.Now()}
		c := startChecks(accounts, func(_ context.Context, a *account) bool { return a.index != 2 }, l.told)
		time.Sleep(51 * time.Second)
		c.stop()
		time.Sleep(time.Hour)
		c.stop()
		want := []string{
			"0s a true", "7.5s c false", "10s d true", "15s f true", "20s a true", "30s d true", "35s f true",
			"37.5s c false", "40s a true", "50s d true",
		}
		if diff := cmp.Diff(want, l.lines); diff != "" {
			t.Error(diff)
		}
	})
}

// A check that takes longer than the interval delays the next one of its own account, and no other's.
func TestChecksDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &checkLog{start: time.Now()}
		c := startChecks(checkedAccounts(10*time.Second, 10*time.Second), func(_ context.Context, a *account) bool {
			if a.index == 0 {
				time.Sleep(34 * time.Second)
			}
			return true
		}, l.told)
		defer c.stop()
		time.Sleep(69 * time.Second)
		l.mu.Lock()
		defer l.mu.Unlock()
		want := []string{
			"5s b true", "15s b true", "25s b true", "34s a true", "35s b true", "45s b true", "55s b true", "1m5s b true", "1m8s a true",
		}
		if diff := cmp.Diff(want, l.lines); diff != "" {
			t.Error(diff)
		}
	})
}

// stop calls a check off, waits until it has returned and says nothing about its account.
func TestChecksStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &checkLog{start: time.Now()}
		c := startChecks(checkedAccounts(20*time.Second, 20*time.Second), func(ctx context.Context, a *account) bool {
			<-ctx.Done()
			time.Sleep(2 * time.Second) // until it is out of its send
			l.note("%s returned", a.cfg.Name)
			return false
		}, l.told)
		time.Sleep(5 * time.Second)
		c.stop()
		if diff := cmp.Diff([]string{"7s a returned"}, l.lines); diff != "" {
			t.Error(diff)
		}
		if d := time.Since(l.start); d != 7*time.Second {
			t.Errorf("stop returned after %v", d)
		}
	})
}

func TestChecksOfNothing(t *testing.T) {
	startChecks(checkedAccounts(0), nil, nil).stop()
}

func TestCheckPassed(t *testing.T) {
	for status, want := range map[int]bool{
		0: false, 199: false, 200: true, 204: true, 299: true, 300: false, 302: false, 401: false, 403: false, 404: false, 405: false,
		429: false, 500: false, 503: false,
	} {
		if checkPassed(status, nil) != want || checkPassed(status, errors.New("cut")) {
			t.Errorf("a status of %d is judged wrongly", status)
		}
	}
}
