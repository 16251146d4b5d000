//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package wholefile

import (
	"os"
	"syscall"
)

// Lock waits until nobody else holds the lock of that file. The system opens it when its holder ends, however that comes.
func Lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, WithoutPath(err)
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR { //nolint:errorlint // a system call returns the bare number
			break
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
