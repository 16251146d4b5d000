package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Signals, as they are spelt in OTEL_ variables.
const (
	traces  = "TRACES"
	metrics = "METRICS"
	logs    = "LOGS"
)

const (
	protocolHTTP = "http/protobuf"
	protocolGRPC = "grpc"
)

func env(name string) string { return strings.TrimSpace(os.Getenv(name)) }

// either is the more special of two OTEL_EXPORTER_OTLP_ variables that is set.
func either(signal, name string) string {
	return cmp.Or(env("OTEL_EXPORTER_OTLP_"+signal+"_"+name), env("OTEL_EXPORTER_OTLP_"+name))
}

// wanted tells which signals go anywhere, and which of them go out over OTLP.
type wanted struct{ traces, metrics, logs, otlpTraces, otlpMetrics, otlpLogs bool }

func (c Config) wanted(log *slog.Logger) wanted {
	w := wanted{otlpTraces: c.overOTLP(traces, log), otlpMetrics: c.overOTLP(metrics, log), otlpLogs: c.overOTLP(logs, log)}
	w.traces = w.otlpTraces || len(c.SpanExporters) > 0
	w.metrics = w.otlpMetrics || len(c.Readers) > 0 || c.PrometheusListen != ""
	w.logs = w.otlpLogs || len(c.LogExporters) > 0
	return w
}

// overOTLP heeds OTEL_{signal}_EXPORTER; where that is not set, an endpoint decides.
func (c Config) overOTLP(signal string, log *slog.Logger) bool {
	name := "OTEL_" + signal + "_EXPORTER"
	value := env(name)
	if value == "" {
		return c.Endpoint != "" || either(signal, "ENDPOINT") != ""
	}
	exporters := strings.Split(strings.ReplaceAll(value, " ", ""), ",")
	for _, e := range exporters {
		if e != "none" && e != "otlp" {
			log.Warn("telemetry: exporter is not supported", "variable", name, "exporter", e)
		}
	}
	return slices.Contains(exporters, "otlp")
}

// receiver is what the configuration says about where one signal goes; the exporters read the variables themselves.
type receiver struct {
	grpc    bool
	url     string // empty: left to the variables
	headers map[string]string
	gzip    bool // false: left to the variables
	packer  *packer
}

func (c Config) receiver(signal string) (receiver, error) {
	r := receiver{headers: c.Headers, gzip: either(signal, "COMPRESSION") == "", packer: c.packer}
	switch protocol := cmp.Or(c.Protocol, either(signal, "PROTOCOL"), protocolHTTP); protocol {
	case protocolHTTP:
	case protocolGRPC:
		r.grpc = true
	default:
		return r, fmt.Errorf("telemetry: OTLP protocol %q is neither %s nor %s", protocol, protocolHTTP, protocolGRPC)
	}
	if c.Endpoint == "" {
		return r, nil
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return r, errors.New("telemetry: OTLP endpoint is no URL that begins with http:// or https://")
	}
	if u.User != nil || u.RawQuery != "" {
		return r, errors.New("telemetry: OTLP endpoint has a user or a query, which are not sent; use headers")
	}
	if !r.grpc {
		u = u.JoinPath("v1", strings.ToLower(signal))
	}
	r.url = u.String()
	return r, nil
}

// options turns a receiver into one exporter package's own options.
func options[O any](r receiver, endpoint func(string) O, headers func(map[string]string) O, gzip O) []O {
	var list []O
	if r.url != "" {
		list = append(list, endpoint(r.url))
	}
	if len(r.headers) > 0 {
		list = append(list, headers(r.headers))
	}
	if r.gzip {
		list = append(list, gzip)
	}
	return list
}

func (c Config) spanExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	r, err := c.receiver(traces)
	if err != nil {
		return nil, err
	}
	if r.grpc {
		return newSpanExporter(ctx, otlptracegrpc.NewClient(options(r, otlptracegrpc.WithEndpointURL, otlptracegrpc.WithHeaders,
			otlptracegrpc.WithCompressor("gzip"))...), false)
	}
	list := options(r, otlptracehttp.WithEndpointURL, otlptracehttp.WithHeaders, otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	client := r.zipping(traces)
	if client != nil {
		list = append(list, otlptracehttp.WithCompression(otlptracehttp.NoCompression), otlptracehttp.WithHTTPClient(client))
	}
	return newSpanExporter(ctx, otlptracehttp.NewClient(list...), client != nil)
}

func (c Config) metricExporter(ctx context.Context) (sdkmetric.Exporter, error) {
	r, err := c.receiver(metrics)
	if err != nil {
		return nil, err
	}
	if r.grpc {
		return otlpmetricgrpc.New(ctx, options(r, otlpmetricgrpc.WithEndpointURL, otlpmetricgrpc.WithHeaders,
			otlpmetricgrpc.WithCompressor("gzip"))...)
	}
	list := options(r, otlpmetrichttp.WithEndpointURL, otlpmetrichttp.WithHeaders,
		otlpmetrichttp.WithCompression(otlpmetrichttp.GzipCompression))
	if c := r.zipping(metrics); c != nil {
		list = append(list, otlpmetrichttp.WithCompression(otlpmetrichttp.NoCompression), otlpmetrichttp.WithHTTPClient(c))
	}
	return otlpmetrichttp.New(ctx, list...)
}

func (c Config) logExporter(ctx context.Context) (sdklog.Exporter, error) {
	r, err := c.receiver(logs)
	if err != nil {
		return nil, err
	}
	if r.grpc {
		return otlploggrpc.New(ctx, options(r, otlploggrpc.WithEndpointURL, otlploggrpc.WithHeaders,
			otlploggrpc.WithCompressor("gzip"))...)
	}
	list := options(r, otlploghttp.WithEndpointURL, otlploghttp.WithHeaders, otlploghttp.WithCompression(otlploghttp.GzipCompression))
	client := r.zipping(logs)
	if client == nil {
		return otlploghttp.New(ctx, list...)
	}
	e, err := otlploghttp.New(ctx, append(list, otlploghttp.WithCompression(otlploghttp.NoCompression), otlploghttp.WithHTTPClient(client))...)
	return &logExporter{Exporter: e}, err
}
