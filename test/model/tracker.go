package model

import "slices"

// The tracker of a leader for one term: rounds, the clock, and the answers.

// tracker is what the leader keeps for one term.
type tracker struct {
	On, Term      uint8
	Clock         clock
	Begun, BegunB uint8 // the newest round, and b of it
	InTick        uint8 // rounds begun in this tick
	Good, GoodB   uint8 // the newest good round, and b of it
	B             [maxRounds]uint8
	Deadline      [maxSessions]uint8
	Mark          [maxSessions]uint8
}

// clock is a tracker's accountable clock (A1 accountable clock).
type clock struct {
	Now, Run uint8 // its reading, and how long it still runs
	Stopped  uint8 // how long it was stopped; ghost but for A1Jump
	Book     uint8 // ghost: how long a clock by A1 would still run
}

// good lets the clock run on from a good round.
func (c *clock) good(p *protocol) {
	c.Run, c.Book = p.scope.RunFor, p.scope.RunFor
	if !p.Obeys(A1Jump) {
		c.Now += c.Stopped
	}
	c.Stopped = 0
}

// tick lets an interval pass in which the machine's clock runs.
func (c *clock) tick(p *protocol) {
	switch {
	case c.Run > 0:
		c.Run--
		c.Now++
	case !p.Obeys(A1Stops):
		c.Now++
	case !p.Obeys(A1Jump):
		c.Stopped++
	}
}

// member is a tracker's knowledge of a member. It outlives the member's streams.
type member struct {
	Voted      uint8 // the newest round that the member counts for (R3 good rounds)
	WordB      uint8 // b of the newest round that it answered (E2 the owner answers first)
	Started    uint8 // when its process began to run, on the tracker's clock (E1 full timeout after a change of leader)
	Silent     uint8 // since when it is silent, 0 if it is not (E1)
	Stalls     stalls
	Process    uint8 // the incarnation that spoke last,
	Credit     uint8 // the credit for its stalls that it reported,
	AnsweredAt uint8 // and when
	ReadAt     uint8 // ghost: when the table of the newest processed answer was read
	Idle       uint8 // ghost: how long the clock was stopped since ReadAt
	Quiet      uint8 // ghost: the sessions that had been silent for a full timeout at ReadAt
}

// noteSilence records the moment from which the member is silent (E1).
func (m *member) noteSilence(clock uint8) {
	if m.Silent == 0 {
		m.Silent = clock
	}
}

// addStalls adds the new stalls of an answer. The credit grows by at most the time on the tracker's own clock since
// the answer before, and the grace.
func (m *member) addStalls(w *message, clock, grace uint8) {
	if m.Process != w.Process {
		m.Process, m.Credit = w.Process, 0
	}
	more := min(w.Credit-min(m.Credit, w.Credit), clock-m.AnsweredAt+grace)
	m.Credit, m.AnsweredAt = max(m.Credit, w.Credit), clock
	if more > 0 && clock >= epoch+w.StallAge {
		m.Stalls.add(clock-w.StallAge, more)
	}
}

// stream is the tracker's end of a stream.
type stream struct {
	Open         uint8 // the tracker does not know of its end
	Out          uint8 // the round of the unanswered heartbeat, 0 if there is none
	OutB, OutAt  uint8 // b of that round, and when the heartbeat was sent
	Last         uint8 // the newest sent round
	In           uint8 // answers processed
	Sure, Listed uint8 // answers that are confirmed, and up to which refused touches were listed (S1 confirmed touches)
	Refused      [maxAnswers]uint8
	InAtB        [maxRounds]uint8 // In when the round began
}

// tracking is a node with its tracker.
type tracking struct {
	at
	*tracker
}

func (x *step) tracking(l int) tracking { return tracking{x.at(l), &x.Node[l].Tracker} }

// works reports whether the tracker exists and its process runs.
func (t tracking) works() bool { return t.On == 1 && t.runs() }

func (t tracking) link(m int) *link { return &t.Link[t.id][m] }

// start starts a tracker, and ends an older tracker of the node. R5: the node has applied a command of its own, whose
// term is the tracker's.
func (t tracking) start() bool {
	if t.Raft.Role != leader || !t.runs() || t.On == 1 && t.Term == t.Raft.Term {
		return false
	}
	if t.Obeys(R5) && !slices.ContainsFunc(t.Raft.Log[:t.Raft.Applied], func(e entry) bool {
		return e.Kind == begins && e.Term == t.Raft.Term
	}) {
		return false
	}
	t.stop()
	runs := clock{Now: epoch, Run: t.scope.RunFor, Book: t.scope.RunFor}
	*t.tracker = tracker{On: 1, Term: t.Raft.Term, Clock: runs, Begun: 1, Good: 1}
	for m := range t.scope.nodes() {
		k := &t.link(m).Member
		k.AnsweredAt = epoch
		k.Silent, k.ReadAt = epoch, t.Now // a member that has not answered in the term is silent from its start on (E1)
		if !t.Obeys(E1Term) {
			k.Silent = 0
		}
	}
	t.relaying(t.id, t.id).connect() // the leader's own relay is at hand
	return true
}

func (t tracking) stop() {
	*t.tracker = tracker{}
	for m := range t.scope.nodes() {
		k := t.link(m)
		*k = link{Match: k.Match}
	}
}

// end ends a tracker whose node has noticed that it no longer leads the term.
func (t tracking) end() bool {
	if !t.works() || t.Raft.Role == leader && t.Raft.Term == t.Term {
		return false
	}
	t.stop()
	return true
}

// beginRound begins a round, and sends its heartbeat to every member that has no unanswered one (R1 rounds).
func (t tracking) beginRound() bool {
	if !t.works() || t.InTick == t.scope.Rounds || t.Begun-t.Good == maxRounds {
		return false
	}
	t.Begun++
	t.InTick++
	t.BegunB, t.B[t.Begun%maxRounds] = t.Clock.Now, t.Clock.Now
	t.Say("round %d, b %d", t.Begun, t.Clock.Now-epoch)
	for m := range t.scope.nodes() {
		k := &t.link(m).Stream
		k.InAtB[t.Begun%maxRounds] = k.In
		t.send(m)
	}
	if !t.Obeys(R3Self) {
		t.link(t.id).Member.Voted = t.Begun
		t.good()
	}
	return true
}

// send sends the heartbeat of the newest round. It carries what is confirmed (S1).
func (t tracking) send(m int) {
	k := t.link(m)
	s := &k.Stream
	if s.Open == 0 || k.Relay.Up == 0 || s.Out != 0 || s.Last == t.Begun || t.BegunB == 0 {
		return
	}
	s.Out, s.OutB, s.OutAt, s.Last = t.Begun, t.BegunB, t.Clock.Now, t.Begun
	k.Member.noteSilence(t.Clock.Now)
	if !t.Obeys(S1Round) {
		s.Sure = s.In
	}
	k.Wire = message{Kind: heartbeat, Round: s.Out, B: s.OutB, Sure: s.Sure, Known: s.In}
	for c := newest(s.Listed, s.In); c <= s.In; c++ {
		k.Wire.List |= s.Refused[c%maxAnswers]
		s.Refused[c%maxAnswers] = 0
	}
	s.Listed = s.In
	if !t.Obeys(S1List) {
		k.Wire.List = 0
	}
}

// newest returns the first remembered answer after one and up to another. Older answers are never confirmed.
func newest(after, upTo uint8) uint8 { return max(after, max(upTo, maxAnswers)-maxAnswers) + 1 }

// receive processes an answer.
func (t tracking) receive(m int) bool {
	k := t.link(m)
	if !t.works() || k.Stream.Open == 0 || k.Wire.Kind != answer {
		return false
	}
	w := k.Wire
	k.Wire = message{}
	t.process(m, &w)
	return true
}

// receiveOld processes an answer of a replaced stream: only without T6.
func (t tracking) receiveOld(m int) bool {
	k := t.link(m)
	if !t.works() || k.Old.Kind != answer {
		return false
	}
	w := k.Old
	k.Old = message{}
	t.process(m, &w)
	return true
}

func (t tracking) process(m int, w *message) {
	k, s := &t.link(m).Member, &t.link(m).Stream
	if t.id == m && w.Term > t.Term && t.Obeys(R3Self) && t.Obeys(R3Term) {
		t.Say("%s", "its own node reads a newer term: the tracker ends") // R3
		t.stop()
		return
	}
	if w.Term <= t.Term || !t.Obeys(R3Term) {
		k.Voted = max(k.Voted, w.Round)
		if !t.Obeys(R1Number) {
			k.Voted = t.Begun
		}
	}
	now := t.Clock.Now
	k.WordB, k.Started, k.Silent = max(k.WordB, w.B), max(k.Started, max(now, w.ProcessAge)-w.ProcessAge), 0
	k.addStalls(w, now, t.grace())
	s.Out, s.OutB, s.OutAt = 0, 0, 0
	k.ReadAt, k.Idle, k.Quiet = w.ReadAt, 0, w.Quiet
	s.In++
	var refused uint8
	for i := range t.scope.sessions() {
		if w.Touch[i].Has == 1 && !t.applyTouch(m, i, w) {
			refused |= 1 << i
		}
	}
	s.Refused[s.In%maxAnswers] = refused
	t.good()
	t.send(m)
}

// applyTouch moves a session's deadline (T5 a touch moves the deadline). It reports whether the touch counts (E4
// closing mark, S1).
func (t tracking) applyTouch(m, s int, w *message) bool {
	r, mine := w.Touch[s], t.FSM.Session[s]
	if mine.Alive == 0 || int(mine.Owner) != m && t.Obeys(T5Owner) || mine.Attachment > w.H && t.Obeys(T5Attachment) {
		t.Say("the touch of s%d is refused", s+1)
		return false
	}
	if r.Made < mine.Attachment {
		t.Breaks(I4, "a touch made through attachment %d of s%d is accepted, the leader has applied %d", r.Made,
			s+1, mine.Attachment)
	}
	if f := t.Truth.Session[s]; r.Stale == 1 && t.Term >= f.ServedTerm {
		t.Breaks(I4, "a touch through attachment %d of s%d is accepted, it was made after %d was served", r.Made, s+1,
			f.Served)
	}
	mark := t.Mark[s]
	if (mark == closing || mark == unknown) && !t.Obeys(E4Deadline) {
		return false
	}
	full := t.Clock.Now + t.scope.Timeout
	t.Deadline[s] = max(t.Deadline[s], full-min(r.At, full))
	t.Say("deadline of s%d is %d", s+1, t.Deadline[s]-epoch)
	return mark != closing && mark != unknown
}

// good checks for a newer round that a quorum of the voters has answered in the tracker's term (R3). Such a round shows
// that the node led when the round began: the clock runs on (A1), and the answers processed before are confirmed (S1).
func (t tracking) good() {
	for n := t.Begun; n > t.Good; n-- {
		if t.answered(n) >= t.scope.quorum() {
			t.goodAt(n)
			return
		}
	}
}

// answered counts the voters that have answered a round in the tracker's term.
func (t tracking) answered(round uint8) (count int) {
	for m := range t.scope.nodes() {
		if t.link(m).Member.Voted >= round && (m < int(t.scope.Voters) || !t.Obeys(R3Observers)) {
			count++
		}
	}
	return count
}

func (t tracking) goodAt(round uint8) {
	t.Good, t.GoodB = round, t.B[round%maxRounds]
	t.Clock.good(&t.protocol)
	for m := range t.scope.nodes() {
		k := &t.link(m).Stream
		k.Sure = max(k.Sure, k.InAtB[round%maxRounds])
		if !t.Obeys(S1Order) {
			k.Sure = k.In
		}
	}
	t.Say("round %d is good", round)
}

// notice makes a tracker see that a stream has ended.
func (t tracking) notice(m int) bool {
	k := t.link(m)
	if !t.works() || k.Stream.Open == 0 || k.Relay.Up == 1 {
		return false
	}
	k.Stream.Open, k.Stream.Out, k.Stream.OutB, k.Stream.OutAt, k.Wire = 0, 0, 0, 0, message{}
	k.Member.noteSilence(t.Clock.Now)
	return true
}
