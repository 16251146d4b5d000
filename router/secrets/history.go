package secrets

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// kept is how many snapshots there are at most.
const kept = 20

// history is the folder of what a file held before its last changes.
type history string

// history makes the folder ready, so that only the owner can look into it.
func (s Store) history() (history, error) {
	folder := strings.TrimSuffix(s.path, filepath.Ext(s.path)) + ".history"
	if err := os.Mkdir(folder, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("%s cannot be made: %w", folder, withoutPath(err))
	}
	if err := os.Chmod(folder, 0o700); err != nil { // It may be an older one.
		return "", fmt.Errorf("%s cannot be closed to others: %w", folder, withoutPath(err))
	}
	return history(folder), nil
}

func (h history) lockFile() string { return filepath.Join(string(h), "lock") }

// keep adds a snapshot and deletes the oldest beyond the limit. Names begin with the time, so that they are in order.
func (h history) keep(content []byte, revision string, now time.Time) error {
	name := now.UTC().Format("20060102T150405.000000000Z") + "-" + revision[:8] + ".json"
	if err := replace(filepath.Join(string(h), name), content); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(string(h), "*.json"))
	if err != nil {
		return err
	}
	slices.Sort(all)
	for _, old := range all[:max(0, len(all)-kept)] {
		if err := os.Remove(old); err != nil {
			return err
		}
	}
	return nil
}

// replace puts content in place of a file, all of it or nothing, with mode 0600.
func replace(path string, content []byte) (err error) {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("nothing can be written in %s: %w", folder, withoutPath(err))
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("%s is not written: %w", path, err)
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	if d, err := os.Open(folder); err == nil { // So that the name lasts, too; not every system can.
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}
