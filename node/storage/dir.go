// Package storage keeps a node's data directory: the identity file, Raft's log, votes and snapshots, and the positions
// of other members' directories. It refuses files that do not belong together or that another process uses, and it ends
// the node when a write fails. [Open] returns the Store for Raft. [Restore] and [OpenSurvivor] make the directories of
// a new cluster while no node runs.
//
// docs/data-directory.md describes the files.
package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Dir is a node's data directory. The process has exclusive use of it until Close. Safe for concurrent use.
type Dir struct {
	path string
	// incarnation is the number of this start (T6 newest stream only). The number never repeats, because it is on disk
	// before the node sends it to any other node.
	incarnation uint64
	lock        *os.File
	// former is the incarnation of the former start; 0 for none.
	former uint64
	// presence checks that paths still lead to the files that this process has open.
	presence *presence

	mu sync.Mutex
	// identity is the content of the identity file. guarded by mu
	identity Identity
	// writing has one token, which the goroutine that replaces the identity file holds.
	writing chan struct{}
}

// OpenDir opens or makes the data directory at path. It locks the directory against other processes, checks that the
// directory belongs to this node of this cluster, and counts the start at now. Errors say what to do.
func OpenDir(path, clusterID string, node session.Node, now time.Time) (*Dir, error) {
	d, err := openDir(path, Identity{Format: session.DirectoryFormat, ClusterID: clusterID, Node: node}, now)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	return d, nil
}

func openDir(path string, want Identity, now time.Time) (*Dir, error) {
	if err := makeDir(path); err != nil {
		return nil, addAdvice(err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	identity, former, err := countStart(path, want, now)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	d := newDir(path, identity, former)
	d.lock = lock
	if err := d.presence.watch(path, filepath.Join(path, IdentityFile)); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func newDir(path string, identity Identity, former uint64) *Dir {
	return &Dir{
		path: path, incarnation: identity.Incarnation, former: former, identity: identity, presence: &presence{},
		writing: make(chan struct{}, 1),
	}
}

// Close releases the directory for other processes.
func (d *Dir) Close() error { return errors.Join(d.presence.close(), d.lock.Close()) }

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Incarnation returns the number of this start (T6).
func (d *Dir) Incarnation() uint64 { return d.incarnation }

// Identity returns the content of the identity file.
func (d *Dir) Identity() Identity {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.identity
}

// Check returns an error when the directory or one of its files was removed, moved or replaced since they were
// opened.
func (d *Dir) Check() error { return d.presence.check() }

// Admit records on disk that the node may run Raft, with the directories of the cluster's founders.
func (d *Dir) Admit(founders raftnet.Directories) error {
	return d.update(func(i *Identity) { i.Founders = founders })
}

// noteStamp records on disk that the log is stamped with this start. Raft may begin afterwards.
func (d *Dir) noteStamp() error {
	return d.update(func(i *Identity) { i.Log = d.incarnation })
}

// update replaces the identity file.
func (d *Dir) update(change func(*Identity)) error {
	d.writing <- struct{}{}
	defer func() { <-d.writing }()
	next := d.Identity()
	change(&next)
	err := d.presence.replace(filepath.Join(d.path, IdentityFile), func() error {
		return addAdvice(writeIdentity(d.path, next))
	})
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.identity = next
	return nil
}

// makeDir makes path and its parents, and syncs each directory that gains an entry. Without the sync, a power cut could
// remove the data directory with everything that was synced in it.
func makeDir(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return syscall.ENOTDIR
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if to, err := os.Readlink(path); err == nil {
		return danglingLink(path, to, "a directory")
	}
	parent := filepath.Dir(path)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// lockDir takes the directory's lock. The kernel drops the lock with the process, however the process ends.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, addAdvice(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New(
			"another process uses it: stop the other process first, or give this node a directory of its own",
		)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
