package watch

// The actions of the client, as client/internal/core has them.

// connect connects the client to a node, which serves its session.
func (x sdk) connect(n int) bool {
	if x.Conn.Node != 0 {
		return false
	}
	x.Conn = connection{Node: uint8(n + 1), Looked: x.Node[n].Published}
	x.Client.On = 0
	if x.Client.Out != 0 {
		x.Client.Read, x.Client.Out = x.Client.Out, 0
	}
	x.tend()
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
	x.Conn, x.Client.On, x.Client.Back, x.Client.News = connection{}, 0, 0, 0
}

// watch begins a lasting watch.
func (x sdk) watch(w int) bool {
	e := &x.Client.Watch[w]
	if e.wanted() || x.scope.Watches>>w&1 == 0 || !x.spend(Begun) {
		return false
	}
	e.New, e.Queued = 1, 1
	x.tend()
	return true
}

// drop ends a lasting watch.
func (x sdk) drop(w int) bool {
	e := &x.Client.Watch[w]
	if !e.wanted() || !x.spend(Dropped) {
		return false
	}
	if at := e.Placed|e.Asking == 1 && x.Conn.Node != 0 && x.Client.On == 1; at {
		x.Conn.Watching &^= 1 << w
	}
	x.forget(w)
	x.tend()
	return true
}

// read reads A or the children of the root, with a one-shot.
func (x sdk) read(w int) bool {
	c := &x.Client
	if c.Read != 0 || c.Out != 0 || x.scope.Watches>>w&1 == 0 || x.reads(w) || !x.spend(Read) {
		return false
	}
	c.Read = uint8(w + 1)
	x.tend()
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
	x.tend()
	return true
}

// tend sends all messages that may go out now.
func (x sdk) tend() {
	c := &x.Client
	if x.Conn.Node == 0 {
		return
	}
	if x.someWanted() {
		x.tendWatches()
	}
	if c.Read != 0 && (!x.waits() || !x.Obeys(I13Reads)) {
		x.Conn.Read = question{Asked: 1 << (c.Read - 1), Seen: c.Seen}
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

// owing counts the watches with events due from a former connection.
func (x sdk) owing() (n int) {
	for w := range x.Client.Watch {
		n += int(x.Client.Watch[w].Owed)
	}
	return n
}

// waits reports whether events that a former connection has missed may still come: also for a watch that has ended
// since.
func (x sdk) waits() bool { return x.owing() > 0 || x.Client.Back != 0 && x.Obeys(V4Ended) }

// tendWatches asks the node for the missing watches: one question of each kind at a time.
func (x sdk) tendWatches() {
	c := &x.Client
	if c.On == 0 {
		x.moveTo()
	}
	if c.Back == 0 {
		if all := x.ask(owed); all != 0 {
			c.Back = all | out
			since := c.Told
			if !x.Obeys(V4Since) {
				since = c.Seen
			}
			x.mix()
			x.Conn.Add[owed] = question{Asked: all, Since: since, Seen: c.Seen}
		}
	}
	if c.News == 0 && (!x.waits() || !x.Obeys(V4First)) {
		if all := x.ask(fresh); all != 0 {
			c.News = all | out
			x.Conn.Add[fresh] = question{Asked: all, Seen: c.Seen}
		}
	}
}

// moveTo restarts the watches on a connection.
func (x sdk) moveTo() {
	c := &x.Client
	c.On, c.Pending, c.Live, c.Back, c.News = 1, 0, 0, 0, 0
	for w := range c.Watch {
		e := &c.Watch[w]
		if !e.wanted() {
			continue
		}
		e.Owed |= e.Placed
		e.Queued, e.Placed, e.Asking = 1, 0, 0
		e.Replay, e.Replays = [maxReplay]event{}, 0
	}
}

// ask removes the next question of a kind from the queue.
func (x sdk) ask(which uint8) (all kinds) {
	n := uint8(0)
	for w := range x.Client.Watch {
		e := &x.Client.Watch[w]
		if e.Queued == 1 && (e.Owed == 1) == (which == owed) && n < x.scope.Ask {
			e.Queued, e.Asking, e.Mixed = 0, 1, 0
			all |= 1 << w
			n++
		}
	}
	return all
}

// mix records that due events arrive mixed with events of placed watches.
func (x sdk) mix() {
	for w := range x.Client.Watch {
		if e := &x.Client.Watch[w]; x.Client.Live == 1 && e.Owed == 1 {
			e.Mixed = 1
		}
	}
}

// forget removes a watch.
func (x sdk) forget(w int) {
	c := &x.Client
	x.settled(w)
	c.Watch[w] = watched{}
	c.Back, c.News = c.Back&^(1<<w), c.News&^(1<<w)
	if !x.someWanted() {
		c.Told, c.Pending = 0, 0
	}
}

// settled records that a watch has received everything due from a former connection.
func (x sdk) settled(w int) {
	c := &x.Client
	if c.Watch[w].Owed == 0 {
		return
	}
	if c.Watch[w].Owed = 0; x.owing() == 0 {
		c.Told = max(c.Told, c.Pending)
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

// takeBeside processes the answer through the other connection.
func (x sdk) takeBeside() bool {
	c := &x.Client
	if c.Beside == 0 {
		return false
	}
	index := c.Beside - 1
	c.Beside = 0
	x.saw(end(index))
	e := x.watchSet(1<<watchData, index, end(index))
	e.Owed, e.Queued = 1, 1 // the client asks for it here
	x.tend()
	return true
}

// saw records a stamp that a node has reported.
func (x sdk) saw(s stamp) { x.Client.Seen = max(x.Client.Seen, s) }

// toldUpTo records a node's notice that it has delivered all events up to a stamp (V5 stamps for idle watchers).
func (x sdk) toldUpTo(s stamp) {
	if s == 0 {
		return
	}
	x.saw(s)
	c := &x.Client
	switch {
	case c.On == 0:
	case x.owing() > 0 && x.Obeys(V4Former):
		c.Pending = max(c.Pending, s)
	case c.Told > 0:
		c.Told = max(c.Told, s)
	}
}
