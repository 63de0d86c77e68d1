package history

import (
	"fmt"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Fate is what a client was told of a transaction.
type Fate uint8

// The fates.
const (
	// Answered: there is a result, with its stamp.
	Answered Fate = 1 + iota
	// NoEffect: it had none, and will have none.
	NoEffect
	// ResultGone: it took its number, and the result is gone (X9).
	ResultGone
	// InDoubt: it may have taken effect, or may still do so.
	InDoubt
	// Waiting: it was told nothing so far, long after the last fault.
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
	// Tag is its own: the value of its first condition. No two calls of a run have the same.
	Tag uint64
	// Handle says through which handle of the session it went: a client that takes a session back has a new one. No two
	// handles of a run have the same.
	Handle      uint64
	Transaction tree.Transaction
	Fate        Fate
	// Result is set if it was answered, also with a refusal.
	Result tree.Result
	// Patient says that nobody gave it up. Kept says of one in doubt that its session went on in the client's hands.
	Patient, Kept bool
}

// String returns what was asked and told.
func (c *Call) String() string {
	text := fmt.Sprintf("#%d%s: %v", c.Tag, asked(c.Transaction), c.Fate)
	if c.Fate == Answered {
		text += fmt.Sprintf(" %v", c.Result.Stamp)
		if r := c.Result.Outcome.Refused; r != nil {
			text += fmt.Sprintf(" refused %v at %d", r.Code, c.Result.Outcome.At)
		}
	}
	return text
}

// Ledger is what an entry of the log did to the tree, and with its writes.
type Ledger struct {
	// Clock is the log clock of the entry (D3).
	Clock time.Duration
	// Writes are in the order of their stamps. Acknowledged are what commands of nodes acknowledge (X3).
	Writes       []Write
	Acknowledged []tree.Acknowledgement
	// Changes are what watches see of it. Sessions are what it did to sessions.
	Changes  []tree.Change
	Sessions []session.Change
	// Whole is the whole tree after the entry, as a reader would find it; nil where it was not looked at.
	Whole []Leaf
}

// Write is a write in the log, and what became of it where it was applied.
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
		text += "," + asked(w.Transaction)
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

// asked returns what a transaction asks for, in short.
func asked(x tree.Transaction) string {
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
