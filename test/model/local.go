package model

// Local sessions: known to one node, which alone decides about them, until an upgrade makes them global. In a scope
// that has them all sessions begin so. A node asks for an upgrade, and for the same one again, through any stream that
// is open to a tracker; the state machine remembers no end but the index of the newest, as if each certificate were
// dropped at once.

// local is a session at the node that alone knows it.
type local struct {
	On     uint8
	Last   uint8 // the newest touch, on Mono
	Old    uint8 // it was made before the machine was suspended
	Flight uint8 // an upgrade is under way (L8):
	Begun  uint8 // since when, on Mono
	Since  uint8 // the index that the node had applied then (L7)
	Void   uint8 // the machine was suspended since
	Real   uint8 // ghost: the newest touch, in Now
}

// touchLocal is a touch that the session's node hears, and what it is promised (L3, L4, L8).
func (x *step) touchLocal(i, s, _ int) bool {
	n := &x.Node[i]
	one := &n.Local[s]
	if !x.runs(i) || one.On == 0 || one.Last == n.Mono && one.Old == 0 && n.Backlog&(1<<s) == 0 {
		return false
	}
	one.Last, one.Real, one.Old = n.Mono, x.Now, 0
	n.Backlog &^= 1 << s
	x.promiseLocal(i, s)
	return true
}

// promiseLocal is what the node promises now, on its own (L4): a timeout from a touch, and while an upgrade is under
// way a timeout from its begin, unless the machine was suspended since (L8).
func (x *step) promiseLocal(i, s int) {
	n, f := &x.Node[i], &x.Truth.Session[s]
	one := n.Local[s]
	rests := n.Mono
	if one.Flight == 1 && x.obeys(L8Rests) {
		rests = one.Begun
	}
	if one.Flight == 1 && one.Void == 1 && x.obeys(L8Suspended) || n.Mono-rests >= x.scope.Timeout {
		return
	}
	until := x.Now + x.scope.Timeout - (n.Mono - rests)
	f.Safe = max(f.Safe, until)
	x.say("n%d promises the client of s%d that it is safe until %d", i+1, s+1, until)
	if f.Ended > 0 && f.Ended-1 < until {
		x.breaks(I3, "it expired at %d", f.Ended-1)
	}
}

// expireLocal is the node's own decision (L3): not while an upgrade is under way (L8).
func (x *step) expireLocal(i, s, _ int) bool {
	n, f := &x.Node[i], &x.Truth.Session[s]
	one := &n.Local[s]
	if !x.runs(i) || one.On == 0 || one.Flight == 1 && x.obeys(L8Stays) || n.Mono-one.Last < x.scope.Timeout {
		return false
	}
	if x.obeys(L3) && n.Mono < x.credited(&n.Stalls, one.Last+x.scope.Timeout) {
		return false
	}
	if x.Now-one.Real < x.scope.Timeout {
		x.breaks(I1, "a touch was received at %d", one.Real)
	}
	if stood := n.stood(one.Real, x.Now); stood > 0 && x.Now-one.Real < x.scope.Timeout+stood {
		x.breaks(I8, "its node did not run for %d since", stood)
	}
	if x.Now < f.Safe {
		x.breaks(I3, "the client was promised to be safe until %d", f.Safe)
	}
	if x.Truth.FSM.Session[s].Alive == 1 {
		x.breaks(Told, "its node ends s%d, which is global and lives", s+1)
	}
	f.Ended = x.Now + 1
	*one = local{}
	return true
}

// upgrade is the node that asks a leader to make the session global, for the first time or again (L7). It touches the
// session.
func (x *step) upgrade(i, l, s int) bool {
	n, to := &x.Node[i], &x.Node[l]
	one := &n.Local[s]
	if !x.runs(i) || !x.runs(l) || one.On == 0 || x.Link[l][i].Up == 0 || to.Role != leader || to.Tracker.On == 0 ||
		to.Term != to.Tracker.Term ||
		to.Len == maxLog || !x.spend(upgradeds, x.scope.Upgrades) {
		return false
	}
	if one.Flight == 0 {
		*one = local{On: 1, Last: n.Mono, Real: x.Now, Flight: 1, Begun: n.Mono, Since: n.Applied}
	}
	x.append(l, entry{Kind: upgrades, Session: uint8(s), Node: uint8(i), Attempt: one.Since, Ghost: x.Now})
	return true
}

// makeGlobal is the state machine's part (L7).
func (x *step) makeGlobal(f *fsm, e entry) bool {
	s := &f.Session[e.Session]
	if s.Alive == 1 || x.obeys(L7) && f.LastEnd > e.Attempt {
		return false
	}
	f.Counter++
	*s = session{Alive: 1, Owner: e.Node, Attachment: f.Counter, Term: e.Term}
	return true
}

// handOver is the session's node that has applied the upgrade: it goes on to serve it as a global one, with its newest
// touch, confirmed as of the upgrade's begin by the commit (L8, S2).
func (x *step) handOver(i int, e entry) {
	n, s := &x.Node[i], int(e.Session)
	one := n.Local[s]
	if int(e.Node) != i || one.On == 0 {
		return
	}
	n.Local[s] = local{}
	mine := n.FSM.Session[s]
	n.Conns[s] |= 1 << mine.Attachment
	if x.obeys(L8Touch) {
		n.Table[s] = touch{Attachment: mine.Attachment, At: one.Last, New: 1, Made: mine.Attachment, Void: one.Old}
	}
	f := &x.Truth.Session[s]
	if mine.Attachment == x.Truth.FSM.Session[s].Attachment { // else it has been moved since
		f.Touched = max(f.Touched, one.Real)
	}
	f.Served, f.ServedTerm = max(f.Served, mine.Attachment), mine.Term
	x.say("n%d serves it with attachment %d", i+1, mine.Attachment)
	if one.Void == 0 || !x.obeys(L8Suspended) {
		n.Confirmed[s] = heard{Attachment: mine.Attachment, At: one.Begun}
		x.promise(i, s)
	}
}

// becameGlobal is an upgrade that took effect: a leader gives the session a full timeout from the entry.
func (x *step) becameGlobal(f *fate, e entry) {
	if f.Ended != 0 {
		x.breaks(I5, "s%d is brought back, it ended at %d", e.Session+1, f.Ended-1)
	}
	f.Touched, f.Known = max(f.Touched, e.Ghost), max(f.Known, e.Ghost)
	x.unquiet(e.Session)
}
