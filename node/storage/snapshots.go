package storage

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
)

// checkedSnapshots refuses a snapshot that this node cannot read. Raft deletes older snapshots once it has written a
// snapshot of another node, and restores the state from the new snapshot only afterwards. An unreadable snapshot would
// end the node for good.
type checkedSnapshots struct {
	raft.SnapshotStore
	// completed, if set, is called with the index of each complete snapshot, before Raft cuts its log.
	completed func(index uint64)
	// checkTerm, if set, is called with a snapshot of another node before the snapshot replaces this node's log.
	checkTerm func(index, term uint64)
}

// Create begins a snapshot. A snapshot of another node is checked during the write.
func (c *checkedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	configured uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := c.SnapshotStore.Create(version, index, term, servers, configured, trans)
	if err != nil {
		return nil, err
	}
	return &checkedSink{SnapshotSink: sink, completed: c.completed, checkTerm: c.checkTerm, index: index, term: term}, nil
}

// checkedSink is a snapshot during its writing. Like any sink it belongs to one goroutine.
type checkedSink struct {
	raft.SnapshotSink
	completed   func(index uint64)
	checkTerm   func(index, term uint64)
	index, term uint64
	// own is set for a snapshot of this node's own state.
	own bool
	// pipe leads to the goroutine that checks the snapshot; nil before the check has begun. read has the result of the
	// check, once.
	pipe *io.PipeWriter
	read chan error
}

var errNoSnapshot = errors.New("snapshot refused")

// Write writes b to the disk and to the check. A fault ends the snapshot as soon as the check finds it.
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

// Close keeps a readable snapshot. It cancels an unreadable one and returns the reason.
func (s *checkedSink) Close() error {
	if !s.own {
		s.begin()
		_ = s.pipe.Close() // never fails
		if err := s.wait(); err != nil {
			return errors.Join(err, s.SnapshotSink.Cancel())
		}
		if s.checkTerm != nil {
			s.checkTerm(s.index, s.term)
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
		_ = s.wait()                             // the check of a cancelled snapshot may fail
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
		_ = from.CloseWithError(err) // makes the next Write return err; never fails
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

// OwnSnapshot wraps a snapshot of this node's own state, so that the store accepts it without a check.
func OwnSnapshot(s raft.FSMSnapshot) raft.FSMSnapshot { return ownSnapshot{s} }

// ownSnapshot is a snapshot of this node's own state, which needs no check.
type ownSnapshot struct{ raft.FSMSnapshot }

// Persist writes the snapshot.
func (o ownSnapshot) Persist(sink raft.SnapshotSink) error {
	if c, ok := sink.(*checkedSink); ok {
		c.own = true
	}
	return o.FSMSnapshot.Persist(sink)
}
