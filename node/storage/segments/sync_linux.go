package segments

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate gives a file space up to a size. On a file system that cannot, it sets the size.
func allocate(f *os.File, from, to int64) error {
	err := retried(func() error { return unix.Fallocate(int(f.Fd()), 0, from, to-from) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(to)
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// syncData syncs a file's content, and as much of its metadata as is needed to read the content.
func syncData(f *os.File) error {
	if err := retried(func() error { return unix.Fdatasync(int(f.Fd())) }); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// retried repeats a system call that a signal has interrupted.
func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
