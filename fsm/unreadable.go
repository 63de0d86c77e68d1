package fsm

import (
	"errors"
	"fmt"
)

// corruptError says that bytes have changed since they were written: no release has written them so.
type corruptError struct{ text string }

func (e *corruptError) Error() string { return e.text }

func corrupt(format string, args ...any) error { return &corruptError{fmt.Sprintf(format, args...)} }

// UnreadableError says that a log entry or a snapshot cannot be understood, whose fault that is, and what to do.
type UnreadableError struct {
	// What is the entry or the snapshot, with the file that it is in.
	What string
	Err  error
}

func (e *UnreadableError) Error() string {
	const empty = "empty this node's data directory while the others run and have a leader, and let it fetch a copy; " +
		"if none reads it, see docs/operations.md"
	if e.Corrupt() {
		return fmt.Sprintf("%s is damaged: %v: %s", e.What, e.Err, empty)
	}
	return fmt.Sprintf(
		"this node's release cannot read %s: %v: run the release that the other nodes run; if they read it, %s", e.What,
		e.Err, empty,
	)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Corrupt reports whether the bytes have changed since they were written: no release can read them.
func (e *UnreadableError) Corrupt() bool {
	var d *corruptError
	return errors.As(e.Err, &d)
}
