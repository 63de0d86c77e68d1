package history

import (
	"fmt"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// Read is a client's read: its request and its answer.
type Read struct {
	// Allows reports that a read-only node may answer.
	Allows bool
	// Seen is the highest index that the client had received by then.
	Seen uint64
	// Page: the read listed sessions: those with ids above After and up to Through, 0 for no upper bound. Otherwise it
	// sent for the session of the event.
	Page           bool
	After, Through session.ID
	// Sessions are the sessions in the answer. A read of one session returns it, or a certificate, or that it is
	// unknown.
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

// details formats a node's state, its answer, and a watch's event, as the middle of a line.
func details(e Event) string {
	text := ""
	if e.ApplyDelay != 0 {
		text = fmt.Sprintf(" (shown %v later)", e.ApplyDelay)
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
	if e.Budget != nil {
		text += e.Budget.String()
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
