//go:build e2e

package disk

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holdfast/test/disk/faultfs"
	"holdfast/test/disk/simdisk"
	"holdfast/test/timeout"
)

// callTimeout bounds a request to a disk. A disk answers at once, except for the bound of a freeze.
const callTimeout = 30 * time.Second

// device is a mounted disk. Its process ends and unmounts it when the test ends.
type device struct {
	t   *testing.T
	dir string
	*faultfs.Control
}

// newDevice mounts an empty disk.
func newDevice(t *testing.T) *device {
	t.Helper()
	faultfs.Need(t)
	program := build(t).faultd
	base, err := os.MkdirTemp("", "holdfast-disk-") //nolint:usetesting // short enough for a socket's path
	timeout.Check(t, err)
	d := &device{t: t, dir: filepath.Join(base, "mnt")}
	timeout.Check(t, os.Mkdir(d.dir, 0o700))
	socket := filepath.Join(base, "socket")
	cmd := exec.Command(program, d.dir, socket)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	timeout.Check(t, err)
	stdout, err := cmd.StdoutPipe()
	timeout.Check(t, err)
	timeout.Check(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close() // the process unmounts and ends
		if end := bounded(callTimeout, "the end of faultd", cmd.Wait); end != nil {
			t.Error(end)
			_ = cmd.Process.Kill()
			_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
		}
		os.RemoveAll(base)
	})
	within(t, callTimeout, "the mount", func() error {
		line, bad := bufio.NewReader(stdout).ReadString('\n')
		if line != "mounted\n" {
			bad = fmt.Errorf("faultd says %q: %w", line, bad)
		}
		return bad
	})
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if d.Control, err = faultfs.Dial(ctx, socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// set replaces the disk's faults.
func (d *device) set(f faultfs.Faults) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	timeout.Check(d.t, d.Set(ctx, f))
}

func (d *device) counts() faultfs.Counts {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	c, err := d.Stats(ctx)
	timeout.Check(d.t, err)
	return c
}

// powerCut cuts the power of a disk and of the processes that use it. end kills the processes, and gone returns when
// they have ended.
func (d *device) powerCut(when faultfs.Freezing, how faultfs.Cutting, end, gone func() error) (simdisk.Loss, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*callTimeout)
	defer cancel()
	if err := timeout.Join(d.Freeze(ctx, when), end(), d.Drop(ctx)); err != nil {
		return simdisk.Loss{}, err
	}
	if err := bounded(callTimeout, "the end of a killed process", gone); err != nil {
		return simdisk.Loss{}, err
	}
	return d.Cut(ctx, how)
}
