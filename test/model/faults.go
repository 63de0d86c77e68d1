package model

// Time and faults. A message that is late, a link that is cut for a while and a node that is slow are no actions:
// whatever is enabled may also not happen until later, or never.

// tick is an interval that passes.
func (x *step) tick(_, _, _ int) bool {
	if x.Now == x.scope.Timeout+x.scope.Ticks {
		return false
	}
	for i := range x.scope.nodes() {
		if x.runs(i) && x.served(i)&x.Node[i].Backlog != 0 {
			return false // what waits in sockets is read within less than an interval
		}
	}
	x.Now++
	for i := range x.scope.nodes() {
		n := &x.Node[i]
		if n.Rest != suspended {
			n.Mono++
		}
		x.advance(i)
	}
	x.say("it is %d", x.Now)
	return true
}

// advance moves a tracker's clock (A1).
func (x *step) advance(l int) {
	n := &x.Node[l]
	t := &n.Tracker
	if t.On == 0 {
		return
	}
	t.InTick = 0
	stands := n.Rest == suspended
	if t.Book == 0 || stands {
		for m := range x.scope.nodes() {
			x.Link[l][m].Idle++
		}
	} else {
		t.Book--
	}
	switch {
	case stands:
	case t.Run > 0:
		t.Run--
		t.Clock++
	case !x.obeys(A1Stands):
		t.Clock++
	case !x.obeys(A1Jump):
		t.Stood++
	}
}

// pause stops a process, by a signal, a starved processor, a hung disk: its machine's clock goes on, its sockets still
// receive.
func (x *step) pause(i, _, _ int) bool {
	if !x.runs(i) || !x.spend(pauses, x.scope.Pauses) {
		return false
	}
	x.Node[i].Rest, x.Node[i].RestedAt = paused, x.Now
	return true
}

// suspend stops a machine together with its monotonic clock.
func (x *step) suspend(i, _, _ int) bool {
	if !x.runs(i) || !x.spend(suspends, x.scope.Suspends) {
		return false
	}
	x.Node[i].Rest, x.Node[i].RestedAt = suspended, x.Now
	return true
}

// wake lets a process go on whose clients were silent meanwhile.
func (x *step) wake(i, _, _ int) bool {
	n := &x.Node[i]
	if n.Rest == runs {
		return false
	}
	if x.stalled(n) {
		x.stall(n)
		x.say("it stalled for %d", x.Now-n.RestedAt)
	}
	if n.Rest == suspended && x.stalled(n) {
		x.voidPromises(i)
	}
	n.Rest, n.RestedAt = runs, 0
	return true
}

// voidPromises is S5: nothing that was heard before the machine was suspended is a ground for a promise.
func (x *step) voidPromises(i int) {
	n := &x.Node[i]
	if x.obeys(S5) {
		n.Confirmed = [maxSessions]heard{}
	} else {
		for s := range x.scope.sessions() {
			x.promise(i, s)
		}
	}
	if !x.obeys(S5Pending) {
		return
	}
	for s := range x.scope.sessions() {
		n.Request[s].Void, n.Table[s].Void = 1, 1
		if one := &n.Local[s]; one.On == 1 {
			one.Old, one.Void = 1, one.Flight
		}
	}
	for l := range x.scope.nodes() {
		k := &x.Link[l][i]
		k.Sent, k.Left = [maxAnswers][maxSessions]heard{}, [maxSessions]heard{}
		for s := range k.Wire.Touch {
			k.Wire.Touch[s].Void |= k.Wire.Touch[s].Has
		}
	}
}

// wakeTouched lets a process go on whose clients have sent keep-alives all the while: those wait in its sockets (E1).
func (x *step) wakeTouched(i, _, _ int) bool {
	n := &x.Node[i]
	if !x.stalled(n) || x.served(i) == 0 {
		return false
	}
	x.wake(i, 0, 0)
	n.Backlog = x.served(i)
	for s := range x.scope.sessions() {
		if n.Backlog&(1<<s) != 0 && n.Local[s].On == 1 {
			n.Local[s].Real = x.Now
		} else if n.Backlog&(1<<s) != 0 && n.FSM.Session[s].Attachment == x.Truth.FSM.Session[s].Attachment {
			x.Truth.Session[s].Touched = x.Now
		}
	}
	return true
}

// stalled says whether a node that rests will notice it: a stall longer than an interval, a suspension by the wall
// clock.
func (x *step) stalled(n *node) bool {
	return n.Rest == paused && x.Now-n.RestedAt > 1 || n.Rest == suspended && x.Now > n.RestedAt
}

// served is the set of sessions that the node serves through their newest connection, as far as it knows.
func (x *step) served(i int) uint8 {
	n, set := &x.Node[i], uint8(0)
	for s := range x.scope.sessions() {
		if mine := n.FSM.Session[s]; mine.Alive == 1 && int(mine.Owner) == i && n.Conns[s]&(1<<mine.Attachment) != 0 {
			set |= 1 << s
		} else if n.Local[s].On == 1 {
			set |= 1 << s
		}
	}
	return set
}

// restart ends a process, which may be paused, and starts it again with its disk: term, vote and log.
func (x *step) restart(i, _, _ int) bool {
	n := &x.Node[i]
	if !x.spend(restarts, x.scope.Restarts) {
		return false
	}
	x.stopTracker(i)
	for l := range x.scope.nodes() {
		k := &x.Link[l][i]
		if k.Wire.Kind == taking {
			k.Wire = message{}
		}
		k.endAtRelay()
	}
	if n.Rest == suspended {
		n.Mono = x.Now
	}
	*n = node{
		Term: n.Term, Voted: n.Voted, Mono: n.Mono, Vouch: n.Mono, Started: n.Mono, Incarnation: n.Incarnation + 1,
		Len: n.Len, Log: n.Log,
	}
	return true
}
