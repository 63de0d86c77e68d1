package model

// Local sessions. Until an upgrade makes it global, one node alone knows a local session and decides about it. In a
// scope with local sessions, all sessions begin as local ones. A node asks for an upgrade, and repeats the request,
// through any stream that is open to a tracker. The state machine remembers only the index of the newest end, as if
// each certificate were dropped at once.

// touchLocal makes the session's node receive a touch, and promise on it (L3 local expiry, L4 local promises, L8 one
// upgrade at a time).
func (v serving) touchLocal(s int) bool {
	one := &v.Local[s]
	if !v.runs() || one.On == 0 ||
		one.Last == v.Process.Mono && one.Old == 0 && v.Process.Backlog&(1<<s) == 0 {
		return false
	}
	one.Last, one.Real, one.Old = v.Process.Mono, v.Now, 0
	v.Process.Backlog &^= 1 << s
	v.promiseLocal(s)
	return true
}

// promiseLocal makes a promise of the node alone: a timeout from a touch (L4). While an upgrade is in flight the
// promise is a timeout from the upgrade's start, or none if the machine was suspended since (L8).
func (v serving) promiseLocal(s int) {
	one, ago := v.Local[s], uint8(0)
	if one.Flight == 1 && v.Obeys(L8Rests) {
		ago = v.Process.Mono - one.Begun
	}
	if one.Flight == 1 && one.Void == 1 && v.Obeys(L8Suspended) || ago >= v.scope.Timeout {
		return
	}
	v.oracle().promised(v.id, s, ago)
}

// expireLocal is the node's own decision (L3). An upgrade in flight delays it (L8).
func (v serving) expireLocal(s int) bool {
	one := &v.Local[s]
	if !v.runs() || one.On == 0 || one.Flight == 1 && v.Obeys(L8Expires) ||
		v.Process.Mono-one.Last < v.scope.Timeout {
		return false
	}
	if v.Obeys(L3) && v.Process.Mono < v.credited(&v.Process.Stalls, one.Last+v.scope.Timeout) {
		return false
	}
	v.oracle().expiredLocally(&v.Process, one, s)
	*one = local{}
	return true
}

// upgrade makes the node ask a leader to make the session global, for the first time or again (L7 upgrade). The request
// is a touch.
func (v serving) upgrade(l, s int) bool {
	one, t := &v.Local[s], v.tracking(l)
	if !v.runs() || one.On == 0 || !v.leads(t) || t.Raft.Term != t.Term || !v.spend(Upgrades) {
		return false
	}
	if one.Flight == 0 {
		now := v.Process.Mono
		*one = local{On: 1, Last: now, Real: v.Now, Flight: 1, Begun: now, Since: v.Raft.Applied}
	}
	v.replicating(l).append(entry{
		Kind: upgrades, Session: uint8(s), Node: uint8(v.id), Attempt: one.Since, Ghost: v.Now,
	})
	return true
}

// handOver makes the session's node, which has applied the upgrade, serve it as a global session. The touch table gets
// its newest touch. The commit confirms a touch at the upgrade's begin (L8, S2 opens and moves are touches).
func (v serving) handOver(e entry) {
	s := int(e.Session)
	one := v.Local[s]
	if int(e.Node) != v.id || one.On == 0 {
		return
	}
	v.Local[s] = local{}
	mine := v.FSM.Session[s]
	v.Conns[s] |= 1 << mine.Attachment
	if v.Obeys(L8Touch) {
		v.Table[s] = touch{Attachment: mine.Attachment, At: one.Last, New: 1, Made: mine.Attachment, Void: one.Old}
	}
	f := &v.Truth.Session[s]
	if mine.Attachment == v.Truth.FSM.Session[s].Attachment { // else it has moved since
		f.Touched = max(f.Touched, one.Real)
	}
	f.Served, f.ServedTerm = max(f.Served, mine.Attachment), mine.Term
	v.Say("n%d serves it with attachment %d", v.id+1, mine.Attachment)
	if one.Void == 0 || !v.Obeys(L8Suspended) {
		v.Confirmed[s] = touchAt{Attachment: mine.Attachment, At: one.Begun}
		v.promise(s)
	}
}
