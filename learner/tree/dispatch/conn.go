package dispatch

import (
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// Conn is the dispatcher's part of a connection: the waiting requests, and the event queue. The dispatcher adds to the
// event queue, and the connection's writer removes with Next. Only Next, Unsent, Watches, Stuck, Crowded and HoldAhead
// are safe for concurrent use; only the dispatcher uses the rest.
type Conn struct {
	dispatcher *Dispatcher
	watcher    *watch.Connection[*Conn]
	// notify wakes the connection's writer. It must return at once, and must not use the dispatcher.
	notify      func()
	principals  []tree.Principal
	shares      shares
	queues      map[attached]*sessionQueue
	sessionless map[*Request]struct{} // requests without a session
	requests    int
	queued      int // bytes of requests
	unholding   bool
	// crowded says that the connection accepts no requests now. Only the goroutine that adds requests sets it.
	crowded atomic.Bool
	// place is closed when a request is accepted again; nil without waiters.
	place chan struct{}
	// blocked are requests that wait for memory, in order. Some may be answered.
	blocked []*Request
	closed  bool
	// watches is the number of watches, as of the last second.
	watches atomic.Int32
	outbox
}

// outbox is the event queue of a connection: events and answers that its writer has not sent.
type outbox struct {
	mu   sync.Mutex
	feed *watch.Feed[Message] // guarded by mu
	// unsent counts the bytes of queued answers. inFlight counts the part that Next returned and the writer has not
	// finished sending. held counts the part that is reserved for answers of reads that writes have passed. starved says
	// that a read waits for memory. guarded by mu
	unsent, inFlight, held int
	starved                bool
	// nextCalled is the time when the writer last called Next, or when Stuck first saw a queue with items. guarded by
	// mu
	nextCalled time.Time
	// lastSent is the time when Next last returned an item. gone says that the connection is closed. guarded by mu
	lastSent time.Time
	gone     bool
}

// Sent is the next item for a connection.
type Sent struct {
	watch.Sent[Message]
	// Quiet says that the item is only Delivered, for a connection with watches that has been idle for a second (V5
	// stamps for idle watchers).
	Quiet bool
}

// Next removes and returns the next event or answer; false if none can be sent now. Items behind an unfilled answer
// wait for that answer (G2).
func (c *Conn) Next(now time.Time) (Sent, bool) {
	stamp := tree.Stamp(c.dispatcher.stamp.Load())
	c.mu.Lock()
	if c.nextCalled = now; c.gone {
		c.mu.Unlock()
		return Sent{}, false
	}
	freed := c.changeUnsent(-c.inFlight)
	s, ok := c.next(now, stamp)
	c.mu.Unlock()
	freed.notify(c.dispatcher)
	return s, ok
}

// next is Next, after the bytes in flight have been subtracted. Called with mu held.
func (c *Conn) next(now time.Time, stamp tree.Stamp) (Sent, bool) {
	c.inFlight = 0
	s, ok := c.feed.Next(now, stamp, func(m Message) bool { return m.Answer == nil || m.Answer.filled })
	if !ok {
		if c.watches.Load() == 0 {
			return Sent{}, false
		}
		delivered, due := c.feed.Due(now, stamp)
		if due {
			c.lastSent = now
		}
		return Sent{Sent: watch.Sent[Message]{Delivered: delivered}, Quiet: true}, due
	}
	c.lastSent = now
	switch a := s.Value.Answer; {
	case a != nil:
		c.inFlight = a.bytes
	case s.Value.Once:
		c.inFlight = eventBytes + len(s.Value.Event.Path)
	}
	return Sent{Sent: s}, true
}

// freedSpace says whose reads may run again (G9): a read of the connection, or reads of the whole node.
type freedSpace struct{ connection, node bool }

// changeUnsent adds to the unsent bytes, and returns whose reads may run again. Called with mu held.
func (c *Conn) changeUnsent(change int) (r freedSpace) {
	c.unsent += change
	r.node = c.shares.unsent.Add(change)
	if c.starved && c.unsent < c.dispatcher.limits.Unsent && c.shares.unsent.Free() >= c.bytesNeeded() {
		c.starved, r.connection = false, true
	}
	return r
}

// hold adds to the unsent bytes for the answer of a read that writes have passed, or subtracts from them.
func (c *Conn) hold(bytes int) {
	if bytes == 0 {
		return
	}
	c.mu.Lock()
	c.held += bytes
	freed := c.changeUnsent(bytes)
	c.mu.Unlock()
	freed.notify(c.dispatcher)
}

// mayHold reports whether writes may pass one more read: other reads of the connection keep half of the memory.
func (c *Conn) mayHold() bool {
	c.mu.Lock()
	held := c.held
	c.mu.Unlock()
	return held < c.dispatcher.limits.Unsent/2 && c.hasBudget()
}

// notify wakes the dispatchers whose reads may run now. Any goroutine may call it, without locks.
func (r freedSpace) notify(d *Dispatcher) {
	if r.connection {
		d.unblocked.Store(true)
		d.wake()
	}
	if r.node {
		d.node.Hub.freed.Add(1)
		d.node.Hub.Wake()
	}
}

// quiet reports whether the connection has been sent nothing for a while (V5).
func (c *Conn) quiet(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.lastSent) >= watch.QuietAfter && c.feed.Len() == 0 &&
		c.feed.Delivered() < tree.Stamp(c.dispatcher.stamp.Load())
}

// Unsent returns the bytes of answers that wait for Next.
func (c *Conn) Unsent() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unsent - c.inFlight
}

// Watches returns the number of the connection's watches. Fired watches count until the next tick.
func (c *Conn) Watches() int { return int(c.watches.Load()) }

// countWatches records the number of watches.
func (c *Conn) countWatches() { c.watches.Store(int32(c.watcher.Watches())) }

// Stuck returns the time for which the writer has removed nothing from a queue with items; 0 for an empty queue. The
// owner closes a connection that is stuck for a third of its session's timeout (G9 answer bounds).
func (c *Conn) Stuck(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.feed.Len() == 0 || c.nextCalled.IsZero() {
		c.nextCalled = now
		return 0
	}
	return now.Sub(c.nextCalled)
}

// event adds an event of a change.
func (c *Conn) event(e watch.Event) {
	c.mu.Lock()
	c.begin()
	if m := (Message{Event: e.Event, Once: e.Once}); e.Once { // never replaced by LOST (V6 LOST): it counts like an answer
		c.unsent += eventBytes + len(e.Path)
		c.shares.unsent.Add(eventBytes + len(e.Path))
		c.feed.AddOneShot(e.Stamp, m)
	} else {
		c.feed.AddEvent(e.Stamp, m, eventBytes+len(e.Path))
	}
	c.mu.Unlock()
	c.changed()
}

// eventBytes is the memory of an event besides its path.
const eventBytes = 32

// begin resets nextCalled when the queue gets its first item. Called with mu held.
func (c *Conn) begin() {
	if c.feed.Len() == 0 {
		c.nextCalled = time.Time{}
	}
}

// lost adds a LOST (V6).
func (c *Conn) lost(first, last tree.Stamp) {
	c.mu.Lock()
	c.begin()
	c.feed.Lose(first, last)
	c.mu.Unlock()
	c.changed()
}

// reserve adds an answer, filled or not, at the place of its stamp (G2 atomic reads, G4 stamps of answers).
func (c *Conn) reserve(a *Answer, bytes int, filled bool) {
	c.shares.unsent.Add(bytes)
	c.mu.Lock()
	c.begin()
	a.bytes, a.filled = bytes, filled
	c.unsent += bytes
	c.feed.Answer(a.Stamp, Message{Answer: a})
	c.mu.Unlock()
	c.changed()
}

// fill completes an answer of the given size.
func (c *Conn) fill(a *Answer, found tree.Answer, err error, bytes int) {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	freed := c.changeUnsent(bytes - a.bytes)
	a.Read, a.Err, a.bytes, a.filled = found, err, bytes, true
	c.mu.Unlock()
	c.notify()
	freed.notify(c.dispatcher)
}

// hasBudget reports whether a read may run: few bytes of the connection's answers are unsent, and its principal has
// enough memory left (G9).
func (c *Conn) hasBudget() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starved = c.unsent >= c.dispatcher.limits.Unsent || !c.shares.unsent.Await(c.bytesNeeded())
	return !c.starved
}

// bytesNeeded returns the memory that the principal must have left for a read of the connection. The bound of a
// connection falls with the principal's memory: to half when half is left. A connection that reads its answers has few
// unsent bytes and needs little memory, while connections that do not read wait for more. Called with mu held.
func (c *Conn) bytesNeeded() int {
	return c.unsent*(c.shares.unsent.Budget().MaxFree()/c.dispatcher.limits.Unsent) + 1
}

// admit counts a waiting request, or refuses it (G8). While the bytes are below their bound, one more request may come,
// whatever its size. A request for which the node's memory does not suffice is refused in its turn.
func (c *Conn) admit(p *Request) error {
	if err := c.checkBudget(); err != nil {
		return err
	}
	if !c.shares.queued.Acquire(p.bytes) {
		p.kind, p.refusal = refusing, tooMuchQueued(c.dispatcher.node.Queued)
		p.bytes, p.awaitsIndex, p.write.Body = 0, false, nil
	}
	c.count(1, p.bytes)
	return nil
}

// checkBudget returns why a connection accepts no further request.
func (c *Conn) checkBudget() error {
	switch {
	case c.closed:
		return session.ErrClosed
	case c.unholding:
		return nil
	case c.requests >= c.dispatcher.limits.Requests:
		return limitError("queued_requests", c.dispatcher.limits.Requests, "requests")
	case c.queued >= c.dispatcher.limits.Queued:
		return limitError("queued_bytes", c.dispatcher.limits.Queued, "bytes")
	}
	return nil
}

// count counts waiting requests.
func (c *Conn) count(requests, bytes int) {
	c.requests += requests
	c.queued += bytes
	c.crowded.Store(!c.hasPlace())
}

// Hold counts a request that waits elsewhere as a waiting request, with its bytes (G8 request bounds). [Conn.Unhold]
// reverts it. The error is a [session.LimitError] if the request exceeds the bounds of the connection or the node.
func (c *Conn) Hold(bytes int) error {
	if err := c.checkBudget(); err != nil {
		return err
	}
	if !c.shares.queued.Acquire(bytes) {
		return tooMuchQueued(c.dispatcher.node.Queued)
	}
	c.count(1, bytes)
	return nil
}

// Unhold reverts a Hold, and calls place. The connection accepts the request that place adds, if any, even above its
// bounds.
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

// HoldAhead adds bytes of requests that wait in front of the dispatcher, or subtracts them if negative. It reports
// whether the caller should stop reading requests: waiting requests then use half of the principal's budget, and
// running requests need the other half. Safe for concurrent use until the connection is closed.
func (c *Conn) HoldAhead(bytes int) (crowded bool) {
	c.shares.queued.Add(bytes)
	return c.shares.queued.Free() <= 4*c.shares.queued.Used() // a principal may use a quarter of Free
}

// Crowded reports whether [Conn.Full] may return a channel. While it is false, one more request may come. Safe for
// concurrent use.
func (c *Conn) Crowded() bool { return c.crowded.Load() }

// Full returns nil while a connection accepts requests, and otherwise a channel that is closed when it accepts them
// again (G8).
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
	return c.requests < c.dispatcher.limits.Requests && c.queued < c.dispatcher.limits.Queued
}

// freed wakes the goroutine that waits in Full.
func (c *Conn) freed() {
	if c.place != nil && (c.closed || c.hasPlace()) {
		close(c.place)
		c.place = nil
	}
}

// answered removes a request from the waiting ones.
func (c *Conn) answered(p *Request) {
	c.count(-1, -p.bytes)
	c.shares.queued.Add(-p.bytes)
	c.freed()
}

// changed marks the connection: its writer has new items to send.
func (c *Conn) changed() { c.dispatcher.changedConns[c] = struct{}{} }
