package keyring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullFile lets nobody write a file that could not be read again: no key in it could be revoked any more.
func TestFullFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	rows := make([]row, maxFile/100)
	for i := range rows {
		rows[i].ID, rows[i].Name = strings.Repeat("i", 20), strings.Repeat("n", 20)
	}
	if _, err := save(path, stamp{}, rows); err == nil || !strings.Contains(err.Error(), "would be larger") {
		t.Errorf("a file that is too large: %v", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was written")
	}
}
