// Package faultfs mounts a [simdisk.Disk] with FUSE, so that a test can break it. Operations fail, slow down or hang;
// the disk is full; its fsyncs lie; its power goes. It needs /dev/fuse and root, and no fusermount.
package faultfs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"holdfast/test/disk/simdisk"
)

// FS is a mounted disk. Its exported methods with an error are served by net/rpc: see [Dial]. Safe for concurrent use.
type FS struct {
	at     string
	on     *mounted
	server *fuse.Server
	unhook sync.Once
}

// Mount mounts an empty disk on a directory. The caller unmounts it.
func Mount(dir string) (*FS, error) {
	on := &mounted{disk: simdisk.New(), gate: newGate()}
	never := time.Duration(0)
	server, err := fs.Mount(dir, &node{on: on}, &fs.Options{
		EntryTimeout: &never, AttrTimeout: &never, NegativeTimeout: &never,
		MountOptions: fuse.MountOptions{
			FsName: "faultfs", Name: "faultfs", DirectMountStrict: true, DisableXAttrs: true,
			// The gate must see every byte.
			DisabledCapabilities: fuse.CAP_PASSTHROUGH,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("mount on %s: %w", dir, err)
	}
	return &FS{at: dir, on: on, server: server}, nil
}

// Unmount ends all operations with EIO and removes the mount, also while programs use it.
func (f *FS) Unmount() error {
	var err error
	f.unhook.Do(func() {
		f.on.gate.setPower(powerOff)
		if err = syscall.Unmount(f.at, syscall.MNT_DETACH); err != nil {
			err = fmt.Errorf("unmount %s: %w", f.at, err)
		}
	})
	return err
}

// Freezing is the moment at which the power goes.
type Freezing struct {
	// After counts writes, fsyncs and changes of names from now on: the one with this number is the first without
	// effect. 0 is at once.
	After int
	// Bound is when the power goes at the latest.
	Bound time.Duration
}

// Freeze waits for the moment of a power cut. From then on no operation takes effect, and all are held. Next, kill the
// programs that use the disk, then call [FS.Drop].
func (f *FS) Freeze(when Freezing, _ *struct{}) error {
	f.on.gate.freeze(when.After, when.Bound)
	return nil
}

// Drop answers all held and following operations with EIO. Only then a killed program ends; call [FS.Cut] after that.
func (f *FS) Drop(struct{}, *struct{}) error {
	if !f.on.gate.is(powerGoing) {
		return errors.New("drop: the disk is not frozen: call Freeze first")
	}
	f.on.gate.setPower(powerOff)
	return nil
}

// Cutting is how the data that was not fsynced is torn.
type Cutting struct {
	Seed uint64
	Tear simdisk.Tear
}

// Cut rolls the disk back to what outlives the power cut, and restores the power. Faults stay as they are.
func (f *FS) Cut(how Cutting, loss *simdisk.Loss) error {
	if !f.on.gate.is(powerOff) {
		return errors.New("cut: the disk still has power: call Freeze and Drop first")
	}
	*loss = f.on.disk.Cut(rand.New(rand.NewPCG(how.Seed, 0)), how.Tear)
	f.on.gate.setPower(powerOn)
	return nil
}

// Set replaces the faults. Each held operation goes on, or meets the new fault.
func (f *FS) Set(faults Faults, _ *struct{}) error {
	f.on.disk.SetFull(faults.Full)
	f.on.gate.set(faults)
	return nil
}

// Stats returns the counts since the mount.
func (f *FS) Stats(_ struct{}, counts *Counts) error {
	*counts = f.on.gate.stats()
	return nil
}
