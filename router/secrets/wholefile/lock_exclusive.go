//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package wholefile

import (
	"errors"
	"io/fs"
	"os"
)

// Lock makes the file, which must not be there, where the system has no locks that end with their holder.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, errors.New("another writer is at work; if there is none, delete " + path)
	}
	if err != nil {
		return nil, WithoutPath(err)
	}
	_ = f.Close()
	return func() { _ = os.Remove(path) }, nil
}
