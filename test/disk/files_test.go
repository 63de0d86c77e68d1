//go:build e2e

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holdfast/test/disk/faultfs"
	"holdfast/test/disk/simdisk"
	"holdfast/test/timeout"
)

func nothing() error { return nil }

// TestFiles shows that a mounted disk is a file system for programs.
func TestFiles(t *testing.T) {
	dir := newDevice(t).dir
	name := filepath.Join(dir, "d", "f")
	timeout.Check(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
	timeout.Check(t, os.WriteFile(name, []byte("content, longer"), 0o600))
	if err := os.WriteFile(name, []byte("content"), 0o600); err != nil { // O_TRUNC
		t.Fatal(err)
	}
	timeout.Check(t, os.Rename(name, filepath.Join(dir, "g")))
	if b, err := os.ReadFile(filepath.Join(dir, "g")); string(b) != "content" {
		t.Errorf("got %q, %v", b, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || !entries[0].IsDir() || entries[1].Name() != "g" {
		t.Errorf("got %v, %v", entries, err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the former name: got %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, "d")), os.Remove(filepath.Join(dir, "g"))); err != nil {
		t.Error(err)
	}
}

// TestFaults shows the effect of each fault on a program, and in the counts.
func TestFaults(t *testing.T) {
	d := newDevice(t)
	file, err := os.Create(filepath.Join(d.dir, "f"))
	timeout.Check(t, err)
	defer file.Close()
	if _, err = file.WriteAt(make([]byte, 4096), 0); err != nil {
		t.Fatal(err)
	}

	d.set(faultfs.Faults{Fail: map[faultfs.Op]syscall.Errno{faultfs.Write: syscall.EIO, faultfs.Sync: syscall.EIO}})
	if _, err = file.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("write: got %v, want EIO", err)
	}
	if err = file.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("fsync: got %v, want EIO", err)
	}

	d.set(faultfs.Faults{Full: true})
	if _, err = file.WriteAt([]byte("x"), 0); err != nil {
		t.Errorf("write in place on a full disk: got %v", err)
	}
	if _, err = file.WriteAt([]byte("x"), 1<<20); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("growth of a file on a full disk: got %v, want ENOSPC", err)
	}
	if _, err = os.Create(filepath.Join(d.dir, "g")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a new file on a full disk: got %v, want ENOSPC", err)
	}

	d.set(faultfs.Faults{Slow: map[faultfs.Op]time.Duration{faultfs.Sync: 50 * time.Millisecond}})
	begin := time.Now()
	if err = file.Sync(); err != nil || time.Since(begin) < 50*time.Millisecond {
		t.Errorf("slow fsync: got %v after %v", err, time.Since(begin))
	}

	d.set(faultfs.Faults{Hang: map[faultfs.Op]bool{faultfs.Sync: true}})
	hung := make(chan error, 1)
	go func() { hung <- file.Sync() }()
	await(t, callTimeout, "an fsync hangs", func() (bool, string) { return d.counts().Holding == 1, "" })
	d.set(faultfs.Faults{})
	within(t, callTimeout, "a released fsync", func() error { return <-hung })

	c := d.counts()
	if c.Failed[faultfs.Write] != 1 || c.Failed[faultfs.Sync] != 1 || c.Full != 2 || c.Slowed[faultfs.Sync] != 1 ||
		c.Held[faultfs.Sync] != 1 {
		t.Errorf("got %+v, want one of each fault, and two of a full disk", c)
	}
}

// TestCacheForgets shows that after a power cut neither reads nor a memory map see lost data.
func TestCacheForgets(t *testing.T) {
	d := newDevice(t)
	name := filepath.Join(d.dir, "f")
	file, err := os.Create(name)
	timeout.Check(t, err)
	if _, err = file.WriteString("kept"); err != nil {
		t.Fatal(err)
	}
	timeout.Check(t, file.Sync())
	if _, err = file.WriteAt([]byte("lost"), 0); err != nil {
		t.Fatal(err)
	}
	if got := mapped(t, name); got != "lost" {
		t.Errorf("before the cut: got %q", got)
	}
	file.Close()
	loss, err := d.powerCut(faultfs.Freezing{}, faultfs.Cutting{Tear: simdisk.TearAll}, nothing, nothing)
	if want := (simdisk.Loss{Writes: 1, Bytes: 4, Lost: 4}); err != nil || loss != want {
		t.Errorf("got %+v, %v, want %+v", loss, err, want)
	}
	b, err := os.ReadFile(name)
	if got := mapped(t, name); string(b) != "kept" || got != "kept" {
		t.Errorf("after the cut: read %q, %v, mapped %q", b, err, got)
	}
}

func mapped(t *testing.T, name string) string {
	t.Helper()
	file, err := os.Open(name)
	timeout.Check(t, err)
	defer file.Close()
	b, err := syscall.Mmap(int(file.Fd()), 0, 4, syscall.PROT_READ, syscall.MAP_SHARED)
	timeout.Check(t, err)
	defer syscall.Munmap(b)
	return string(b)
}
