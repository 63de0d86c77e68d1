package clientport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// treePart is the part of a Connect stream for the tree.
type treePart struct {
	conn session.TreeConnection
	// principals are the client's verified principals, determined once for the stream.
	principals []tree.Principal
	// delivered is the newest stamp up to which the client was sent all events (G4 stamps of answers).
	delivered atomic.Uint64
}

// treeSlot holds a stream's treePart. Safe for concurrent use; only the stream's reader fills it.
type treeSlot struct {
	mu    sync.Mutex
	part  *treePart // nil before the first message of the tree. guarded by mu
	ended bool      // guarded by mu
}

// get returns the treePart; nil if there is none.
func (s *treeSlot) get() *treePart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.part
}

// deliveredUpTo returns the newest stamp up to which the client was sent all events; 0 for none.
func (s *treeSlot) deliveredUpTo() uint64 {
	if part := s.get(); part != nil {
		return part.delivered.Load()
	}
	return 0
}

// put fills the slot, unless the stream has ended.
func (s *treeSlot) put(part *treePart) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.part = part
	}
	return !s.ended
}

// close ends the treePart, for good.
func (s *treeSlot) close() {
	s.mu.Lock()
	part := s.part
	s.ended = true
	s.mu.Unlock()
	if part != nil {
		part.conn.Close()
	}
}

// treePart returns the stream's treePart, and makes it for the first message of the tree. Only the reader calls it.
func (c *connection) treePart(ctx context.Context) (*treePart, error) {
	if part := c.tree.get(); part != nil {
		return part, nil
	}
	if c.presence.principalErr != nil {
		return nil, c.presence.principalErr
	}
	principals := c.presence.caller.Principals
	conn := c.server.cfg.Audit.Supers(ctx, principals, c.conn.Tree(principals, c.out.poke))
	part := &treePart{principals: principals, conn: conn}
	if !c.tree.put(part) {
		part.conn.Close()
		return nil, session.ErrClosed
	}
	return part, nil
}

// treeRequestOf returns a request of the tree; false for any other message.
func treeRequestOf(m *holdfastv1.ClientMessage) (treeRequest, bool) {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Write:
		return treeRequest{seq: m.Write.GetSeq(), kind: treeWrites}, true
	case *holdfastv1.ClientMessage_Read:
		return treeRequest{seq: m.Read.GetSeq(), kind: treeReads}, true
	case *holdfastv1.ClientMessage_AddWatches:
		return treeRequest{seq: m.AddWatches.GetSeq(), kind: treeAdds}, true
	case *holdfastv1.ClientMessage_RemoveWatches:
		return treeRequest{seq: m.RemoveWatches.GetSeq(), kind: treeRemoves}, true
	default:
		return treeRequest{}, false
	}
}

// startTree passes a request of the tree to the node, which answers later. Its error is the answer.
func (c *connection) startTree(ctx context.Context, m *holdfastv1.ClientMessage) error {
	q, ok := treeRequestOf(m)
	if !ok {
		return &session.FieldError{Field: "message", Limit: messageLimit}
	}
	part, err := c.treePart(ctx)
	if err != nil {
		return err
	}
	key, err := c.streamState.beginTree(q)
	if err != nil {
		return err
	}
	accepted := false
	defer func() {
		if !accepted { // after a panic, too
			c.streamState.endTree(key)
		}
	}()
	switch q.kind {
	case treeWrites:
		err = c.treeWrite(ctx, part, key, m.GetWrite())
	case treeReads:
		err = c.treeRead(part, key, m.GetRead())
	case treeAdds:
		err = c.treeAdd(part, key, m.GetAddWatches())
	case treeRemoves:
		err = part.remove(key, m.GetRemoveWatches())
	}
	accepted = err == nil
	return err
}

func (c *connection) treeWrite(ctx context.Context, part *treePart, key uint64, p *holdfastv1.Write) error {
	w, err := wire.WriteFrom(p, part.principals)
	if err == nil {
		err = c.large
	}
	if err == nil {
		err = c.server.limiter.Admit(time.Now(), ratelimit.Writes, 1, ratelimit.Caller{}) // a budget of the node only
	}
	if err == nil {
		c.server.stats.tree.writes.Add(1)
		err = part.conn.Write(session.TreeWrite{Key: key, Write: w, Trace: session.TraceOf(ctx)})
	}
	return part.inTurn(key, p.GetSessionId(), p.GetNumber(), err)
}

// largeWrite returns the refusal of a write that exceeds the size limit; nil for anything else. Such a write is refused
// in its turn (X8 admission of writes), so that its caller learns of it. If the stream ended, as it does for other
// messages, the client would send the write again on the next stream, and on every stream after that.
func largeWrite(m *holdfastv1.ClientMessage, why error) error {
	limit, ok := errors.AsType[*session.LimitError](why)
	if !ok || m.GetWrite() == nil {
		return nil
	}
	return &session.FieldError{Field: "message", Limit: "within " + limit.Name + ", " + limit.Limit}
}

func (c *connection) treeRead(part *treePart, key uint64, p *holdfastv1.TreeRead) error {
	q, err := wire.QueryFrom(p)
	if err == nil {
		c.server.stats.tree.reads.Add(1)
		err = part.conn.Read(session.TreeRead{Key: key, Query: q, Bytes: queuedBytes(p)})
	}
	if err == nil && q.Watch {
		c.streamState.watches()
	}
	return part.inTurn(key, p.GetSessionId(), 0, err)
}

func (c *connection) treeAdd(part *treePart, key uint64, p *holdfastv1.AddWatches) error {
	a, err := wire.AdditionFrom(p)
	if err != nil {
		return err
	}
	c.server.stats.tree.watches.Add(1)
	bytes := queuedBytes(p) + grantBytes*len(a.Watches)
	if err = part.conn.AddWatches(session.TreeAddition{Key: key, Addition: a, Bytes: bytes}); err != nil {
		return err
	}
	c.streamState.watches()
	return nil
}

func (p *treePart) remove(key uint64, r *holdfastv1.RemoveWatches) error {
	watches, err := wire.RemovalFrom(r)
	if err != nil {
		return err
	}
	return p.conn.RemoveWatches(key, watches)
}

// inTurn makes the node refuse an invalid or excessive request of a session in its turn, so that no later write uses
// its number (X8). Otherwise it returns why, and the request is refused at once.
func (p *treePart) inTurn(key, id, number uint64, why error) error {
	if id == 0 || !errors.Is(why, session.ErrInvalid) && !errors.Is(why, session.ErrLimit) ||
		p.conn.Refuse(key, session.ID(id), number, why) != nil {
		return why
	}
	return nil
}

// awaitTree waits until the node accepts one more request of the tree, if one is such a request (G8 request bounds).
// one is the message all, or a part of it. Before the wait it serves the touches behind one in a batch, because the
// reader may stop for long. The error ends the stream: its touches are then no longer read, and its client can continue
// elsewhere.
func (c *connection) awaitTree(ctx context.Context, all, one *holdfastv1.ClientMessage,
	behind []*holdfastv1.ClientMessage,
) error {
	if _, ok := treeRequestOf(one); !ok {
		return nil
	}
	full := c.treeFull()
	if full == nil {
		return nil
	}
	bytes := bytesOf(all)
	for i, m := range behind {
		if m.GetTouch() != nil {
			c.serveOne(ctx, m)
			behind[i] = nil
		}
	}
	c.network.Add(bytes)
	defer c.network.Add(-bytes)
	limit := c.shortest.part(readerStopPart, readerStopNoSession)
	late := time.NewTimer(limit)
	defer late.Stop()
	for ; full != nil; full = c.treeFull() {
		select {
		case <-full:
		case <-late.C:
			c.server.stats.tree.blocked.Add(1)
			return &session.LimitError{Name: "queued_requests", Limit: fmt.Sprintf("%d requests of the tree in flight, "+
				"or the node's bounds, for %v", maxTreeRequests, limit)}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// treeFull returns nil while one more request of the tree may come, and otherwise a channel that is closed once that
// changes.
func (c *connection) treeFull() <-chan struct{} {
	part := c.tree.get()
	if part == nil {
		return nil
	}
	if full := c.streamState.treeCapacity(); full != nil {
		return full
	}
	return part.conn.Full()
}
