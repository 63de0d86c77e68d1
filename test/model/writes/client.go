package writes

// The actions of a process.

// newWrite assigns the next number to a write (X1 numbered writes).
func (x *step) newWrite(i int) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Next >= x.scope.Numbers {
		return false
	}
	if !x.Obeys(X3Newest) {
		p.First[p.Next+1] = p.acked()
	}
	p.Next++
	p.Status[p.Next] = pending
	return true
}

// giveUp replaces a write by a void with its number (X6 giving up).
func (x *step) giveUp(i int, n uint8) bool {
	p := &x.Process[i]
	if p.Connected == 0 || p.Status[n] != pending || p.GaveUp>>n&1 == 1 || !x.spend(Voids) {
		return false
	}
	p.GaveUp |= 1 << n
	p.goBack()
	return true
}

// lose ends the connection of a process.
func (x *step) lose(i int) bool {
	if x.Process[i].Connected == 0 || !x.spend(Disconnects) {
		return false
	}
	x.Process[i].disconnect()
	x.trim()
	return true
}

// disconnect ends a node's state of a connection.
func (p *process) disconnect() {
	p.Connected, p.Attachment, p.Applied, p.Stream, p.Out, p.Refuse, p.Leg = 0, 0, 0, 0, 0, 0, leg{}
}

// resume connects a process again: to its own session, or to a session that it takes over (M1 a resume is a move, X4 a
// new instance starts anew). A session that has ended has a certificate.
func (x *step) resume(i int) bool {
	p := &x.Process[i]
	if p.Connected != 0 {
		return false
	}
	if x.Head.Ended != 0 {
		if p.lowest() > p.Next {
			return false
		}
		x.certificate(i)
		return true
	}
	if !x.move(i) {
		return false
	}
	p.Connected, p.Attachment, p.Applied = 1, x.Head.Attachment, x.Logged
	for n := p.lowest(); n <= min(p.Next, x.Head.Floor); n++ {
		p.Status[n] = unknownFate
		x.Say("%d stays unknown", n)
		if x.Ghost.Shared == 0 {
			x.Breaks(I9, "%s gets the answer \"unknown\" for %d, and no other process has had the session", name(i), n)
		}
	}
	if x.Obeys(X4Numbers) {
		p.Next = max(p.Next, x.Head.Applied)
	}
	p.goBack()
	x.Say("attachment %d, applied %d, floor %d", x.Head.Attachment, x.Head.Applied, x.Head.Floor)
	return true
}

// resumeUnheard makes a process resume, and lose the connection before the answer arrives.
func (x *step) resumeUnheard(i int) bool {
	p := &x.Process[i]
	return p.Connected == 0 && x.Head.Ended == 0 && x.Spent[Disconnects] < x.scope.Most[Disconnects] && x.move(i) &&
		x.spend(Disconnects)
}

// move appends a move of the session to a process.
func (x *step) move(i int) bool {
	if int(x.Ghost.Holder) != i {
		if x.Logged == maxLog || !x.spend(TakeOvers) {
			return false
		}
		x.Ghost.Holder, x.Ghost.Shared = uint8(i), 1
		x.log(entry{command: command{Kind: move}})
	}
	x.decide().moved(uint8(i))
	return true
}

// certificate gives a process the outcomes of its writes when the session ended (X9 writes in the certificate).
func (x *step) certificate(i int) {
	p, h := &x.Process[i], &x.Head
	for n := p.lowest(); n <= p.Next; n++ {
		own := int(h.Instance) == i || !x.Obeys(X9Instance)
		above := n > h.Floor || !x.Obeys(X9Floor)
		voided := p.GaveUp>>n&1 == 1 && x.Obeys(X9Void)
		effects := x.Ghost.Effects[i][n]
		switch {
		case p.Status[n] != pending:
		case n > h.Applied:
			p.Status[n] = never
			if effects != 0 {
				x.Breaks(I9, "the certificate says to %s that %d never took effect, and it did", name(i), n)
			}
		case own && above && !voided:
			p.Status[n] = hadEffect
			if effects == 0 {
				x.Breaks(I9, "the certificate says to %s that %d took effect, and it did not", name(i), n)
			}
		default:
			p.Status[n] = unknownFate
		}
	}
	p.disconnect()
}
