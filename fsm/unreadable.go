package fsm

import (
	"errors"
	"fmt"
)

// damageError says that bytes have changed since they were written: no release has written them so.
type damageError struct{ text string }

func (e *damageError) Error() string { return e.text }

func damaged(format string, args ...any) error { return &damageError{fmt.Sprintf(format, args...)} }

// UnreadableError says that a log entry or a snapshot cannot be understood, whose fault that is, and what to do.
type UnreadableError struct {
	// What is the entry or the snapshot, with the file that it is in.
	What string
	Err  error
}

func (e *UnreadableError) Error() string {
	const empty = "empty this node's data directory while the others run and have a leader, and let it fetch a copy; " +
		"if none reads it, see docs/operations.md"
	if e.Damaged() {
		return fmt.Sprintf("%s is damaged: %v: %s", e.What, e.Err, empty)
	}
	return fmt.Sprintf(
		"this node's release cannot read %s: %v: run the release that the other nodes run; if they read it, %s", e.What,
		e.Err, empty,
	)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Damaged reports whether the bytes have changed since they were written: no release can read them.
func (e *UnreadableError) Damaged() bool {
	var d *damageError
	return errors.As(e.Err, &d)
}
