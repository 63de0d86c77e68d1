package tree

import (
	"context"
	"fmt"
	"sync"
	"time"

	"holdfast/learner/tree/dispatch"
	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// Sessions are the sessions of one connection. Safe for concurrent use.
type Sessions interface {
	// Attachment returns the attachment of a session that the connection serves: local is set for a local session. The
	// error is [session.ErrMoved] if it serves none.
	Attachment(id session.ID) (attachment uint64, local bool, err error)
	// Upgrade makes a local session of the connection global (U4 the first write upgrades).
	Upgrade(ctx context.Context, id session.ID) error
	// Adopt touches a session that the node owns, after an upgrade if it is local, and returns its token.
	Adopt(ctx context.Context, t session.Token) (session.Token, error)
}

// Connection is the part of one connection for the tree. It implements [session.TreeConnection]. Safe for concurrent
// use.
type Connection struct {
	service  *Service
	sessions Sessions
	// number identifies the connection in the pending table.
	number uint64
	runner *dispatch.Runner
	conn   *dispatch.Conn
	// ctx ends with the connection; waits are the goroutines of upgrades.
	ctx    context.Context //nolint:containedctx // the lifetime of the connection's own goroutines
	cancel context.CancelFunc
	waits  sync.WaitGroup

	// order is held while a request is queued: it keeps requests in the order of the calls. Lock it before the lock of
	// the dispatcher.
	order sync.Mutex
	// principals are the client's verified principals, share the identity whose memory budget its writes use. guarded
	// by order
	principals []tree.Principal
	share      uint64
	// adopted are sessions of other connections, with their attachments. guarded by order
	adopted map[session.ID]uint64
	// upgrading are local sessions with an upgrade in flight. guarded by order
	upgrading map[session.ID]*upgrading
	// holds counts the bytes of requests that wait in front of the dispatchers. guarded by order
	holds  int
	closed bool // guarded by order

	// held is an item that Next has removed and not returned. Only the connection's writer uses it.
	held *dispatch.Sent
}

// Connect begins the connection's part for the tree. notify is called when Next may have an item: it must return at
// once and not use the connection.
func (s *Service) Connect(sessions Sessions, principals []tree.Principal, notify func()) *Connection {
	number := s.connections.Add(1)
	c := &Connection{
		service: s, sessions: sessions, number: number, runner: s.dispatchers[number%uint64(len(s.dispatchers))],
		principals: principals, share: tree.ShareNumber(principals),
	}
	//nolint:forbidigo // the connection ends by Close, and its calls have no context
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.runner.Do(func(d *dispatch.Dispatcher) { c.conn = d.Open(principals, notify) })
	return c
}

// Holding returns the number of the connection's watches, and the bytes of unsent answers.
func (c *Connection) Holding() (watches, unsent int) { return c.conn.Watches(), c.conn.Unsent() }

// Close ends the connection's part for the tree. Writes in flight may still take effect: the pending table keeps them
// until they are answered, or their session moves or ends.
func (c *Connection) Close() {
	c.order.Lock()
	if c.closed {
		c.order.Unlock()
		return
	}
	c.closed = true
	c.conn.HoldAhead(-c.holds)
	c.order.Unlock()
	c.cancel()
	c.waits.Wait()
	c.runner.Do(func(d *dispatch.Dispatcher) { d.Close(c.conn) })
}

// SetPrincipals replaces the client's verified principals (P1 principals), from the next request on.
func (c *Connection) SetPrincipals(all []tree.Principal) {
	c.order.Lock()
	defer c.order.Unlock()
	c.principals, c.share = all, tree.ShareNumber(all)
	c.runner.Do(func(*dispatch.Dispatcher) { c.conn.SetPrincipals(all) })
}

// Read queues a read. A read that names a session waits for the session's earlier writes (G3 order in a session).
func (c *Connection) Read(r session.TreeRead) error {
	read := dispatch.Read{Key: r.Key, Query: r.Query, Bytes: r.Bytes, Until: time.Now().Add(c.service.cfg.Wait)}
	id := session.ID(r.Query.Session)
	return c.enqueue(request{key: r.Key, id: id, size: r.Bytes, do: func(
		d *dispatch.Dispatcher, attachment uint64,
	) error {
		d.SetReadError(c.service.cfg.Node.ReadError())
		if attachment == 0 { // a local session has no writes for which the read could wait
			read.Query.Session = 0
		}
		read.Attachment = attachment
		pending, err := d.Read(c.conn, read)
		if pending != nil {
			c.service.reads.add(indexedRead{c.runner, pending})
		}
		return err
	}})
}

// AddWatches adds watches of the connection.
func (c *Connection) AddWatches(a session.TreeAddition) error {
	return c.enqueue(request{key: a.Key, do: func(d *dispatch.Dispatcher, _ uint64) error {
		d.SetReadError(c.service.cfg.Node.ReadError())
		return d.AddWatches(c.conn, dispatch.Addition{
			Key: a.Key, Addition: a.Addition, Bytes: a.Bytes, Until: time.Now().Add(c.service.cfg.Wait),
		})
	}})
}

// RemoveWatches removes watches of the connection. None of their events follows the answer.
func (c *Connection) RemoveWatches(key uint64, watches []tree.WatchSpec) error {
	return c.enqueue(request{key: key, do: func(d *dispatch.Dispatcher, _ uint64) error {
		return c.conn.RemoveWatches(key, watches)
	}})
}

// Write queues a numbered write of a session of the connection. A local session is upgraded first (U4). An invalid
// write is refused in its turn.
func (c *Connection) Write(w session.TreeWrite) error {
	one := dispatch.Write{Key: w.Key, Write: pending.Write{
		Session: session.ID(w.Write.Session), Number: w.Write.Number, Acked: w.Write.Acked, Void: w.Write.Void,
		Weight: weightOf(&w.Write), Connection: c.number,
	}}
	return c.enqueue(request{key: w.Key, id: one.Session, size: sizeOf(&w.Write), upgrade: true, do: func(
		d *dispatch.Dispatcher, attachment uint64,
	) error {
		w.Write.Attachment = attachment
		if !w.Write.Void {
			w.Write.Principals = c.principals
		}
		one.Attachment, one.Principal = attachment, c.share
		if one.Acked > 0 && !d.Idle(one.Session, attachment) { // frees memory for the write (X3 kept results)
			c.service.queue.acknowledged(one.Session, attachment, one.Acked)
		}
		var err error
		if one.Body, err = form.AppendBody(nil, w.Write); err != nil {
			return d.Refuse(c.conn, one, &session.FieldError{Field: "write", Limit: err.Error()})
		}
		return d.Write(c.conn, one)
	}})
}

// sizeOf returns the approximate memory of a write that waits for an upgrade.
func sizeOf(w *tree.NumberedWrite) int {
	size := pending.Overhead + w.Transaction.Size()
	if w.Will != nil {
		size += w.Will.Transaction.Size()
	}
	return size
}

// weightOf returns the weight of a write (U2 weight).
func weightOf(w *tree.NumberedWrite) uint32 {
	return uint32(tree.Weight(w.Transaction)) //nolint:gosec // at most some 10^9, by the bounds of a transaction
}

// Refuse answers a session's write or read with an error, in its turn (G3; X8, admission).
func (c *Connection) Refuse(key uint64, id session.ID, number uint64, why error) error {
	return c.enqueue(request{key: key, id: id, do: func(d *dispatch.Dispatcher, attachment uint64) error {
		one := dispatch.Write{
			Key: key, Write: pending.Write{Session: id, Attachment: attachment, Number: number},
		}
		if attachment == 0 {
			one.Session = 0
		}
		return d.Refuse(c.conn, one, why)
	}})
}

// Acknowledge records which results the client has (X1 numbered writes).
func (c *Connection) Acknowledge(all []session.Acknowledged) {
	for _, a := range all {
		c.order.Lock()
		attachment, local, err := c.attachment(a.Session)
		c.order.Unlock()
		if err == nil && !local {
			c.service.queue.acknowledged(a.Session, attachment, a.UpTo)
		}
	}
}

// Adopt touches a session that the node owns, through any connection, and permits this connection to write for it.
func (c *Connection) Adopt(ctx context.Context, t session.Token) (session.Token, error) {
	t, err := c.sessions.Adopt(ctx, t)
	if err != nil {
		return session.Token{}, err
	}
	c.order.Lock()
	defer c.order.Unlock()
	if c.adopted == nil {
		c.adopted = map[session.ID]uint64{}
	}
	c.adopted[t.ID] = t.Attachment
	return t, nil
}

// attachment returns the attachment of a session that the connection serves or has adopted. Called with order held.
func (c *Connection) attachment(id session.ID) (attachment uint64, local bool, err error) {
	if attachment := c.adopted[id]; attachment > 0 {
		return attachment, false, nil
	}
	return c.sessions.Attachment(id)
}

// Next removes and returns the next events or answer for the client; false if there are none now. Consecutive events
// come together, as long as their stamps do not fall: resumed watches get old events after newer events of other
// watches (V4 resumed watches). One goroutine at a time may call it.
func (c *Connection) Next(now time.Time) (session.TreeMessage, bool) {
	sent, ok := c.next(now)
	switch {
	case !ok:
		return session.TreeMessage{}, false
	case sent.Lost:
		return session.TreeMessage{Lost: true, Delivered: sent.Stamp}, true
	case sent.Quiet:
		return session.TreeMessage{Delivered: sent.Delivered}, true
	case sent.Value.Answer != nil:
		return session.TreeMessage{Answer: answerOf(sent.Value.Answer), Delivered: sent.Delivered}, true
	}
	message := session.TreeMessage{Events: []tree.Event{sent.Value.Event}, Delivered: sent.Delivered}
	for len(message.Events) < maxEvents {
		if sent, ok = c.next(now); !ok {
			break
		}
		last := message.Events[len(message.Events)-1].Stamp
		if sent.Lost || sent.Quiet || sent.Value.Answer != nil || sent.Value.Event.Stamp < last {
			c.held = &sent
			break
		}
		message.Events, message.Delivered = append(message.Events, sent.Value.Event), sent.Delivered
	}
	return message, true
}

// maxEvents bounds the events that are returned together: 1 MiB of paths in the worst case.
const maxEvents = 256

func (c *Connection) next(now time.Time) (dispatch.Sent, bool) {
	if held := c.held; held != nil {
		c.held = nil
		return *held, true
	}
	return c.conn.Next(now)
}

// answerOf converts a dispatcher's answer for the port.
func answerOf(a *dispatch.Answer) *session.TreeAnswer {
	out := &session.TreeAnswer{Key: a.Key, Stamp: a.Stamp, Removed: a.Removed, Err: a.Err, Lost: a.Lost, More: a.More}
	switch {
	case a.Err != nil:
	case a.Result != nil:
		result, err := form.ParseResult(a.Result)
		if err != nil { // the state itself has encoded the result
			out.Err = fmt.Errorf("%w: reading the kept result: %w", session.ErrOutcomeUnknown, err)
			break
		}
		out.Wrote, out.Stamp = &result, result.Stamp
	case a.Read.Kind != 0:
		out.Read = &a.Read
	}
	return out
}

// Full returns nil while more requests may come, and otherwise a channel that is closed once that changes (G8 request
// bounds). It takes the dispatcher's lock only when the connection is full.
func (c *Connection) Full() (full <-chan struct{}) {
	if !c.conn.Crowded() {
		return nil
	}
	c.runner.Do(func(*dispatch.Dispatcher) { full = c.conn.Full() })
	return full
}

// Hold counts bytes of requests that wait in front of the dispatchers (G8).
func (c *Connection) Hold(bytes int) (crowded bool) {
	c.order.Lock()
	defer c.order.Unlock()
	if c.closed {
		return false
	}
	c.holds += bytes
	return c.conn.HoldAhead(bytes)
}

// Stuck returns the time for which the writer has removed nothing from a queue with items (G9 answer bounds).
func (c *Connection) Stuck(now time.Time) time.Duration { return c.conn.Stuck(now) }
