//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Between two attempts to lock a file. A wait for a lock in the kernel would ignore the context.
const (
	firstPause = time.Millisecond
	maxPause   = 50 * time.Millisecond
)

// realDisk is the operating system's.
type realDisk struct{}

func (realDisk) lock(ctx context.Context, path string, perm fs.FileMode) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, perm)
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		// A process that is being forked holds the lock until it executes its program, unless the lock is released
		// explicitly.
		return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}, nil
}

// flock tries to lock f until it succeeds or ctx ends. A lock belongs to one opening of a file, so goroutines of one
// process exclude each other too.
func flock(ctx context.Context, f *os.File) error {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return context.Cause(ctx)
		}
	}
}

func (realDisk) read(path string) ([]byte, error) { return os.ReadFile(path) }

func (realDisk) write(path string, content []byte, perm fs.FileMode) error {
	// A leftover file may have other permissions, or be a link: it is not opened.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (realDisk) rename(from, to string) error { return os.Rename(from, to) }

func (realDisk) sync(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
