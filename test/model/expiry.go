package model

// Expiry: who is due, the mark, and the close on its way through the log.

// lost says whether a member is lost to the tracker (E1).
func (x *step) lost(l, m int) bool {
	t, k := &x.Node[l].Tracker, &x.Link[l][m]
	return k.Open == 0 || k.Out != 0 && t.Clock >= k.OutAt+x.scope.LostAfter
}

// due is the moment on the tracker's clock from which silence of its owner ends a session (E1).
func (x *step) due(l, s int) uint8 {
	n := &x.Node[l]
	owner := int(n.FSM.Session[s].Owner)
	k := &x.Link[l][owner]
	var v uint8
	if x.obeys(E1Term) {
		v = epoch
	}
	if x.obeys(E1Vouch) {
		v = max(v, k.Started)
	}
	if x.obeys(E1Lost) && x.lost(l, owner) {
		v = max(v, k.Silent)
	}
	due := max(n.Tracker.Deadline[s], v+x.scope.Timeout)
	if x.obeys(E1Vouch) {
		due = x.credited(&k.Stalls, due)
	}
	return due
}

// expire decides that a session has expired (E2), pops it from the queue and marks it (E3).
func (x *step) expire(l, s, _ int) bool {
	n := &x.Node[l]
	t := &n.Tracker
	if t.On == 0 || !x.runs(l) || t.Mark[s] != 0 || n.FSM.Session[s].Alive == 0 || n.Queue[s].Term != 0 {
		return false
	}
	due, owner := x.due(l, s), int(n.FSM.Session[s].Owner)
	round := t.Good > 0 && t.GoodB >= due || !x.obeys(E2Round)
	word := x.Link[l][owner].WordB >= due || x.lost(l, owner) || !x.obeys(E2Word)
	if !round || !word || t.Clock < due {
		return false
	}
	x.say("due %d, clock %d, round %d of b %d is good", due-epoch, t.Clock-epoch, t.Good, t.GoodB-epoch)
	t.Mark[s] = popped
	n.Queue[s] = queued{Term: t.Term, Attachment: n.FSM.Session[s].Attachment, Broke: uint8(x.early(l, s))}
	if x.obeys(E3Atomic) {
		return x.mark(l, s, 0)
	}
	return true
}

// mark names a popped session as closing: an action of its own only without E3Atomic.
func (x *step) mark(l, s, _ int) bool {
	t := &x.Node[l].Tracker
	if !x.runs(l) || t.Mark[s] != popped {
		return false
	}
	t.Mark[s] = closing
	return true
}

// early says which invariants a decision breaks, once it takes effect. An onlooker knows the newest touch that the
// owner received and when it took the table of the last answer that the tracker has processed. I1: the owner had been
// silent about the session for a full timeout when it last spoke, or is it now; what it heard after it last spoke
// counts only if it has not fallen silent altogether for a full timeout. I8: time in which the tracker's clock stood
// is no silence of an owner, and time in which the owner did not run is none of its session's, while it is not lost.
func (x *step) early(l, s int) Invariants {
	mine, f := x.Node[l].FSM.Session[s], &x.Truth.Session[s]
	if now := x.Truth.FSM.Session[s]; now.Attachment != mine.Attachment {
		return 0 // it was moved, or has ended: the FSM will see to that (E3)
	}
	k := &x.Link[l][mine.Owner]
	quiet := f.Known <= k.Took && k.Quiet&(1<<s) != 0
	silence := x.Now - max(min(f.Touched, k.Took), f.Known)
	if silence < x.scope.Timeout && !quiet {
		return I1
	}
	stood := x.Node[mine.Owner].stood(max(f.Touched, f.Known), k.Took)
	if stood > 0 && silence < x.scope.Timeout+stood && !x.lost(l, int(mine.Owner)) {
		return I8
	}
	if quiet {
		return 0
	}
	if f.Touched > k.Took && f.Known <= k.Took && silence-min(silence, k.Idle) < x.scope.Timeout {
		return I8
	}
	return 0
}

// propose appends the close, in whatever term the node leads by then (E3).
func (x *step) propose(l, s, _ int) bool {
	n := &x.Node[l]
	q := n.Queue[s]
	if q.Term == 0 || !x.runs(l) || n.Role != leader || n.Len == maxLog || n.Tracker.Mark[s] == popped {
		return false
	}
	n.Queue[s] = queued{}
	if n.Tracker.Mark[s] == closing {
		n.Tracker.Mark[s] = unknown
	}
	x.say("term %d", n.Term)
	x.append(l, entry{Kind: closes, Session: uint8(s), Attachment: q.Attachment, Decided: q.Term, Ghost: q.Broke})
	return true
}

// refuse is a close that Raft refuses before it appends it: the mark is taken back (E4).
func (x *step) refuse(l, s, _ int) bool {
	n := &x.Node[l]
	if n.Queue[s].Term == 0 || !x.runs(l) || n.Tracker.Mark[s] == popped || !x.spend(refusals, x.scope.Refusals) {
		return false
	}
	n.Queue[s] = queued{}
	if n.Tracker.Mark[s] == closing {
		n.Tracker.Mark[s] = 0
	}
	return true
}

// giveUp takes back a mark while the outcome is unknown: only without E4Unknown.
func (x *step) giveUp(l, s, _ int) bool {
	t := &x.Node[l].Tracker
	if x.obeys(E4Unknown) || t.Mark[s] != unknown || !x.runs(l) {
		return false
	}
	t.Mark[s] = 0
	return true
}

// tracks is what a tracker does when its node has applied an entry.
func (x *step) tracks(t *tracker, e entry, taken bool) {
	switch s := e.Session; {
	case (e.Kind == moves || e.Kind == upgrades) && taken && x.obeys(S2Move):
		t.Deadline[s] = max(t.Deadline[s], t.Clock+x.scope.Timeout)
	case e.Kind == closes && taken:
		t.Deadline[s], t.Mark[s] = 0, 0
	case e.Kind == closes && e.Decided == t.Term && t.Mark[s] == unknown:
		t.Mark[s] = 0 // the FSM left the session alone (E4)
	}
}
