package namespace

import (
	"context"
	"fmt"
	"sync"
	"time"

	"holdfast/learner/lane"
	"holdfast/learner/writes"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// Sessions are the sessions of one connection. Safe for concurrent use.
type Sessions interface {
	// Attachment returns the attachment of a session that the connection serves: local is set for a local session. The
	// error is [session.ErrMoved] if it serves none.
	Attachment(id session.ID) (attachment uint64, local bool, err error)
	// Upgrade makes a local session of the connection global (U4).
	Upgrade(ctx context.Context, id session.ID) error
	// Adopt touches a session that the node owns, after an upgrade if it is local, and returns its token.
	Adopt(ctx context.Context, t session.Token) (session.Token, error)
}

// Connection is the tree's part of one connection. It implements [session.TreeConnection]. Safe for concurrent use.
type Connection struct {
	service  *Service
	sessions Sessions
	// number names the connection to the queue of writes.
	number uint64
	runner *lane.Runner
	conn   *lane.Conn
	// ctx ends with the connection; waits are the goroutines of upgrades.
	ctx    context.Context //nolint:containedctx // the lifetime of the connection's own goroutines
	cancel context.CancelFunc
	waits  sync.WaitGroup

	// order is held while a request is put in its place: it keeps requests in the order of the calls. It comes before
	// the lock of the lane.
	order sync.Mutex
	// principals are whom the node vouches for, share whose room their writes take. guarded by order
	principals []tree.Principal
	share      uint64
	// adopted are sessions of other connections, with their attachments. guarded by order
	adopted map[session.ID]uint64
	// upgrading are local sessions whose upgrade is under way. guarded by order
	upgrading map[session.ID]*upgrading
	// holds are the bytes of requests that wait in front of the lanes. guarded by order
	holds  int
	closed bool // guarded by order

	// held is what Next has taken out and not told; used by the connection's writer.
	held *lane.Sent
}

// Connect begins the tree's part of a connection. notify is told that Next may have something: it must return at once
// and not use the connection.
func (s *Service) Connect(sessions Sessions, principals []tree.Principal, notify func()) *Connection {
	number := s.connections.Add(1)
	c := &Connection{
		service: s, sessions: sessions, number: number, runner: s.lanes[number%uint64(len(s.lanes))],
		principals: principals, share: tree.ShareNumber(principals),
	}
	//nolint:forbidigo // the connection ends by Close, and its calls come without a context
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.runner.Do(func(l *lane.Lane) { c.conn = l.Open(principals, notify) })
	return c
}

// Holding returns how many watches the connection has, and how many bytes of answers wait to be taken out.
func (c *Connection) Holding() (watches, unsent int) { return c.conn.Watches(), c.conn.Unsent() }

// Close ends the tree's part of the connection. Writes under way may still take effect: the queue keeps them until they
// are answered, or their session moves or ends.
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
	c.runner.Do(func(l *lane.Lane) { l.Close(c.conn) })
}

// SetPrincipals replaces those whom the node vouches for (P1), from the next request on.
func (c *Connection) SetPrincipals(all []tree.Principal) {
	c.order.Lock()
	defer c.order.Unlock()
	c.principals, c.share = all, tree.ShareNumber(all)
	c.runner.Do(func(*lane.Lane) { c.conn.SetPrincipals(all) })
}

// Read takes a read. One that names a session waits for the session's earlier writes (G3).
func (c *Connection) Read(r session.TreeRead) error {
	read := lane.Read{Key: r.Key, Query: r.Query, Bytes: r.Bytes, Until: time.Now().Add(c.service.cfg.Wait)}
	id := session.ID(r.Query.Session)
	return c.place(request{key: r.Key, id: id, size: r.Bytes, do: func(
		l *lane.Lane, attachment uint64,
	) error {
		l.SetStanding(c.service.cfg.Node.Standing())
		if attachment == 0 { // a local session has no writes that the read could wait for
			read.Query.Session = 0
		}
		read.Attachment = attachment
		pending, err := l.Read(c.conn, read)
		if pending != nil {
			c.service.asker.add(question{c.runner, pending})
		}
		return err
	}})
}

// AddWatches adds watches of the connection.
func (c *Connection) AddWatches(a session.TreeAddition) error {
	return c.place(request{key: a.Key, do: func(l *lane.Lane, _ uint64) error {
		l.SetStanding(c.service.cfg.Node.Standing())
		return l.AddWatches(c.conn, lane.Addition{
			Key: a.Key, Addition: a.Addition, Bytes: a.Bytes, Until: time.Now().Add(c.service.cfg.Wait),
		})
	}})
}

// RemoveWatches removes watches of the connection. None of their events comes out after the answer.
func (c *Connection) RemoveWatches(key uint64, watches []tree.WatchSpec) error {
	return c.place(request{key: key, do: func(l *lane.Lane, _ uint64) error {
		return c.conn.RemoveWatches(key, watches)
	}})
}

// Write takes a numbered write of a session of the connection. A local session is upgraded first (U4). What is wrong
// with the write is answered in its turn.
func (c *Connection) Write(w session.TreeWrite) error {
	one := lane.Write{
		Key: w.Key, Session: session.ID(w.Write.Session), Number: w.Write.Number, Acked: w.Write.Acked, Void: w.Write.Void,
		Weight: weightOf(&w.Write), Connection: c.number,
	}
	return c.place(request{key: w.Key, id: one.Session, size: sizeOf(&w.Write), upgrade: true, do: func(
		l *lane.Lane, attachment uint64,
	) error {
		w.Write.Attachment = attachment
		if !w.Write.Void {
			w.Write.Principals = c.principals
		}
		one.Attachment, one.Principal = attachment, c.share
		if one.Acked > 0 && !l.Settled(one.Session, attachment) { // its turn may need the room that this makes (X3)
			c.service.queue.acknowledged(one.Session, attachment, one.Acked)
		}
		var err error
		if one.Body, err = form.AppendBody(nil, w.Write); err != nil {
			return l.Refuse(c.conn, one, &session.FieldError{Field: "write", Limit: err.Error()})
		}
		return l.Write(c.conn, one)
	}})
}

// sizeOf returns about what a write takes while it waits for an upgrade.
func sizeOf(w *tree.NumberedWrite) int {
	size := writes.Overhead + w.Transaction.Size()
	if w.Will != nil {
		size += w.Will.Transaction.Size()
	}
	return size
}

// weightOf returns how much work a write makes when it is applied (U2).
func weightOf(w *tree.NumberedWrite) uint32 {
	return uint32(tree.Weight(w.Transaction)) //nolint:gosec // at most some 10^9, by the bounds of a transaction
}

// Refuse answers a write or read that names a session with an error, in its turn (G3, X8).
func (c *Connection) Refuse(key uint64, id session.ID, number uint64, why error) error {
	return c.place(request{key: key, id: id, do: func(l *lane.Lane, attachment uint64) error {
		one := lane.Write{Key: key, Session: id, Attachment: attachment, Number: number}
		if attachment == 0 {
			one.Session = 0
		}
		return l.Refuse(c.conn, one, why)
	}})
}

// Acknowledge says which results the client has in hand (X1).
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

// Adopt touches a session that the node owns, through any connection, and lets this one write for it.
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

// attachment returns that of a session which the connection serves or has adopted. Called with order held.
func (c *Connection) attachment(id session.ID) (attachment uint64, local bool, err error) {
	if attachment := c.adopted[id]; attachment > 0 {
		return attachment, false, nil
	}
	return c.sessions.Attachment(id)
}

// Next takes out the next thing to tell the client; false if there is none now. Events that follow each other come out
// together, as long as their stamps do not fall: a watch that comes back is told old events behind new ones of others
// (V4). One goroutine at a time calls it.
func (c *Connection) Next(now time.Time) (session.TreeTold, bool) {
	sent, ok := c.takeOut(now)
	switch {
	case !ok:
		return session.TreeTold{}, false
	case sent.Lost:
		return session.TreeTold{Lost: true, Told: sent.Stamp}, true
	case sent.Quiet:
		return session.TreeTold{Told: sent.Told}, true
	case sent.Value.Answer != nil:
		return session.TreeTold{Answer: answerOf(sent.Value.Answer), Told: sent.Told}, true
	}
	told := session.TreeTold{Events: []tree.Event{sent.Value.Event}, Told: sent.Told}
	for len(told.Events) < maxEvents {
		if sent, ok = c.takeOut(now); !ok {
			break
		}
		last := told.Events[len(told.Events)-1].Stamp
		if sent.Lost || sent.Quiet || sent.Value.Answer != nil || sent.Value.Event.Stamp < last {
			c.held = &sent
			break
		}
		told.Events, told.Told = append(told.Events, sent.Value.Event), sent.Told
	}
	return told, true
}

// maxEvents is how many events are told together, at most: 1 MiB of paths at worst.
const maxEvents = 256

func (c *Connection) takeOut(now time.Time) (lane.Sent, bool) {
	if held := c.held; held != nil {
		c.held = nil
		return *held, true
	}
	return c.conn.Next(now)
}

// answerOf returns a lane's answer as the port takes it.
func answerOf(a *lane.Answer) *session.TreeAnswer {
	out := &session.TreeAnswer{Key: a.Key, Stamp: a.Stamp, Removed: a.Removed, Err: a.Err, Lost: a.Lost, More: a.More}
	switch {
	case a.Err != nil:
	case a.Result != nil:
		result, err := form.ParseResult(a.Result)
		if err != nil { // the state keeps what it has encoded itself
			out.Err = fmt.Errorf("%w: reading the kept result: %w", session.ErrOutcomeUnknown, err)
			break
		}
		out.Wrote, out.Stamp = &result, result.Stamp
	case a.Read.Kind != 0:
		out.Read = &a.Read
	}
	return out
}

// Full returns nil while more requests may wait, and otherwise a channel that is closed once that may be so (G8).
// It takes the lane's lock only when the connection is full.
func (c *Connection) Full() (full <-chan struct{}) {
	if !c.conn.Crowded() {
		return nil
	}
	c.runner.Do(func(*lane.Lane) { full = c.conn.Full() })
	return full
}

// Hold counts bytes of requests that wait in front of the lanes (G8).
func (c *Connection) Hold(bytes int) (crowded bool) {
	c.order.Lock()
	defer c.order.Unlock()
	if c.closed {
		return false
	}
	c.holds += bytes
	return c.conn.HoldAhead(bytes)
}

// Stuck returns for how long nothing was taken out although there was something (G9).
func (c *Connection) Stuck(now time.Time) time.Duration { return c.conn.Stuck(now) }
