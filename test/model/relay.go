package model

// The relay of each node: streams, answers, confirmations and what is promised on them.

// connect opens a stream from a member's relay to a tracker; the leader's own is one, too. A relay goes from one leader
// to another only if that one's term is newer, but the one it leaves may not know of it.
func (x *step) connect(m, l, _ int) bool {
	t, k := &x.Node[l].Tracker, &x.Link[l][m]
	if t.On == 0 || k.Up == 1 || !x.runs(m) || !x.runs(l) {
		return false
	}
	for other := range x.scope.nodes() {
		o := &x.Link[other][m]
		if o.Up == 0 {
			continue
		}
		if x.Node[other].Tracker.On == 1 && x.Node[other].Tracker.Term >= t.Term {
			return false
		}
		if x.obeys(T3OneStream) {
			o.endAtRelay()
		}
	}
	if k.Open == 1 { // the end of the former one is noticed now
		k.hush(t.Clock)
	}
	fresh := link{
		Match: k.Match, Open: 1, Up: 1, Complete: 1, Voted: k.Voted, WordB: k.WordB, Silent: k.Silent,
		Started: k.Started, Stalls: k.Stalls, Process: k.Process, Credit: k.Credit, HeardAt: k.HeardAt,
		Took: k.Took, Idle: k.Idle, Quiet: k.Quiet, Old: k.Old,
	}
	if k.Wire.Kind == answer && !x.obeys(T6) {
		fresh.Old = k.Wire
	}
	*k = fresh
	x.send(l, m)
	return true
}

// endAtRelay is the end of a stream as the relay does or sees it. An answer that it sent may still arrive.
func (k *link) endAtRelay() {
	k.Up, k.Complete, k.Answered, k.Heard, k.Sent, k.Left = 0, 0, 0, 0, [maxAnswers][maxSessions]heard{},
		[maxSessions]heard{}
	if k.Wire.Kind != answer {
		k.Wire = message{}
	}
}

// hush notes a moment from which the member is silent (E1).
func (k *link) hush(clock uint8) {
	if k.Silent == 0 {
		k.Silent = clock
	}
}

// lose breaks a stream, with whatever is on it (T3).
func (x *step) lose(l, m, _ int) bool {
	k := &x.Link[l][m]
	if l == m || k.Up == 0 || !x.spend(losses, x.scope.Losses) {
		return false
	}
	k.Wire = message{}
	k.endAtRelay()
	return true
}

// notice is a tracker that sees that a stream has ended.
func (x *step) notice(l, m, _ int) bool {
	t, k := &x.Node[l].Tracker, &x.Link[l][m]
	if t.On == 0 || !x.runs(l) || k.Open == 0 || k.Up == 1 {
		return false
	}
	k.Open, k.Out, k.OutB, k.OutAt, k.Wire = 0, 0, 0, 0, message{}
	k.hush(t.Clock)
	return true
}

// take begins the answer to a heartbeat: it hears what is confirmed, and takes the table (R2, T1).
func (x *step) take(m, l, _ int) bool {
	n, k := &x.Node[m], &x.Link[l][m]
	if !x.runs(m) || k.Up == 0 || k.Wire.Kind != heartbeat {
		return false
	}
	x.confirm(m, l)
	k.Wire = message{Kind: taking, Round: k.Wire.Round, B: k.Wire.B, H: n.FSM.Counter}
	if x.obeys(T1Order) {
		x.swap(m, l)
	}
	if !x.scope.SlowAnswer {
		return x.answer(m, l, 0)
	}
	return true
}

// swap takes the touch table: what is new in it, or all of it for the first answer on a stream (T1, T3).
func (x *step) swap(m, l int) {
	n, k := &x.Node[m], &x.Link[l][m]
	w := &k.Wire
	w.Took, w.At = x.Now, n.Mono
	for s := range x.scope.sessions() {
		t := &n.Table[s]
		if f := x.Truth.Session[s]; f.Touched+x.scope.Timeout <= x.Now {
			w.Quiet |= 1 << s
		}
		if t.Attachment == 0 || t.New == 0 && (k.Complete == 0 || !x.obeys(T3Complete)) {
			continue
		}
		w.Touch[s] = reported{Has: 1, At: t.At, Attachment: t.Attachment, Void: t.Void, Made: t.Made, Stale: t.Stale}
		if x.obeys(T1Swap) {
			t.New = 0
		}
	}
}

// ages are for how long the relay had been able to vouch, and its process had run, when it took the table (E1); not
// at all if that began since. A process that started before the history began always was.
func (n *node) ages(taken uint8) (vouch, process uint8) {
	age := func(since uint8) uint8 {
		if since == 0 {
			return forever
		}
		return max(taken, since) - since
	}
	return age(n.Vouch), age(n.Started)
}

// answer ends it: h is read after the table was taken, touches of other attachments are left out, ages are made.
func (x *step) answer(m, l, _ int) bool {
	n, k := &x.Node[m], &x.Link[l][m]
	w := &k.Wire
	if !x.runs(m) || k.Up == 0 || w.Kind != taking {
		return false
	}
	w.Kind, w.Term = answer, n.Term
	if x.obeys(T1Order) {
		w.H = n.FSM.Counter
	} else {
		x.swap(m, l)
	}
	if !x.obeys(T4) {
		w.At = n.Mono
	}
	w.VouchAge, w.ProcessAge = n.ages(w.At)
	w.Credit, w.Process = n.Stalls.total(), n.Incarnation
	k.Complete = 0
	k.Answered++
	for s := range x.scope.sessions() {
		k.Sent[k.Answered%maxAnswers][s] = x.report(m, l, s)
	}
	k.outgrow(x.scope.Remembers)
	w.At = 0
	if m == l {
		return x.receive(l, m, 0) // the leader's own is a call
	}
	return true
}

// outgrow forgets the oldest answer when there are more than so many, 0 for all. A later confirmation covers it.
func (k *link) outgrow(most uint8) {
	if most == 0 || k.Answered <= k.Heard+most {
		return
	}
	oldest := &k.Sent[(k.Answered-most)%maxAnswers]
	for s, h := range oldest {
		if h.Attachment != 0 {
			k.Left[s] = h
		}
	}
	*oldest = [maxSessions]heard{}
}

// report makes a touch ready to be sent, unless it is left out, and returns what can be confirmed of it.
func (x *step) report(m, l, s int) (confirmable heard) {
	n, w := &x.Node[m], &x.Link[l][m].Wire
	r := &w.Touch[s]
	if !x.obeys(T1Swap) {
		n.Table[s].New = 0
	}
	if r.Has == 1 && r.Attachment != n.FSM.Session[s].Attachment && x.obeys(T1Filter) {
		*r = reported{}
	}
	if r.Has == 0 {
		return heard{}
	}
	if r.Void == 0 {
		confirmable = heard{Attachment: r.Attachment, At: r.At}
	}
	r.At = w.At - r.At
	x.say("touch of s%d, %d ago", s+1, r.At)
	return confirmable
}

// confirm takes from a heartbeat which answers are confirmed, less the touches that were not taken (S1), and promises
// on it.
func (x *step) confirm(m, l int) {
	k := &x.Link[l][m]
	// an answer that is remembered, so all before it
	covered := x.scope.Remembers == 0 || k.Wire.Sure+x.scope.Remembers > k.Answered
	for s := range k.Left {
		if k.Wire.List&(1<<s) != 0 && (covered || x.obeys(S1Forgotten)) {
			k.Left[s] = heard{}
		}
	}
	if covered {
		x.confirmed1(m, &k.Left, 0)
	}
	for c := newest(k.Heard, k.Answered); c <= k.Wire.Sure; c++ {
		x.confirmed1(m, &k.Sent[c%maxAnswers], k.Wire.List)
	}
	k.Heard = max(k.Heard, k.Wire.Sure)
}

// confirmed1 takes the touches of an answer as confirmed, less those of a list, and forgets them.
func (x *step) confirmed1(m int, touches *[maxSessions]heard, list uint8) {
	n := &x.Node[m]
	for s, h := range touches {
		if h.Attachment == 0 || list&(1<<s) != 0 {
			continue
		}
		if had := n.Confirmed[s]; had.Attachment < h.Attachment || had.Attachment == h.Attachment && had.At < h.At {
			n.Confirmed[s] = h
			x.promise(m, s)
		}
	}
	*touches = [maxSessions]heard{}
}

// promise answers a keep-alive (S3). A client may send one whenever it likes, so one comes as soon as there is
// something to promise; later ones promise no more than that. With clocks of one rate a promise ends short of a timeout
// after the confirmed touch.
func (x *step) promise(i, s int) {
	n, f := &x.Node[i], &x.Truth.Session[s]
	c := n.Confirmed[s]
	mine := n.FSM.Session[s]
	if mine.Alive == 0 || mine.Attachment != c.Attachment || n.Conns[s]&(1<<c.Attachment) == 0 ||
		n.Mono-c.At >= x.scope.Timeout {
		return
	}
	until := x.Now + x.scope.Timeout - (n.Mono - c.At)
	f.Safe = max(f.Safe, until)
	x.say("n%d promises the client of s%d that it is safe until %d", i+1, s+1, until)
	if f.Ended > 0 && f.Ended-1 < until {
		x.breaks(I3, "it expired at %d", f.Ended-1)
	}
}
