package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"holdfast/node/storage/boltfile"
)

const (
	// storeLockWait bounds the wait for the file's lock.
	storeLockWait = time.Second
	// newFilePages is the number of pages that bbolt writes into a new file.
	newFilePages = 4
)

// checkStableFile refuses a directory that has lost its stable store: bbolt would make a new one in place of a missing
// or empty file. begun says that it must exist. A first start that was cut short may leave an unfinished file:
// checkStableFile removes that file.
func checkStableFile(file string, begun bool) error { //nolint:revive // flag-parameter: it is what the identity file says
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if to, linkErr := os.Readlink(file); linkErr == nil {
			return danglingLink(file, to, "the file")
		}
		dir := filepath.Dir(file) // its folders are made after the file
		if begun || !isMissing(filepath.Join(dir, LogFolder)) || !isMissing(filepath.Join(dir, SnapshotFolder)) {
			return unusable(file, "is missing, but this node has voted with it", nil)
		}
		return nil
	case err != nil:
		return fmt.Errorf("opening Raft's votes: %w", addAdvice(err))
	case !begun && info.Size() == 0:
		return nil // openBolt makes the store
	case !begun && info.Size() <= int64(newFilePages*os.Getpagesize()):
		return removeUnmade(file)
	case begun && info.Size() == 0:
		return unusable(file, "is empty, but this node has voted with it", nil)
	}
	size, err := boltSize(file)
	if err == nil && info.Size() < size {
		return unusable(file, fmt.Sprintf("is cut short: it has %d bytes, but its own pages say %d", info.Size(), size),
			nil)
	}
	return nil // openBolt finds other faults of the file
}

// removeUnmade removes an unfinished file.
func removeUnmade(file string) error {
	store, err := readBolt(file)
	unread := &fs.PathError{}
	switch {
	case err == nil:
		return store.Close()
	case errors.As(err, &unread), errors.Is(err, bberrors.ErrTimeout):
		return fmt.Errorf("opening Raft's votes: %w", addAdvice(err))
	}
	return os.Remove(file)
}

// openBolt opens or makes a stable store. boltfile checks the pages first, because bbolt panics at a damaged page in a
// goroutine of its own. openBolt turns other panics of bbolt on a torn file into errors, and also the memory faults of
// a mapped file that was cut off.
func openBolt(file string) (store *raftboltdb.BoltStore, err error) {
	defer asError(&err)()
	if err := boltfile.Check(file); err != nil {
		return nil, err
	}
	return raftboltdb.New(raftboltdb.Options{
		Path: file,
		BoltOptions: &bbolt.Options{
			Timeout:        storeLockWait,
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
}

// readBolt opens a file that exists, and does not change it.
func readBolt(file string) (store *raftboltdb.BoltStore, err error) {
	defer asError(&err)()
	if err := boltfile.Check(file); err != nil {
		return nil, err
	}
	return raftboltdb.New(
		raftboltdb.Options{Path: file, BoltOptions: &bbolt.Options{Timeout: storeLockWait, ReadOnly: true}},
	)
}

// boltSize returns the size of a file as its own pages say.
func boltSize(file string) (size int64, err error) {
	defer asError(&err)()
	db, err := bbolt.Open(file, 0, &bbolt.Options{Timeout: storeLockWait, ReadOnly: true})
	if err != nil {
		return 0, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		size = tx.Size()
		return nil
	})
	return size, errors.Join(err, db.Close())
}

// asError returns a function for defer that turns panics and faults of the goroutine into err.
func asError(err *error) func() {
	former := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(former)
		if r := recover(); r != nil {
			*err = fmt.Errorf("the file is corrupt: %v", r)
		}
	}
}
