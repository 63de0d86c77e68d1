package watch

// The actions of the client, as client/internal/core has them.

// connect connects the client to a node, which serves its session.
func (x sdk) connect(n int) bool {
	if x.Conn.Node != 0 {
		return false
	}
	x.Conn = connection{Node: uint8(n + 1), AttachedAt: x.Node[n].Published}
	x.Client.On = 0
	if x.Client.Out != 0 {
		x.Client.Read, x.Client.Out = x.Client.Out, 0
	}
	x.sendPending()
	return true
}

// lose ends the connection.
func (x sdk) lose() bool {
	if x.Conn.Node == 0 || !x.spend(Disconnects) {
		return false
	}
	x.disconnect()
	return true
}

// disconnect ends the connection. Undelivered events are lost.
func (x sdk) disconnect() {
	x.Conn, x.Client.On, x.Client.CatchUp, x.Client.Adding = connection{}, 0, 0, 0
}

// watch begins a lasting watch.
func (x sdk) watch(w int) bool {
	e := &x.Client.Watch[w]
	if e.wanted() || x.scope.Watches>>w&1 == 0 || !x.spend(Begun) {
		return false
	}
	e.New, e.Queued = 1, 1
	x.sendPending()
	return true
}

// drop ends a lasting watch.
func (x sdk) drop(w int) bool {
	e := &x.Client.Watch[w]
	if !e.wanted() || !x.spend(Dropped) {
		return false
	}
	if at := e.Placed|e.Pending == 1 && x.Conn.Node != 0 && x.Client.On == 1; at {
		x.Conn.Watching &^= 1 << w
	}
	x.forget(w)
	x.sendPending()
	return true
}

// read reads A or the children of the root, with a one-shot.
func (x sdk) read(w int) bool {
	c := &x.Client
	if c.Read != 0 || c.Out != 0 || x.scope.Watches>>w&1 == 0 || x.reads(w) || !x.spend(Read) {
		return false
	}
	c.Read = uint8(w + 1)
	x.sendPending()
	return true
}

// reads reports whether the client has a one-shot of the kind that a read may set.
func (x sdk) reads(w int) bool {
	all := &x.Client.Watch
	return all[w].wanted() || w == watchData && all[watchExists].wanted()
}

// write changes the tree.
func (x sdk) write() bool {
	if x.scope.Shapes>>ownA&1 == 0 || x.Client.Write != 0 {
		return false
	}
	x.Client.Write = calling
	x.sendPending()
	return true
}

// sendPending sends all messages that may go out now.
func (x sdk) sendPending() {
	c := &x.Client
	if x.Conn.Node == 0 {
		return
	}
	if x.someWanted() {
		x.sendQuestions()
	}
	if c.Read != 0 && (!x.waits() || !x.Obeys(I13Reads)) {
		x.Conn.Read = question{Watches: 1 << (c.Read - 1), Seen: c.Seen}
		c.Read, c.Out = 0, c.Read
	}
	if c.Write == calling && x.Conn.Sent == 0 && (!x.waits() || !x.Obeys(I13Writes)) {
		x.Conn.Write, x.Conn.Sent = arrived, 1
	}
}

func (x sdk) someWanted() bool {
	for w := range x.Client.Watch {
		if x.Client.Watch[w].wanted() {
			return true
		}
	}
	return false
}

// catchingUp counts the watches with events due from a former connection.
func (x sdk) catchingUp() (n int) {
	for w := range x.Client.Watch {
		n += int(x.Client.Watch[w].CatchingUp)
	}
	return n
}

// waits reports whether events that a former connection has missed may still come: also for a watch that has ended
// since.
func (x sdk) waits() bool { return x.catchingUp() > 0 || x.Client.CatchUp != 0 && x.Obeys(V4Ended) }

// sendQuestions asks the node for the missing watches: one question of each kind at a time.
func (x sdk) sendQuestions() {
	c := &x.Client
	if c.On == 0 {
		x.moveTo()
	}
	if c.CatchUp == 0 {
		if all := x.nextQuestion(catchUp); all != 0 {
			c.CatchUp = all | out
			since := c.Since
			if !x.Obeys(V4Since) {
				since = c.Seen
			}
			x.mix()
			x.Conn.Add[catchUp] = question{Watches: all, Since: since, Seen: c.Seen}
		}
	}
	if c.Adding == 0 && (!x.waits() || !x.Obeys(V4First)) {
		if all := x.nextQuestion(newWatches); all != 0 {
			c.Adding = all | out
			x.Conn.Add[newWatches] = question{Watches: all, Seen: c.Seen}
		}
	}
}

// moveTo restarts the watches on a connection.
func (x sdk) moveTo() {
	c := &x.Client
	c.On, c.Pending, c.Live, c.CatchUp, c.Adding = 1, 0, 0, 0, 0
	for w := range c.Watch {
		e := &c.Watch[w]
		if !e.wanted() {
			continue
		}
		e.CatchingUp |= e.Placed
		e.Queued, e.Placed, e.Pending = 1, 0, 0
		e.Replay, e.Replays = [maxReplay]event{}, 0
	}
}

// nextQuestion removes the next question of a kind from the queue.
func (x sdk) nextQuestion(which uint8) (all kinds) {
	n := uint8(0)
	for w := range x.Client.Watch {
		e := &x.Client.Watch[w]
		if e.Queued == 1 && (e.CatchingUp == 1) == (which == catchUp) && n < x.scope.Batch {
			e.Queued, e.Pending, e.Mixed = 0, 1, 0
			all |= 1 << w
			n++
		}
	}
	return all
}

// mix records that due events arrive mixed with events of placed watches.
func (x sdk) mix() {
	for w := range x.Client.Watch {
		if e := &x.Client.Watch[w]; x.Client.Live == 1 && e.CatchingUp == 1 {
			e.Mixed = 1
		}
	}
}

// forget removes a watch.
func (x sdk) forget(w int) {
	c := &x.Client
	x.caughtUp(w)
	c.Watch[w] = watched{}
	c.CatchUp, c.Adding = c.CatchUp&^(1<<w), c.Adding&^(1<<w)
	if !x.someWanted() {
		c.Since, c.Pending = 0, 0
	}
}

// caughtUp records that a watch has received everything due from a former connection.
func (x sdk) caughtUp(w int) {
	c := &x.Client
	if c.Watch[w].CatchingUp == 0 {
		return
	}
	if c.Watch[w].CatchingUp = 0; x.catchingUp() == 0 {
		c.Since = max(c.Since, c.Pending)
	}
}

// beside lets a node answer a read of A with a one-shot through another connection of the client.
func (x sdk) beside(n int) bool {
	c := &x.Client
	if x.Obeys(V4Beside) || x.Conn.Node == 0 || x.Conn.on(n) || c.Seen.index() > x.Node[n].Dispatched {
		return false
	}
	if c.Beside|c.Read|c.Out != 0 || x.reads(watchData) || !x.spend(Besides) {
		return false
	}
	c.Beside = 1 + x.Node[n].Dispatched
	return true
}

// receiveBeside processes the answer through the other connection.
func (x sdk) receiveBeside() bool {
	c := &x.Client
	if c.Beside == 0 {
		return false
	}
	index := c.Beside - 1
	c.Beside = 0
	x.saw(end(index))
	e := x.watchSet(1<<watchData, index, end(index))
	e.CatchingUp, e.Queued = 1, 1 // the client requests it here
	x.sendPending()
	return true
}

// saw records a stamp that a node has reported.
func (x sdk) saw(s stamp) { x.Client.Seen = max(x.Client.Seen, s) }

// deliveredUpTo records a node's notice that it has delivered all events up to a stamp (V5 stamps for idle watchers).
func (x sdk) deliveredUpTo(s stamp) {
	if s == 0 {
		return
	}
	x.saw(s)
	c := &x.Client
	switch {
	case c.On == 0:
	case x.catchingUp() > 0 && x.Obeys(V4Former):
		c.Pending = max(c.Pending, s)
	case c.Since > 0:
		c.Since = max(c.Since, s)
	}
}
