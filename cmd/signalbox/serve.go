package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/secrets/keyring"
	"github.com/signalbox-llm/signalbox/router/settings"
	"github.com/signalbox-llm/signalbox/telemetry"
	"github.com/signalbox-llm/signalbox/telemetry/export"
)

// server is a running router with all that belongs to it.
type server struct {
	file      *config.File // as it was last applied
	env       env
	log       *slog.Logger
	flush     func() // writes what log still holds back
	engine    *router.Router
	control   *control.Handler
	keys      *keyring.Ring
	ledger    *ledger.Ledger // nil: usage is not kept
	providers *export.Providers
	servers   []*http.Server
	base      func(net.Listener) context.Context // of all requests
	cut       context.CancelCauseFunc            // ends them
	failed    chan error                         // a listener that ended by itself
	ended     sync.WaitGroup                     // the watcher
	console   *requests                          // nil where nobody sees one
}

// serve runs the router until SIGTERM or SIGINT, and reloads on SIGHUP and when the file changes.
func serve(ctx context.Context, e env, args []string) error {
	path := "config.hcl"
	rest, err := parse(e, "serve", args, func(f *flag.FlagSet) { f.StringVar(&path, "config", path, "the configuration `file`") })
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("unexpected %q", rest[0])}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s := &server{env: e, failed: make(chan error, 2), flush: func() {}}
	requests, cut := context.WithCancelCause(context.Background())
	defer cut(nil)
	s.base, s.cut = func(net.Listener) context.Context { return requests }, cut
	defer func() { s.flush() }()
	if err := s.start(ctx, path); err != nil {
		return err
	}
	s.watch(ctx)
	select {
	case <-ctx.Done():
		s.log.Info("draining", "limit", s.engine.Snapshot().Server.DrainTimeout.String())
	case err = <-s.failed:
	}
	stop()
	s.stop()
	return err
}

// start reads the configuration and opens the listeners. The order is such that nothing is half started when it fails.
func (s *server) start(ctx context.Context, path string) error {
	file, diags := config.Load(path)
	if err := config.Write(s.env.stderr, diags, file, colours(s.env.stderr)); err != nil {
		return err
	}
	if diags.HasErrors() {
		return errSaid
	}
	s.file = file
	cfg := &file.Config
	s.console = newRequests(s.env.stderr)
	logs, flush := stderrHandler(s.env, s.console)
	s.log, s.flush = slog.New(logs), flush
	providers, err := export.Start(ctx, exportConfig(cfg), s.log)
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	s.providers = providers
	s.log = slog.New(providers.LogHandler(s.log.Handler()))
	slog.SetDefault(s.log)
	log.SetOutput(io.Discard) // net/http tells bytes of upstreams there
	s.keys = keyring.New(time.Now, s.log)
	if err := s.keys.Use(cfg.Auth.IssuedKeysFile); err != nil {
		return fmt.Errorf("auth.issued_keys_file: %w", err)
	}
	s.engine, err = router.New(*cfg, router.WithLogger(s.log), router.WithKeyring(s.keys),
		router.WithTelemetry(providers.Tracer, providers.Meter, providers.Logger))
	if err != nil {
		return err
	}
	if err := s.openLedger(ctx, cfg); err != nil {
		return err
	}
	public := s.control.Or(s.engine.Handler())
	if cfg.Server.AdminListen != "" {
		public = s.control.Open(s.engine.Handler())
		if err := s.listen(cfg.Server.AdminListen, s.control); err != nil {
			return err
		}
	}
	if err := s.listen(cfg.Server.Listen, public); err != nil {
		return err
	}
	s.console.show(s.engine, s.control)
	s.control.SetReady(true)
	s.log.Info("signalbox is ready", "listen", cfg.Server.Listen, "version", versionText(), "upstreams", len(cfg.Upstreams), "models", len(cfg.Models))
	return nil
}

// openLedger opens the usage store, if there is one, and the control plane, which asks it.
func (s *server) openLedger(ctx context.Context, cfg *settings.Config) (err error) {
	opts := control.Options{Keys: s.keys, Debug: profiles(), Logger: s.log}
	if s.ledger, err = openLedger(ctx, cfg, s.log); err != nil {
		return err
	}
	if s.ledger != nil {
		keep(s.engine, s.ledger)
		opts.Usage = s.ledger // a nil *Ledger would be no nil Usage
	}
	s.control = control.New(s.engine, opts)
	return nil
}

// listen opens one address. There is no write timeout: streams last for many minutes.
func (s *server) listen(address string, h http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 15 * time.Second, IdleTimeout: 120 * time.Second,
		BaseContext: s.base,
		ErrorLog:    slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // what clients do wrong on a connection
	}
	s.servers = append(s.servers, srv)
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- err
		}
	}()
	return nil
}

// stop drains: no new connections, streams run on until drain_timeout, then everything recorded is flushed.
func (s *server) stop() {
	s.control.SetReady(false)
	ctx, cancel := context.WithTimeout(context.Background(), s.engine.Snapshot().Server.DrainTimeout)
	defer cancel()
	var drained sync.WaitGroup
	for _, srv := range s.servers {
		drained.Go(func() {
			if srv.Shutdown(ctx) != nil {
				s.breakOff(srv)
			}
		})
	}
	drained.Wait()
	s.ended.Wait()
	s.settle()
	s.console.stop()
	s.engine.Close()
	flush, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	if s.ledger != nil {
		if err := s.ledger.Close(flush); err != nil {
			s.log.Warn("the usage store was not closed well", "problem", err)
		}
	}
	if err := s.providers.Shutdown(flush); err != nil {
		s.log.Warn("the last telemetry was not delivered", "error", err)
	}
}

// breakOff has requests in flight end with a word to their clients, and cuts those that do not.
func (s *server) breakOff(srv *http.Server) {
	s.log.Warn("drain_timeout is over: what still runs is broken off")
	s.cut(router.ErrStopping)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if srv.Shutdown(ctx) != nil {
		_ = srv.Close() // it has said already what it could not close
	}
}

// settle waits a moment for requests that were cut, so that they are in the books.
func (s *server) settle() {
	tick, limit := time.NewTicker(10*time.Millisecond), time.After(time.Second)
	defer tick.Stop()
	for s.engine.Status().InFlight > 0 {
		select {
		case <-tick.C:
		case <-limit:
			return
		}
	}
}

// watch reloads when the file changes or SIGHUP comes, until ctx ends.
func (s *server) watch(ctx context.Context) {
	hup, force := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hup, syscall.SIGHUP)
	s.ended.Go(func() {
		defer signal.Stop(hup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hup:
			}
			select {
			case <-ctx.Done():
				return
			case force <- struct{}{}:
			}
		}
	})
	s.ended.Go(func() {
		config.Watch(ctx, s.file, force, s.log, func(f *config.File, diags config.Diagnostics) { s.reload(ctx, f, diags) })
	})
}

// reload applies a file that was read anew. Whatever is wrong with it, the running configuration stays.
func (s *server) reload(ctx context.Context, next *config.File, diags config.Diagnostics) {
	for _, l := range config.Lines(diags) {
		level, what := slog.LevelError, "the new configuration is refused; the running one stays"
		if l.Warning {
			level, what = slog.LevelWarn, "the configuration has a warning"
		}
		s.log.Log(ctx, level, what, "at", l.Place, "problem", l.Problem, "detail", l.Detail)
	}
	if diags.HasErrors() {
		s.engine.Reloaded(ctx, telemetry.ReloadRejected)
		return
	}
	// What needs a restart keeps its old value, so that the engine's view is what really runs.
	changed := config.Restart(s.file.Config, next.Config)
	old := s.file.Config
	next.Config.Server.Listen, next.Config.Server.AdminListen = old.Server.Listen, old.Server.AdminListen
	next.Config.Telemetry, next.Config.Usage = old.Telemetry, old.Usage
	if err := s.load(next.Config); err != nil {
		s.log.Error("the new configuration is refused; the running one stays", "problem", err)
		s.engine.Reloaded(ctx, telemetry.ReloadRejected)
		return
	}
	if len(changed) > 0 {
		s.log.Warn("these settings need a restart and keep their old values", "settings", changed)
	}
	s.engine.Reloaded(ctx, telemetry.ReloadApplied)
	s.log.Info("the configuration is applied", "revision", s.engine.Status().ConfigRevision)
}

// load hands a configuration to all who have one. It is all or nothing.
func (s *server) load(next settings.Config) error {
	before := s.engine.Snapshot().Auth.IssuedKeysFile
	if err := s.keys.Use(next.Auth.IssuedKeysFile); err != nil {
		return fmt.Errorf("auth.issued_keys_file: %w", err)
	}
	err := s.engine.Load(next)
	if err != nil {
		err = errors.Join(err, s.keys.Use(before))
	}
	return err
}

// profiles is net/http/pprof on a mux of its own.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// exportConfig says what the exporters need; fields that the file leaves out are left to the OTEL_* variables.
func exportConfig(c *settings.Config) export.Config {
	t := &c.Telemetry
	headers := map[string]string{}
	for name, value := range t.OTLP.Headers {
		headers[name] = value.Reveal()
	}
	ratio := -1.0
	if t.Traces.SampleRatio != nil {
		ratio = *t.Traces.SampleRatio
	}
	return export.Config{
		ServiceName: t.ServiceName, Version: versionText(), Endpoint: t.OTLP.Endpoint, Protocol: t.OTLP.Protocol, Headers: headers,
		SampleRatio: ratio, Interval: t.Metrics.Interval, PrometheusListen: t.Metrics.PrometheusListen,
	}
}
