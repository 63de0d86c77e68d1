package node

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
)

// checkedSnapshots keeps no snapshot that this node cannot read. Once Raft has written a snapshot from another node, it
// drops older snapshots, and restores the state from the new one after that. An unreadable snapshot would end the node,
// and the node could not start again.
type checkedSnapshots struct {
	raft.SnapshotStore
	// completed, if set, is called with the index of each complete snapshot, before Raft cuts its log.
	completed func(index uint64)
	// judge, if set, is called with a snapshot of another node before it takes the place of this node's log.
	judge func(index, term uint64)
}

// Create begins a snapshot, which is checked as it is written unless it is this node's own.
func (c *checkedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	configured uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := c.SnapshotStore.Create(version, index, term, servers, configured, trans)
	if err != nil {
		return nil, err
	}
	return &checkedSink{SnapshotSink: sink, completed: c.completed, judge: c.judge, index: index, term: term}, nil
}

// checkedSink is a snapshot on its way to the disk. Like any sink it belongs to one goroutine.
type checkedSink struct {
	raft.SnapshotSink
	completed   func(index uint64)
	judge       func(index, term uint64)
	index, term uint64
	// own is set for a snapshot of this node's own state.
	own bool
	// pipe leads to the goroutine that checks the snapshot. It is nil before the check has begun. read has the result
	// of the check, once.
	pipe *io.PipeWriter
	read chan error
}

var errNoSnapshot = errors.New("snapshot refused")

// Write writes b, and passes b on to the check. A fault ends the snapshot as soon as the check finds it.
func (s *checkedSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	if err != nil || s.own {
		return n, err
	}
	s.begin()
	if _, err = s.pipe.Write(b[:n]); err != nil {
		return 0, err
	}
	return n, nil
}

// Close keeps a sound snapshot. It cancels any other, and its error says why.
func (s *checkedSink) Close() error {
	if !s.own {
		s.begin()
		_ = s.pipe.Close() // never fails
		if err := s.wait(); err != nil {
			return errors.Join(err, s.SnapshotSink.Cancel())
		}
		if s.judge != nil {
			s.judge(s.index, s.term)
		}
	}
	err := s.SnapshotSink.Close()
	if err == nil && s.completed != nil {
		s.completed(s.index)
	}
	return err
}

// Cancel drops the snapshot.
func (s *checkedSink) Cancel() error {
	if s.pipe != nil {
		_ = s.pipe.CloseWithError(errNoSnapshot) // never fails
		_ = s.wait()                             // a snapshot that is cancelled may be anything
	}
	return s.SnapshotSink.Cancel()
}

// wait returns the result of the check.
func (s *checkedSink) wait() error { return <-s.read }

// begin begins the check, unless it has begun. Close or Cancel waits for its goroutine.
func (s *checkedSink) begin() {
	if s.pipe != nil {
		return
	}
	from, to := io.Pipe()
	s.pipe, s.read = to, make(chan error, 1)
	go func() {
		err := s.check(from)
		_ = from.CloseWithError(err) // the next Write returns err; never fails
		s.read <- err
		close(s.read)
	}()
}

func (s *checkedSink) check(from io.Reader) error {
	index, term, err := fsm.CheckSnapshot(from)
	switch {
	case err != nil:
		return fmt.Errorf("%w: it was sent as the snapshot of index %d and cannot be read: %w", errNoSnapshot, s.index,
			err)
	case index > s.index || term > s.term:
		return fmt.Errorf("%w: it is of index %d and term %d, but was sent as that of index %d and term %d",
			errNoSnapshot, index,
			term, s.index, s.term)
	}
	return nil
}

// Snapshot returns a snapshot of the present state.
func (w *watchedFSM) Snapshot() (raft.FSMSnapshot, error) {
	s, err := w.State.Snapshot()
	if err != nil {
		return nil, err
	}
	return ownSnapshot{s}, nil
}

// ownSnapshot is a snapshot of this node's own state. It needs no check.
type ownSnapshot struct{ raft.FSMSnapshot }

// Persist writes the snapshot.
func (o ownSnapshot) Persist(sink raft.SnapshotSink) error {
	if c, ok := sink.(*checkedSink); ok {
		c.own = true
	}
	return o.FSMSnapshot.Persist(sink)
}
