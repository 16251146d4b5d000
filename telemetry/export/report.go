package export

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// quietTime is how long nothing more is logged after a line.
const quietTime = time.Minute

// Levels at which the SDK logs, fixed in package otel.
const (
	levelWarn  = 1
	levelDebug = 8
)

// reporter logs what goes wrong with exporting, at most one line a minute, without credentials. It is the error handler and
// the log sink of package otel.
type reporter struct {
	log     *slog.Logger
	secrets *strings.Replacer

	mu         sync.Mutex
	until      time.Time // nothing is logged before
	suppressed int       // lines since the last one
	dropped    uint32    // spans dropped so far
}

// newReporter blots out the values of headers, wherever they come from: a collector may answer with what it was sent.
func newReporter(log *slog.Logger, headers map[string]string) *reporter {
	var pairs []string
	hide := func(value string) {
		// Anything short is no credential, and blotting it out would make the text unreadable.
		if len(value) >= 6 {
			pairs = append(pairs, value, "[redacted]")
		}
	}
	for _, value := range headers {
		hide(value)
	}
	for _, name := range []string{"HEADERS", "TRACES_HEADERS", "METRICS_HEADERS", "LOGS_HEADERS"} {
		for pair := range strings.SplitSeq(os.Getenv("OTEL_EXPORTER_OTLP_"+name), ",") {
			_, value, _ := strings.Cut(pair, "=")
			value = strings.TrimSpace(value)
			hide(value)
			if plain, err := url.PathUnescape(value); err == nil && plain != value {
				hide(plain)
			}
		}
	}
	return &reporter{log: log, secrets: strings.NewReplacer(pairs...)}
}

// urls finds what may hold credentials: everything behind the host of a URL, and the user before it. It is compiled with the
// first error.
var urls = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]+`) })

// text is what may be logged of an error.
func (r *reporter) text(err error) string {
	s := err.Error()
	// A URL that could not be parsed may not look like one.
	if ue, ok := errors.AsType[*url.Error](err); ok && !strings.Contains(ue.URL, "://") {
		s = strings.ReplaceAll(s, ue.URL, "[url]")
	}
	return r.secrets.Replace(urls().ReplaceAllStringFunc(s, func(raw string) string {
		// The text around may have stuck to the URL.
		u, err := url.Parse(strings.TrimRight(raw, ":,;.)]"))
		if err != nil || u.Host == "" {
			return "[url]"
		}
		return u.Scheme + "://" + u.Host + raw[len(strings.TrimRight(raw, ":,;.)]")):]
	}))
}

// clean makes an error that may be logged; nil stays nil.
func (r *reporter) clean(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(r.text(err))
}

// Handle implements otel.ErrorHandler.
func (r *reporter) Handle(err error) {
	if err != nil {
		r.line(err)
	}
}

func (r *reporter) line(err error) {
	now := time.Now()
	r.mu.Lock()
	if now.Before(r.until) {
		r.suppressed++
		r.mu.Unlock()
		return
	}
	suppressed := r.suppressed
	r.until, r.suppressed = now.Add(quietTime), 0
	r.mu.Unlock()
	r.log.Warn("telemetry is in trouble", "error", r.text(err), "suppressed", suppressed)
}

// logger is where the SDK logs to; by default it would write to stderr on its own.
func (r *reporter) logger() logr.Logger { return logr.New(sink{r}) }

// sink is a logr.LogSink. Of what the SDK adds to a message only counts are kept: the rest may be a variable's content.
type sink struct{ r *reporter }

func (sink) Init(logr.RuntimeInfo)                   {}
func (s sink) WithValues(...any) logr.LogSink        { return s }
func (s sink) WithName(string) logr.LogSink          { return s }
func (sink) Enabled(level int) bool                  { return level <= levelWarn || level == levelDebug }
func (s sink) Error(err error, msg string, _ ...any) { s.r.line(fmt.Errorf("%s: %w", msg, err)) }

// Info passes warnings on. The span processor tells only in a debug message how many spans it had to drop.
func (s sink) Info(level int, msg string, kv ...any) {
	if level <= levelWarn {
		for i := 0; i+1 < len(kv); i += 2 {
			if kv[i] == "dropped" {
				msg = fmt.Sprintf("%s: %v", msg, kv[i+1])
			}
		}
		s.r.line(errors.New(msg))
		return
	}
	for i := 0; i+1 < len(kv); i += 2 {
		if total, ok := kv[i+1].(uint32); ok && kv[i] == "total_dropped" {
			s.r.spansDropped(total)
		}
	}
}

// spansDropped logs that more spans were dropped than before.
func (r *reporter) spansDropped(total uint32) {
	r.mu.Lock()
	before := r.dropped
	r.dropped = total
	r.mu.Unlock()
	if total > before {
		r.line(fmt.Errorf("dropped spans: %d since the start", total))
	}
}
