package history

import (
	"fmt"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// Read is a read of a client: what it asked for, and what it was shown.
type Read struct {
	// Allows says that a read-only node may answer.
	Allows bool
	// Seen is the highest index that the client had been told by then.
	Seen uint64
	// Page says that the read listed sessions: those with ids above After and up to Through, 0 for no upper bound.
	// Otherwise it asked for the session of the event.
	Page           bool
	After, Through session.ID
	// Sessions are the sessions shown. A read of one session shows it, or a certificate, or that it is not known.
	Sessions []session.Session
}

// String returns the read as the end of a line.
func (r *Read) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, ", having seen %d", r.Seen)
	if r.Allows {
		b.WriteString(", read-only allowed")
	}
	if r.Page {
		fmt.Fprintf(&b, ", page above %s", r.After)
	}
	for _, s := range r.Sessions {
		fmt.Fprintf(&b, ", %s attachment %d owner %d", s.ID, s.Attachment, s.Owner)
	}
	return b.String()
}

// told returns what a node told about itself, what it showed, and what it told a watch, as the middle of a line.
func told(e Event) string {
	text := ""
	if e.Dawdles != 0 {
		text = fmt.Sprintf(" (shown %v later)", e.Dawdles)
	}
	if e.State != (session.NodeState{}) {
		text += fmt.Sprintf(" by node %d, %s at index %d", e.State.Node, e.State.Mode, e.State.Index)
	}
	if e.Read != nil {
		text += e.Read.String()
	}
	if e.Entry != nil {
		text += fmt.Sprintf(" %+v", *e.Entry)
	}
	if e.Use != nil {
		text += e.Use.String()
	}
	if e.Claim != nil {
		text += e.Claim.String()
	}
	for _, m := range e.Members {
		text += fmt.Sprintf(" %d", m.Node)
		if m.Voter {
			text += "v"
		}
	}
	if e.Room != nil {
		text += e.Room.String()
	}
	if e.Backup != nil {
		text += fmt.Sprintf(" %+v", *e.Backup)
	}
	if e.Act != nil {
		text += e.Act.String()
	}
	if e.Watched != nil {
		text += fmt.Sprintf(" %s: %s", e.Watched.Name, e.Watched)
	}
	if e.Call != nil {
		text += " " + e.Call.String()
	}
	if e.Ledger != nil {
		text += fmt.Sprintf(" at clock %v: %v, changes %v, acknowledged %v", e.Ledger.Clock, e.Ledger.Writes,
			bare(e.Ledger.Changes), e.Ledger.Acknowledged)
	}
	return text
}

// bare returns changes without their access lists.
func bare(all []tree.Change) (texts []string) {
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%v %s %s", c.Stamp, c.Path, c.Kind))
	}
	return texts
}
