package wholefile

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func TestReplace(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "f")
	no := errors.New("no")
	for _, c := range []struct {
		content string
		ready   func(string) error
		want    string
	}{
		{"one", nil, "one"},
		{"two", func(string) error { return no }, "one"},
		{"three", func(string) error { return nil }, "three"},
	} {
		if err := Replace(path, []byte(c.content), c.ready); err != nil && !errors.Is(err, no) {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != c.want {
			t.Errorf("%q %v, want %q", got, err, c.want)
		}
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 1 {
		t.Errorf("left behind: %v %v", all, err)
	}
	if err := Replace(filepath.Join(folder, "none", "f"), nil, nil); err == nil {
		t.Error("written where there is no folder")
	}
}

func TestLockLetsOneIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	var inside, n atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			unlock, err := Lock(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if inside.Add(1) != 1 {
				t.Error("two are in")
			}
			n.Add(1)
			inside.Add(-1)
		})
	}
	all.Wait()
	if n.Load() != 20 {
		t.Errorf("%d were let in", n.Load())
	}
}
