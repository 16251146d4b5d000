package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/ledger/postgres"
	"github.com/signalbox-llm/signalbox/router/ledger/sqlite"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
)

// openLedger opens the usage store of a configuration for writing; nil if it keeps none.
func openLedger(ctx context.Context, c *settings.Config, log *slog.Logger) (*ledger.Ledger, error) {
	if c.Usage == nil {
		return nil, nil
	}
	var store ledger.Store
	var err error
	if !c.Usage.URL.IsZero() {
		store, err = postgres.Open(ctx, c.Usage.URL.Reveal(), instance(c), log)
	} else {
		store, err = sqlite.Open(ctx, c.Usage.Path)
	}
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	return ledger.New(store, ledger.Options{MaxRows: c.Usage.MaxRows, Logger: log}), nil
}

// instance tells the routers apart that share a database.
func instance(c *settings.Config) string {
	name := c.Telemetry.ServiceName
	if name == "" {
		name = os.Getenv("OTEL_SERVICE_NAME")
	}
	if name == "" {
		name = "signalbox"
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return name
}

// keep has every request of an engine in the ledger.
func keep(engine *router.Router, l *ledger.Ledger) {
	engine.OnEvent(func(e *router.Event) {
		if row, ok := rowOf(e); ok {
			l.Add(&row)
		}
	})
}

// rowOf is the row of an event, if it has one: the end of a request, and that of an attempt before its last which tells
// what it used.
func rowOf(e *router.Event) (row ledger.Row, ok bool) {
	told := e.Usage != telemetry.NoUsage() || e.Cost.Known
	extra := e.Phase == router.PhaseAttemptEnd && e.Outcome == telemetry.AttemptFailedOver && told
	if !extra && e.Phase != router.PhaseCompleted {
		return row, false
	}
	row = ledger.Row{
		At: e.Time, Call: e.Call, TraceID: e.TraceID, Key: e.Key, Agent: e.Client, SubAgent: e.Agent, Session: e.Session, Wire: e.Wire, Model: e.Model,
		Upstream: e.Upstream, UpstreamModel: e.UpstreamModel, Decision: e.Decision, Outcome: e.Outcome, ErrorClass: e.ErrorClass, Status: e.Status,
		Attempts: e.Attempts, Stream: e.Stream, Duration: e.Duration, FirstChunk: e.FirstChunk, Usage: e.Usage, Cost: e.Cost, Extra: extra,
	}
	if extra {
		row.Attempts = e.Attempt
		return row, true
	}
	// What the router breaks off as it ends may have been worked on already.
	failed := e.Outcome == telemetry.OutcomeRejected || e.Outcome == telemetry.OutcomeFailed && e.ErrorClass != telemetry.ClassStopping
	row.Free = !told && (e.Attempts == 0 || failed || strings.HasSuffix(e.Route, "/count_tokens"))
	return row, true
}

// storePlace says where usage is kept, never the URL.
func storePlace(u *settings.UsageStore) string {
	place := "SQLite, " + u.Path
	if !u.URL.IsZero() {
		place = "PostgreSQL, " + u.URL.Origin()
	}
	if u.MaxRows > 0 {
		return fmt.Sprintf("%s, the newest %s rows", place, grouped(int64(u.MaxRows)))
	}
	return place + ", all rows"
}
