package model

// The relay of each node: streams, answers and confirmations.

// relay is the relay's end of a stream.
type relay struct {
	Up        uint8 // the stream is open
	Complete  uint8 // the next answer is complete (T3 ordered streams)
	Answered  uint8 // answers sent on this stream
	Confirmed uint8 // answers known to be confirmed
	Sent      [maxAnswers][maxSessions]touchAt
	ReadMono  [maxAnswers]uint8 // when the table was read for each, on Mono
	AsOf      uint8             // when it was read for the newest confirmed answer, on Mono; 0 for none
}

// endAtRelay ends a stream at the relay. An answer that the relay has sent may still arrive.
func (k *link) endAtRelay() {
	k.Relay = relay{}
	if k.Wire.Kind != answer {
		k.Wire = message{}
	}
}

// relaying is a node's learner with its link to one leader's tracker.
type relaying struct {
	at
	of int // the leader
	*link
}

func (x *step) relaying(m, l int) relaying { return relaying{x.at(m), l, &x.Link[l][m]} }

// works reports whether the stream is open and the process runs.
func (r relaying) works() bool { return r.runs() && r.Relay.Up == 1 }

// connect opens a stream to a tracker; the leader's own relay has a stream, too. A relay changes leaders only for a
// newer term. Its former leader may not notice.
func (r relaying) connect() bool {
	t := r.tracking(r.of)
	if t.On == 0 || r.Relay.Up == 1 || !r.runs() || !t.runs() {
		return false
	}
	for other := range r.scope.nodes() {
		o, its := &r.Link[other][r.id], &r.Node[other].Tracker
		if o.Relay.Up == 0 {
			continue
		}
		if its.On == 1 && its.Term >= t.Term {
			return false
		}
		if r.Obeys(T3OneStream) {
			o.endAtRelay()
		}
	}
	if r.Stream.Open == 1 { // the tracker notices the end of the former stream now
		r.Member.noteSilence(t.Clock.Now)
	}
	if r.Wire.Kind == answer && !r.Obeys(T6) {
		r.Old = r.Wire
	}
	r.Stream, r.Relay, r.Wire = stream{Open: 1}, relay{Up: 1, Complete: 1}, message{}
	t.send(r.id)
	return true
}

// lose breaks a stream, with all messages on it (T3).
func (r relaying) lose() bool {
	if r.of == r.id || r.Relay.Up == 0 || !r.spend(Losses) {
		return false
	}
	r.Wire = message{}
	r.endAtRelay()
	return true
}

// readTable starts the answer to a heartbeat: it records which answers are confirmed, and reads the table (R2 heartbeat
// answers, T1 atomic swap).
func (r relaying) readTable() bool {
	if !r.works() || r.Wire.Kind != heartbeat {
		return false
	}
	r.confirm()
	r.Wire = message{Kind: reading, Round: r.Wire.Round, B: r.Wire.B, H: r.FSM.Counter}
	if r.Obeys(T1Order) {
		r.swap()
	}
	if !r.scope.SlowAnswer {
		return r.answer()
	}
	return true
}

// swap empties the touch table and returns its new touches, or all of it for the first answer on a stream (T1, T3).
func (r relaying) swap() {
	w := &r.Wire
	w.ReadAt, w.At = r.Now, r.Process.Mono
	for s := range r.scope.sessions() {
		t := &r.Learner.Table[s]
		if f := r.Truth.Session[s]; f.Touched+r.scope.Timeout <= r.Now {
			w.Quiet |= 1 << s
		}
		if t.Attachment == 0 || t.New == 0 && (r.Relay.Complete == 0 || !r.Obeys(T3Complete)) {
			continue
		}
		w.Touch[s] = reported{Has: 1, At: t.At, Attachment: t.Attachment, Void: t.Void, Made: t.Made, Stale: t.Stale}
		if r.Obeys(T1Swap) {
			t.New = 0
		}
	}
}

// answer sends the answer. It reads h after the table was read, leaves out touches of other attachments, and converts
// moments to ages.
func (r relaying) answer() bool {
	w := &r.Wire
	if !r.works() || w.Kind != reading {
		return false
	}
	w.Kind, w.Term = answer, r.Raft.Term
	if r.Obeys(T1Order) {
		w.H = r.FSM.Counter
	} else {
		r.swap()
	}
	if !r.Obeys(T4) {
		w.At = r.Process.Mono
	}
	w.StallAge, w.ProcessAge = r.Process.ages(w.At)
	w.Credit, w.Process = r.Process.Stalls.total(), r.Process.Incarnation
	k := &r.Relay
	k.Complete = 0
	k.Answered++
	k.ReadMono[k.Answered%maxAnswers] = r.Wire.At
	for s := range r.scope.sessions() {
		k.Sent[k.Answered%maxAnswers][s] = r.report(s)
	}
	w.At = 0
	if r.id == r.of {
		return r.tracking(r.of).receive(r.id) // the leader's own relay answers by a call
	}
	return true
}

// report prepares a touch for the answer, unless it is left out. It returns which part of the touch can be confirmed.
func (r relaying) report(s int) (confirmable touchAt) {
	t := &r.Wire.Touch[s]
	if !r.Obeys(T1Swap) {
		r.Learner.Table[s].New = 0
	}
	if t.Has == 1 && t.Attachment != r.FSM.Session[s].Attachment && r.Obeys(T1Filter) {
		*t = reported{}
	}
	if t.Has == 0 {
		return touchAt{}
	}
	if t.Void == 0 {
		confirmable = touchAt{Attachment: t.Attachment, At: t.At}
	}
	t.At = r.Wire.At - t.At
	r.Say("touch of s%d, %d ago", s+1, t.At)
	return confirmable
}

// confirm reads from a heartbeat which answers are confirmed, without the touches that the tracker refused (S1
// confirmed touches), and promises on them. Answers that the tracker has only processed are confirmed as of the reading
// of the newest confirmed answer.
func (r relaying) confirm() {
	k, w := &r.Relay, &r.Wire
	for c := range k.Sent {
		for s := range k.Sent[c] {
			if w.List&(1<<s) != 0 {
				k.Sent[c][s] = touchAt{}
			}
		}
	}
	for c := newest(k.Confirmed, k.Answered); c <= w.Sure; c++ {
		r.confirmTouches(&k.Sent[c%maxAnswers])
		k.AsOf, k.ReadMono[c%maxAnswers] = k.ReadMono[c%maxAnswers], 0
	}
	k.Confirmed = max(k.Confirmed, w.Sure)
	for c := newest(k.Confirmed, k.Answered); c <= w.Known && (k.AsOf != 0 || !r.Obeys(S1Part)); c++ {
		inPart := k.Sent[c%maxAnswers]
		for s := range inPart {
			if r.Obeys(S1Part) {
				inPart[s].At = min(inPart[s].At, k.AsOf)
			}
		}
		r.confirmTouches(&inPart)
	}
}

// confirmTouches confirms the touches of an answer, and discards them.
func (r relaying) confirmTouches(touches *[maxSessions]touchAt) {
	for s, h := range touches {
		if h.Attachment == 0 {
			continue
		}
		had := r.Learner.Confirmed[s]
		if had.Attachment < h.Attachment || had.Attachment == h.Attachment && had.At < h.At {
			r.Learner.Confirmed[s] = h
			r.serving(r.id).promise(s)
		}
	}
	*touches = [maxSessions]touchAt{}
}
