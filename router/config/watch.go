package config

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/hashicorp/hcl/v2"

	"github.com/signalbox-llm/signalbox/router/settings"
)

// pace is when a watch looks at files; only tests are in a hurry.
type pace struct {
	settle time.Duration // quiet time after which a change is taken to be complete
	poll   time.Duration // how often to look without being told, for file systems that do not tell
}

// digest is the hash of a file's content, zero for a file that cannot be read.
type digest [sha256.Size]byte

func digestOf(content []byte) digest { return sha256.Sum256(content) }

// Watch loads the file of f again whenever its content, or that of a file it reads by file() or of the managed secrets if
// it asks for one, has changed, and whenever force receives; it hands what it read to reload, with the errors that came with it. It returns when ctx ends. Files may
// be replaced in any way: written over, renamed over, deleted and made again, or by turning a symbolic link anywhere on
// their path.
func Watch(ctx context.Context, f *File, force <-chan struct{}, log *slog.Logger, reload func(*File, hcl.Diagnostics)) {
	pace{250 * time.Millisecond, 5 * time.Second}.watch(ctx, f, force, log, reload)
}

func (p pace) watch(ctx context.Context, f *File, force <-chan struct{}, log *slog.Logger, reload func(*File, hcl.Diagnostics)) {
	var events <-chan fsnotify.Event
	var errs <-chan error
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("configuration is polled for changes", "error", err)
	} else {
		defer watcher.Close()
		events, errs = watcher.Events, watcher.Errors
	}
	ticker, quiet := time.NewTicker(p.poll), time.NewTimer(0) // Looks at once, at what changed before it watched.
	defer ticker.Stop()
	defer quiet.Stop()
	for {
		follow(watcher, f)
		forced := false
		select {
		case <-ctx.Done():
			return
		case <-events:
			quiet.Reset(p.settle)
			continue
		case err := <-errs: // Such as too many events at a time: something has changed.
			log.Warn("configuration is watched with gaps", "error", err)
			quiet.Reset(p.settle)
			continue
		case <-force:
			forced = true
		case <-quiet.C:
		case <-ticker.C:
		}
		if forced || f.changed() {
			next, diags := loadFrom(f.Path, f.sources)
			f = next
			reload(next, diags)
			quiet.Reset(p.settle) // A link may have turned while its new folder was not watched.
		}
	}
}

// changed reports whether a file holds something else than when it was loaded.
func (f *File) changed() bool {
	for path, before := range f.seen {
		read := readInput
		switch path {
		case f.Path:
			read = os.ReadFile
		case f.sources.Store.Path():
			read = func(string) ([]byte, error) { return f.sources.Store.Content() }
		}
		now := digest{}
		if content, err := read(path); err == nil {
			now = digestOf(content)
		}
		if now != before {
			return true
		}
	}
	return false
}

// follow watches all folders in which a change could make the paths of f lead elsewhere, and no others. What cannot be
// watched is left to polling.
func follow(w *fsnotify.Watcher, f *File) {
	if w == nil {
		return
	}
	wanted := map[string]bool{}
	for path := range f.seen {
		addFolders(wanted, path)
	}
	for _, have := range w.WatchList() {
		if !wanted[have] {
			_ = w.Remove(have)
		}
	}
	for folder := range maps.Keys(wanted) {
		_ = w.Add(folder)
	}
}

// addFolders adds the real path of each folder in which path, or a symbolic link on the way, is an entry or would be.
func addFolders(set map[string]bool, path string) {
	path, err := filepath.Abs(path)
	if err != nil {
		return
	}
	const root = string(filepath.Separator)
	folder, rest := root, strings.Split(strings.Trim(path, root), root)
	for hops := 0; len(rest) > 0 && hops < 40; rest = rest[1:] {
		at := filepath.Join(folder, rest[0])
		info, err := os.Lstat(at)
		switch {
		case err != nil || len(rest) == 1 && info.Mode().IsRegular():
			set[folder] = true
			return
		case info.Mode()&os.ModeSymlink == 0:
			folder = at
			continue
		}
		set[folder] = true
		hops++
		target, err := os.Readlink(at)
		if err != nil {
			return
		}
		if filepath.IsAbs(target) {
			folder = root
		}
		rest = slices.Concat([]string{""}, strings.Split(strings.Trim(target, root), root), rest[1:])
	}
}

// Restart names the settings that differ and that only a restart brings into effect.
func Restart(old, next settings.Config) []string {
	var names []string
	for name, same := range map[string]bool{
		"server.listen":       old.Server.Listen == next.Server.Listen,
		"server.admin_listen": old.Server.AdminListen == next.Server.AdminListen,
		"telemetry":           reflect.DeepEqual(old.Telemetry, next.Telemetry),
		"usage":               reflect.DeepEqual(old.Usage, next.Usage),
	} {
		if !same {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}
