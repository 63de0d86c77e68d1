package dispatch

import (
	"sync/atomic"
	"time"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Writes is the node's pending table (X7 queue of the node). A dispatcher calls it while it is driven; it must not call
// the dispatcher.
type Writes interface {
	// Accept puts a write into the pending table: its turn has come, and all earlier reads of its session have been
	// served, or the write has ReadsBefore (G3 order in a session). An error refuses the write, and is answered in its
	// turn.
	Accept(w *pending.Write) error
	// Refused is called when the node has refused a write for a reason of its own, in the write's turn (X8 admission of
	// writes).
	Refused(w *pending.Write)
	// Repeated is called when a write was answered from its kept result, because its number was used before.
	Repeated(w *pending.Write)
}

// Shared has the parts that the dispatchers of a node share.
type Shared struct {
	Hub    *Hub
	Writes Writes
	Budgets
}

// Dispatcher serves some of a node's connections. Its owner drives it by calls, one at a time, and after each call
// carries out the jobs that [Dispatcher.Work] returns.
type Dispatcher struct {
	node   Shared
	limits Limits
	table  *watch.Table[*Conn]
	wake   func()
	// shown is the dispatcher's state. stamp is the stamp of its tree, for the writers of connections.
	shown State
	stamp atomic.Uint64
	// clock is the log clock of the newest state, also during the pass to that state.
	clock time.Duration
	// refuse is why the node answers no read that requires fresh data; nil if it does (G6 stale nodes refuse).
	refuse error

	sessions map[attached]*sessionQueue
	// due are requests that wait for an index. starving are the connections with requests that wait for memory (G9
	// answer bounds).
	due      waitingHeap
	starving map[*Conn]struct{}
	// unblocked says that a connection's reads may run again. freed is the hub's count of such events for the whole
	// node, at the dispatcher's last check.
	unblocked atomic.Bool
	freed     uint64
	// toAdvance are the session queues to advance once the pass has ended.
	toAdvance    []*sessionQueue
	detached     detachments
	work         []Job
	changedConns map[*Conn]struct{} // connections whose writers have new items
}

// New returns a dispatcher without connections, which shows the hub's state. wake makes the dispatcher's owner call
// Pass soon. Any goroutine may call wake, and it must return at once.
func New(shared Shared, limits Limits, wake func()) *Dispatcher {
	now := *shared.Hub.shown.Load()
	d := &Dispatcher{
		node: shared, limits: limits, table: watch.NewTable[*Conn](limits.Watches, now.Index), wake: wake,
		shown: now, clock: now.Clock, sessions: map[attached]*sessionQueue{}, changedConns: map[*Conn]struct{}{},
		starving: map[*Conn]struct{}{},
	}
	d.stamp.Store(uint64(watch.End(now.Index)))
	shared.Hub.register(d)
	return d
}

// Open adds a connection. notify informs its writer of possible new items. The dispatcher calls notify without locks;
// notify must return at once and not use the dispatcher. principals decide what the connection may see; they must not
// be modified.
func (d *Dispatcher) Open(principals []tree.Principal, notify func()) *Conn {
	c := &Conn{
		dispatcher: d, notify: notify, principals: principals, queues: map[attached]*sessionQueue{},
		sessionless: map[*Request]struct{}{},
		shares:      d.node.open(tree.ShareOf(principals)), outbox: outbox{feed: watch.NewFeed[Message](d.limits.Feed)},
	}
	c.watcher = d.table.Open(c, principals, c.shares.watches)
	return c
}

// SetPrincipals replaces the principals that decide about a connection's requests and events.
func (c *Conn) SetPrincipals(principals []tree.Principal) {
	c.principals = principals
	c.watcher.SetPrincipals(principals)
}

// Close removes a connection with its watches and requests. Writes of the connection may still take effect.
func (d *Dispatcher) Close(c *Conn) {
	if c.closed {
		return
	}
	c.closed = true
	d.table.Close(c.watcher)
	c.countWatches()
	for _, o := range c.queues {
		for len(o.items) > 0 {
			p := o.items[0]
			if o.remove(d, 0); p.kind == barrier {
				p.passed()
			}
		}
		o.forget(d)
	}
	for p := range c.sessionless {
		d.done(p)
	}
	c.freed()
	c.mu.Lock()
	freed := c.changeUnsent(-c.unsent)
	c.gone, c.inFlight = true, 0
	c.mu.Unlock()
	c.shares.close()
	delete(d.changedConns, c)
	delete(d.starving, c)
	c.blocked = nil
	freed.notify(d)
}

// Attach permits a connection to make requests for a session under an attachment. index is the index of the entry that
// made the attachment: requests of the session wait until the dispatcher shows it (G5 linearizable reads). One
// connection serves an attachment.
func (d *Dispatcher) Attach(c *Conn, id session.ID, attachment, index uint64) {
	a := attached{id, attachment}
	if c.closed || c.queues[a] != nil {
		return
	}
	for former := d.sessions[a]; former != nil; former = former.next {
		if !former.guest { // the client has a new connection, and the old one is not closed yet
			former.end(d, func(*Request) error { return session.ErrMoved })
			break
		}
	}
	(&sessionQueue{conn: c, of: a, from: index}).attach(d)
}

// AttachGuest is Attach for a connection that makes single requests while another connection serves the attachment. If
// both write under the same number, both get the answer.
func (d *Dispatcher) AttachGuest(c *Conn, id session.ID, attachment, index uint64) {
	if a := (attached{id, attachment}); !c.closed && c.queues[a] == nil {
		(&sessionQueue{conn: c, of: a, from: index, guest: true}).attach(d)
	}
}

func (o *sessionQueue) attach(d *Dispatcher) {
	o.next = d.sessions[o.of]
	o.conn.queues[o.of], d.sessions[o.of] = o, o
	// The results of an entry that the hub has already filtered may be missing in the ring, so requests wait until the
	// dispatcher shows that entry (I18 an answer).
	o.from = max(o.from, d.node.Hub.serve(o.of, 1))
}

// Attached reports whether a connection may make requests for a session under an attachment.
func (c *Conn) Attached(id session.ID, attachment uint64) bool {
	return c.queues[attached{id, attachment}] != nil
}

// SetReadError sets why the node answers no read that requires fresh data: session.ErrReadOnly, session.ErrNoLeader or
// session.ErrLagging; nil if it answers them (G6).
func (d *Dispatcher) SetReadError(refuse error) { d.refuse = refuse }

// Watches returns the number of watches of the dispatcher's connections. Safe for concurrent use.
func (d *Dispatcher) Watches() int { return d.table.Watches() }

// Index returns the index of the dispatcher's tree.
func (d *Dispatcher) Index() uint64 { return d.table.Index() }

// Work returns the jobs from the calls since the last Work: reads whose answers must be filled, in any order and from
// any goroutines, each once. It also notifies the writers of connections.
func (d *Dispatcher) Work() []Job {
	for c := range d.changedConns {
		c.notify()
	}
	clear(d.changedConns)
	work := d.work
	d.work = nil
	return work
}

// Tick ends expired waits with session.ErrLagging, and wakes the writers of connections with watches that may be due
// for the dispatcher's stamp (V5 stamps for idle watchers). Call it each second or more often.
func (d *Dispatcher) Tick(now time.Time) {
	for _, p := range d.due.late(now) {
		d.fail(p, session.ErrLagging)
	}
	d.table.Each(func(c *watch.Connection[*Conn]) {
		if c.Owner.countWatches(); c.Watches() > 0 && c.Owner.quiet(now) {
			c.Owner.changed()
		}
	})
}
