package model

import "slices"

// The tracker of a leader for one term: rounds, the clock, what answers say.

// startTracker begins a tracker, which ends an older one on the node. R5: a command of its own has been applied here,
// and its term is that entry's.
func (x *step) startTracker(l, _, _ int) bool {
	n := &x.Node[l]
	if n.Role != leader || !x.runs(l) || n.Tracker.On == 1 && n.Tracker.Term == n.Term {
		return false
	}
	if x.obeys(R5) && !slices.ContainsFunc(n.Log[:n.Applied], func(e entry) bool {
		return e.Kind == begins && e.Term == n.Term
	}) {
		return false
	}
	x.stopTracker(l)
	n.Tracker = tracker{On: 1, Term: n.Term, Clock: epoch, Begun: 1, Good: 1, Run: x.scope.RunFor, Book: x.scope.RunFor}
	for m := range x.scope.nodes() {
		k := &x.Link[l][m]
		k.HeardAt = epoch
		k.Silent, k.Took = epoch, x.Now // a node that has not answered in the term is silent from its start on (E1)
		if !x.obeys(E1Term) {
			k.Silent = 0
		}
	}
	x.connect(l, l, 0) // the leader's own relay is at hand
	return true
}

func (x *step) stopTracker(l int) {
	x.Node[l].Tracker = tracker{}
	for m := range x.scope.nodes() {
		x.Link[l][m] = link{Match: x.Link[l][m].Match}
	}
}

// endTracker is a node that has noticed that it no longer leads the tracker's term.
func (x *step) endTracker(l, _, _ int) bool {
	n := &x.Node[l]
	if n.Tracker.On == 0 || !x.runs(l) || n.Role == leader && n.Term == n.Tracker.Term {
		return false
	}
	x.stopTracker(l)
	return true
}

// beginRound begins a round and sends its heartbeat to every member that has none unanswered (R1).
func (x *step) beginRound(l, _, _ int) bool {
	t := &x.Node[l].Tracker
	if t.On == 0 || !x.runs(l) || t.InTick == x.scope.Rounds || t.Begun-t.Good == maxRounds {
		return false
	}
	t.Begun++
	t.InTick++
	t.BegunB, t.B[t.Begun%maxRounds] = t.Clock, t.Clock
	x.say("round %d, b %d", t.Begun, t.Clock-epoch)
	for m := range x.scope.nodes() {
		x.Link[l][m].InAtB[t.Begun%maxRounds] = x.Link[l][m].In
		x.send(l, m)
	}
	if !x.obeys(R3Self) {
		x.Link[l][l].Voted = t.Begun
		x.good(l)
	}
	return true
}

// send sends the heartbeat of the newest round, with what is confirmed (S1).
func (x *step) send(l, m int) {
	t, k := &x.Node[l].Tracker, &x.Link[l][m]
	if k.Open == 0 || k.Up == 0 || k.Out != 0 || k.Last == t.Begun || t.BegunB == 0 {
		return
	}
	k.Out, k.OutB, k.OutAt, k.Last = t.Begun, t.BegunB, t.Clock, t.Begun
	k.hush(t.Clock)
	if !x.obeys(S1Round) {
		k.Sure = k.In
	}
	k.Wire = message{Kind: heartbeat, Round: k.Out, B: k.OutB, Sure: k.Sure}
	for c := newest(k.Told, k.In); c <= k.Sure; c++ {
		k.Wire.List |= k.Refused[c%maxAnswers]
		k.Refused[c%maxAnswers] = 0
	}
	k.Told = k.Sure
	if !x.obeys(S1List) {
		k.Wire.List = 0
	}
}

// newest returns the first of the answers after one up to another that is still remembered. What an older one said is
// never confirmed.
func newest(after, upTo uint8) uint8 { return max(after, max(upTo, maxAnswers)-maxAnswers) + 1 }

// receive processes an answer.
func (x *step) receive(l, m, _ int) bool {
	t, k := &x.Node[l].Tracker, &x.Link[l][m]
	if t.On == 0 || !x.runs(l) || k.Open == 0 || k.Wire.Kind != answer {
		return false
	}
	w := k.Wire
	k.Wire = message{}
	x.process(l, m, &w)
	return true
}

// receiveOld processes an answer of a stream that a newer one has replaced: only without T6.
func (x *step) receiveOld(l, m, _ int) bool {
	t, k := &x.Node[l].Tracker, &x.Link[l][m]
	if t.On == 0 || !x.runs(l) || k.Old.Kind != answer {
		return false
	}
	w := k.Old
	k.Old = message{}
	x.process(l, m, &w)
	return true
}

func (x *step) process(l, m int, w *message) {
	t, k := &x.Node[l].Tracker, &x.Link[l][m]
	if l == m && w.Term > t.Term && x.obeys(R3Self) && x.obeys(R3Term) {
		x.say("%s", "its own node reads a newer term: the tracker ends") // R3
		x.stopTracker(l)
		return
	}
	if w.Term <= t.Term || !x.obeys(R3Term) {
		k.Voted = max(k.Voted, w.Round)
		if !x.obeys(R1Number) {
			k.Voted = t.Begun
		}
	}
	k.WordB, k.Started, k.Silent = max(k.WordB, w.B), max(k.Started, max(t.Clock, w.ProcessAge)-w.ProcessAge), 0
	x.hearStalls(k, w, t.Clock)
	k.Out, k.OutB, k.OutAt = 0, 0, 0
	k.Took, k.Idle, k.Quiet = w.Took, 0, w.Quiet
	k.In++
	var refused uint8
	for s := range x.scope.sessions() {
		if w.Touch[s].Has == 1 && !x.takes(l, m, s, w) {
			refused |= 1 << s
		}
	}
	k.Refused[k.In%maxAnswers] = refused
	x.good(l)
	x.send(l, m)
}

// takes moves a session's deadline (T5), and says whether the touch counts (E4, S1).
func (x *step) takes(l, m, s int, w *message) bool {
	n, r := &x.Node[l], w.Touch[s]
	t, mine := &n.Tracker, n.FSM.Session[s]
	if mine.Alive == 0 || int(mine.Owner) != m && x.obeys(T5Owner) || mine.Attachment > w.H && x.obeys(T5Attachment) {
		x.say("the touch of s%d is not taken", s+1)
		return false
	}
	if r.Made < mine.Attachment {
		x.breaks(I4, "a touch made through attachment %d of s%d is taken, the leader has applied %d", r.Made,
			s+1, mine.Attachment)
	}
	if r.Stale == 1 && t.Term >= x.Truth.Session[s].ServedTerm {
		x.breaks(I4, "a touch through attachment %d of s%d is taken, it was made after %d was served", r.Made, s+1,
			x.Truth.Session[s].Served)
	}
	mark := t.Mark[s]
	if (mark == closing || mark == unknown) && !x.obeys(E4Deadline) {
		return false
	}
	t.Deadline[s] = max(t.Deadline[s], t.Clock+x.scope.Timeout-min(r.At, t.Clock+x.scope.Timeout))
	x.say("deadline of s%d is %d", s+1, t.Deadline[s]-epoch)
	return mark != closing && mark != unknown
}

// good looks for a newer round that a quorum of the voters has answered in the tracker's term (R3). It shows that the
// node led when the round began: the clock goes on (A1), and what was processed before that is confirmed (S1).
func (x *step) good(l int) {
	t := &x.Node[l].Tracker
	for n := t.Begun; n > t.Good; n-- {
		if x.answered(l, n) >= x.scope.quorum() {
			x.goodAt(l, n)
			return
		}
	}
}

// answered counts the voters that have answered a round, in the tracker's term.
func (x *step) answered(l int, round uint8) (count int) {
	for m := range x.scope.nodes() {
		if x.Link[l][m].Voted >= round && (m < int(x.scope.Voters) || !x.obeys(R3Observers)) {
			count++
		}
	}
	return count
}

func (x *step) goodAt(l int, round uint8) {
	t := &x.Node[l].Tracker
	t.Good, t.GoodB = round, t.B[round%maxRounds]
	t.Run, t.Book = x.scope.RunFor, x.scope.RunFor
	if !x.obeys(A1Jump) {
		t.Clock += t.Stood
	}
	t.Stood = 0
	for m := range x.scope.nodes() {
		k := &x.Link[l][m]
		k.Sure = max(k.Sure, k.InAtB[round%maxRounds])
		if !x.obeys(S1Order) {
			k.Sure = k.In
		}
	}
	x.say("round %d is good", round)
}
