package model

// forgetting makes the canonical form of a step's state.
type forgetting struct{ *step }

// canonical discards facts that no longer matter to the wanted invariants, and renumbers counted names, so that
// equivalent histories lead to one state. Story replays a history without canonical: its numbers are real, and a
// history that exists only because of a wrong discard does not replay.
func (x *step) canonical() {
	f := forgetting{x}
	f.votes()
	for l := range x.scope.nodes() {
		f.rounds(x.tracking(l))
		if x.wanted&I8 == 0 {
			x.Node[l].Process.Stopped = [3]uint8{}
		}
		for m := range x.scope.nodes() {
			k := &x.Link[l][m]
			if x.wanted&I3 == 0 {
				k.forgetPromises()
			}
			k.forgetAnswers()
			f.ghosts(k)
		}
	}
	for s := range x.scope.sessions() {
		f.fate(s)
		for i := range x.scope.nodes() {
			f.touches(&x.Node[i].Learner, s)
		}
	}
	if x.scope.Most[Moves] == 0 { // no session can get another owner
		f.idleMembers()
	}
}

// old replaces a moment that is a timeout ago or more by 0: silence since then is long enough for every rule.
func (f forgetting) old(t uint8) uint8 {
	if f.wanted&I8 != 0 && f.scope.stops() {
		return t // the time for which an owner stalled is no silence
	}
	if t+f.scope.Timeout <= f.Now {
		return 0
	}
	return t
}

func (f forgetting) fate(s int) {
	t := &f.Truth.Session[s]
	t.Touched, t.Known = f.old(t.Touched), f.old(t.Known)
	if f.wanted&(I1|I8) == 0 {
		t.Touched, t.Known = 0, 0
	}
	if f.wanted&I3 == 0 || t.Safe <= f.Now && t.Ended == 0 {
		t.Safe = 0
	}
	if f.wanted&I4 == 0 {
		t.Served, t.ServedInstance, t.ServedAttempt, t.ServedTerm = 0, 0, 0, 0
	}
}

// votes forgets votes when no node is a candidate any more, and what only a leader counts at nodes that do not lead.
func (f forgetting) votes() {
	over := f.Spent[Elections] == f.scope.Most[Elections]
	for i := range f.scope.nodes() {
		over = over && f.Node[i].Raft.Role != candidate
	}
	for i := range f.scope.nodes() {
		n := &f.Node[i].Raft
		if over {
			n.Voted = 0
		}
		for m := range f.scope.nodes() {
			if n.Role != leader {
				f.Link[i][m].Match = 0
			}
		}
	}
}

func (f forgetting) touches(v *learner, s int) {
	if f.scope.Most[Suspends] == 0 {
		v.Confirmed[s] = touchAt{} // its promise is made already
	}
	if f.wanted&I4 == 0 {
		v.Table[s].Made, v.Table[s].Stale = 0, 0
	}
	if f.wanted&(I1|I8) == 0 {
		v.Request[s].Real = 0
		v.Local[s].Real = 0
	}
}

// rounds numbers a tracker's rounds from its newest good round, which becomes round 1.
func (f forgetting) rounds(t tracking) {
	if t.On == 0 || t.Good <= 1 {
		return
	}
	less := t.Good - 1
	var b [maxRounds]uint8
	for n := t.Good + 1; n <= t.Begun; n++ {
		b[(n-less)%maxRounds] = t.B[n%maxRounds]
	}
	for m := range f.scope.nodes() {
		t.link(m).forgetRounds(t.tracker)
	}
	t.B, t.Begun, t.Good = b, t.Begun-less, 1
}

// forgetRounds numbers rounds from the tracker's newest good round.
func (k *link) forgetRounds(t *tracker) {
	less := t.Good - 1
	newer := func(n uint8) uint8 {
		if n == 0 {
			return 0
		}
		return max(n, t.Good) - less
	}
	s := &k.Stream
	var in [maxRounds]uint8
	for n := t.Good + 1; n <= t.Begun; n++ {
		in[(n-less)%maxRounds] = s.InAtB[n%maxRounds]
	}
	s.InAtB = in
	s.Out, k.Wire.Round, k.Old.Round = newer(s.Out), newer(k.Wire.Round), newer(k.Old.Round)
	if s.Last < t.Good {
		s.Last = less // only whether it is the newest matters
	}
	s.Last -= less
	k.Member.Voted = max(k.Member.Voted, t.Good) - less
}

// forgetPromises discards confirmed touches in searches that ignore broken promises.
func (k *link) forgetPromises() {
	s := &k.Stream
	s.In, s.Sure, s.Listed, s.Refused, s.InAtB = 0, 0, 0, [maxAnswers]uint8{}, [maxRounds]uint8{}
	k.Relay = relay{Up: k.Relay.Up, Complete: k.Relay.Complete}
	k.Wire.Sure, k.Wire.Known, k.Wire.List = 0, 0, 0
}

// forgetAnswers numbers answers from the newest answer that the relay knows to be confirmed.
func (k *link) forgetAnswers() {
	s, r := &k.Stream, &k.Relay
	less := s.Listed
	if r.Up == 1 {
		less = r.Confirmed
	}
	if less == 0 {
		return
	}
	newer := func(c uint8) uint8 { return max(c, less) - less }
	var refused, readMono [maxAnswers]uint8
	var sent [maxAnswers][maxSessions]touchAt
	for c := less + 1; c <= less+maxAnswers; c++ {
		refused[(c-less)%maxAnswers], sent[(c-less)%maxAnswers] = s.Refused[c%maxAnswers], r.Sent[c%maxAnswers]
		readMono[(c-less)%maxAnswers] = r.ReadMono[c%maxAnswers]
	}
	s.Refused, r.Sent, r.ReadMono = refused, sent, readMono
	s.In, s.Sure, s.Listed = newer(s.In), newer(s.Sure), newer(s.Listed)
	r.Answered, r.Confirmed = newer(r.Answered), newer(r.Confirmed)
	k.Wire.Sure, k.Wire.Known = newer(k.Wire.Sure), newer(k.Wire.Known)
	for n := range s.InAtB {
		s.InAtB[n] = newer(s.InAtB[n])
	}
}

func (f forgetting) ghosts(k *link) {
	m := &k.Member
	m.ReadAt, k.Wire.ReadAt, k.Old.ReadAt = f.old(m.ReadAt), f.old(k.Wire.ReadAt), f.old(k.Old.ReadAt)
	m.Idle = min(m.Idle, f.scope.Timeout)
	if !f.scope.stops() {
		m.AnsweredAt = 0 // read only when there is a stall to credit
	}
	if f.wanted&I8 == 0 {
		m.Idle = 0
	}
	if f.wanted&(I1|I8) == 0 {
		m.ReadAt, m.Quiet, k.Wire.ReadAt, k.Wire.Quiet, k.Old.ReadAt, k.Old.Quiet = 0, 0, 0, 0, 0, 0
	}
	if f.wanted&I4 != 0 {
		return
	}
	for s := range k.Wire.Touch {
		k.Wire.Touch[s].Made, k.Wire.Touch[s].Stale = 0, 0
		k.Old.Touch[s].Made, k.Old.Touch[s].Stale = 0, 0
	}
}

// idleMembers keeps only the votes of a member that never owns a session.
func (f forgetting) idleMembers() {
	var owners uint8
	for _, owner := range f.scope.Owners {
		owners |= 1 << owner
	}
	for m := range f.scope.nodes() {
		if owners&(1<<m) != 0 {
			continue
		}
		p := &f.Node[m].Process
		p.Vouch, p.Started, p.Incarnation, p.Stalls, p.Covered = 0, 0, 0, stalls{}, 0
		for l := range f.scope.nodes() {
			k := &f.Link[l][m]
			k.forgetPromises()
			k.Member = member{Voted: k.Member.Voted}
			k.Stream.OutB, k.Stream.OutAt, k.Relay.Complete = 0, 0, 0
			w := &k.Wire
			w.StallAge, w.ProcessAge, w.Credit, w.Process = 0, 0, 0, 0
			w.B, w.H, w.ReadAt, w.Quiet = 0, 0, 0, 0
		}
	}
}

// over reports whether nothing can break any more: all sessions have ended, and so has every possible promise.
func (x *step) over() bool {
	for s := range x.scope.sessions() {
		if f := x.Truth.Session[s]; f.Ended == 0 || x.wanted&I3 != 0 && x.Now < f.Ended-1+x.scope.Timeout {
			return false
		}
	}
	return x.wanted&Raft == 0 && (x.wanted&I5 == 0 || !x.scope.Local)
}
