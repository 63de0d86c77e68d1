package model

import "fmt"

// entry is an entry of Raft's log.
type entry struct {
	Term, Kind, Session uint8
	// A move: its target node, and the attempt. An upgrade: its node, and the index that the node had applied.
	Node, Attempt uint8
	// A close: the attachment that it ends, and the term of the decision (E3 ordered closes). A write: its attachment.
	// A move: the attachment that it names (M1 a resume is a move).
	Attachment, Decided uint8
	Instance            uint8 // a move: its process; 0 in scopes without take-overs
	Present             uint8 // ghost; a move: the session's newest attachment when the client sent the request
	// Ghost: for a move, when its node received the request; for an upgrade, when it was appended; for a close, the
	// invariants that its decision broke.
	Ghost uint8
}

// Kinds of entries.
const (
	opens  uint8 = iota + 1 // the first entry of every history: opens all sessions
	begins                  // a tracker's own (R5 start of a tracker)
	moves
	closes
	writes
	upgrades
)

// fsm is the replicated state.
type fsm struct {
	Counter uint8 // of attachments (M1)
	// In scopes with local sessions: the number of applied entries, and the index of the newest end (L7 upgrade).
	Index, LastEnd uint8
	Session        [maxSessions]session
}

// session is a session in the replicated state.
type session struct {
	Alive, Owner, Attachment uint8
	Instance, Attempt        uint8 // of the newest move (M1)
	Term                     uint8 // of the entry that gave the attachment (M3 served in the leader's term)
}

// apply applies an entry. It reports whether the entry had an effect.
func (f *fsm) apply(p *protocol, e entry) bool {
	s := &f.Session[e.Session]
	if p.scope.Local {
		f.Index++
	}
	switch e.Kind {
	case opens:
		f.openAll(p.scope, e)
		return true
	case moves:
		if s.Alive == 0 || !s.mayMove(p, e) {
			return false
		}
		f.Counter++
		*s = session{
			Alive: 1, Owner: e.Node, Attachment: f.Counter, Instance: e.Instance, Attempt: e.Attempt,
			Term: e.Term,
		}
		return true
	case closes:
		if s.Alive == 0 || p.Obeys(E3Attachment) && e.Attachment != s.Attachment ||
			p.Obeys(E3Term) && e.Decided != e.Term {
			return false // E3
		}
		*s = session{}
		f.LastEnd = f.Index // 0 in scopes without local sessions
		return true
	case upgrades:
		return f.upgrade(p, e)
	case writes:
		return s.Alive == 1 && (!p.Obeys(M2) || e.Attachment == s.Attachment)
	}
	return true
}

// mayMove reports whether a move moves a living session (M1). It does not if its attempt is below the newest attempt of
// the same process, or if another process names an attachment other than the present one.
func (s *session) mayMove(p *protocol, e entry) bool {
	if e.Instance == s.Instance {
		return e.Attempt >= s.Attempt || !p.Obeys(M1Attempt)
	}
	return s.Instance == 0 || e.Attachment == s.Attachment || !p.Obeys(M1Named)
}

// openAll applies the first entry of every history.
func (f *fsm) openAll(scope *Scope, e entry) {
	f.Counter = 1
	if scope.Local {
		return
	}
	for i, owner := range scope.Owners {
		f.Session[i] = session{Alive: 1, Owner: owner, Attachment: 1, Term: e.Term}
	}
}

// upgrade makes a local session global (L7).
func (f *fsm) upgrade(p *protocol, e entry) bool {
	s := &f.Session[e.Session]
	if s.Alive == 1 || p.Obeys(L7) && f.LastEnd > e.Attempt {
		return false
	}
	f.Counter++
	*s = session{Alive: 1, Owner: e.Node, Attachment: f.Counter, Term: e.Term}
	return true
}

func (e entry) String() string {
	text := "the first of its term"
	switch e.Kind {
	case opens:
		text = "the opening of the sessions"
	case moves:
		text = fmt.Sprintf("move of s%d to n%d (attempt %d)", e.Session+1, e.Node+1, e.Attempt)
	case closes:
		text = fmt.Sprintf("close of s%d with attachment %d, decided in term %d", e.Session+1, e.Attachment, e.Decided)
	case upgrades:
		text = fmt.Sprintf("upgrade of s%d of n%d, which had applied %d", e.Session+1, e.Node+1, e.Attempt)
	case writes:
		text = fmt.Sprintf("write for s%d with attachment %d", e.Session+1, e.Attachment)
	}
	return text + fmt.Sprintf(", of term %d", e.Term)
}
