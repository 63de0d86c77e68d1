package fsm

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// errOlderSnapshot keeps the state from going back.
var errOlderSnapshot = errors.New("the snapshot is older than the state")

// Restore replaces the state by a snapshot, and closes it. The snapshot is read to its end and checked before anything
// is replaced: one that is cut short, corrupt or of a newer version leaves the state as it was, tells [Config.Fatal],
// and is returned as an error. One that is older than the state is returned as an error too: Raft installs whatever its
// leader sends, a copy that was delayed as well, and would go back to where its log may have been cut since. A leader
// that has nothing newer sends it again until it has.
func (s *State) Restore(from io.ReadCloser) error {
	disk := &diskReader{Reader: from}
	v, err := readSnapshot(disk)
	if broken := errors.Join(disk.err, from.Close()); broken != nil {
		return s.halt(fmt.Errorf("reading snapshot%s: %w: see to the disk, and start the node again", nameOf(from),
			broken))
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
	s.tables, s.index, s.term = &v.tables, v.index, v.term
	s.digests = [digestRing]digestAt{}
	s.remember(v.index)
	observers := s.observers
	s.mu.Unlock()

	for _, o := range observers {
		o.Restored()
	}
	s.progress.publish(v.index, v.tables.attachment)
	s.logger.Info("snapshot restored", "index", v.index, "sessions", v.tables.sessions.Len())
	return nil
}

// CheckSnapshot reads a snapshot to its end, and returns the index of the newest entry in it and the term of the newest
// command. The error says what [State.Restore] would end for. Safe for concurrent use.
func CheckSnapshot(from io.Reader) (index, term uint64, err error) {
	v, err := readSnapshot(from)
	if err != nil {
		return 0, 0, err
	}
	return v.index, v.term, nil
}

// diskReader remembers what a read failed with.
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

// nameOf is where a snapshot is read from, with a space before it, "" when it does not say.
func nameOf(from io.ReadCloser) string {
	for {
		if n, ok := from.(interface{ Name() string }); ok {
			return " " + n.Name()
		}
		w, ok := from.(raft.ReadCloserWrapper) // Raft counts what it reads
		if !ok {
			return ""
		}
		from = w.WrappedReadCloser()
	}
}
