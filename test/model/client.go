package model

// Clients: one process per session that touches, resumes at any node, and writes. It may do so through connections
// that a newer one has replaced: a request under way does not know that. In scopes with take-overs a second process
// was given the session's token. It takes the session over, the first one takes it back, and so on; resumes of the
// one that lost it are still under way.

// The processes of a session's clients: the numbers of their instances (M1).
const (
	firstProcess uint8 = iota + 1
	secondProcess
)

// touch is a request of a session that a node receives through the connection with this attachment (T2).
func (x *step) touch(i, attachment, s int) bool {
	n := &x.Node[i]
	if !x.runs(i) || n.Conns[s]&(1<<attachment) == 0 {
		return false
	}
	mine := n.FSM.Session[s]
	if mine.Alive == 0 || int(mine.Owner) != i || x.obeys(T2) && int(mine.Attachment) != attachment {
		return false
	}
	f := &x.Truth.Session[s]
	t := touch{Attachment: mine.Attachment, At: n.Mono, New: 1, Made: uint8(attachment)}
	if t.Made < f.Served {
		t.Stale = 1
	}
	had := n.Table[s]
	if x.forInv&I4 == 0 {
		had.Made, had.Stale = t.Made, t.Stale // forgotten, perhaps
	}
	if t == had && n.Backlog&(1<<s) == 0 {
		return false
	}
	n.Table[s] = t
	n.Backlog &^= 1 << s
	if t.Made == x.Truth.FSM.Session[s].Attachment {
		f.Touched = x.Now
	}
	return true
}

// resume is a client that asks a node to serve its session from now on (M1), and gives up the attempt before.
func (x *step) resume(i, s, _ int) bool {
	n, f := &x.Node[i], &x.Truth.Session[s]
	if !x.runs(i) || f.Ended != 0 || n.Request[s].Attempt != 0 {
		return false
	}
	if n.FSM.Session[s].Alive == 0 && f.Ended == 0 {
		if x.obeys(M5) {
			return false // LAGGING: it waits, or tries another node
		}
		x.breaks(Told, "n%d, which has not seen s%d yet, answers that it expired", i+1, s+1)
		return true
	}
	if !x.spend(moveds, x.scope.Moves) {
		return false
	}
	f.Attempts++
	n.Request[s] = request{Attempt: f.Attempts, At: n.Mono, Real: x.Now}
	if x.scope.TakeOvers > 0 {
		r := &n.Request[s]
		r.Instance, r.Named, r.Present = firstProcess, f.Named, x.Truth.FSM.Session[s].Attachment
	}
	x.say("attempt %d", f.Attempts)
	return true
}

// takeOver is the process that does not have the session, and takes it on purpose: it names the attachment that the
// session has now, which stands in the token that it was given, or in the refusal of its resume (M1).
func (x *step) takeOver(i, s, _ int) bool {
	n, f, now := &x.Node[i], &x.Truth.Session[s], x.Truth.FSM.Session[s]
	if !x.runs(i) || f.Ended != 0 || n.Request[s].Attempt != 0 || now.Alive == 0 || n.FSM.Session[s].Alive == 0 ||
		!x.spend(takenOver, x.scope.TakeOvers) {
		return false
	}
	by := firstProcess
	if now.Instance != secondProcess {
		by = secondProcess
	}
	f.Attempts++
	n.Request[s] = request{
		Attempt: f.Attempts, At: n.Mono, Real: x.Now, Instance: by, Named: now.Attachment,
		Present: now.Attachment,
	}
	x.say("process %d, attempt %d, names attachment %d", by, f.Attempts, now.Attachment)
	return true
}

// forward is the leader of the stream's tracker that proposes a move (M1), unless the session is closing (M6).
func (x *step) forward(i, l, s int) bool {
	n, r, to := &x.Node[i], &x.Node[i].Request[s], &x.Node[l]
	if !x.runs(i) || !x.runs(l) || r.Attempt == 0 || r.Sent == 1 || x.Link[l][i].Up == 0 || to.Len == maxLog {
		return false
	}
	t := &to.Tracker
	if t.On == 0 || to.Role != leader || to.Term != t.Term || to.FSM.Session[s].Alive == 0 ||
		t.Mark[s] != 0 && x.obeys(M6) {
		return false
	}
	n.Request[s].Sent = 1
	x.append(l, entry{
		Kind: moves, Session: uint8(s), Node: uint8(i), Attempt: r.Attempt, Instance: r.Instance, Attachment: r.Named,
		Ghost: r.Real, Present: r.Present,
	})
	return true
}

// serve is a node that serves a session it has resumed: it has applied the move, and so has the leader of the entry's
// term or of a later one (M3). The move confirms the request as a touch (S2).
func (x *step) serve(i, s, _ int) bool {
	n, r := &x.Node[i], x.Node[i].Request[s]
	mine := n.FSM.Session[s]
	if !x.runs(i) || r.Sent == 0 || mine.Alive == 0 || int(mine.Owner) != i || mine.Instance != r.Instance ||
		mine.Attempt != r.Attempt || !x.vouched(mine, s) {
		return false
	}
	n.Request[s] = request{}
	n.Conns[s] |= 1 << mine.Attachment
	n.Table[s] = touch{Attachment: mine.Attachment, At: n.Mono, Made: mine.Attachment, Void: r.Void} // T4
	if f := &x.Truth.Session[s]; f.Served < mine.Attachment {
		f.Served, f.ServedInstance, f.ServedAttempt, f.ServedTerm = mine.Attachment, mine.Instance, mine.Attempt,
			mine.Term
	}
	if f := &x.Truth.Session[s]; mine.Instance == firstProcess {
		f.Named = max(f.Named, mine.Attachment)
	}
	x.say("attachment %d", mine.Attachment)
	if r.Void == 0 {
		n.Confirmed[s] = heard{Attachment: mine.Attachment, At: r.At}
		x.promise(i, s)
	}
	return true
}

// vouched says whether a leader lets the node serve the attachment (M3).
func (x *step) vouched(mine session, s int) bool {
	if !x.obeys(M3Leader) {
		return true
	}
	for l := range x.scope.nodes() {
		n := &x.Node[l]
		newEnough := n.Tracker.Term >= mine.Term || !x.obeys(M3Term)
		if n.Tracker.On == 1 && newEnough && n.FSM.Session[s].Attachment >= mine.Attachment {
			return true
		}
	}
	return false
}

// abandon is a client that no longer waits at a node; what was proposed may still take effect.
func (x *step) abandon(i, s, _ int) bool {
	n := &x.Node[i]
	if !x.runs(i) || n.Request[s].Sent == 0 {
		return false
	}
	n.Request[s] = request{}
	return true
}

// write is a command on behalf of a session through the connection with this attachment (M2).
func (x *step) write(i, attachment, s int) bool {
	n := &x.Node[i]
	if !x.runs(i) || n.Conns[s]&(1<<attachment) == 0 {
		return false
	}
	for l := range x.scope.nodes() {
		to := &x.Node[l]
		if x.Link[l][i].Up == 0 || to.Role != leader || to.Tracker.On == 0 || to.Len == maxLog || !x.runs(l) {
			continue
		}
		if !x.spend(written, x.scope.Writes) {
			return false
		}
		x.append(l, entry{Kind: writes, Session: uint8(s), Attachment: uint8(attachment)})
		return true
	}
	return false
}
