// Package export sets up what becomes of telemetry: the OpenTelemetry SDK, exporters, the bridge for logs, and the shutdown
// that flushes it all. It must not know what is reported, beyond the version of the contract and which metrics are linked to traces.
package export

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/log"
	nooplog "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"

	"github.com/signalbox-llm/signalbox/telemetry"
)

// What is used where neither the configuration nor an OTEL_ variable says otherwise.
const (
	defaultService  = "signalbox"
	defaultInterval = 15 * time.Second
	spanQueue       = 8192
	flushTime       = 5 * time.Second
)

// Config says what is exported and where to. A field that is set wins over the OTEL_ variables; one that is not leaves them
// in force.
type Config struct {
	ServiceName      string            // empty: OTEL_SERVICE_NAME, else signalbox
	Version          string            // of the program
	Endpoint         string            // base URL of an OTLP receiver: each signal's path is appended over HTTP
	Protocol         string            // http/protobuf or grpc; empty: OTEL_EXPORTER_OTLP_PROTOCOL, else http/protobuf
	Headers          map[string]string // sent with every export; never logged
	SampleRatio      float64           // share of new traces that are kept, 0 to 1; below 0: OTEL_TRACES_SAMPLER, else all
	Interval         time.Duration     // between exports of metrics; 0: OTEL_METRIC_EXPORT_INTERVAL, else 15 s
	PrometheusListen string            // address that serves /metrics; empty: none

	SpanExporters []sdktrace.SpanExporter // besides OTLP
	Readers       []sdkmetric.Reader      // besides OTLP
	LogExporters  []sdklog.Exporter       // besides OTLP

	packer *packer // of all exporters
}

// Providers is where tracers, meters and loggers come from. Make them with Start, and end them with Shutdown.
type Providers struct {
	Tracer  trace.TracerProvider
	Meter   metric.MeterProvider
	Logger  log.LoggerProvider
	Enabled bool // something is exported

	bridge     *otelslog.Handler // nil if logs are not exported
	prometheus net.Addr          // nil if it is not served
	report     *reporter
	ends       []func(context.Context) error
	endMeter   func(context.Context) error // after ends; nil if no metrics are exported
	shutdown   sync.Once
}

// Start sets up the providers. Without an endpoint they do nothing, and one line in log says so. An endpoint that cannot be
// reached is no error. Trouble with exporting goes to log, at most once a minute; log must not come from LogHandler.
//
// The error handler, the logger and the meter provider of package otel are the process's own, and are set, too: the SDK
// reports on itself through them.
func Start(ctx context.Context, c Config, log *slog.Logger) (*Providers, error) {
	p := &Providers{
		Tracer: nooptrace.NewTracerProvider(), Meter: noopmetric.NewMeterProvider(), Logger: nooplog.NewLoggerProvider(),
		report: newReporter(log, c.Headers),
	}
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		log.InfoContext(ctx, "telemetry is off: OTEL_SDK_DISABLED is set")
		return p, nil
	}
	w := c.wanted(log)
	if !w.traces && !w.metrics && !w.logs {
		log.InfoContext(ctx, "telemetry is off: no OTLP endpoint is configured")
		return p, nil
	}
	p.Enabled, c.packer = true, new(packer)
	if err := p.start(ctx, c, w); err != nil {
		_ = p.Shutdown(ctx)
		return nil, p.report.clean(err)
	}
	return p, nil
}

// start keeps this order: the switch for self-observation is read when providers are made, and the trace and log SDK report
// on themselves to the meter provider that is there by then.
func (p *Providers) start(ctx context.Context, c Config, w wanted) error {
	if _, set := os.LookupEnv("OTEL_GO_X_OBSERVABILITY"); !set {
		if err := os.Setenv("OTEL_GO_X_OBSERVABILITY", "true"); err != nil {
			return err
		}
	}
	otel.SetErrorHandler(p.report)
	otel.SetLogger(p.report.logger())
	res, err := describe(ctx, c)
	if err != nil {
		p.report.Handle(err)
	}
	if w.metrics {
		if err := p.startMetrics(ctx, c, w, res); err != nil {
			return err
		}
	}
	if w.traces {
		if err := p.startTraces(ctx, c, w, res); err != nil {
			return err
		}
	}
	if w.logs {
		return p.startLogs(ctx, c, w, res)
	}
	return nil
}

func (p *Providers) startMetrics(ctx context.Context, c Config, w wanted, res *resource.Resource) error {
	options := []sdkmetric.Option{sdkmetric.WithResource(res), sdkmetric.WithView(spare)}
	for _, r := range c.Readers {
		options = append(options, sdkmetric.WithReader(r))
	}
	if c.PrometheusListen != "" {
		r, err := p.servePrometheus(c.PrometheusListen)
		if err != nil {
			return err
		}
		options = append(options, sdkmetric.WithReader(r))
	}
	// Last, since nothing may fail between its goroutine and the provider that ends it.
	if w.otlpMetrics {
		e, err := c.metricExporter(ctx)
		if err != nil {
			return err
		}
		var periodic []sdkmetric.PeriodicReaderOption
		if c.Interval > 0 {
			periodic = append(periodic, sdkmetric.WithInterval(c.Interval))
		} else if env("OTEL_METRIC_EXPORT_INTERVAL") == "" {
			periodic = append(periodic, sdkmetric.WithInterval(defaultInterval))
		}
		options = append(options, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e, periodic...)))
	}
	mp := sdkmetric.NewMeterProvider(options...)
	p.Meter, p.endMeter = mp, mp.Shutdown
	otel.SetMeterProvider(mp)
	return watchProcess(mp)
}

// watchProcess adds the metrics of the Go runtime and of the process.
func watchProcess(mp metric.MeterProvider) error {
	began := time.Now()
	_, err := mp.Meter(telemetry.Scope).Float64ObservableGauge("process.uptime", metric.WithUnit("s"),
		metric.WithDescription("The time the process has been running."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			o.Observe(time.Since(began).Seconds())
			return nil
		}))
	return errors.Join(err, runtime.Start(runtime.WithMeterProvider(mp)))
}

func (p *Providers) startTraces(ctx context.Context, c Config, w wanted, res *resource.Resource) error {
	exporters := c.SpanExporters
	if w.otlpTraces {
		e, err := c.spanExporter(ctx)
		if err != nil {
			return err
		}
		exporters = append(slices.Clip(exporters), e)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res)}
	if c.SampleRatio >= 0 {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.SampleRatio))))
	}
	var batch []sdktrace.BatchSpanProcessorOption
	if env("OTEL_BSP_MAX_QUEUE_SIZE") == "" {
		batch = append(batch, sdktrace.WithMaxQueueSize(spanQueue))
	}
	for _, e := range exporters {
		next := sdktrace.NewBatchSpanProcessor(e, batch...)
		if len(batch) > 0 {
			next = &gatherer{SpanProcessor: next}
		} // else the queue may be shorter than what is gathered
		options = append(options, sdktrace.WithSpanProcessor(next))
	}
	tp := sdktrace.NewTracerProvider(options...)
	p.Tracer, p.ends = tp, append(p.ends, func(ctx context.Context) error {
		err := tp.Shutdown(ctx)
		// When the time is up the processor goes on sending what is queued, until its exporter is ended.
		for _, e := range exporters {
			err = errors.Join(err, e.Shutdown(ctx))
		}
		return err
	})
	return nil
}

func (p *Providers) startLogs(ctx context.Context, c Config, w wanted, res *resource.Resource) error {
	exporters := c.LogExporters
	if w.otlpLogs {
		e, err := c.logExporter(ctx)
		if err != nil {
			return err
		}
		exporters = append(slices.Clip(exporters), e)
	}
	// Keys are ours, and no two of a record are the same: looking for that took a third of a record's time.
	options := []sdklog.LoggerProviderOption{sdklog.WithResource(res), sdklog.WithAllowKeyDuplication()}
	for _, e := range exporters {
		options = append(options, sdklog.WithProcessor(newLate(e)))
	}
	lp := sdklog.NewLoggerProvider(options...)
	p.Logger, p.ends = lp, append(p.ends, lp.Shutdown)
	p.bridge = otelslog.NewHandler(telemetry.Scope, otelslog.WithLoggerProvider(lp))
	return nil
}

// Shutdown flushes all signals and ends what Start began, within 5 s or the time that ctx leaves. Traces and logs go side by
// side; metrics follow, since they count what the others still send. Whatever is reported afterwards is lost. Only the first
// call does something.
func (p *Providers) Shutdown(ctx context.Context) error {
	var all error
	p.shutdown.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, flushTime)
		defer cancel()
		all = p.report.clean(errors.Join(p.endOthers(ctx), p.lastMetrics(ctx)))
	})
	return all
}

// endOthers ends all but metrics, which keep a fifth of the time also when a receiver hangs.
func (p *Providers) endOthers(ctx context.Context) error {
	until, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(until)*4/5)
	defer cancel()
	errs := make([]error, len(p.ends))
	var wait sync.WaitGroup
	for i, end := range p.ends {
		wait.Go(func() { errs[i] = end(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (p *Providers) lastMetrics(ctx context.Context) error {
	if p.endMeter == nil {
		return nil
	}
	return p.endMeter(ctx)
}
