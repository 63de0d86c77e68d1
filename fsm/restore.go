package fsm

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// errOlderSnapshot is the error of a restore that would take the state back.
var errOlderSnapshot = errors.New("the snapshot is older than the state")

// Restore replaces the state by a snapshot, and closes the snapshot. It reads and checks the whole snapshot before it
// replaces anything. If the snapshot is cut short, corrupt or of another format, Restore leaves the state unchanged,
// calls [Config.Fatal], and returns an error.
//
// Restore refuses a snapshot that is older than the state. Raft installs every snapshot that a leader sends, also a
// delayed copy. Without this refusal Raft would go back to an index up to which the log may have been cut since. The
// leader sends snapshots until it has a newer one.
func (s *State) Restore(from io.ReadCloser) error {
	disk := &diskReader{Reader: from}
	v, err := readSnapshot(disk)
	if broken := errors.Join(disk.err, from.Close()); broken != nil {
		const advice = "see to the disk (space, permissions, health) and start the node again"
		return s.halt(fmt.Errorf("reading snapshot%s: %w: %s", nameOf(from), broken, advice))
	}
	if err != nil {
		return s.halt(&UnreadableError{What: "snapshot" + nameOf(from), Err: err})
	}
	s.mu.Lock()
	if s.halted != nil {
		defer s.mu.Unlock()
		return s.halted
	}
	if v.index < s.index {
		defer s.mu.Unlock()
		return fmt.Errorf("%w: it is of index %d, and %d has been applied", errOlderSnapshot, v.index, s.index)
	}
	v.tables.treeState.writers.SetLimits(s.writers)
	s.tables, s.index, s.term = &v.tables, v.index, v.term
	s.digests = [digestRing]digestAt{}
	s.publishTree(v.index)
	s.recordDigest(v.index)
	now, observers, treeObservers, usedUp := s.tables.shown, s.observers, s.treeObservers, s.tables.usedUp
	s.mu.Unlock()

	for _, o := range observers {
		o.Restored()
	}
	for _, o := range treeObservers {
		o.RestoredTree(now)
	}
	s.progress.publish(v.index, v.tables.attachment, usedUp)
	s.logger.Info("snapshot restored", "index", v.index, "sessions", v.tables.sessions.Len())
	return nil
}

// CheckSnapshot reads a snapshot to its end, and returns the index of the newest entry and the term of the newest
// command. It returns an error for every snapshot that [State.Restore] cannot read. Safe for concurrent use.
func CheckSnapshot(from io.Reader) (index, term uint64, err error) {
	v, err := readSnapshot(from)
	if err != nil {
		return 0, 0, err
	}
	return v.index, v.term, nil
}

// diskReader keeps the error of a failed read, to distinguish a failing disk from a corrupt snapshot.
type diskReader struct {
	io.Reader
	err error
}

func (r *diskReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// nameOf returns a space and the name of the snapshot's file, or "" when from has no name.
func nameOf(from io.ReadCloser) string {
	for {
		if n, ok := from.(interface{ Name() string }); ok {
			return " " + n.Name()
		}
		w, ok := from.(raft.ReadCloserWrapper) // Raft wraps the file to count the bytes that it reads
		if !ok {
			return ""
		}
		from = w.WrappedReadCloser()
	}
}
