// Command profile runs the engine as signalbox does and profiles it until it is told to end. It must not decide anything, nor
// know how it is loaded.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/signalbox-llm/signalbox/router"
	"github.com/signalbox-llm/signalbox/router/config"
	"github.com/signalbox-llm/signalbox/telemetry/export"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	path := flag.String("config", "config.hcl", "the configuration `file`")
	to := flag.String("to", ".", "the `folder` for profiles")
	flag.Parse()
	file, diags := config.Load(*path)
	if diags.HasErrors() {
		return diags
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	providers, err := export.Start(ctx, export.Config{Endpoint: file.Config.Telemetry.OTLP.Endpoint, SampleRatio: 1}, log)
	if err != nil {
		return err
	}
	log = slog.New(providers.LogHandler(log.Handler()))
	engine, err := router.New(file.Config, router.WithLogger(log), router.WithTelemetry(providers.Tracer, providers.Meter, providers.Logger))
	if err != nil {
		return err
	}
	defer engine.Close()
	write, err := begin(*to)
	if err != nil {
		return err
	}
	srv := &http.Server{Addr: file.Config.Server.Listen, Handler: engine.Handler(), ReadHeaderTimeout: 15 * time.Second}
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	served := srv.ListenAndServe() // ends when it is closed
	if errors.Is(served, http.ErrServerClosed) {
		served = nil
	}
	return errors.Join(served, write(), providers.Shutdown(context.Background()))
}

// begin starts the profiles; what it returns writes them.
func begin(dir string) (write func() error, err error) {
	const oneIn = 10 // waits for locks; all of them would be part of what is measured
	runtime.SetMutexProfileFraction(oneIn)
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		err := cpu.Close()
		for _, name := range []string{"allocs", "mutex"} {
			err = errors.Join(err, writeProfile(filepath.Join(dir, name+".pprof"), name))
		}
		return err
	}, nil
}

func writeProfile(path, name string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
}
