package history

import (
	"fmt"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Fate is the outcome of a transaction for its client.
type Fate uint8

// The fates.
const (
	// Answered: there is a result, with its stamp.
	Answered Fate = 1 + iota
	// NoEffect: the transaction had no effect, and will have none.
	NoEffect
	// ResultGone: the transaction used its number, and the result is gone (X9 writes in the certificate).
	ResultGone
	// InDoubt: the transaction may have taken effect, or may still do so.
	InDoubt
	// Waiting: no answer so far, long after the last fault.
	Waiting
)

// String returns the fate in words.
func (f Fate) String() string {
	names := [...]string{"?", "answered", "no effect", "result gone", "in doubt", "waiting"}
	if int(f) >= len(names) {
		f = 0
	}
	return names[f]
}

// Call is a transaction of a client.
type Call struct {
	// Tag is unique in the run: the value of its first condition.
	Tag uint64
	// Handle identifies the session's handle of the call: a client that takes a session back has a new handle. Handles
	// are unique in a run.
	Handle      uint64
	Transaction tree.Transaction
	Fate        Fate
	// Result is set if the call was answered, also with a refusal.
	Result tree.Result
	// Patient: the caller has not given the call up. Kept: in doubt, but the session continued with the client.
	Patient, Kept bool
}

// String returns the request and its answer.
func (c *Call) String() string {
	text := fmt.Sprintf("#%d%s: %v", c.Tag, sent(c.Transaction), c.Fate)
	if c.Fate == Answered {
		text += fmt.Sprintf(" %v", c.Result.Stamp)
		if r := c.Result.Outcome.Refused; r != nil {
			text += fmt.Sprintf(" refused %v at %d", r.Code, c.Result.Outcome.At)
		}
	}
	return text
}

// Ledger is the effect of a log entry on the tree, and on its writes.
type Ledger struct {
	// Clock is the log clock of the entry (D3 log clock).
	Clock time.Duration
	// Writes are in the order of their stamps. Acknowledged are acknowledgements in commands of nodes (X3 kept
	// results).
	Writes       []Write
	Acknowledged []tree.Acknowledgement
	// Changes are the changes for watches. Sessions are the changes of sessions.
	Changes  []tree.Change
	Sessions []session.Change
	// Whole is the whole tree after the entry, as a reader would find it; nil where it was not read.
	Whole []Leaf
}

// Write is a write in the log, and its outcome where it was applied.
type Write struct {
	tree.NumberedWrite
	At tree.Stamp
	// Result is nil if Err says why there is none.
	Result *tree.Result
	Err    error
}

// String returns the write as one line.
func (w Write) String() string {
	text := fmt.Sprintf("%v: write %d of session %s, attachment %d", w.At, w.Number, session.ID(w.Session), w.Attachment)
	if w.Void {
		text += ", a void"
	} else {
		text += "," + sent(w.Transaction)
	}
	switch {
	case w.Err != nil:
		text += fmt.Sprintf(" (%v)", w.Err)
	case w.Result.Outcome.Refused != nil:
		text += fmt.Sprintf(" (result of %v: refused %v)", w.Result.Stamp, w.Result.Outcome.Refused)
	default:
		text += fmt.Sprintf(" (result of %v)", w.Result.Stamp)
	}
	return text
}

// sent returns a transaction's request, in short.
func sent(x tree.Transaction) string {
	var text strings.Builder
	for _, c := range x.If {
		fmt.Fprintf(&text, " if %s %d %d %d", c.Path, c.Property, c.Is, c.Value)
	}
	for _, op := range x.Then {
		fmt.Fprintf(&text, " %s", shortly(op))
	}
	for _, op := range x.Else {
		fmt.Fprintf(&text, " else %s", shortly(op))
	}
	return text.String()
}

func shortly(op tree.Op) string {
	text := op.Verb() + " " + op.Target()
	switch op := op.(type) {
	case tree.Create:
		return fmt.Sprintf("%s %s %q", text, op.Kind, op.Data)
	case tree.Set:
		return fmt.Sprintf("%s version %d %q", text, op.Version, op.Data)
	case tree.Delete:
		return fmt.Sprintf("%s version %d", text, op.Version)
	case tree.Check:
		return fmt.Sprintf("%s version %d", text, op.Version)
	default:
		return text
	}
}
