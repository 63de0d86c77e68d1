package storage

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
)

const (
	// marksOfLog is the number of marks of a [logSize] for each bound of bytes.
	marksOfLog = 1024
	// snapshotRetry is the time between two snapshots that fail.
	snapshotRetry = 10 * time.Second
)

// logSize counts the bytes of the newest entries of the log, to 1/1024 of the bound (W7 size bounds). After a start it
// counts the entries after the newest snapshot, which Raft then reads. Safe for concurrent use.
type logSize struct {
	bound uint64

	mu sync.Mutex
	// marks are at entries in order, bound/marksOfLog bytes apart: at least one once an entry is known. They reach back
	// two bounds. guarded by mu
	marks []logMark
	// bytes is the size of all known entries, last the index of the newest one. guarded by mu
	bytes, last uint64
	// snapshot is the index of the newest snapshot. guarded by mu
	snapshot uint64
}

// logMark is an entry's index with the bytes of all known entries before it.
type logMark struct{ index, before uint64 }

// begins sets where the log begins for this process: after a snapshot, or at the beginning.
func (s *logSize) begins(snapshot uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot, s.last, s.bytes, s.marks = snapshot, snapshot, 0, nil
}

// read counts an entry that was read, if it is the next unknown one.
func (s *logSize) read(log *raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if log.Index == s.last+1 {
		s.add(log)
	}
}

// stored counts entries that were written.
func (s *logSize) stored(logs []*raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, log := range logs {
		for n := len(s.marks); n > 0 && s.marks[n-1].index >= log.Index; n-- { // the entry replaces another one
			s.marks = s.marks[:n-1]
		}
		s.add(log)
	}
}

// add counts an entry. Called with mu held.
func (s *logSize) add(log *raft.Log) {
	if n := len(s.marks); n == 0 || s.bytes-s.marks[n-1].before >= s.bound/marksOfLog {
		s.marks = append(s.marks, logMark{log.Index, s.bytes})
	}
	s.bytes += uint64(len(log.Data) + len(log.Extensions))
	s.last = log.Index
	old := 0
	for old+1 < len(s.marks) && s.bytes-s.marks[old+1].before > 2*s.bound {
		old++
	}
	s.marks = append(s.marks[:0], s.marks[old:]...)
}

// due reports whether the entries behind the newest snapshot have reached the bound.
func (s *logSize) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := sort.Search(len(s.marks), func(i int) bool { return s.marks[i].index > s.snapshot+1 })
	return len(s.marks) > 0 && s.bytes-s.marks[max(next-1, 0)].before >= s.bound
}

// completed records a snapshot. It returns the number of entries to keep behind the snapshot: limit, or as many as fit
// into the bound.
func (s *logSize) completed(index, limit uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = max(s.snapshot, index)
	fits := sort.Search(len(s.marks), func(i int) bool { return s.bytes-s.marks[i].before <= s.bound })
	switch {
	case fits == 0: // all known entries fit; earlier entries were kept behind an earlier snapshot
		return limit
	case fits == len(s.marks):
		return min(limit, 1)
	default:
		return min(limit, s.last-s.marks[fits].index+1)
	}
}

// sizedLogs is a log with a count of its entries' bytes.
type sizedLogs struct {
	raft.LogStore
	size *logSize
}

// GetLog reads an entry.
func (l sizedLogs) GetLog(index uint64, log *raft.Log) error {
	err := l.LogStore.GetLog(index, log)
	if err == nil {
		l.size.read(log)
	}
	return err
}

// StoreLog writes an entry.
func (l sizedLogs) StoreLog(log *raft.Log) error { return l.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes entries.
func (l sizedLogs) StoreLogs(logs []*raft.Log) error {
	err := l.LogStore.StoreLogs(logs)
	if err == nil {
		l.size.stored(logs)
	}
	return err
}

// runSnapshots requests a snapshot from Raft whenever the log has gained enough bytes, until ctx ends. Raft itself
// counts only entries, and checks only at its own interval.
func (s *logSize) runSnapshots(ctx context.Context, r *raft.Raft, logger hclog.Logger) error {
	for {
		wait := time.Second
		if s.due() {
			switch err := r.Snapshot().Error(); {
			case errors.Is(err, raft.ErrRaftShutdown):
				return nil
			case err != nil:
				logger.Debug("no snapshot although the log is large", "error", err)
				wait = snapshotRetry
			}
		}
		if err := session.Sleep(ctx, wait); err != nil {
			return nil //nolint:nilerr // the node stops
		}
	}
}
