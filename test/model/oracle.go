package model

import "holdfast/test/model/search"

// The oracle sees the whole cluster at once. It keeps the truth and finds broken invariants; no rule reads it.

// truth is the oracle's knowledge of the cluster.
type truth struct {
	Len     uint8 // committed entries
	Log     [maxLog]entry
	FSM     fsm
	Session [maxSessions]fate
}

// fate is the oracle's knowledge of a session. Its moments are in Now.
type fate struct {
	Touched uint8 // the newest touch that the owner received under the newest attachment
	Known   uint8 // the newest request for a move that was committed
	Safe    uint8 // the end of the longest promise to its client
	Ended   uint8 // 1 + when it expired
	Served  uint8 // the newest attachment that was served
	// The process and the attempt that brought Served, and the term of its entry.
	ServedInstance, ServedAttempt, ServedTerm uint8
	Attempts                                  uint8 // made so far by both processes: the numbers of each rise as well
	// Named, in scopes with take-overs, is the attachment of the first process's token.
	Named uint8
}

// oracle keeps the truth in a step.
type oracle struct{ *step }

func (x *step) oracle() oracle { return oracle{x} }

// committed records an entry at the moment it is committed. Its effect holds from now on.
func (o oracle) committed(e entry) {
	before := o.Truth.FSM.Session[e.Session]
	if effective := o.Truth.FSM.apply(&o.protocol, e); !effective {
		return
	}
	f := &o.Truth.Session[e.Session]
	switch e.Kind {
	case moves:
		o.moved(f, e, before)
	case upgrades:
		o.upgraded(f, e)
	case closes:
		o.expired(f, e, before)
	case writes:
		if e.Attachment != before.Attachment {
			o.Breaks(I4, "a write through attachment %d takes effect, the session has %d", e.Attachment,
				before.Attachment)
		}
	}
}

func (o oracle) moved(f *fate, e entry, before session) {
	if e.Instance == f.ServedInstance && e.Attempt < f.ServedAttempt {
		o.Breaks(I4, "attempt %d moves the session from the connection of attempt %d", e.Attempt, f.ServedAttempt)
	}
	if e.Instance != before.Instance && e.Present < before.Attachment {
		o.Breaks(I4, "process %d takes over the session from process %d, whose attachment %d is newer than its request",
			e.Instance, before.Instance, before.Attachment)
	}
	f.Touched, f.Known = max(f.Touched, e.Ghost), max(f.Known, e.Ghost)
	o.unquiet(e.Session)
}

// upgraded records an upgrade that took effect: a leader gives the session a full timeout from the entry.
func (o oracle) upgraded(f *fate, e entry) {
	if f.Ended != 0 {
		o.Breaks(I5, "s%d is brought back, it ended at %d", e.Session+1, f.Ended-1)
	}
	f.Touched, f.Known = max(f.Touched, e.Ghost), max(f.Known, e.Ghost)
	o.unquiet(e.Session)
}

// unquiet forgets that an owner had been silent about a session.
func (o oracle) unquiet(s uint8) {
	for l := range o.Link {
		for m := range o.Link[l] {
			k := &o.Link[l][m]
			k.Member.Quiet &^= 1 << s
			k.Wire.Quiet &^= 1 << s
			k.Old.Quiet &^= 1 << s
		}
	}
}

// expired checks I1 and I3 where a session ends.
func (o oracle) expired(f *fate, e entry, before session) {
	f.Ended = o.Now + 1
	o.Say("s%d has expired", e.Session+1)
	if broke := search.Invariants(e.Ghost); broke != 0 {
		o.Breaks(broke, "this was decided too early")
	}
	if e.Attachment != before.Attachment && o.Now-f.Known < o.scope.Timeout {
		o.Breaks(I1, "attachment %d ended, a close of %d was decided", before.Attachment, e.Attachment)
	}
	if o.Now < f.Safe {
		o.Breaks(I3, "the client was promised to be safe until %d", f.Safe)
	}
}

// expiredLocally checks the end of a local session at its node.
func (o oracle) expiredLocally(at *process, one *local, s int) {
	f := &o.Truth.Session[s]
	if o.Now-one.Real < o.scope.Timeout {
		o.Breaks(I1, "a touch was received at %d", one.Real)
	}
	if stopped := at.stopped(one.Real, o.Now); stopped > 0 && o.Now-one.Real < o.scope.Timeout+stopped {
		o.Breaks(I8, "its node did not run for %d since", stopped)
	}
	if o.Now < f.Safe {
		o.Breaks(I3, "the client was promised to be safe until %d", f.Safe)
	}
	if o.Truth.FSM.Session[s].Alive == 1 {
		o.Breaks(FalseEnd, "its node ends s%d, which is global and lives", s+1)
	}
	f.Ended = o.Now + 1
}

// promised records a promise of a node about a session, which counts from a moment some ticks ago. It checks I3.
func (o oracle) promised(i, s int, ago uint8) {
	f := &o.Truth.Session[s]
	until := o.Now + o.scope.Timeout - ago
	f.Safe = max(f.Safe, until)
	o.Say("n%d promises the client of s%d that it is safe until %d", i+1, s+1, until)
	if f.Ended > 0 && f.Ended-1 < until {
		o.Breaks(I3, "it expired at %d", f.Ended-1)
	}
}

// early returns the invariants that a tracker's decision to expire a session breaks, once the close takes effect. The
// oracle knows the newest touch that the owner received, and when the owner read the table for the last answer that
// the tracker has processed.
//
// I1: the owner had been silent about the session for a full timeout when it last spoke, or is silent for so long now.
// A touch after it last spoke counts only if the owner has not been silent altogether for a full timeout.
//
// I8: time in which the tracker's clock was stopped is no silence of an owner. Time in which the owner did not run is
// no silence of its session, while the owner is not lost.
func (o oracle) early(by tracking, s int) search.Invariants {
	mine, f := by.FSM.Session[s], &o.Truth.Session[s]
	if now := o.Truth.FSM.Session[s]; now.Attachment != mine.Attachment {
		return 0 // it was moved or has ended, so the FSM ignores the close (E3 ordered closes)
	}
	k := &o.Link[by.id][mine.Owner].Member
	quiet := f.Known <= k.ReadAt && k.Quiet&(1<<s) != 0
	silence := o.Now - max(min(f.Touched, k.ReadAt), f.Known)
	if silence < o.scope.Timeout && !quiet {
		return I1
	}
	stopped := o.Node[mine.Owner].Process.stopped(max(f.Touched, f.Known), k.ReadAt)
	if stopped > 0 && silence < o.scope.Timeout+stopped && !by.lost(int(mine.Owner)) {
		return I8
	}
	if quiet {
		return 0
	}
	if f.Touched > k.ReadAt && f.Known <= k.ReadAt && silence-min(silence, k.Idle) < o.scope.Timeout {
		return I8
	}
	return 0
}
