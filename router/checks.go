package router

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-llm/signalbox/router/verdict"
	"github.com/signalbox-llm/signalbox/translate/wire"
)

// checks runs the active health checks of one configuration: a goroutine for each upstream that has a health_check, owned
// here and waited for by stop. It knows when to ask, not what an answer leads to: failures in a row are counted by whom it
// tells.
type checks struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// startChecks begins to check those accounts that have a health_check and are enabled. The first checks of an interval's
// length are spread over it in the order of the accounts, so that they do not go out together; from then on an account is
// checked once in each of its intervals, or as soon as a slower check has ended. check asks one account and must end when
// its context does; told gets each result, never two of one account at a time, and none that stop has called off.
func startChecks(accounts []*account, check func(ctx context.Context, a *account) bool, told func(a *account, ok bool)) *checks {
	ctx, cancel := context.WithCancel(context.Background())
	c := &checks{cancel: cancel}
	var checked []*account
	for _, a := range accounts {
		if a.cfg.Enabled && a.cfg.HealthCheck != nil {
			checked = append(checked, a)
		}
	}
	for i, a := range checked {
		interval := a.cfg.HealthCheck.Interval
		first := interval / time.Duration(len(checked)) * time.Duration(i)
		c.running.Go(func() {
			repeat(ctx, first, interval, func() {
				if ok := check(ctx, a); ctx.Err() == nil {
					told(a, ok)
				}
			})
		})
	}
	return c
}

// stop ends the checks and waits for those under way; it may be called twice. The caller must not hold a lock that told
// takes.
func (c *checks) stop() {
	if c == nil {
		return
	}
	c.cancel()
	c.running.Wait()
}

// repeat calls f after first and then every interval, counted from the start of a call, until ctx ends.
func repeat(ctx context.Context, first, interval time.Duration, f func()) {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(interval)
			f()
		}
	}
}

// checkPassed tells what a check's outcome means: only a status of 200 to 299, read without an error, is success. A 401 or
// 403 is a key that no request would get through with either. A 404 or 405 may be an upstream that only lacks the endpoint,
// but then it proves nothing: the operator names a path that answers.
func checkPassed(status int, err error) bool { return err == nil && verdict.IsSuccess(status) }

// checkLimit is how long one active check may take.
const checkLimit = 10 * time.Second

// check asks one account whether it is well.
func (r *Router) check(ctx context.Context, a *account) bool {
	w := a.wires[0]
	h := http.Header{"Accept": {"application/json"}}
	if w.Name == wire.Messages {
		h["Anthropic-Version"] = []string{"2023-06-01"}
	}
	a.authorize(h, w)
	for name, value := range a.cfg.Headers {
		h.Set(name, value.Reveal())
	}
	return checkPassed(a.client.Check(ctx, h, a.checkURL(w), checkLimit))
}

// checkURL joins the base URL with the path of the health check as it does with those of requests: a version segment
// stands in it once.
func (a *account) checkURL(w *wire.Wire) *url.URL {
	path, query, _ := strings.Cut(a.cfg.HealthCheck.Path, "?")
	if below, versioned := strings.CutPrefix(path, "/"+w.Version+"/"); versioned {
		return w.JoinURL(a.base, "/"+below, query)
	}
	base := *a.base
	if base.Path == "" {
		base.Path = "/" // or what is joined to it would be relative
	}
	u := base.JoinPath(path)
	u.RawQuery = query
	return u
}

// checked tells the ledger how a check went.
func (r *Router) checked(a *account, ok bool) {
	if r.ledger.Checked(r.opts.now(), a.cfg.Name, ok, a.cfg.HealthCheck.Failures) {
		r.opts.logger.Warn("an upstream's health has changed", "upstream", a.cfg.Name, "healthy", ok)
	}
}
