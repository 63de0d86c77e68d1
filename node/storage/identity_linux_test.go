package storage

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"holdfast/test/skip"
)

// mounted returns an empty file system of the given size, or skips the test where none can be mounted.
func mounted(t *testing.T, options string) string {
	t.Helper()
	path := t.TempDir()
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, options); err != nil {
		skip.Test(t, "no file system can be mounted here: ", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	return path
}

// unprivileged removes this thread's rights to files, if it is root's, until the test ends.
func unprivileged(t *testing.T) {
	t.Helper()
	const nobody = 65534
	if os.Getuid() != 0 {
		return
	}
	runtime.LockOSThread() // and never unlocks it: the thread ends with the test
	if err := syscall.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setfsuid(0); err != nil {
			t.Error(err)
		}
	})
}

func TestOpenDirRefusesWithoutPermission(t *testing.T) {
	path := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(path), 0o755), os.Chmod(path, 0o555)); err != nil {
		t.Fatal(err)
	}
	unprivileged(t)
	refused(t, path, "let this user read and write it")
	refused(t, filepath.Join(path, "below"), "let this user read and write it")
}

func TestOpenDirRefusesAFullDisk(t *testing.T) {
	path := mounted(t, "size=16k")
	d := mustOpenDir(t, path)
	mustClose(t, d)
	for left := 64 << 10; left > 0; left /= 2 { // fill it to the last page
		f, err := os.OpenFile(filepath.Join(path, "raft.db"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write(make([]byte, left))
		_ = f.Close()
	}
	refused(t, path, "the disk is full: free some space")
	if err := os.Remove(filepath.Join(path, "raft.db")); err != nil {
		t.Fatal(err)
	}
	first := d.incarnation
	if d = mustOpenDir(t, path); d.incarnation <= first {
		t.Errorf("with space again: got incarnation %d, want one above %d", d.incarnation, first)
	}
	mustClose(t, d)
}

func TestOpenDirRefusesAReadOnlyDisk(t *testing.T) {
	path := mounted(t, "size=64k")
	mustClose(t, mustOpenDir(t, path))
	if err := syscall.Mount("", path, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		skip.Test(t, "no file system can be mounted read-only here: ", err)
	}
	refused(t, path, "the file system is read-only: mount it for writing")
}
