package writes

// The actions of the node that serves a process.

// open opens a stream to the leader.
func (x *step) open(i int) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Stream == leading {
		return false
	}
	p.Stream, p.Refuse = leading, 0
	if x.Obeys(X7Stream) {
		p.goBack()
	}
	return true
}

// goBack makes the lowest unanswered write the next to be sent (X7 queue of the node).
func (p *process) goBack() { p.Out = p.acked() }

// send sends the next unanswered write to the leader that the stream leads to.
func (x *step) send(i int) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Stream == nowhere {
		return false
	}
	q := &x.Leads
	if p.Stream == deposed {
		q = &x.Deposed
	}
	n, most := max(p.Out+1, p.lowest(), p.Leg.Began), p.Next
	if x.scope.admits() {
		most = p.Leg.Have
	}
	for n <= most && p.Leg.Dropped>>n&1 == 1 {
		n++
	}
	if n > most || q.Len == maxQueue {
		return false
	}
	p.Out = n
	c := command{
		Kind: write, Process: uint8(i), Attachment: p.Attachment, Number: n, Acked: p.acked(), Void: p.GaveUp >> n & 1,
	}
	if !x.Obeys(X3Newest) {
		c.Acked = p.First[n]
	}
	q.push(c)
	x.Say("%v", c)
	return true
}

// refused processes the leader's refusal of a write.
func (x *step) refused(i int, n uint8) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Refuse>>n&1 == 0 {
		return false
	}
	p.Refuse &^= 1 << n
	if x.Obeys(X7Refused) {
		x.refusal(p, n)
	}
	return true
}

// refusal goes back after a copy of a write was refused, by the leader or by the state (X7).
func (x *step) refusal(p *process, n uint8) {
	if p.Status[n] == pending || x.Obeys(X7Answered) {
		p.goBack()
	}
}

// applyNext applies the next entry of the log, and reports the outcome to the process.
func (x *step) applyNext(i int) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Applied == x.Logged {
		return false
	}
	e := x.Log[p.Applied]
	p.Applied++
	switch e.Kind {
	case move:
		p.disconnect()
	case end:
		x.certificate(i)
	case write:
		if e.Attachment == p.Attachment && int(e.Process) == i {
			x.outcome(i, &e)
		}
	}
	x.trim()
	return true
}

// outcome acts on the verdict of an entry (W4 answers from applied entries, X7).
func (x *step) outcome(i int, e *entry) {
	p := &x.Process[i]
	switch e.Verdict {
	case applied, repeat:
		x.answer(i, e.Number, e.Result)
	case unknown:
		if p.Status[e.Number] == pending {
			x.Breaks(I9, "%s gets the answer \"unknown\" for %d, which is above the floor and unanswered", name(i), e.Number)
			p.Status[e.Number] = unknownFate
		}
	case gap:
		if x.Obeys(X7Gap) {
			x.refusal(p, e.Number)
		}
	case window:
		if x.Obeys(X7Window) {
			x.refusal(p, e.Number)
		}
	case fenced:
	}
}

// restore skips all entries that the node has not applied, and answers from kept results (W4).
func (x *step) restore(i int) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Applied == x.Logged || !x.spend(Restores) {
		return false
	}
	p.Applied = x.Logged
	switch {
	case x.Head.Ended != 0:
		x.certificate(i)
	case x.Head.Attachment != p.Attachment:
		if !x.Obeys(X4Unknown) {
			for n := p.lowest(); n <= p.Out; n++ {
				p.Status[n] = unknownFate
			}
		}
		p.disconnect()
	default:
		x.answerKept(i)
		if x.Obeys(X7Restore) {
			p.goBack()
		}
	}
	x.trim()
	return true
}

// answerKept answers the writes whose results are kept.
func (x *step) answerKept(i int) {
	p := &x.Process[i]
	for n := p.lowest(); n <= min(p.Next, x.Head.Applied); n++ {
		if kept := x.Head.Kept[n]; kept != 0 && x.Obeys(W4Kept) {
			x.answer(i, n, kept)
		}
	}
}

// answer gives a process the result of a write (I9 once).
func (x *step) answer(i int, n uint8, r result) {
	p := &x.Process[i]
	if p.Status[n] != pending {
		return
	}
	effects := x.Ghost.Effects[i][n]
	switch {
	case int(r.process()) != i:
		x.Breaks(I9, "%s gets the result of another process for %d", name(i), n)
	case r.void() && effects != 0:
		x.Breaks(I9, "%s gets void for %d, which took effect", name(i), n)
	case !r.void() && effects == 0:
		x.Breaks(I9, "%s gets a result for %d, which took no effect", name(i), n)
	}
	p.Status[n] = hadEffect
	if r.void() {
		p.Status[n] = never
	}
	x.Say("%s has the outcome of %d", name(i), n)
}
