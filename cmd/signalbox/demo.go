package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/router/control"
	"github.com/signalbox-llm/signalbox/router/routertest"
	"github.com/signalbox-llm/signalbox/telemetry/export"
)

// stage is where the demo plays: accounts that follow a script, the router in front of them, and what it exports.
type stage struct {
	paint     painter
	steady    *routertest.Upstream
	busy      *routertest.Upstream
	shaky     *routertest.Upstream
	front     *routertest.Front
	engine    *router.Router
	providers *export.Providers
	spans     spanBox
	metrics   *sdkmetric.ManualReader
	sent      int
	differed  []string // what went otherwise than announced
	lost      error    // why the collector did not take spans
}

// demo shows a failover, and what telemetry tells of it, with accounts that are played by scripts. It fails if the router
// does not do what is announced.
func demo(ctx context.Context, e env, args []string) error {
	once, every, collector := false, time.Duration(0), ""
	rest, err := parse(e, "demo", args, func(f *flag.FlagSet) {
		f.BoolVar(&once, "once", false, "end when everything is shown, instead of waiting for your own requests")
		f.DurationVar(&every, "every", 0, "send all of it again at this `INTERVAL`, such as 5s, and show no more of it, so that a collector has something to count")
		f.StringVar(&collector, "otlp", "", "send the telemetry also to the collector at this `URL`, such as http://localhost:4318")
	})
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("unexpected %q", rest[0])}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &stage{paint: newPainter(e.stdout)}
	defer s.close()
	if err := s.open(ctx, e, collector); err != nil {
		return err
	}
	if err := s.play(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if collector != "" {
		if err := s.deliver(ctx, collector); err != nil {
			return err
		}
	}
	switch {
	case every > 0:
		s.repeat(ctx, every)
	case !once:
		s.stay(ctx)
	}
	return nil
}

// open starts everything. The accounts listen before the configuration is read, which names their ports.
func (s *stage) open(ctx context.Context, e env, collector string) error {
	s.steady, s.busy, s.shaky = scriptedAccounts()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := s.start(ctx, e, collector, l.Addr().String()); err != nil {
		l.Close()
		return err
	}
	plane := control.New(s.engine, control.Options{})
	plane.SetReady(true)
	s.front = routertest.ServeOn(l, plane.Or(s.engine.Handler()))
	return nil
}

// start reads the configuration, and makes an engine that exports to where the demo can look.
func (s *stage) start(ctx context.Context, e env, collector, listen string) error {
	text := strings.NewReplacer("LISTEN_ADDRESS", listen, "STEADY_URL", s.steady.URL, "BUSY_URL", s.busy.URL, "SHAKY_URL", s.shaky.URL).Replace(demoConfig)
	s.introduce(text)
	file, diags := config.Parse([]byte(text), "demo.hcl", demoEnv)
	if len(diags) > 0 {
		_ = config.Write(e.stderr, diags, file, colours(e.stderr)) // who has closed standard error does not want to know
	}
	if diags.HasErrors() {
		return errSaid
	}
	s.metrics = sdkmetric.NewManualReader()
	var err error
	s.providers, err = export.Start(ctx, export.Config{
		Version: versionText(), Endpoint: collector, SampleRatio: 1,
		SpanExporters: []sdktrace.SpanExporter{&s.spans}, Readers: []sdkmetric.Reader{s.metrics},
	}, slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	// What the engine logs is what the spans tell, so that here it is left out.
	s.engine, err = router.New(file.Config, router.WithLogger(slog.New(slog.DiscardHandler)),
		router.WithTelemetry(s.providers.Tracer, s.providers.Meter, s.providers.Logger))
	return err
}

// play shows every scene, then the numbers, and complains about what went otherwise than announced.
func (s *stage) play(ctx context.Context) error {
	for i, sc := range scenes() {
		if err := s.show(ctx, i+1, sc); err != nil || ctx.Err() != nil {
			return err
		}
	}
	if err := s.numbers(ctx); err != nil {
		return err
	}
	if len(s.differed) > 0 {
		return errors.New("this went otherwise than announced:\n  " + strings.Join(s.differed, "\n  "))
	}
	s.paint.line(plain, "")
	s.paint.line(green, "All %d requests went as announced.", s.sent)
	return nil
}

// stay waits for the user's own requests and draws the trace of each.
func (s *stage) stay(ctx context.Context) {
	s.paint.head("Your turn", "The router stays up at "+s.front.URL+" until you press Ctrl-C. Paste one of these into another terminal, and its "+
		"trace appears below. The accounts that failed still rest: in half a minute they may fail again.")
	for _, c := range curls(s.front.URL) {
		s.paint.line(plain, "%s", c)
	}
	s.paint.line(plain, "")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.flush(ctx)
		for _, t := range s.spans.traces() {
			s.paint.tree(t)
			s.paint.line(plain, "")
		}
	}
}

// repeat sends the requests of all scenes at intervals. What comes of them is not looked at: accounts that rest when a scene
// begins make another one of it.
func (s *stage) repeat(ctx context.Context, every time.Duration) {
	s.paint.line(plain, "The same again every %s, until you press Ctrl-C.", every)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, sc := range scenes() {
			for _, st := range sc.steps {
				s.front.Send(ctx, st.request())
			}
		}
		s.flush(ctx)
		s.spans.traces()
	}
}

// trace waits for the spans of the request that has just been answered: an answer can be read to its end a moment before
// its handler returns.
func (s *stage) trace(ctx context.Context) (spans, error) {
	for range 500 {
		s.flush(ctx)
		if all := s.spans.traces(); len(all) > 0 {
			return all[0], nil
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil, errors.New("no trace was exported")
}

// flush hands the spans that have ended to their exporters. A collector gets its time until it fails for the first time.
func (s *stage) flush(ctx context.Context) {
	patience := 5 * time.Second
	if s.lost != nil {
		patience = 100 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := flushed(ctx, s.providers.Tracer); err != nil && s.lost == nil {
		s.lost = err
	}
}

// deliver waits until the collector has everything.
func (s *stage) deliver(ctx context.Context, collector string) error {
	s.flush(ctx)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := errors.Join(s.lost, flushed(ctx, s.providers.Meter), flushed(ctx, s.providers.Logger)); err != nil {
		return fmt.Errorf("%s did not take the telemetry: %w", collector, err)
	}
	s.paint.line(dim, "All of it was also sent to %s.", collector)
	return nil
}

// flushed has a provider hand over what it holds. Those that export nothing hold nothing.
func flushed(ctx context.Context, provider any) error {
	if f, ok := provider.(interface {
		ForceFlush(ctx context.Context) error
	}); ok {
		return f.ForceFlush(ctx)
	}
	return nil
}

// close ends what open has started, as far as it came, and waits until the last telemetry is out.
func (s *stage) close() {
	if s.front != nil {
		s.front.Close()
	}
	if s.engine != nil {
		s.engine.Close()
	}
	for _, u := range []*routertest.Upstream{s.steady, s.busy, s.shaky} {
		if u != nil {
			u.Close()
		}
	}
	if s.providers != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.providers.Shutdown(ctx) // trouble with the collector has been told
	}
}
