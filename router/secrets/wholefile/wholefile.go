// Package wholefile changes small files that only their owner may read: all of a file or nothing, one writer at a time. It must
// not know what is in them.
package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace puts content in place of a file, all of it or nothing, with mode 0600. ready, if there is one, is called with the
// path of the new file when that is complete; its error, returned as it is, leaves the old one. Other errors name path.
func Replace(path string, content []byte, ready func(temp string) error) error {
	folder := filepath.Dir(path)
	f, err := os.CreateTemp(folder, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("nothing can be written in %s: %w", folder, WithoutPath(err))
	}
	defer os.Remove(f.Name()) // unless it has got its name
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil && ready != nil {
		if err := ready(f.Name()); err != nil {
			return err
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("%s is not written: %w", path, err)
	}
	if d, err := os.Open(folder); err == nil { // So that the name lasts, too; not every system can.
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}

// WithoutPath takes the path off an error, which says it already.
func WithoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
