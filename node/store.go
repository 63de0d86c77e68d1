package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

const (
	// logCache is how many entries stay in memory for followers.
	logCache = 512
	// keptSnapshots are on disk at a time.
	keptSnapshots = 2
	// storeLockWait bounds the wait for the log file's lock.
	storeLockWait = time.Second
)

// stores are what Raft keeps in the data directory.
type stores struct {
	bolt      *raftboltdb.BoltStore
	guard     *guardedStore
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
}

// recovery is what to do about a data directory that cannot be used.
const recovery = "restore the data directory as it was; or, while a majority of the other nodes runs and has a leader, empty it: the " +
	"leader takes the node in as a new one, and it fetches a copy; never empty so many that no majority is left"

var errNoLog = errors.New("the file is missing, and this node has voted with it")

// diskOption is [Options.Disk].
type diskOption = func(raft.LogStore, raft.StableStore) (raft.LogStore, raft.StableStore)

// openStores opens the Raft log and the snapshots in a data directory; begun says that it must have a log. Raft writes through guard.
func openStores(path string, begun bool, logger hclog.Logger, guard *guardedStore, disk diskOption) (*stores, error) { //nolint:revive // flag-parameter: it is what the identity file says
	file := filepath.Join(path, "raft.db")
	if missing(file) && (begun || !missing(filepath.Join(path, "snapshots"))) { // which are made after it
		return nil, fmt.Errorf("opening the Raft log %s: %w: %s", file, errNoLog, recovery)
	}
	bolt, err := openBolt(file)
	if err != nil {
		return nil, fmt.Errorf("opening the Raft log %s: %w: if the file is corrupt, %s", file, err, recovery)
	}
	// The file's name must outlive a power cut before anything rests on what is in it.
	if err = syncDir(path); err != nil {
		return nil, errors.Join(fmt.Errorf("syncing %s: %w", path, err), bolt.Close())
	}
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(path, keptSnapshots, logger.Named("snapshot"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening the snapshots in %s: %w", path, err), bolt.Close())
	}
	// So must that of the directory of snapshots, before the log is cut after one of them.
	if err = syncDir(path); err != nil {
		return nil, errors.Join(fmt.Errorf("syncing %s: %w", path, err), bolt.Close())
	}
	guard.logs, guard.stable, guard.path = bolt, bolt, path
	if disk != nil {
		guard.logs, guard.stable = disk(bolt, bolt)
	}
	cached, err := raft.NewLogCache(logCache, guard)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return &stores{bolt: bolt, guard: guard, logs: cached, stable: guard, snapshots: snapshots}, nil
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// openBolt turns the panics of bbolt on a torn file into errors, and the faults on one that was cut off: it is mapped. bbolt reads
// all of the tree to find its free pages.
func openBolt(file string) (store *raftboltdb.BoltStore, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is corrupt: %v", r)
		}
	}()
	return raftboltdb.New(raftboltdb.Options{
		Path: file,
		BoltOptions: &bbolt.Options{
			Timeout:        storeLockWait,
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
}

func (s *stores) close() error { return s.bolt.Close() }

// guardedStore makes a failed write the node's end. Raft itself would go on after one, or panic. The outcome of the write is
// unknown, so the node must leave and come back from its disk.
type guardedStore struct {
	logs   raft.LogStore
	stable raft.StableStore
	path   string
	// fatal is told of each failed write; whoever made it is held until released is closed, and ends then.
	fatal    func(error)
	released <-chan struct{}
	// dog watches how long writes take.
	dog *watchdog
	// writes counts the batches of entries that were written: each is one transaction, and two syncs, of bbolt.
	writes atomic.Uint64
}

// guard writes, under the watchdog's eyes, and passes a success on. After a failure it tells fatal and never returns: what Raft would do next could rest on a vote
// or an entry that is not on disk. The caller's goroutine is held while the node stops, and ends when Raft is to: its
// deferred calls run, which is all that Raft's Shutdown waits for.
func (g *guardedStore) guard(doing string, write func() error) error {
	number := g.dog.begin(onDisk, doing)
	err := write()
	g.dog.end(number)
	if err == nil {
		return nil
	}
	g.fatal(fmt.Errorf("%s in %s: %w: the node stops, for it cannot know what reached its disk; nothing acknowledged is "+
		"lost: see to the disk (space, permissions, health) and start the node again", doing, g.path, err))
	<-g.released
	runtime.Goexit()
	return err
}

func (g *guardedStore) FirstIndex() (uint64, error)              { return g.logs.FirstIndex() }
func (g *guardedStore) LastIndex() (uint64, error)               { return g.logs.LastIndex() }
func (g *guardedStore) GetLog(index uint64, log *raft.Log) error { return g.logs.GetLog(index, log) }
func (g *guardedStore) Get(key []byte) ([]byte, error)           { return g.stable.Get(key) }
func (g *guardedStore) GetUint64(key []byte) (uint64, error)     { return g.stable.GetUint64(key) }

func (g *guardedStore) StoreLog(log *raft.Log) error {
	g.writes.Add(1)
	return g.guard("writing the Raft log", func() error { return g.logs.StoreLog(log) })
}

func (g *guardedStore) StoreLogs(logs []*raft.Log) error {
	g.writes.Add(1)
	return g.guard("writing the Raft log", func() error { return g.logs.StoreLogs(logs) })
}

func (g *guardedStore) DeleteRange(first, last uint64) error {
	return g.guard("cutting the Raft log", func() error { return g.logs.DeleteRange(first, last) })
}

func (g *guardedStore) Set(key, value []byte) error {
	return g.guard("writing Raft's own state", func() error { return g.stable.Set(key, value) })
}

func (g *guardedStore) SetUint64(key []byte, value uint64) error {
	return g.guard("writing Raft's own state", func() error { return g.stable.SetUint64(key, value) })
}
