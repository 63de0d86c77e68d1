package node

import (
	"context"
	"errors"
	"sort"
	"sync"
	"sync/atomic"
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

// logSize knows how many bytes the newest entries of the log have, to 1/1024 of its bound. Of entries that were there
// when the process started it knows those behind the newest snapshot, which Raft reads at its start. Safe for
// concurrent use.
type logSize struct {
	bound uint64

	mu sync.Mutex
	// marks are at entries in their order, bytes apart: at least one once an entry is known. They reach two bounds back.
	// guarded by mu
	marks []logMark
	// bytes is the size of all known entries, last the index of the newest one. guarded by mu
	bytes, last uint64
	// snapshot is the index of the newest snapshot. guarded by mu
	snapshot uint64
}

// logMark says how many bytes the known entries before one have.
type logMark struct{ index, before uint64 }

// begins notes where the log goes on from at the start of the process: behind a snapshot, or the beginning.
func (s *logSize) begins(snapshot uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot, s.last, s.bytes, s.marks = snapshot, snapshot, 0, nil
}

// read notes an entry that was read, if it is the next one that is not known.
func (s *logSize) read(log *raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if log.Index == s.last+1 {
		s.add(log)
	}
}

// stored notes entries that were written.
func (s *logSize) stored(logs []*raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, log := range logs {
		for n := len(s.marks); n > 0 && s.marks[n-1].index >= log.Index; n-- { // it takes the place of another entry
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

// completed notes a snapshot. It returns how many entries are to stay behind it: most, or as many as fit into the
// bound.
func (s *logSize) completed(index, most uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshot = max(s.snapshot, index)
	fits := sort.Search(len(s.marks), func(i int) bool { return s.bytes-s.marks[i].before <= s.bound })
	switch {
	case fits == 0: // all known entries; those before them have stayed behind an earlier snapshot
		return most
	case fits == len(s.marks):
		return min(most, 1)
	default:
		return min(most, s.last-s.marks[fits].index+1)
	}
}

// sizedLogs is a log whose entries are counted.
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

// trailing has Raft keep as many entries behind a snapshot as fit into bytes.
type trailing struct {
	size *logSize
	// most is [config.Tuning.TrailingLogs].
	most uint64
	raft *atomic.Pointer[raft.Raft]
}

// completed is called with each complete snapshot, before Raft cuts its log.
func (t *trailing) completed(index uint64) {
	keep := t.size.completed(index, t.most)
	if running := t.raft.Load(); running != nil {
		now := running.ReloadableConfig()
		now.TrailingLogs = keep
		_ = running.ReloadConfig(now) // only values that Raft refuses at its start have an error
	}
}

// snapshots asks Raft for a snapshot whenever the log has gained enough bytes, until ctx ends. Raft looks at numbers of
// entries alone, and only at its interval of snapshots.
func (s *logSize) snapshots(ctx context.Context, r *raft.Raft, logger hclog.Logger) error {
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
