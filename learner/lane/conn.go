package lane

import (
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Conn is a connection as its lane sees it: what it waits for, and what is unsent to it. Its lane adds, and its writer
// takes with Next. Only Next, Unsent, Watches, Stuck and Crowded are safe for concurrent use; all else is the lane's.
type Conn struct {
	lane    *Lane
	watcher *watch.Connection[*Conn]
	// notify tells the connection's writer to look again. It must return at once, and must not use the lane.
	notify     func()
	principals []tree.Principal
	shares     shares
	orders     map[attached]*order
	loose      map[*Pending]struct{} // requests without a session
	requests   int
	queued     int // bytes of requests
	unholding  bool
	// crowded says that the connection may take no requests now. Only the one that asks for them makes it so.
	crowded atomic.Bool
	// place is closed when there is a place for a request again; nil while nobody waits.
	place chan struct{}
	// blocked are requests that wait for room, in their order. Some may be answered.
	blocked []*Pending
	closed  bool
	// watches is how many there are, as of the last second.
	watches atomic.Int32
	outbox
}

// outbox is what is unsent to a connection.
type outbox struct {
	mu   sync.Mutex
	feed *watch.Feed[Message] // guarded by mu
	// unsent is what the answers take that are unsent. given of that is what Next gave out last: its writer sends that
	// before it looks again. starved says that a read waits for room. guarded by mu
	unsent, given int
	starved       bool
	// took is when the writer last looked, or when Stuck first saw that it had something to take. guarded by mu
	took time.Time
	// gave is when Next last had something. gone says that the connection is closed. guarded by mu
	gave time.Time
	gone bool
}

// Sent is the next thing to send to a connection.
type Sent struct {
	watch.Sent[Message]
	// Quiet says that there is nothing but Told: a connection with watches has heard nothing for a second (V5).
	Quiet bool
}

// Next takes the next thing to send out of the connection; false if there is none now. What is behind an answer that
// has not been filled waits for it (G2).
func (c *Conn) Next(now time.Time) (Sent, bool) {
	stamp := tree.Stamp(c.lane.stamp.Load())
	c.mu.Lock()
	if c.took = now; c.gone {
		c.mu.Unlock()
		return Sent{}, false
	}
	freed := c.settle(-c.given)
	s, ok := c.next(now, stamp)
	c.mu.Unlock()
	freed.tell(c.lane)
	return s, ok
}

// next is Next once what was given out before counts no more. Called with mu held.
func (c *Conn) next(now time.Time, stamp tree.Stamp) (Sent, bool) {
	c.given = 0
	s, ok := c.feed.Next(now, stamp, func(m Message) bool { return m.Answer == nil || m.Answer.filled })
	if !ok {
		if c.watches.Load() == 0 {
			return Sent{}, false
		}
		told, due := c.feed.Due(now, stamp)
		if due {
			c.gave = now
		}
		return Sent{Sent: watch.Sent[Message]{Told: told}, Quiet: true}, due
	}
	c.gave = now
	switch a := s.Value.Answer; {
	case a != nil:
		c.given = a.bytes
	case s.Value.Once:
		c.given = eventBytes + len(s.Value.Event.Path)
	}
	return Sent{Sent: s}, true
}

// room says for whom there is room again (G9).
type room struct{ connection, node bool }

// settle changes what is unsent, and returns for whom there is room again. Called with mu held.
func (c *Conn) settle(change int) (r room) {
	c.unsent += change
	r.node = c.shares.unsent.Add(change)
	if c.starved && c.unsent < c.lane.limits.Unsent && c.shares.unsent.Left() >= c.wantsLeft() {
		c.starved, r.connection = false, true
	}
	return r
}

// tellRoom wakes the lanes that have reads which may run now. Any goroutine may call it, without locks.
func (r room) tell(l *Lane) {
	if r.connection {
		l.roomy.Store(true)
		l.wake()
	}
	if r.node {
		l.node.Hub.rooms.Add(1)
		l.node.Hub.Wake()
	}
}

// quiet reports whether the connection has been given nothing for a while (V5).
func (c *Conn) quiet(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.gave) >= watch.QuietAfter && c.feed.Len() == 0 &&
		c.feed.Told() < tree.Stamp(c.lane.stamp.Load())
}

// Unsent returns how many bytes of answers Next has not given out.
func (c *Conn) Unsent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsent - c.given
}

// Watches returns how many watches the connection has. Those that have fired are counted until the next tick.
func (c *Conn) Watches() int { return int(c.watches.Load()) }

// watching notes how many watches there are.
func (c *Conn) watching() { c.watches.Store(int32(c.watcher.Watches())) }

// Stuck returns for how long the writer has taken nothing although there is something; 0 if there is nothing. A
// connection that is stuck for a third of its session's timeout is closed by its owner (G9).
func (c *Conn) Stuck(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feed.Len() == 0 || c.took.IsZero() {
		c.took = now
		return 0
	}
	return now.Sub(c.took)
}

// event adds an event of a change.
func (c *Conn) event(e watch.Event) {
	c.mu.Lock()
	c.begin()
	if m := (Message{Event: e.Event, Once: e.Once}); e.Once { // it stays (V6), and so counts like an answer
		c.unsent += eventBytes + len(e.Path)
		c.shares.unsent.Add(eventBytes + len(e.Path))
		c.feed.Keep(e.Stamp, m)
	} else {
		c.feed.Tell(e.Stamp, m, eventBytes+len(e.Path))
	}
	c.mu.Unlock()
	c.touched()
}

// eventBytes is what an event takes, besides its path.
const eventBytes = 32

// begin notes that the writer has something to do from now on, if it had nothing. Called with mu held.
func (c *Conn) begin() {
	if c.feed.Len() == 0 {
		c.took = time.Time{}
	}
}

// lost adds a LOST (V6).
func (c *Conn) lost(first, last tree.Stamp) {
	c.mu.Lock()
	c.begin()
	c.feed.Lose(first, last)
	c.mu.Unlock()
	c.touched()
}

// reserve adds an answer, which is filled now or later, at the place that stamp gives it (G2, G4).
func (c *Conn) reserve(a *Answer, bytes int, filled bool) {
	c.shares.unsent.Add(bytes)
	c.mu.Lock()
	c.begin()
	a.bytes, a.filled = bytes, filled
	c.unsent += bytes
	c.feed.Answer(a.Stamp, Message{Answer: a})
	c.mu.Unlock()
	c.touched()
}

// fill completes an answer, which takes bytes.
func (c *Conn) fill(a *Answer, found tree.Answer, err error, bytes int) {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	freed := c.settle(bytes - a.bytes)
	a.Read, a.Err, a.bytes, a.filled = found, err, bytes, true
	c.mu.Unlock()
	c.notify()
	freed.tell(c.lane)
}

// hasRoom reports whether a read may run: little enough of the connection's answers is unsent, and its principal has
// room (G9).
func (c *Conn) hasRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starved = c.unsent >= c.lane.limits.Unsent || !c.shares.unsent.Await(c.wantsLeft())
	return !c.starved
}

// wantsLeft returns how much the principal must have left for a read of the connection. The bound of a connection falls
// with what its principal has left: to half when half is left. A connection that reads its answers has few unsent, and
// goes on with little room, while the ones that do not read wait for more of it. Called with mu held.
func (c *Conn) wantsLeft() int {
	return c.unsent*(c.shares.unsent.Room().Most()/c.lane.limits.Unsent) + 1
}

// admit counts a request that waits, or refuses it (G8). One more request may come once the bytes are below their
// bound, whatever its size. What is too much for the node is refused in its turn.
func (c *Conn) admit(p *Pending) error {
	if err := c.takes(); err != nil {
		return err
	}
	if !c.shares.queued.Take(p.bytes) {
		p.kind, p.refusal, p.bytes, p.unasked, p.write.Body = refusing, tooMuchQueued(c.lane.node.Queued), 0, false, nil
	}
	c.count(1, p.bytes)
	return nil
}

// takes returns why a connection takes no request that waits.
func (c *Conn) takes() error {
	switch {
	case c.closed:
		return session.ErrClosed
	case c.unholding:
		return nil
	case c.requests >= c.lane.limits.Requests:
		return limitError("queued_requests", c.lane.limits.Requests, "requests")
	case c.queued >= c.lane.limits.Queued:
		return limitError("queued_bytes", c.lane.limits.Queued, "bytes")
	}
	return nil
}

// count counts requests that wait.
func (c *Conn) count(requests, bytes int) {
	c.requests += requests
	c.queued += bytes
	c.crowded.Store(!c.hasPlace())
}

// Hold counts a request that waits elsewhere, with its bytes, as one of those that wait (G8). [Conn.Unhold] takes it
// back. The error is a [session.LimitError] if it is too much for the connection or the node.
func (c *Conn) Hold(bytes int) error {
	if err := c.takes(); err != nil {
		return err
	}
	if !c.shares.queued.Take(bytes) {
		return tooMuchQueued(c.lane.node.Queued)
	}
	c.count(1, bytes)
	return nil
}

// Unhold takes a request out of those that are held, and calls place. The connection takes the request that place
// makes, if any, however many wait.
func (c *Conn) Unhold(bytes int, place func() error) error {
	c.requests--
	c.queued -= bytes
	c.shares.queued.Add(-bytes)
	c.unholding = true
	err := place()
	c.unholding = false
	c.count(0, 0)
	c.freed()
	return err
}

// HoldAhead counts bytes of requests that wait in front of the lane, or takes them back if they are negative. It reports
// whether no more of them should come: they take half of what the principal may have, so that the requests whose turn
// has come find the rest. Safe for concurrent use until the connection is closed.
func (c *Conn) HoldAhead(bytes int) (crowded bool) {
	c.shares.queued.Add(bytes)
	return c.shares.queued.Left() <= 4*c.shares.queued.Taken() // of Left, a principal may take a quarter
}

// Crowded reports whether [Conn.Full] may return a channel. Whoever asks for requests and sees false may ask for one
// more. Safe for concurrent use.
func (c *Conn) Crowded() bool { return c.crowded.Load() }

// Full returns nil while a connection takes requests, and otherwise a channel that is closed when it takes them again
// (G8).
func (c *Conn) Full() <-chan struct{} {
	if c.closed || c.hasPlace() {
		return nil
	}
	if c.place == nil {
		c.place = make(chan struct{})
	}
	return c.place
}

func (c *Conn) hasPlace() bool {
	return c.requests < c.lane.limits.Requests && c.queued < c.lane.limits.Queued
}

// freed tells who waits for a place.
func (c *Conn) freed() {
	if c.place != nil && (c.closed || c.hasPlace()) {
		close(c.place)
		c.place = nil
	}
}

// answered takes a request out of those that wait.
func (c *Conn) answered(p *Pending) {
	c.count(-1, -p.bytes)
	c.shares.queued.Add(-p.bytes)
	c.freed()
}

// touched notes that there is something new to send to a connection.
func (c *Conn) touched() { c.lane.news[c] = struct{}{} }
