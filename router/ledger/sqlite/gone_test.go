package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/signalbox-llm/signalbox/router/ledger"
	"github.com/signalbox-llm/signalbox/router/ledger/ledgertest"
)

// TestFileGone deletes the file under a writer, and puts another one in its place: rows must not vanish without a word.
func TestFileGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "usage.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := []ledger.Row{ledgertest.Row(1)}
	if _, err := s.Append(t.Context(), rows, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), rows, 0); !errors.Is(err, errGone) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), rows, 0); !errors.Is(err, errGone) {
		t.Errorf("with another file: %v", err)
	}
}
