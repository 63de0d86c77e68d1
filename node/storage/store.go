package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"holdfast/node/storage/boltfile"
	"holdfast/node/storage/segments"
)

const (
	// keptSnapshots is the number of snapshots to keep on disk.
	keptSnapshots = 2
	// segmentBytes bounds the size of a segment of the log: that much stays longer than the bounds of the log say.
	segmentBytes = 16 << 20
)

// Options are a node's functions and settings for a [Store].
type Options struct {
	Logger hclog.Logger
	// Halt ends the node because of an error, and blocks the calling goroutine until Raft is about to end. Then it ends
	// the goroutine: Halt never returns.
	Halt func(error)
	// Watch is called before each write with a description of the write. The function that it returns is called after
	// the write.
	Watch func(doing string) (end func())
	// Synced is called with the duration of each write of entries.
	Synced func(time.Duration)
	// Applied returns the newest entry that this process or a former one has applied.
	Applied func() uint64
	// CachedEntries bounds the entries in memory.
	CachedEntries int
	// LogBytes is the number of bytes of entries after which the node takes a snapshot, and bounds the bytes that stay
	// behind it. TrailingLogs bounds the number of entries that stay.
	LogBytes, TrailingLogs uint64
	// Wrap, if set, wraps the stores of Raft's log and votes, below all layers of this package.
	Wrap func(raft.LogStore, raft.StableStore) (raft.LogStore, raft.StableStore)
}

// Store is Raft's log, votes and snapshots in a data directory. Safe for concurrent use.
//
// Entries pass through four layers on their way to the file. The order matters: the cache must hold only written
// entries, and the anchor supplies an entry that the other layers do not have.
//
//	anchoredLogs   the log continues from the newest snapshot
//	entryCache     the newest entries in memory
//	sizedLogs      counts the bytes of the log
//	guardedStore   a failed write ends the node
//	segments.Log   the files
type Store struct {
	dir      *Dir
	bolt     *raftboltdb.BoltStore
	segments *segments.Log
	// found is the stamp of the former start.
	found     stamp
	guard     *guardedStore
	logs      *anchoredLogs
	stable    raft.StableStore
	snapshots *checkedSnapshots
	// origins is the store below snapshots.
	origins *snapshotStore
	size    *logSize
	// trailing is the number of entries that stay behind a snapshot, whatever their size. Started sets raft.
	trailing uint64
	raft     atomic.Pointer[raft.Raft]
}

// Open opens the Raft log and the snapshots of a directory. It refuses a log and snapshots that do not belong to the
// directory or to each other, and stamps the log with this start: Raft may begin when Open returns.
//
// A failed write ends the calling goroutine: see [Options.Halt].
func Open(d *Dir, o Options) (_ *Store, err error) {
	s, err := openStore(d, o)
	if err != nil {
		return nil, err
	}
	begun := false
	defer func() { // runs also when a failed write ends this goroutine
		if !begun {
			err = errors.Join(err, s.Close())
		}
	}()
	if err = s.begin(); err != nil {
		return nil, err
	}
	if err = s.continueFromSnapshot(); err != nil {
		return nil, fmt.Errorf("starting Raft from %s: %w", d.path, err)
	}
	begun = true
	return s, nil
}

// openStore opens the files.
func openStore(d *Dir, o Options) (*Store, error) {
	bolt, err := openStable(d)
	if err != nil {
		return nil, err
	}
	s, err := newStore(d, bolt, o)
	if err != nil {
		return nil, errors.Join(err, bolt.Close())
	}
	return s, nil
}

// openStable opens the stable store.
func openStable(d *Dir) (*raftboltdb.BoltStore, error) {
	file := filepath.Join(d.path, StableFile)
	if err := checkStableFile(file, d.Identity().Log != 0); err != nil {
		return nil, err
	}
	bolt, err := openBolt(file)
	if damaged, ok := errors.AsType[*boltfile.PageError](err); ok {
		return nil, unusable(file, "is damaged", damaged)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s, which has Raft's votes: %w: if the file is corrupt, %s", file, err, Recovery)
	}
	// The file's name must survive a power cut before anything depends on the file's content.
	if err = syncDir(d.path); err != nil {
		return nil, errors.Join(fmt.Errorf("syncing %s: %w", d.path, err), bolt.Close())
	}
	return bolt, nil
}

// openLog opens the log, or only reads it. least is an entry that the log must reach.
func openLog(d *Dir, stable raft.StableStore, open func(segments.Options) (*segments.Log, error), o Options, least uint64,
) (*segments.Log, error) {
	log, err := open(segments.Options{
		Folder: filepath.Join(d.path, LogFolder), Owner: uint64(d.Identity().Directory), Stable: stable, Logger: o.Logger,
		Size: int(min(segmentBytes, max(o.LogBytes/8, 1))), Opened: d.presence.hold,
		Least: least,
	})
	if named, ok := errors.AsType[*segments.FileError](err); ok {
		return nil, unusable(cmp.Or(named.File, filepath.Join(d.path, StableFile)), named.Problem, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the Raft log: %w", addAdvice(err))
	}
	return log, nil
}

func newStore(d *Dir, bolt *raftboltdb.BoltStore, o Options) (_ *Store, err error) {
	found, err := checkStamp(d, bolt)
	if err != nil {
		return nil, err
	}
	origins, err := openSnapshots(d, o.Logger)
	if err != nil {
		return nil, err
	}
	least, err := leastEntry(origins, found, o.Applied())
	if err != nil {
		return nil, err
	}
	log, err := openLog(d, bolt, segments.Open, o, least)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, log.Close())
		}
	}()
	// The name of the folder of snapshots must survive a power cut too, before the log is cut after a snapshot.
	if err = syncDir(d.path); err != nil {
		return nil, fmt.Errorf("syncing %s: %w", d.path, err)
	}
	if err = d.presence.watch(filepath.Join(d.path, StableFile), filepath.Join(d.path, LogFolder),
		origins.folder); err != nil {
		return nil, err
	}
	guard := &guardedStore{logs: log, stable: bolt, path: d.path, halt: o.Halt, watch: o.Watch, synced: o.Synced}
	if o.Wrap != nil {
		guard.logs, guard.stable = o.Wrap(log, bolt)
	}
	size := &logSize{bound: o.LogBytes}
	s := &Store{
		dir: d, bolt: bolt, segments: log, found: found, guard: guard, stable: guard, origins: origins, size: size,
		trailing: o.TrailingLogs,
		logs:     &anchoredLogs{LogStore: &entryCache{LogStore: sizedLogs{guard, size}, limit: o.CachedEntries}},
	}
	s.snapshots = &checkedSnapshots{SnapshotStore: origins, completed: s.trimLog, checkTerm: s.checkSnapshot}
	guard.cuts = cutGuard{path: d.path, applied: o.Applied, snapshot: s.newestMark}
	return s, nil
}

// leastEntry returns the entry that the log must reach: the newest that this node has applied, unless a snapshot has it.
func leastEntry(snapshots raft.SnapshotStore, found stamp, applied uint64) (uint64, error) {
	all, err := snapshots.List()
	if err != nil {
		return 0, fmt.Errorf("reading the snapshots: %w", err)
	}
	newest := found.Snapshot.Index
	if len(all) > 0 {
		newest = max(newest, all[0].Index)
	}
	if applied <= newest {
		return 0, nil
	}
	return applied, nil
}

// Close closes the files, after Raft has ended.
func (s *Store) Close() error { return errors.Join(s.segments.Close(), s.bolt.Close()) }

// Log is Raft's log.
func (s *Store) Log() raft.LogStore { return s.logs }

// Stable has Raft's term and votes.
func (s *Store) Stable() raft.StableStore { return s.stable }

// Snapshots are Raft's snapshots.
func (s *Store) Snapshots() raft.SnapshotStore { return s.snapshots }

// Refusal says why Raft could not open a snapshot at its start; nil when it could. Raft's own error says less.
func (s *Store) Refusal() error { return s.origins.refusal() }

// Writes returns the number of written batches of entries. Each batch is one sync.
func (s *Store) Writes() uint64 { return s.guard.writes.Load() }

// Started records that Raft has started from the store.
func (s *Store) Started(r *raft.Raft) {
	s.origins.started()
	s.raft.Store(r)
}

// Restored makes the log continue from the newest snapshot, after Raft has restored that snapshot.
func (s *Store) Restored() error {
	newest, err := s.newest()
	if newest == nil {
		return err
	}
	return s.logs.anchor(newest.Index, newest.Term)
}

// RunSnapshots requests a snapshot from Raft whenever the log has gained enough bytes, until ctx ends. Raft itself
// counts only entries, and checks only at its own interval.
func (s *Store) RunSnapshots(ctx context.Context, r *raft.Raft, logger hclog.Logger) error {
	return s.size.runSnapshots(ctx, r, logger)
}

// trimLog makes Raft keep as many entries behind a snapshot as the bounds permit. It is called with each complete
// snapshot, before Raft cuts its log.
func (s *Store) trimLog(index uint64) {
	keep := s.size.completed(index, s.trailing)
	if running := s.raft.Load(); running != nil {
		now := running.ReloadableConfig()
		now.TrailingLogs = keep
		_ = running.ReloadConfig(now) // ReloadConfig fails only for values that Raft refuses at its start
	}
}

// checkSnapshot ends the node when a snapshot of another node contradicts an entry that this node has applied.
func (s *Store) checkSnapshot(index, term uint64) {
	if err := s.guard.cuts.installs(index, term, s.guard); err != nil {
		s.guard.halt(err)
	}
}

func (s *Store) newest() (*raft.SnapshotMeta, error) {
	all, err := s.snapshots.List()
	if err != nil {
		return nil, fmt.Errorf("reading the snapshots: %w", err)
	}
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	return all[0], nil
}

// newestMark returns the mark of the newest snapshot; the zero mark for none.
func (s *Store) newestMark() (snapshotMark, error) {
	newest, err := s.newest()
	if newest == nil {
		return snapshotMark{}, err
	}
	return markOf(newest), nil
}
