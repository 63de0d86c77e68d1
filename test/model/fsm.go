package model

import "fmt"

// apply1 is the state machine: it says whether the entry had an effect.
func (x *step) apply1(f *fsm, e entry) bool {
	s := &f.Session[e.Session]
	if x.scope.Local {
		f.Index++
	}
	switch e.Kind {
	case opens:
		x.openAll(f, e)
		return true
	case moves:
		if s.Alive == 0 || !x.mayMove(s, e) {
			return false
		}
		f.Counter++
		*s = session{
			Alive: 1, Owner: e.Node, Attachment: f.Counter, Instance: e.Instance, Attempt: e.Attempt,
			Term: e.Term,
		}
		return true
	case closes:
		if s.Alive == 0 || x.obeys(E3Attachment) && e.Attachment != s.Attachment ||
			x.obeys(E3Term) && e.Decided != e.Term {
			return false // E3
		}
		*s = session{}
		f.LastEnd = f.Index // 0 where there are no local sessions
		return true
	case upgrades:
		return x.makeGlobal(f, e)
	case writes:
		return s.Alive == 1 && (!x.obeys(M2) || e.Attachment == s.Attachment)
	}
	return true
}

// mayMove says whether a move takes a living session (M1): not by an attempt below the newest of its process, and not
// for another process that has not heard of the present one.
func (x *step) mayMove(s *session, e entry) bool {
	if e.Instance == s.Instance {
		return e.Attempt >= s.Attempt || !x.obeys(M1Attempt)
	}
	return s.Instance == 0 || e.Attachment == s.Attachment || !x.obeys(M1Named)
}

// openAll is the first entry of every history.
func (x *step) openAll(f *fsm, e entry) {
	f.Counter = 1
	if x.scope.Local {
		return
	}
	for i, owner := range x.scope.Owners {
		f.Session[i] = session{Alive: 1, Owner: owner, Attachment: 1, Term: e.Term}
	}
}

// committed is the onlooker's view of an entry the moment it is committed: what it does holds from now on.
func (x *step) committed(e entry) {
	before := x.Truth.FSM.Session[e.Session]
	if taken := x.apply1(&x.Truth.FSM, e); !taken {
		return
	}
	f := &x.Truth.Session[e.Session]
	switch e.Kind {
	case moves:
		x.moved(f, e, before)
	case upgrades:
		x.becameGlobal(f, e)
	case closes:
		x.expired(f, e, before)
	case writes:
		if e.Attachment != before.Attachment {
			x.breaks(I4, "a write through attachment %d takes effect, the session has %d", e.Attachment,
				before.Attachment)
		}
	}
}

func (x *step) moved(f *fate, e entry, before session) {
	if e.Instance == f.ServedInstance && e.Attempt < f.ServedAttempt {
		x.breaks(I4, "attempt %d takes the session from the connection of attempt %d", e.Attempt, f.ServedAttempt)
	}
	if e.Instance != before.Instance && e.Present < before.Attachment {
		x.breaks(I4, "process %d takes the session from process %d, whose attachment %d is newer than its request",
			e.Instance, before.Instance, before.Attachment)
	}
	f.Touched, f.Known = max(f.Touched, e.Ghost), max(f.Known, e.Ghost)
	x.unquiet(e.Session)
}

// unquiet forgets that an owner had been silent about a session.
func (x *step) unquiet(s uint8) {
	for l := range x.Link {
		for m := range x.Link[l] {
			k := &x.Link[l][m]
			k.Quiet &^= 1 << s
			k.Wire.Quiet &^= 1 << s
			k.Old.Quiet &^= 1 << s
		}
	}
}

// expired checks I1 and I3 where a session ends.
func (x *step) expired(f *fate, e entry, before session) {
	f.Ended = x.Now + 1
	x.say("s%d has expired", e.Session+1)
	if broke := Invariants(e.Ghost); broke != 0 {
		x.breaks(broke, "this was decided too early")
	}
	if e.Attachment != before.Attachment && x.Now-f.Known < x.scope.Timeout {
		x.breaks(I1, "attachment %d ended, a close of %d was decided", before.Attachment, e.Attachment)
	}
	if x.Now < f.Safe {
		x.breaks(I3, "the client was promised to be safe until %d", f.Safe)
	}
}

func describe(e entry) string {
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
