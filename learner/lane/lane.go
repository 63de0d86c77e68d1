package lane

import (
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Writes is the node's queue of writes (X7). A lane calls it while it is driven; it must not call the lane.
type Writes interface {
	// Accept takes a write, whose turn to be sent to the leader has come: all earlier reads of its session have been
	// served (G3). An error refuses it, and is answered in its turn.
	Accept(w *Write) error
	// Refused says that the node has refused a write for a reason of its own, in the write's turn (X8).
	Refused(w *Write)
	// Repeated says that a write was answered from its kept result, because its number was taken before.
	Repeated(w *Write)
	// Skipped says that a lane has gone on without seeing the results of a session's writes. The lane has answered those
	// with the numbers up to applied from kept results. The others are to be sent again (W4).
	Skipped(id session.ID, attachment, applied uint64)
}

// Shared is what the lanes of a node share.
type Shared struct {
	Hub    *Hub
	Writes Writes
	Rooms
}

// Lane serves some of a node's connections. It is driven by calls, one at a time. After each, its owner carries out
// what [Lane.Work] returns.
type Lane struct {
	node   Shared
	limits Limits
	table  *watch.Table[*Conn]
	wake   func()
	// shown is the lane's state. stamp is that of its tree, for the writers of connections.
	shown Published
	stamp atomic.Uint64
	// refuse is why the node answers no read that does not allow old answers; nil if it does (G6).
	refuse error

	sessions map[attached]*order
	// due are requests that wait for an index. starving are the connections with requests that wait for room (G9).
	due      dueHeap
	starving map[*Conn]struct{}
	// roomy says that a connection has room again, rooms how often the node had when the lane looked last.
	roomy atomic.Bool
	rooms uint64
	// marked are orders to look at once the pass has ended.
	marked []*order
	ends   endings
	work   []Job
	news   map[*Conn]struct{} // connections whose writers have something to do
}

// New returns a lane without connections, which shows what the hub shows. wake makes the lane's owner call Pass soon.
// It may be called from any goroutine, and must return at once.
func New(shared Shared, limits Limits, wake func()) *Lane {
	now := *shared.Hub.shown.Load()
	l := &Lane{
		node: shared, limits: limits, table: watch.NewTable[*Conn](limits.Watches, now.Index), wake: wake,
		shown: now, sessions: map[attached]*order{}, news: map[*Conn]struct{}{}, starving: map[*Conn]struct{}{},
	}
	l.stamp.Store(uint64(watch.End(now.Index)))
	shared.Hub.onPublish(wake)
	return l
}

// Open adds a connection. notify tells its writer that there may be something to send; it is called without locks, must
// return at once, and must not use the lane. principals judge what the connection may see; they must not be modified.
func (l *Lane) Open(principals []tree.Principal, notify func()) *Conn {
	c := &Conn{
		lane: l, notify: notify, principals: principals, orders: map[attached]*order{}, loose: map[*Pending]struct{}{},
		shares: l.node.open(tree.ShareOf(principals)), outbox: outbox{feed: watch.NewFeed[Message](l.limits.Feed)},
	}
	c.watcher = l.table.Open(c, principals, c.shares.watches)
	return c
}

// SetPrincipals replaces those that a connection's requests and events are judged by, from now on.
func (c *Conn) SetPrincipals(principals []tree.Principal) {
	c.principals = principals
	c.watcher.SetPrincipals(principals)
}

// Close removes a connection with its watches, and forgets its requests. The writes among them may take effect.
func (l *Lane) Close(c *Conn) {
	if c.closed {
		return
	}
	c.closed = true
	l.table.Close(c.watcher)
	c.watching()
	for _, o := range c.orders {
		for len(o.items) > 0 {
			p := o.items[0]
			if o.remove(l, 0); p.kind == marking {
				p.passed()
			}
		}
		o.forget(l)
	}
	for p := range c.loose {
		l.done(p)
	}
	c.freed()
	c.mu.Lock()
	room := c.settle(-c.unsent)
	c.gone, c.given = true, 0
	c.mu.Unlock()
	c.shares.close()
	delete(l.news, c)
	delete(l.starving, c)
	c.blocked = nil
	room.tell(l)
}

// Attach lets a connection make requests for a session under an attachment. index is that of the entry that made the
// attachment: requests of the session wait until the lane shows it (G5). An attachment is served by one connection.
func (l *Lane) Attach(c *Conn, id session.ID, attachment, index uint64) {
	a := attached{id, attachment}
	if c.closed || c.orders[a] != nil {
		return
	}
	for former := l.sessions[a]; former != nil; former = former.next {
		if !former.guest { // the client has a new connection, and the old one is not closed yet
			former.end(l, func() error { return session.ErrMoved })
			break
		}
	}
	(&order{conn: c, of: a, from: index}).attach(l)
}

// AttachGuest is Attach for a connection that makes single requests beside the one that serves the attachment. It hears
// of a number that another connection asks for too.
func (l *Lane) AttachGuest(c *Conn, id session.ID, attachment, index uint64) {
	if a := (attached{id, attachment}); !c.closed && c.orders[a] == nil {
		(&order{conn: c, of: a, from: index, guest: true}).attach(l)
	}
}

func (o *order) attach(l *Lane) {
	o.next = l.sessions[o.of]
	o.conn.orders[o.of], l.sessions[o.of] = o, o
	// The result of an entry that the hub has looked through before is in no ring: the lane shows it first (I18).
	o.from = max(o.from, l.node.Hub.serve(o.of, 1))
}

// Attached reports whether a connection may make requests for a session under an attachment.
func (c *Conn) Attached(id session.ID, attachment uint64) bool {
	return c.orders[attached{id, attachment}] != nil
}

// SetStanding says why the node answers no read that does not allow old answers: session.ErrReadOnly,
// session.ErrNoLeader or session.ErrLagging; nil if it answers them (G6).
func (l *Lane) SetStanding(refuse error) { l.refuse = refuse }

// Watches returns how many watches the lane's connections have. Safe for concurrent use.
func (l *Lane) Watches() int { return l.table.Watches() }

// Index returns the index of the lane's tree.
func (l *Lane) Index() uint64 { return l.table.Index() }

// Work returns what is left to do after the calls since: reads whose answers have to be filled, in any order and from
// any goroutines, each once. It also notifies the writers of connections.
func (l *Lane) Work() []Job {
	for c := range l.news {
		c.notify()
	}
	clear(l.news)
	work := l.work
	l.work = nil
	return work
}

// Tick ends the waits that are over, with session.ErrLagging, and wakes the writers of connections with watches, which
// may be due to hear the lane's stamp (V5). It is called each second or more often.
func (l *Lane) Tick(now time.Time) {
	for _, p := range l.due.late(now) {
		l.giveUp(p, session.ErrLagging)
	}
	l.table.Each(func(c *watch.Connection[*Conn]) {
		if c.Owner.watching(); c.Watches() > 0 && c.Owner.quiet(now) {
			c.Owner.touched()
		}
	})
}
