package fsm

import (
	"errors"
	"fmt"

	"holdfast/fsm/codec"
)

// UnreadableError says that the state cannot understand a log entry or a snapshot. Its text says whether the bytes or
// this release are at fault, and what to do.
type UnreadableError struct {
	// What names the entry or the snapshot, and its file.
	What string
	Err  error
}

func (e *UnreadableError) Error() string {
	const empty = "empty this node's data directory while the others run and have a leader, and let it fetch a copy; " +
		"if none reads it, see docs/operations/runbooks.md"
	if e.Corrupt() {
		return fmt.Sprintf("%s is damaged: %v: %s", e.What, e.Err, empty)
	}
	const release = "this node's release cannot read %s: %v: run the release that the other nodes run; " +
		"if they read it, %s"
	return fmt.Sprintf(release, e.What, e.Err, empty)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Corrupt reports whether the bytes have changed since a node wrote them: no release can read them.
func (e *UnreadableError) Corrupt() bool {
	var d *codec.CorruptError
	return errors.As(e.Err, &d)
}
