//go:build e2e

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/disk/faultfs"
	"holdfast/test/disk/simdisk"
)

// TestDaemon mounts a disk, sends faults and power cuts over the socket, and closes stdin to unmount.
func TestDaemon(t *testing.T) {
	faultfs.Need(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir, socket := t.TempDir(), filepath.Join(t.TempDir(), "s")
	stdin, hangUp := io.Pipe()
	stdout, told := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{dir, socket}, stdin, told) }()
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "mounted\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	disk, err := faultfs.Dial(ctx, socket)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()

	file := filepath.Join(dir, "f")
	if err = disk.Set(ctx, faultfs.Faults{Fail: map[faultfs.Op]syscall.Errno{faultfs.Sync: syscall.EIO}}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err = errors.Join(f.Sync(), f.Close()); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want EIO", err)
	}
	if counts, unknown := disk.Stats(ctx); unknown != nil || counts.Failed[faultfs.Sync] != 1 {
		t.Errorf("got %+v, %v, want one fsync that failed", counts, unknown)
	}
	if err = disk.Drop(ctx); err == nil || !strings.Contains(err.Error(), "not frozen") {
		t.Errorf("drop without freeze: got %v", err)
	}
	if _, err = disk.Cut(ctx, faultfs.Cutting{}); err == nil || !strings.Contains(err.Error(), "has power") {
		t.Errorf("cut without drop: got %v", err)
	}
	if err = errors.Join(disk.Freeze(ctx, faultfs.Freezing{}), disk.Drop(ctx)); err != nil {
		t.Fatal(err)
	}
	loss, err := disk.Cut(ctx, faultfs.Cutting{Seed: 1, Tear: simdisk.TearAll})
	if err != nil || loss.NamesLost != 1 {
		t.Errorf("got %+v, %v, want one name lost", loss, err)
	}
	if _, err = os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want the file to be lost", err)
	}

	hangUp.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if mounts, err := os.ReadFile("/proc/mounts"); err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("%s is still mounted: %v", dir, err)
	}
}
