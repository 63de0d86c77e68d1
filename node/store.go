package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bberrors "go.etcd.io/bbolt/errors"

	"holdfast/node/boltfile"
	"holdfast/node/watchdog"
)

const (
	// keptSnapshots is the number of snapshots that stay on disk.
	keptSnapshots = 2
	// storeLockWait bounds the wait for the log file's lock.
	storeLockWait = time.Second
	// logFile is the name of the log.
	logFile = "raft.db"
	// newLogPages is the number of pages that bbolt writes when it makes a file.
	newLogPages = 4
)

// stores are Raft's log, votes and snapshots in the data directory.
type stores struct {
	bolt      *raftboltdb.BoltStore
	guard     *guardedStore
	logs      *anchoredLogs
	stable    raft.StableStore
	snapshots *checkedSnapshots
	// size is that of the log.
	size *logSize
	// origins is the store below snapshots.
	origins *snapshotStore
}

// diskOption is [Options.Disk].
type diskOption = func(raft.LogStore, raft.StableStore) (raft.LogStore, raft.StableStore)

// openStores opens the Raft log and the snapshots in a data directory. Raft writes through guard.
func openStores(d *dir, logger hclog.Logger, guard *guardedStore, disk diskOption) (*stores, error) {
	file := filepath.Join(d.Path, logFile)
	if err := checkLogFile(file, d.record.Log != 0); err != nil {
		return nil, err
	}
	bolt, err := openBolt(file)
	if damaged, ok := errors.AsType[*boltfile.PageError](err); ok {
		return nil, unusable(file, "is damaged", damaged)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the Raft log %s: %w: if the file is corrupt, %s", file, err, recovery)
	}
	// The file's name must outlive a power cut before anything rests on the file's content.
	if err = syncDir(d.Path); err != nil {
		return nil, errors.Join(fmt.Errorf("syncing %s: %w", d.Path, err), bolt.Close())
	}
	origins, err := openSnapshots(d, logger)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	// The name of the folder of snapshots must outlive a power cut too, before the log is cut after a snapshot.
	if err = syncDir(d.Path); err != nil {
		return nil, errors.Join(fmt.Errorf("syncing %s: %w", d.Path, err), bolt.Close())
	}
	if err = d.presence.hold(file, origins.folder); err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	guard.logs, guard.stable, guard.path = bolt, bolt, d.Path
	if disk != nil {
		guard.logs, guard.stable = disk(bolt, bolt)
	}
	size := &logSize{}
	logs := &anchoredLogs{LogStore: &entryCache{LogStore: sizedLogs{guard, size}}}
	return &stores{
		bolt: bolt, guard: guard, logs: logs, stable: guard, snapshots: &checkedSnapshots{SnapshotStore: origins},
		origins: origins, size: size,
	}, nil
}

// checkLogFile refuses a log file that was lost: bbolt would make a new log in place of a missing or empty file. begun
// says that there must be a log. checkLogFile removes a file that the first start left when it was cut short while it
// made the file: nothing was written to that file.
func checkLogFile(file string, begun bool) error { //nolint:revive // flag-parameter: it is what the identity file says
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if to, linkErr := os.Readlink(file); linkErr == nil {
			return danglingLink(file, to, "the file")
		}
		if begun || !missing(filepath.Join(filepath.Dir(file), snapshotDir)) { // the folder is made after the log
			return unusable(file, "is missing, but this node has voted and stored entries with it", nil)
		}
		return nil
	case err != nil:
		return fmt.Errorf("opening the Raft log: %w", remedy(err))
	case !begun && info.Size() == 0:
		return nil // openBolt makes the log
	case !begun && info.Size() <= int64(newLogPages*os.Getpagesize()):
		return removeUnmade(file)
	case begun && info.Size() == 0:
		return unusable(file, "is empty, but this node has voted and stored entries with it", nil)
	}
	size, err := boltSize(file)
	if err == nil && info.Size() < size {
		return unusable(file, fmt.Sprintf("is cut short: it has %d bytes, but its own pages say %d", info.Size(), size),
			nil)
	}
	return nil // openBolt finds other faults of the file
}

// removeUnmade removes a log file that was not completely made.
func removeUnmade(file string) error {
	store, err := readBolt(file)
	unread := &fs.PathError{}
	switch {
	case err == nil:
		return store.Close()
	case errors.As(err, &unread), errors.Is(err, bberrors.ErrTimeout):
		return fmt.Errorf("opening the Raft log: %w", remedy(err))
	}
	return os.Remove(file)
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// openBolt opens or makes a log file. Its pages are checked first: bbolt reads the whole tree to find its free pages, and
// panics at a damaged page in a goroutine of its own. openBolt turns its other panics on a torn file into errors, and
// also the faults on a file that was cut off, because the file is mapped.
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

func (s *stores) close() error { return s.bolt.Close() }

// guardedStore ends the node when a write fails. Raft itself would go on after a failed write, or panic. The outcome of
// the write is unknown, so that the node must end and come back from its disk.
type guardedStore struct {
	logs   raft.LogStore
	stable raft.StableStore
	path   string
	// failure is told of each failed write, and holds the goroutine that made the write.
	failure *failure
	// cuts keeps what was applied.
	cuts cutGuard
	// dog is told of each write.
	dog *watchdog.Watchdog
	// writes counts the batches of entries that were written. Each is one transaction of bbolt, with two syncs.
	writes  atomic.Uint64
	timings *timings
}

// guard tells the watchdog of a write, and returns when the write succeeds. After a failure it ends the node and never
// returns: what Raft would do next could rest on a vote or an entry that is not on disk. The calling goroutine is held
// while the node stops, and ends when Raft is about to end. Its deferred calls run then, and Raft's Shutdown waits for
// nothing else.
func (g *guardedStore) guard(doing string, write func() error) error {
	number := g.dog.Begin(watchdog.OnDisk, doing)
	err := write()
	g.dog.End(number)
	if err == nil {
		return nil
	}
	g.failure.fail(fmt.Errorf("%s in %s: %w: the node stops, because it cannot know what reached its disk; nothing "+
		"acknowledged is lost: check the disk (space, permissions, health) and start the node again", doing, g.path,
		err))
	g.failure.hold()
	return err
}

func (g *guardedStore) FirstIndex() (uint64, error)          { return g.logs.FirstIndex() }
func (g *guardedStore) LastIndex() (uint64, error)           { return g.logs.LastIndex() }
func (g *guardedStore) Get(key []byte) ([]byte, error)       { return g.stable.Get(key) }
func (g *guardedStore) GetUint64(key []byte) (uint64, error) { return g.stable.GetUint64(key) }

// GetLog ends the node when the file does not hold the entry that it should hold: Raft would panic, or leave a follower
// without the entry for ever.
func (g *guardedStore) GetLog(index uint64, log *raft.Log) error {
	err := g.logs.GetLog(index, log)
	switch {
	case errors.Is(err, raft.ErrLogNotFound), errors.Is(err, bberrors.ErrDatabaseNotOpen):
		return err
	case err == nil && log.Index == index:
		return nil
	case err == nil:
		err = fmt.Errorf("the entry there says that it is entry %d", log.Index)
	}
	g.failure.fail(unusable(filepath.Join(g.path, logFile), fmt.Sprintf("is damaged at entry %d", index), err))
	g.failure.hold()
	return err
}

func (g *guardedStore) StoreLog(log *raft.Log) error {
	return g.StoreLogs([]*raft.Log{log})
}

func (g *guardedStore) StoreLogs(logs []*raft.Log) error {
	g.writes.Add(1)
	began := time.Now()
	err := g.guard("writing the Raft log", func() error { return g.logs.StoreLogs(logs) })
	g.timings.sync.Observe(time.Since(began).Seconds())
	return err
}

func (g *guardedStore) DeleteRange(first, last uint64) error {
	begins, err := g.logs.FirstIndex()
	if err != nil {
		return err
	}
	if err = g.cuts.cut(begins, first, last); err != nil {
		g.failure.fail(err)
		g.failure.hold()
		return err
	}
	return g.guard("cutting the Raft log", func() error { return g.logs.DeleteRange(first, last) })
}

func (g *guardedStore) Set(key, value []byte) error {
	return g.guard("writing Raft's own state", func() error { return g.stable.Set(key, value) })
}

func (g *guardedStore) SetUint64(key []byte, value uint64) error {
	return g.guard("writing Raft's own state", func() error { return g.stable.SetUint64(key, value) })
}
