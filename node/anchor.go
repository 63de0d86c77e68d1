package node

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"
)

// standIn is the type of an entry that only says which term the last one of a snapshot has. Nobody takes an entry of
// such a type: neither a follower nor Raft's own applying.
const standIn raft.LogType = 0xff

// anchoredLogs is a log that goes on from the newest snapshot.
//
// Raft 1.7 installs a snapshot and keeps its log, of which it cuts off what is old, by number. So it keeps what a
// deposed leader had appended and nobody else has, which the snapshot contradicts:
//
//   - Below the snapshot's end such entries stay for as long as any trailing ones do. What is appended next comes
//     behind them, and once this node leads, it sends them to a follower that is behind and has what is before them,
//     together with a commit index far above: that follower applies them.
//   - Where such a tail reaches beyond the end, Raft compares the entry before those that it is sent with its log
//     alone, which does not have it or has another. It refuses whatever comes after the snapshot, and is sent the same
//     snapshot for ever.
//
// Ongaro and Ousterhout, section 7: a log that has not the snapshot's last entry is discarded; what follows that
// entry is kept if it has. Here a tail beyond the end stays, as Raft has its length in memory. Raft itself discards
// it, as it does any: what comes after the snapshot differs from it at once. A log store that says it is monotonic
// would have Raft discard the whole log at each installation, also what this node has acknowledged behind the
// snapshot's end.
//
// Safe for concurrent use, as the log under it is.
type anchoredLogs struct {
	raft.LogStore

	mu sync.Mutex
	// index and term are of the last entry in the newest snapshot, 0 without one. guarded by mu
	index, term uint64
}

// GetLog reads an entry. That at the end of the newest snapshot can always be told by its term, which is all that
// Raft asks of it.
func (a *anchoredLogs) GetLog(index uint64, log *raft.Log) error {
	err := a.LogStore.GetLog(index, log)
	if !errors.Is(err, raft.ErrLogNotFound) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if index == 0 || index != a.index {
		return err
	}
	*log = raft.Log{Index: a.index, Term: a.term, Type: standIn}
	return nil
}

// anchor makes the log go on from a snapshot that ends with an entry: unless the log has that very entry, all up to
// it go.
func (a *anchoredLogs) anchor(index, term uint64) error {
	first, last, err := a.contradicts(index, term)
	if err == nil && first > 0 {
		err = a.DeleteRange(first, last)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.index, a.term = index, term
	return nil
}

// contradicts returns the range of entries that go, from 0 when none do.
func (a *anchoredLogs) contradicts(index, term uint64) (first, last uint64, err error) {
	var e raft.Log
	err = a.LogStore.GetLog(index, &e)
	switch {
	case err == nil && e.Term == term:
		return 0, 0, nil
	case err != nil && !errors.Is(err, raft.ErrLogNotFound):
		return 0, 0, fmt.Errorf("reading entry %d of the Raft log: %w", index, err)
	}
	if first, err = a.FirstIndex(); err == nil {
		last, err = a.LastIndex()
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("reading the Raft log: %w", err)
	case first > index:
		return 0, 0, nil
	}
	return first, min(index, last), nil
}

// anchor has the log go on from the newest snapshot, which was restored.
func (s *stores) anchor() error {
	newest, err := s.newest()
	if newest == nil {
		return err
	}
	return s.logs.anchor(newest.Index, newest.Term)
}

func (s *stores) newest() (*raft.SnapshotMeta, error) {
	all, err := s.snapshots.List()
	if err != nil {
		return nil, fmt.Errorf("reading the snapshots: %w", err)
	}
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	return all[0], nil
}

// finish does before Raft starts what a node that ended at the wrong moment has left undone. Nothing is cut on the
// word of a snapshot that cannot be read: without it, what this node has acknowledged may be in the log alone.
func (s *stores) finish() error {
	newest, err := s.newest()
	if newest == nil {
		return err
	}
	first, _, err := s.logs.contradicts(newest.Index, newest.Term)
	if err != nil {
		return err
	}
	if first > 0 {
		_, from, err := s.snapshots.Open(newest.ID) // which reads all of it
		if err != nil {
			return fmt.Errorf("opening the snapshot %s, which the Raft log does not go on from: %w", newest.ID, err)
		}
		if err = from.Close(); err != nil {
			return fmt.Errorf("closing a snapshot: %w", err)
		}
	}
	return s.logs.anchor(newest.Index, newest.Term)
}

// Restore restores a snapshot. Raft waits for it: nothing is appended meanwhile.
func (w *watchedFSM) Restore(from io.ReadCloser) error {
	if err := w.State.Restore(from); err != nil {
		return err
	}
	if err := w.anchor(); err != nil {
		w.fatal(fmt.Errorf("cutting the log behind a snapshot: %w: the node stops; start it again", err))
		return err
	}
	return nil
}
