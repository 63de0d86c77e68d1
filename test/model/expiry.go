package model

// Expiry: the due time, the mark, and the close on its way through the log.

// Marks of a session in a tracker.
const (
	popped  uint8 = iota + 1 // out of the queue and not yet marked: only without E3Atomic
	closing                  // marked, the close is not yet handed to the log
	unknown                  // the close was appended
)

// queued is a close on its way to Raft. It outlives the tracker that decided it: raft.Apply has no term argument (E3
// ordered closes).
type queued struct{ Term, Attachment, Broke uint8 }

// lost reports whether a member is lost to the tracker (E1 full timeout after a change of leader).
func (t tracking) lost(m int) bool {
	s := &t.link(m).Stream
	return s.Open == 0 || s.Out != 0 && t.Clock.Now >= s.OutAt+t.scope.LostAfter
}

// due returns the moment on the tracker's clock from which a silent session expires (E1).
func (t tracking) due(s int) uint8 {
	owner := int(t.FSM.Session[s].Owner)
	k := &t.link(owner).Member
	var v uint8
	if t.Obeys(E1Term) {
		v = epoch
	}
	if t.Obeys(E1Vouch) {
		v = max(v, k.Started)
	}
	if t.Obeys(E1Lost) && t.lost(owner) {
		v = max(v, k.Silent)
	}
	due := max(t.Deadline[s], v+t.scope.Timeout)
	if t.Obeys(E1Vouch) {
		due = t.credited(&k.Stalls, due)
	}
	return due
}

// expire decides that a session has expired (E2 the owner answers first), pops it from the queue and marks it (E3).
func (t tracking) expire(s int) bool {
	if !t.works() || t.Mark[s] != 0 || t.FSM.Session[s].Alive == 0 || t.Queue[s].Term != 0 {
		return false
	}
	due, owner := t.due(s), int(t.FSM.Session[s].Owner)
	round := t.Good > 0 && t.GoodB >= due || !t.Obeys(E2Round)
	word := t.link(owner).Member.WordB >= due || t.lost(owner) || !t.Obeys(E2Word)
	if !round || !word || t.Clock.Now < due {
		return false
	}
	t.Say("due %d, clock %d, round %d of b %d is good", due-epoch, t.Clock.Now-epoch, t.Good, t.GoodB-epoch)
	t.Mark[s] = popped
	t.Queue[s] = queued{
		Term: t.Term, Attachment: t.FSM.Session[s].Attachment, Broke: uint8(t.oracle().early(t, s)),
	}
	if t.Obeys(E3Atomic) {
		return t.mark(s)
	}
	return true
}

// mark marks a popped session as closing: a separate action only without E3Atomic.
func (t tracking) mark(s int) bool {
	if !t.runs() || t.Mark[s] != popped {
		return false
	}
	t.Mark[s] = closing
	return true
}

// propose appends the close, in the term that the node leads by then (E3).
func (t tracking) propose(s int) bool {
	q := t.Queue[s]
	if q.Term == 0 || !t.runs() || t.Raft.Role != leader || t.Raft.Len == maxLog || t.Mark[s] == popped {
		return false
	}
	t.Queue[s] = queued{}
	if t.Mark[s] == closing {
		t.Mark[s] = unknown
	}
	t.Say("term %d", t.Raft.Term)
	t.replicating(t.id).append(entry{
		Kind: closes, Session: uint8(s), Attachment: q.Attachment, Decided: q.Term, Ghost: q.Broke,
	})
	return true
}

// refuse makes Raft refuse a close before it appends it: the mark is removed (E4 closing mark).
func (t tracking) refuse(s int) bool {
	if t.Queue[s].Term == 0 || !t.runs() || t.Mark[s] == popped || !t.spend(Refusals) {
		return false
	}
	t.Queue[s] = queued{}
	if t.Mark[s] == closing {
		t.Mark[s] = 0
	}
	return true
}

// giveUp removes a mark while the outcome is unknown: only without E4Unknown.
func (t tracking) giveUp(s int) bool {
	if t.Obeys(E4Unknown) || t.Mark[s] != unknown || !t.runs() {
		return false
	}
	t.Mark[s] = 0
	return true
}

// applied is the tracker's part when its node has applied an entry.
func (t tracking) applied(e entry, effective bool) {
	switch s := e.Session; {
	case (e.Kind == moves || e.Kind == upgrades) && effective && t.Obeys(S2Move):
		t.Deadline[s] = max(t.Deadline[s], t.Clock.Now+t.scope.Timeout)
	case e.Kind == closes && effective:
		t.Deadline[s], t.Mark[s] = 0, 0
	case e.Kind == closes && e.Decided == t.Term && t.Mark[s] == unknown:
		t.Mark[s] = 0 // the FSM left the session alone (E4)
	}
}
