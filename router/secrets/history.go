package secrets

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-llm/signalbox/router/secrets/wholefile"
)

// kept is how many snapshots there are at most.
const kept = 20

// history is the folder of what a file held before its last changes.
type history string

// history makes the folder ready, so that only the owner can look into it.
func (s Store) history() (history, error) {
	folder := strings.TrimSuffix(s.path, filepath.Ext(s.path)) + ".history"
	if err := os.Mkdir(folder, 0o700); err != nil && !os.IsExist(err) {
		return "", fmt.Errorf("%s cannot be made: %w", folder, wholefile.WithoutPath(err))
	}
	if err := os.Chmod(folder, 0o700); err != nil { // It may be an older one.
		return "", fmt.Errorf("%s cannot be closed to others: %w", folder, wholefile.WithoutPath(err))
	}
	return history(folder), nil
}

func (h history) lockFile() string { return filepath.Join(string(h), "lock") }

// keep adds a snapshot and deletes the oldest beyond the limit. Names begin with the time, so that they are in order.
func (h history) keep(content []byte, revision string, now time.Time) error {
	name := now.UTC().Format("20060102T150405.000000000Z") + "-" + revision[:8] + ".json"
	if err := wholefile.Replace(filepath.Join(string(h), name), content, nil); err != nil {
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
