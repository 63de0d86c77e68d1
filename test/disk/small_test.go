//go:build e2e

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

const (
	// smallDisk is the size of a small disk, and ballast what a test puts on it before the cluster writes.
	smallDisk = 64 << 20
	ballast   = 40 << 20
	// beyond bounds the writes of a test that never finds the disk full: all of them would be more than the disk has.
	beyond = smallDisk / 4096
)

// small mounts a file system of a small disk in the place of a node's data directory.
func small(t *testing.T) func(d *device) {
	t.Helper()
	return func(d *device) {
		data := filepath.Join(d.dir, "data")
		timeout.Check(t, os.Mkdir(data, 0o700))
		if err := syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", smallDisk)); err != nil {
			t.Fatalf("mounting a small disk: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(data, 0); err != nil {
				t.Errorf("unmounting a small disk: %v", err)
			}
		})
	}
}

// used returns which share of a node's small disk is used.
func (s *server) used(t *testing.T) float64 {
	t.Helper()
	var fs syscall.Statfs_t
	timeout.Check(t, syscall.Statfs(filepath.Join(s.disk.dir, "data"), &fs))
	return float64(fs.Blocks-fs.Bfree) / float64(fs.Blocks)
}

// TestSmallDisk writes to a cluster on small disks until it refuses (O5 full disks). No node ends: opens and writes are
// refused at disk_limit, the sessions stay, and they can be closed. With larger disks the cluster goes on.
func TestSmallDisk(t *testing.T) {
	c := newClusterWith(t, setup{
		disk: small(t),
		node: build(t).node, // the log alone fills the disk before a snapshot is due
	})
	for _, s := range c.nodes {
		timeout.Check(t, os.WriteFile(filepath.Join(s.disk.dir, "data", "ballast"), make([]byte, ballast), 0o600))
	}
	var endpoints []string
	for _, s := range c.nodes {
		endpoints = append(endpoints, s.clients)
	}
	x, err := client.New(client.Config{Endpoints: endpoints})
	timeout.Check(t, err)
	defer x.Close()
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	open := func() (*client.Session, error) {
		short, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		return x.Open(short, client.SessionOptions{Timeout: sessionTimeout})
	}
	writes, err := open()
	timeout.Check(t, err)
	closes, err := open()
	timeout.Check(t, err)
	refused := func(doing string, err error) {
		t.Helper()
		limit, ok := errors.AsType[*session.LimitError](err)
		if !ok {
			timeout.Check(t, err)
		}
		if !ok || limit.Name != "disk_limit" {
			t.Fatalf("%s: got %v, want a refusal for disk_limit", doing, err)
		}
	}
	value, written := make([]byte, 4096), 0
	write := func() error {
		short, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		_, failed := writes.Tree().Create(short, fmt.Sprintf("/e%d", written), value, client.CreateOptions{})
		return failed
	}
	for err = write(); err == nil && written < beyond; err = write() {
		written++
	}
	refused(fmt.Sprintf("write %d", written), err)
	_, err = open()
	refused("open", err)
	c.awaitServing(recoverWithin, c.nodes...) // with full disks
	full := 0
	for _, s := range c.nodes {
		used := s.used(t)
		t.Logf("after %d writes, %.1f %% of the disk of node %d is used", written, 100*used, s.number)
		if used >= 0.9 {
			full++
		}
	}
	if full == 0 {
		t.Error("the cluster refuses, and no disk is full")
	}
	if err = closes.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	if err = writes.Context().Err(); err != nil {
		t.Errorf("the session of the writer: %v", err)
	}
	for _, s := range c.nodes {
		data := filepath.Join(s.disk.dir, "data")
		if err = syscall.Mount("", data, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", 2*smallDisk)); err != nil {
			t.Fatalf("making the disk larger: %v", err)
		}
	}
	await(t, recoverWithin, "opens and writes go on", func() (bool, string) {
		if _, err = open(); err != nil {
			return false, err.Error()
		}
		err = write()
		return err == nil, fmt.Sprint(err)
	})
	timeout.Check(t, c.digests())
}
