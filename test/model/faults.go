package model

// Time and faults. A late message, a link that is cut for a while and a slow node are no actions: whatever is possible
// may also not happen until later, or never.

// tick lets an interval pass.
func (x *step) tick() bool {
	if x.Now == x.scope.Timeout+x.scope.Ticks {
		return false
	}
	for i := range x.scope.nodes() {
		if v := x.serving(i); v.runs() && v.served()&v.Process.Backlog != 0 {
			return false // messages in sockets are read within less than an interval
		}
	}
	x.Now++
	for i := range x.scope.nodes() {
		x.running(i).tick()
	}
	x.Say("it is %d", x.Now)
	return true
}

// running is a node's process.
type running struct{ at }

func (x *step) running(i int) running { return running{x.at(i)} }

// tick moves the node's clocks (A1 accountable clock).
func (r running) tick() {
	clockStopped := r.Process.Rest == suspended
	if !clockStopped {
		r.Process.Mono++
	}
	t := &r.Tracker
	if t.On == 0 {
		return
	}
	t.InTick = 0
	if t.Clock.Book == 0 || clockStopped {
		for m := range r.scope.nodes() {
			r.Link[r.id][m].Member.Idle++
		}
	} else {
		t.Clock.Book--
	}
	if !clockStopped {
		t.Clock.tick(&r.protocol)
	}
}

// pause stops a process, by a signal, a starved processor or a hung disk. Its machine's clock continues, and its
// sockets still receive.
func (r running) pause() bool {
	if !r.runs() || !r.spend(Pauses) {
		return false
	}
	r.Process.Rest, r.Process.RestedAt = paused, r.Now
	return true
}

// suspend stops a machine together with its monotonic clock.
func (r running) suspend() bool {
	if !r.runs() || !r.spend(Suspends) {
		return false
	}
	r.Process.Rest, r.Process.RestedAt = suspended, r.Now
	return true
}

// wake continues a process. Its clients were silent meanwhile.
func (r running) wake() bool {
	p := &r.Process
	if p.Rest == runs {
		return false
	}
	if p.stalled(r.Now) {
		p.stall(r.Now, r.grace())
		r.Say("it stalled for %d", r.Now-p.RestedAt)
		if p.Rest == suspended {
			r.serving(r.id).voidPromises()
		}
	}
	p.Rest, p.RestedAt = runs, 0
	return true
}

// wakeTouched continues a process whose clients have sent keep-alives all the while. The keep-alives wait in its
// sockets (E1 full timeout after a change of leader).
func (r running) wakeTouched() bool {
	v := r.serving(r.id)
	if !r.Process.stalled(r.Now) || v.served() == 0 {
		return false
	}
	r.wake()
	v.receiveBacklog()
	return true
}

// restart ends a process, which may be paused, and restarts it with its disk: term, vote and log.
func (r running) restart() bool {
	if !r.spend(Restarts) {
		return false
	}
	r.tracking(r.id).stop()
	for l := range r.scope.nodes() {
		k := &r.Link[l][r.id]
		if k.Wire.Kind == reading {
			k.Wire = message{}
		}
		k.endAtRelay()
	}
	p := &r.Process
	if p.Rest == suspended {
		p.Mono = r.Now
	}
	*r.node = node{
		Raft:    raft{Term: r.Raft.Term, Voted: r.Raft.Voted, Len: r.Raft.Len, Log: r.Raft.Log},
		Process: process{Mono: p.Mono, Vouch: p.Mono, Started: p.Mono, Incarnation: p.Incarnation + 1},
	}
	return true
}
