package config

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"go.uber.org/goleak"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// hurry never polls, so that only notifications count.
var hurry = pace{30 * time.Millisecond, time.Hour}

// watching is a watch of a file in a folder of its own.
type watching struct {
	t       *testing.T
	dir     string
	force   chan struct{}
	reloads chan string // the first upstream's name and provider, or the first error
}

// watch writes a file by prepare, which returns its path, and watches it.
func watch(t *testing.T, p pace, prepare func(w *watching) string) *watching {
	t.Parallel()
	w := &watching{t: t, dir: t.TempDir(), force: make(chan struct{}), reloads: make(chan string, 10)}
	f, diags := Load(prepare(w))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.watch(ctx, f, w.force, slog.New(slog.DiscardHandler), func(f *File, diags hcl.Diagnostics) {
			if diags.HasErrors() {
				w.reloads <- diags[0].Error()
				return
			}
			w.reloads <- strings.TrimSpace(f.Config.Upstreams[0].Name + " " + f.Config.Upstreams[0].Provider)
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

func (w *watching) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watching) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// write puts a configuration with one upstream of that name in place, never half of it.
func (w *watching) write(file, upstream string) string {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(w.path(file)), 0o755))
	src := strings.ReplaceAll("upstream \"NAME\" {\n base_url = \"http://127.0.0.1\"\n wires = [\"gemini\"]\n}\nmodel \"*\" {\n target \"NAME\" {}\n}\n", "NAME", upstream)
	w.must(os.WriteFile(w.path(file)+".new", []byte(src), 0o600))
	w.must(os.Rename(w.path(file)+".new", w.path(file)))
	return w.path(file)
}

// want waits for a reload.
func (w *watching) want(text string) {
	w.t.Helper()
	select {
	case got := <-w.reloads:
		if !strings.Contains(got, text) {
			w.t.Fatalf("reloaded %q, want %q", got, text)
		}
	case <-time.After(5 * time.Second):
		w.t.Fatalf("no reload of %q", text)
	}
}

func (w *watching) wantNothing() {
	w.t.Helper()
	select {
	case got := <-w.reloads:
		w.t.Fatalf("reloaded %q", got)
	case <-time.After(4 * hurry.settle):
	}
}

func TestWatchPlainFile(t *testing.T) {
	w := watch(t, hurry, func(w *watching) string { return w.write("config.hcl", "a") })
	w.write("config.hcl", "a")
	w.wantNothing()
	w.write("config.hcl", "b")
	w.want("b")
	w.must(os.Remove(w.path("config.hcl")))
	w.want("config.hcl:1")
	w.write("config.hcl", "b")
	w.want("b")
	w.must(os.Rename(w.write("new", "c"), w.path("config.hcl")))
	w.want("c")
	w.must(os.WriteFile(w.path("config.hcl"), []byte("server {\n"), 0o600)) // In place.
	w.want("config.hcl:1")
	w.force <- struct{}{}
	w.want("config.hcl:1")
}

// TestWatchConfigMap does what Kubernetes does: a folder link turns, and the folder it pointed to goes.
func TestWatchConfigMap(t *testing.T) {
	w := watch(t, hurry, func(w *watching) string {
		w.write("..v1/config.hcl", "v1")
		w.must(os.Symlink("..v1", w.path("..data")))
		w.must(os.Symlink("..data/config.hcl", w.path("config.hcl")))
		return w.path("config.hcl")
	})
	old := "..v1"
	for _, next := range []string{"..v2", "..v3", "..v4"} {
		w.write(next+"/config.hcl", next[2:])
		w.must(os.Symlink(next, w.path("..data_tmp")))
		w.must(os.Rename(w.path("..data_tmp"), w.path("..data")))
		w.must(os.RemoveAll(w.path(old)))
		w.want(next[2:])
		old = next
	}
	w.write("..v4/config.hcl", "inside")
	w.want("inside")
	w.must(os.Rename(w.write("plain", "plain"), w.path("config.hcl")))
	w.want("plain")
}

func TestWatchFolderReplaced(t *testing.T) {
	w := watch(t, hurry, func(w *watching) string { return w.write("etc/config.hcl", "a") })
	w.must(os.Rename(w.path("etc"), w.path("old")))
	w.want("config.hcl:1")
	w.write("etc/config.hcl", "b")
	w.want("b")
	w.write("etc/config.hcl", "c")
	w.want("c")
}

func TestWatchInput(t *testing.T) {
	w := watch(t, hurry, func(w *watching) string {
		path := w.write("config.hcl", "a")
		src, err := os.ReadFile(path)
		w.must(err)
		w.must(os.MkdirAll(w.path("keys"), 0o755))
		w.must(os.WriteFile(w.path("keys/name"), []byte("one\n"), 0o600))
		w.must(os.WriteFile(path, append(src, "defaults = { user = file(\"keys/name\") }\n"...), 0o600))
		return path
	})
	w.must(os.WriteFile(w.path("keys/name"), []byte("two\n"), 0o600))
	w.want("a")
	w.must(os.Remove(w.path("keys/name")))
	w.want("cannot be read")
	w.must(os.WriteFile(w.path("keys/name"), []byte("three\n"), 0o600))
	w.want("a")
}

// TestWatchPoll has notifications that never settle.
func TestWatchPoll(t *testing.T) {
	w := watch(t, pace{time.Hour, 20 * time.Millisecond}, func(w *watching) string { return w.write("config.hcl", "a") })
	w.must(os.Rename(w.write("new", "b"), w.path("config.hcl")))
	w.want("b")
}

func TestRestart(t *testing.T) {
	old, next := settings.Defaults(), settings.Defaults()
	next.Server.MaxBody = 1
	if got := Restart(old, next); got != nil {
		t.Errorf("got %v", got)
	}
	next.Server.Listen, next.Server.AdminListen = "127.0.0.1:1", "127.0.0.1:2"
	next.Telemetry.OTLP.Headers = map[string]settings.Secret{"a": settings.NewSecret("b", "")}
	next.Usage = new(settings.DefaultUsageStore())
	want := []string{"server.admin_listen", "server.listen", "telemetry", "usage"}
	if diff := cmp.Diff(want, Restart(old, next)); diff != "" {
		t.Error(diff)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
