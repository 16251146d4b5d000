package export

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// unzip reads what would go out.
func unzip(r *http.Request) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil || int64(len(raw)) != r.ContentLength || r.Header.Get("Content-Encoding") != "gzip" {
		return nil, errors.Join(err, errors.New("the length or the encoding is wrong"))
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// Whatever is sent at the same time, each request has its own body, also when it is asked for again, and stays as it was.
func TestZipperKeepsBodiesApart(t *testing.T) {
	z := receiver{gzip: true, packer: new(packer)}.zipping(traces).Transport.(*zipper)
	z.base = transport(func(r *http.Request) (*http.Response, error) {
		first, err := unzip(r)
		if err != nil {
			return nil, err
		}
		again := r.Clone(r.Context())
		again.Body, _ = r.GetBody()
		second, err := unzip(again)
		if err != nil || !bytes.Equal(first, second) {
			return nil, errors.Join(err, errors.New("another body the second time"))
		}
		return &http.Response{Body: io.NopCloser(bytes.NewReader(first))}, nil
	})
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for n := range 50 {
				want := bytes.Repeat([]byte{byte(w)}, n*1000)
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://c", bytes.NewReader(want))
				before := r.Header.Clone()
				resp, err := z.RoundTrip(r)
				if err != nil {
					t.Error(err)
					return
				}
				got, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if !bytes.Equal(got, want) || !cmp.Equal(r.Header, before) {
					t.Errorf("%d bytes of %v arrived as %d; the request has now %v", len(want), w, len(got), r.Header)
				}
			}
		})
	}
	all.Wait()
}

func TestCompressionIsChosenByVariables(t *testing.T) {
	for name, c := range map[string]struct {
		variables map[string]string
		want      string
		ours      bool
		limit     time.Duration
	}{
		"nothing said": {nil, "gzip", true, timeLimit},
		"time limit":   {map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "2500"}, "gzip", true, 2500 * time.Millisecond},
		"own key":      {map[string]string{"OTEL_EXPORTER_OTLP_CLIENT_KEY": "none.pem"}, "gzip", false, 0},
		"gzip":         {map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}, "gzip", false, 0},
		"none":         {map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "none"}, "", false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.variables {
				t.Setenv(k, v)
			}
			r, err := Config{}.receiver(traces)
			if err != nil {
				t.Fatal(err)
			}
			client := r.zipping(traces)
			if (client != nil) != c.ours || client != nil && client.Timeout != c.limit {
				t.Errorf("our own client is %v", client)
			}
			var mu sync.Mutex
			got := map[string]string{}
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				mu.Lock()
				defer mu.Unlock()
				got[r.URL.Path] = r.Header.Get("Content-Encoding")
			}))
			defer server.Close()
			p, _ := begin(t, Config{Endpoint: server.URL, SampleRatio: 1})
			_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
			span.End()
			slog.New(p.LogHandler(slog.DiscardHandler)).Info("not exported: the base does not want it")
			slog.New(p.LogHandler(slog.NewTextHandler(io.Discard, nil))).Info("exported")
			if err := p.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			want := map[string]string{"/v1/traces": c.want, "/v1/metrics": c.want, "/v1/logs": c.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("encodings (-want +got):\n%s", diff)
			}
		})
	}
}

// A receiver that sends the exporter to a page for people is a receiver in trouble, and no more; one that has moved is followed.
func TestRedirectedExport(t *testing.T) {
	for status, arrives := range map[int]bool{http.StatusFound: false, http.StatusTemporaryRedirect: true} {
		var elsewhere atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if r.URL.Path == "/elsewhere" {
				elsewhere.Add(1)
				return
			}
			http.Redirect(w, r, "/elsewhere", status)
		}))
		p, _ := begin(t, Config{Endpoint: server.URL, SampleRatio: 1})
		_, span := p.Tracer.Tracer("x").Start(t.Context(), "x")
		span.End()
		slog.New(p.LogHandler(slog.NewTextHandler(io.Discard, nil))).Info("exported")
		err := p.Shutdown(context.Background())
		if (err == nil) != arrives || (elsewhere.Load() > 0) != arrives {
			t.Errorf("%d: %d came elsewhere, the end says %v", status, elsewhere.Load(), err)
		}
		server.Close()
	}
}
