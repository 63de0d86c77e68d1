package model

// Clients of global sessions. One process per session touches, resumes at any node, and writes. It may do so through
// replaced connections, because a request in flight cannot know about the newer connection. In scopes with take-overs a
// second process has the session's token. The two take the session over from each other in turns, while resumes of the
// process that lost it are still in flight.

// The processes of a session's clients: the numbers of their instances (M1 a resume is a move).
const (
	firstProcess uint8 = iota + 1
	secondProcess
)

// touch makes a node receive a session's request through the connection with this attachment (T2 stale attachments are
// refused).
func (v serving) touch(attachment, s int) bool {
	if !v.runs() || v.Conns[s]&(1<<attachment) == 0 {
		return false
	}
	mine := v.FSM.Session[s]
	if mine.Alive == 0 || int(mine.Owner) != v.id || v.Obeys(T2) && int(mine.Attachment) != attachment {
		return false
	}
	f := &v.Truth.Session[s]
	t := touch{Attachment: mine.Attachment, At: v.Process.Mono, New: 1, Made: uint8(attachment)}
	if t.Made < f.Served {
		t.Stale = 1
	}
	had := v.Table[s]
	if v.wanted&I4 == 0 {
		had.Made, had.Stale = t.Made, t.Stale // the canonical form may have discarded them
	}
	if t == had && v.Process.Backlog&(1<<s) == 0 {
		return false
	}
	v.Table[s] = t
	v.Process.Backlog &^= 1 << s
	if t.Made == v.Truth.FSM.Session[s].Attachment {
		f.Touched = v.Now
	}
	return true
}

// resume makes a client ask a node to serve its session from now on (M1). The client gives up the attempt before.
func (v serving) resume(s int) bool {
	f := &v.Truth.Session[s]
	if !v.runs() || f.Ended != 0 || v.Request[s].Attempt != 0 {
		return false
	}
	if v.FSM.Session[s].Alive == 0 && f.Ended == 0 {
		if v.Obeys(M5) {
			return false // LAGGING: the client waits, or tries another node
		}
		v.Breaks(FalseEnd, "n%d, which has not seen s%d yet, answers that it expired", v.id+1, s+1)
		return true
	}
	if !v.spend(Moves) {
		return false
	}
	f.Attempts++
	r := request{Attempt: f.Attempts, At: v.Process.Mono, Real: v.Now}
	if v.scope.Most[TakeOvers] > 0 {
		r.Instance, r.Named, r.Present = firstProcess, f.Named, v.Truth.FSM.Session[s].Attachment
	}
	v.Request[s] = r
	v.Say("attempt %d", f.Attempts)
	return true
}

// takeOver makes the process without the session take the session over deliberately. It names the session's present
// attachment, from its token or from the refusal of its resume (M1).
func (v serving) takeOver(s int) bool {
	f, now := &v.Truth.Session[s], v.Truth.FSM.Session[s]
	if !v.runs() || f.Ended != 0 || v.Request[s].Attempt != 0 || now.Alive == 0 || v.FSM.Session[s].Alive == 0 ||
		!v.spend(TakeOvers) {
		return false
	}
	by := firstProcess
	if now.Instance != secondProcess {
		by = secondProcess
	}
	f.Attempts++
	v.Request[s] = request{
		Attempt: f.Attempts, At: v.Process.Mono, Real: v.Now, Instance: by, Named: now.Attachment,
		Present: now.Attachment,
	}
	v.Say("process %d, attempt %d, names attachment %d", by, f.Attempts, now.Attachment)
	return true
}

// leads reports whether a tracker can propose for this node: the node's stream to it is open, and it leads its term.
func (v serving) leads(t tracking) bool {
	return v.Link[t.id][v.id].Relay.Up == 1 && t.Raft.Role == leader && t.works() && t.Raft.Len < maxLog
}

// forward makes the leader of a stream propose a move (M1), unless the session is closing (M6 closing sessions stay).
func (v serving) forward(l, s int) bool {
	r, t := &v.Request[s], v.tracking(l)
	if !v.runs() || r.Attempt == 0 || r.Sent == 1 || !v.leads(t) || t.Raft.Term != t.Term ||
		t.FSM.Session[s].Alive == 0 || t.Mark[s] != 0 && v.Obeys(M6) {
		return false
	}
	r.Sent = 1
	v.replicating(l).append(entry{
		Kind: moves, Session: uint8(s), Node: uint8(v.id), Attempt: r.Attempt, Instance: r.Instance,
		Attachment: r.Named, Ghost: r.Real, Present: r.Present,
	})
	return true
}

// serve makes a node serve a session that was resumed there. The node has applied the move, and so has the leader of
// the entry's term or of a later one (M3 served in the leader's term). The move confirms the request as a touch (S2
// opens and moves are touches).
func (v serving) serve(s int) bool {
	r, mine := v.Request[s], v.FSM.Session[s]
	if !v.runs() || r.Sent == 0 || mine.Alive == 0 || int(mine.Owner) != v.id || mine.Instance != r.Instance ||
		mine.Attempt != r.Attempt || !v.vouched(mine, s) {
		return false
	}
	v.Request[s] = request{}
	v.Conns[s] |= 1 << mine.Attachment
	v.Table[s] = touch{Attachment: mine.Attachment, At: v.Process.Mono, Made: mine.Attachment, Void: r.Void} // T4
	f := &v.Truth.Session[s]
	if f.Served < mine.Attachment {
		f.Served, f.ServedInstance, f.ServedAttempt, f.ServedTerm = mine.Attachment, mine.Instance, mine.Attempt,
			mine.Term
	}
	if mine.Instance == firstProcess {
		f.Named = max(f.Named, mine.Attachment)
	}
	v.Say("attachment %d", mine.Attachment)
	if r.Void == 0 {
		v.Confirmed[s] = touchAt{Attachment: mine.Attachment, At: r.At}
		v.promise(s)
	}
	return true
}

// vouched reports whether a leader lets the node serve the attachment (M3).
func (v serving) vouched(mine session, s int) bool {
	if !v.Obeys(M3Leader) {
		return true
	}
	for l := range v.scope.nodes() {
		n := &v.Node[l]
		newEnough := n.Tracker.Term >= mine.Term || !v.Obeys(M3Term)
		if n.Tracker.On == 1 && newEnough && n.FSM.Session[s].Attachment >= mine.Attachment {
			return true
		}
	}
	return false
}

// abandon makes a client stop waiting at a node. A proposed move may still take effect.
func (v serving) abandon(s int) bool {
	if !v.runs() || v.Request[s].Sent == 0 {
		return false
	}
	v.Request[s] = request{}
	return true
}

// write makes a client send a command on behalf of its session, through the connection with this attachment (M2
// commands name their attachment).
func (v serving) write(attachment, s int) bool {
	if !v.runs() || v.Conns[s]&(1<<attachment) == 0 {
		return false
	}
	for l := range v.scope.nodes() {
		if !v.leads(v.tracking(l)) {
			continue
		}
		if !v.spend(Writes) {
			return false
		}
		v.replicating(l).append(entry{Kind: writes, Session: uint8(s), Attachment: uint8(attachment)})
		return true
	}
	return false
}
