package model

// canonical forgets what can make no difference any more to the invariants looked for, and renames what is named by
// counting, so that histories that differ in nothing else lead to one state. Story replays a history without it:
// numbers are real there, and a history that exists only because something was forgotten wrongly would not replay.
func (x *step) canonical() {
	x.forgetVotes()
	for l := range x.scope.nodes() {
		x.forgetRounds(l)
		if x.forInv&I8 == 0 {
			x.Node[l].Stood = [3]uint8{}
		}
		for m := range x.scope.nodes() {
			k := &x.Link[l][m]
			if x.forInv&I3 == 0 {
				k.forgetPromises()
			}
			k.forgetAnswers()
			x.forgetGhosts(k)
		}
	}
	for s := range x.scope.sessions() {
		x.forgetFate(s)
		for i := range x.scope.nodes() {
			x.forgetHeard(&x.Node[i], s)
		}
	}
	if x.scope.Moves == 0 { // no session may come to have another owner
		x.forgetIdleMembers()
	}
}

// old is a moment that is a timeout ago or more, as 0: silence since then is long enough for everything.
func (x *step) old(t uint8) uint8 {
	if x.forInv&I8 != 0 && x.scope.Pauses+x.scope.Suspends > 0 {
		return t // what an owner stalled for since is no silence
	}
	if t+x.scope.Timeout <= x.Now {
		return 0
	}
	return t
}

func (x *step) forgetFate(s int) {
	f := &x.Truth.Session[s]
	f.Touched, f.Known = x.old(f.Touched), x.old(f.Known)
	if x.forInv&(I1|I8) == 0 {
		f.Touched, f.Known = 0, 0
	}
	if x.forInv&I3 == 0 || f.Safe <= x.Now && f.Ended == 0 {
		f.Safe = 0
	}
	if x.forInv&I4 == 0 {
		f.Served, f.ServedInstance, f.ServedAttempt, f.ServedTerm = 0, 0, 0, 0
	}
}

// forgetVotes is for when nobody stands for election any more, and for what only a leader counts.
func (x *step) forgetVotes() {
	over := x.Spent[elections] == x.scope.Elections
	for i := range x.scope.nodes() {
		over = over && x.Node[i].Role != candidate
	}
	for i := range x.scope.nodes() {
		if over {
			x.Node[i].Voted = 0
		}
		for m := range x.scope.nodes() {
			if x.Node[i].Role != leader {
				x.Link[i][m].Match = 0
			}
		}
	}
}

func (x *step) forgetHeard(n *node, s int) {
	if x.scope.Suspends == 0 {
		n.Confirmed[s] = heard{} // promised already, as far as it goes
	}
	if x.forInv&I4 == 0 {
		n.Table[s].Made, n.Table[s].Stale = 0, 0
	}
	if x.forInv&(I1|I8) == 0 {
		n.Request[s].Real = 0
		n.Local[s].Real = 0
	}
}

// forgetRounds counts rounds from the newest good one on, which becomes round 1.
func (x *step) forgetRounds(l int) {
	t := &x.Node[l].Tracker
	if t.On == 0 || t.Good <= 1 {
		return
	}
	less := t.Good - 1
	newer := func(n uint8) uint8 {
		if n == 0 {
			return 0
		}
		return max(n, t.Good) - less
	}
	var b [maxRounds]uint8
	for n := t.Good + 1; n <= t.Begun; n++ {
		b[(n-less)%maxRounds] = t.B[n%maxRounds]
	}
	for m := range x.scope.nodes() {
		k := &x.Link[l][m]
		var in [maxRounds]uint8
		for n := t.Good + 1; n <= t.Begun; n++ {
			in[(n-less)%maxRounds] = k.InAtB[n%maxRounds]
		}
		k.InAtB = in
		k.Out, k.Wire.Round, k.Old.Round = newer(k.Out), newer(k.Wire.Round), newer(k.Old.Round)
		if k.Last < t.Good {
			k.Last = less // only whether it is the newest counts
		}
		k.Last -= less
		k.Voted = max(k.Voted, t.Good) - less
	}
	t.B, t.Begun, t.Good = b, t.Begun-less, 1
}

// forgetPromises is for searches that look for no broken promise: nobody need know what is confirmed.
func (k *link) forgetPromises() {
	k.In, k.Sure, k.Told, k.Refused, k.InAtB = 0, 0, 0, [maxAnswers]uint8{}, [maxRounds]uint8{}
	k.Answered, k.Heard, k.Sent, k.Left = 0, 0, [maxAnswers][maxSessions]heard{}, [maxSessions]heard{}
	k.Wire.Sure, k.Wire.List = 0, 0
}

// forgetAnswers counts answers from the newest one on that the relay was told is confirmed.
func (k *link) forgetAnswers() {
	less := k.Told
	if k.Up == 1 {
		less = k.Heard
	}
	if less == 0 {
		return
	}
	newer := func(c uint8) uint8 { return max(c, less) - less }
	var refused [maxAnswers]uint8
	var sent [maxAnswers][maxSessions]heard
	for c := less + 1; c <= less+maxAnswers; c++ {
		refused[(c-less)%maxAnswers], sent[(c-less)%maxAnswers] = k.Refused[c%maxAnswers], k.Sent[c%maxAnswers]
	}
	k.Refused, k.Sent = refused, sent
	k.In, k.Sure, k.Told, k.Answered, k.Heard = newer(k.In), newer(k.Sure), newer(k.Told), newer(k.Answered),
		newer(k.Heard)
	k.Wire.Sure = newer(k.Wire.Sure)
	for n := range k.InAtB {
		k.InAtB[n] = newer(k.InAtB[n])
	}
}

// forgetStalls is for when no stall of the member can matter.
func (k *link) forgetStalls() {
	k.Started, k.Stalls, k.Process, k.Credit, k.HeardAt = 0, stalls{}, 0, 0, 0
	k.Wire.VouchAge, k.Wire.ProcessAge, k.Wire.Credit, k.Wire.Process = 0, 0, 0, 0
}

func (x *step) forgetGhosts(k *link) {
	k.Took, k.Wire.Took, k.Old.Took = x.old(k.Took), x.old(k.Wire.Took), x.old(k.Old.Took)
	k.Idle = min(k.Idle, x.scope.Timeout)
	if x.scope.Pauses+x.scope.Suspends == 0 {
		k.HeardAt = 0 // read only when there is something to credit
	}
	if x.forInv&I8 == 0 {
		k.Idle = 0
	}
	if x.forInv&(I1|I8) == 0 {
		k.Took, k.Quiet, k.Wire.Took, k.Wire.Quiet, k.Old.Took, k.Old.Quiet = 0, 0, 0, 0, 0, 0
	}
	if x.forInv&I4 != 0 {
		return
	}
	for s := range k.Wire.Touch {
		k.Wire.Touch[s].Made, k.Wire.Touch[s].Stale = 0, 0
		k.Old.Touch[s].Made, k.Old.Touch[s].Stale = 0, 0
	}
}

// forgetIdleMembers keeps of a member that never owns a session no more than its votes.
func (x *step) forgetIdleMembers() {
	var owners uint8
	for _, owner := range x.scope.Owners {
		owners |= 1 << owner
	}
	for m := range x.scope.nodes() {
		if owners&(1<<m) != 0 {
			continue
		}
		n := &x.Node[m]
		n.Vouch, n.Started, n.Incarnation, n.Stalls, n.Covered = 0, 0, 0, stalls{}, 0
		for l := range x.scope.nodes() {
			k := &x.Link[l][m]
			k.forgetPromises()
			k.OutB, k.OutAt, k.WordB, k.Silent, k.Took, k.Idle, k.Quiet, k.Complete = 0, 0, 0, 0, 0, 0, 0, 0
			k.forgetStalls()
			k.Wire.B, k.Wire.H, k.Wire.Took, k.Wire.Quiet = 0, 0, 0, 0
		}
	}
}

// over says that nothing can break any more: all sessions have ended, and so has what could have been promised.
func (x *step) over() bool {
	for s := range x.scope.sessions() {
		if f := x.Truth.Session[s]; f.Ended == 0 || x.forInv&I3 != 0 && x.Now < f.Ended-1+x.scope.Timeout {
			return false
		}
	}
	return x.forInv&Raft == 0 && (x.forInv&I5 == 0 || !x.scope.Local)
}
