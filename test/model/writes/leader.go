package writes

// The actions of the leader, of former leaders and of the log.

// refuse refuses a write that the leader has read from a stream, and certainly not appended (W4 answers from applied
// entries).
func (x *step) refuse(i uint8) bool {
	if i >= x.Leads.Len || x.Leads.Commands[i].Kind != write || !x.spend(Refusals) {
		return false
	}
	c := x.Leads.Commands[i]
	if x.Obeys(W4Certainly) {
		x.Leads.remove(i)
	}
	x.Say("%v", c)
	if p := &x.Process[c.Process]; p.Stream == leading && p.Attachment == c.Attachment {
		p.Refuse |= 1 << c.Number
	}
	return true
}

// elect makes another node lead. Streams still lead to the former leader, which continues to accept writes until it
// learns of its end.
func (x *step) elect() bool {
	if !x.depose() {
		return false
	}
	for i := range x.Process {
		if p := &x.Process[i]; p.Stream == leading {
			p.Stream = deposed
		}
	}
	return true
}

// again makes the leader lose its term and lead the next term. It does not know the fate of the writes that it had
// accepted.
func (x *step) again() bool {
	if !x.depose() {
		return false
	}
	if x.Obeys(W4Ends) {
		x.endStreams(leading)
	}
	return true
}

// depose makes the fate of the leader's accepted writes depend on chance.
func (x *step) depose() bool {
	if x.Deposed.Len+x.Leads.Len > maxQueue || !x.spend(Elections) {
		return false
	}
	for _, c := range x.Leads.Commands[:x.Leads.Len] {
		x.Deposed.push(c)
	}
	x.Leads = queue{}
	return true
}

// notice makes former leaders learn that they do not lead. They end their streams (W4).
func (x *step) notice() bool {
	var late bool
	for i := range x.Process {
		late = late || x.Process[i].Stream == deposed
	}
	if late {
		x.endStreams(deposed)
	}
	return late
}

func (x *step) endStreams(to uint8) {
	for i := range x.Process {
		if p := &x.Process[i]; p.Stream == to {
			p.Stream, p.Refuse = nowhere, 0
		}
	}
}

// loseDeposed loses the writes that former leaders had accepted.
func (x *step) loseDeposed() bool {
	if x.Deposed.Len == 0 {
		return false
	}
	x.Deposed = queue{}
	return true
}

// breakStream ends the stream of a process's node, with the newest of its writes that the leader has not read.
func (x *step) breakStream(i int, lost uint8) bool {
	p := &x.Process[i]
	q := &x.Leads
	if p.Stream == deposed {
		q = &x.Deposed
	}
	if p.Connected == 0 || p.Stream == nowhere || q.from(p.Attachment) < lost || !x.spend(Losses) {
		return false
	}
	for at := q.Len; at > 0 && lost > 0; at-- {
		if q.Commands[at-1].Attachment == p.Attachment {
			q.remove(at - 1)
			lost--
		}
	}
	p.Stream, p.Refuse = nowhere, 0
	return true
}

// from counts the commands of an attachment.
func (q *queue) from(attachment uint8) (n uint8) {
	for _, c := range q.Commands[:q.Len] {
		if c.Attachment == attachment {
			n++
		}
	}
	return n
}

// expire ends the session.
func (x *step) expire() bool {
	if x.Head.Ended != 0 || x.Logged == maxLog || !x.spend(Ends) {
		return false
	}
	x.Head.Ended = 1
	x.record(entry{command: command{Kind: end}})
	x.log(entry{command: command{Kind: end}})
	return true
}

// quiet makes the node of a process acknowledge the results that the process has (X3 kept results).
func (x *step) quiet(i int) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Stream != leading || p.acked() == 0 || x.Leads.Len == maxQueue || !x.spend(Acks) {
		return false
	}
	x.Leads.push(command{Kind: acknowledge, Attachment: p.Attachment, Acked: p.acked()})
	return true
}
