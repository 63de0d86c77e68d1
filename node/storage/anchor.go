package storage

import (
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// placeholder is the type of an entry that carries only the term of a snapshot's last entry. No follower accepts an
// entry of this type, and Raft does not apply one.
const placeholder raft.LogType = 0xff

// anchoredLogs is a log that continues from the newest snapshot.
//
// When Raft 1.7 installs a snapshot, it keeps its log, and cuts off old entries by number only. So the log of a deposed
// leader keeps entries that no other node has, and that the snapshot contradicts:
//
//   - Below the snapshot's end, such entries stay as long as other trailing entries do. The next entries are appended
//     behind them. Once this node leads, it sends them to a follower that lags far behind, with a commit index far
//     above them: that follower applies them.
//   - Where such entries reach beyond the snapshot's end, Raft checks the entry before each entry that it is sent
//     against its log only. The log lacks that entry or has another one. So Raft refuses everything after the snapshot,
//     and is sent the same snapshot for ever.
//
// Ongaro and Ousterhout, section 7, say: discard a log that lacks the snapshot's last entry, and otherwise keep what
// follows that entry. anchoredLogs keeps entries beyond the snapshot's end, because Raft has the log's length in
// memory. Raft itself discards them, as it does with any conflict, since the first entry after the snapshot differs
// from them. A log store that declares itself monotonic is no way out: Raft would discard the whole log at each
// installation, including entries behind the snapshot's end that this node has acknowledged.
//
// Safe for concurrent use, as the log under it is.
type anchoredLogs struct {
	raft.LogStore

	mu sync.Mutex
	// index and term are of the last entry in the newest snapshot, 0 without one. guarded by mu
	index, term uint64
}

// GetLog reads an entry. For the entry at the newest snapshot's end it always returns at least the term, which is all
// that Raft needs of this entry.
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
	*log = raft.Log{Index: a.index, Term: a.term, Type: placeholder}
	return nil
}

// anchor makes the log continue from a snapshot that ends with the entry of index and term. Unless the log has exactly
// this entry, anchor deletes all entries up to index.
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

// contradicts returns the range of entries to delete; first is 0 for none.
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

// continueFromSnapshot anchors the log before Raft starts, in case the former process ended before it anchored the log.
// It deletes nothing if the snapshot cannot be read: the log may then have the only copy of entries that this node
// acknowledged.
func (s *Store) continueFromSnapshot() error {
	newest, err := s.newest()
	if newest == nil {
		return err
	}
	s.size.begins(newest.Index)
	first, _, err := s.logs.contradicts(newest.Index, newest.Term)
	if err != nil {
		return err
	}
	if first > 0 {
		_, from, err := s.snapshots.Open(newest.ID) // Open reads the whole snapshot
		if err != nil {
			return fmt.Errorf("opening snapshot %s, which the Raft log does not continue: %w", newest.ID, err)
		}
		if err = from.Close(); err != nil {
			return fmt.Errorf("closing a snapshot: %w", err)
		}
	}
	return s.logs.anchor(newest.Index, newest.Term)
}
