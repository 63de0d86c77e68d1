package tree

import (
	"cmp"
	"context"
	"fmt"

	"holdfast/learner/tree/dispatch"
	"holdfast/session"
	"holdfast/tree"
)

// request is a request of a connection.
type request struct {
	key uint64
	// id is the request's session, or 0.
	id session.ID
	// size is its memory while it waits for an upgrade. upgrade says that it needs a global session (U4 the first write
	// upgrades).
	size    int
	upgrade bool
	// do adds the request to the dispatcher. The attachment is 0 without a global session.
	do func(d *dispatch.Dispatcher, attachment uint64) error
}

// enqueue adds a request to its queue: behind others of its session that wait for an upgrade, or to the dispatcher.
func (c *Connection) enqueue(r request) error {
	c.order.Lock()
	defer c.order.Unlock()
	if c.closed {
		return session.ErrClosed
	}
	if err := c.service.notFounded(); err != nil {
		return err
	}
	if r.id == 0 {
		return c.drive(r, 0)
	}
	if u := c.upgrading[r.id]; u != nil {
		return c.await(u, r)
	}
	attachment, local, err := c.attachment(r.id)
	switch {
	case err != nil:
		return err
	case local && r.upgrade:
		return c.startUpgrade(r)
	case local:
		return c.drive(r, 0)
	}
	return c.drive(r, attachment)
}

// notFounded returns why a node answers no client before it has applied the founding of the cluster; nil afterwards.
// Clients that accept old answers get none either: otherwise a new or emptied node would show them an empty tree.
func (s *Service) notFounded() error {
	if s.hub.Shown().Founded {
		return nil
	}
	return cmp.Or(s.cfg.Node.ReadError(), session.ErrLagging)
}

// drive carries out a request in the dispatcher. The first request of a session attaches the session to the
// dispatcher's connection. The session may have left the node meanwhile, and the end of its service then found nothing
// in the dispatcher, so drive checks the state again. Called with order held.
func (c *Connection) drive(r request, attachment uint64) (err error) {
	index := c.service.hub.Shown().Index
	fresh := false
	c.runner.Do(func(d *dispatch.Dispatcher) {
		if attachment != 0 && !c.conn.Attached(r.id, attachment) {
			fresh = true
			if c.adopted[r.id] == attachment {
				d.AttachGuest(c.conn, r.id, attachment, index)
			} else {
				d.Attach(c.conn, r.id, attachment, index)
			}
		}
		err = r.do(d, attachment)
	})
	if !fresh {
		return err
	}
	if why := c.service.fate(r.id, attachment); why != nil {
		c.runner.Detach(r.id, attachment, c.service.hub.Shown().Index, why)
	}
	return err
}

// upgrading are requests that wait for the upgrade of their session, in order.
type upgrading struct {
	waiting []request
	bytes   int
}

// await adds a request to the waiting ones, within the bounds of a session's unanswered writes (X1 numbered writes),
// and of the waiting requests of its connection and its node (G8 request bounds). Called with order held.
func (c *Connection) await(u *upgrading, r request) error {
	if len(u.waiting) >= tree.MaxUnanswered || u.bytes+r.size > tree.MaxUnansweredBytes {
		return &session.LimitError{
			Name: "requests_behind_upgrade", RetryAfter: session.BusyRetryAfter,
			Limit: fmt.Sprintf("%d, or %d bytes", tree.MaxUnanswered, tree.MaxUnansweredBytes),
		}
	}
	var err error
	c.runner.Do(func(*dispatch.Dispatcher) { err = c.conn.Hold(r.size) })
	if err == nil {
		u.waiting, u.bytes = append(u.waiting, r), u.bytes+r.size
	}
	return err
}

// startUpgrade upgrades a local session, and then carries out the waiting requests. Called with order held.
func (c *Connection) startUpgrade(r request) error {
	u := &upgrading{}
	if err := c.await(u, r); err != nil {
		return err
	}
	if c.upgrading == nil {
		c.upgrading = map[session.ID]*upgrading{}
	}
	c.upgrading[r.id] = u
	c.waits.Go(func() {
		err := c.sessions.Upgrade(c.ctx, r.id)
		c.order.Lock()
		defer c.order.Unlock()
		delete(c.upgrading, r.id)
		for _, waiting := range u.waiting {
			if c.closed {
				c.forget(waiting)
			} else {
				c.upgraded(waiting, err)
			}
		}
	})
	return nil
}

// upgraded carries out a request that has waited for an upgrade. If the upgrade failed, a write is answered with the
// error; a request that needs no global session proceeds without one, behind the write for which it has waited (G3
// order in a session). Called with order held.
func (c *Connection) upgraded(r request, why error) {
	attachment, local, err := c.attachment(r.id)
	if why == nil || !r.upgrade {
		why = err
	}
	if why != nil || local {
		attachment = 0
	}
	carryOut := r.do
	r.do = func(d *dispatch.Dispatcher, attachment uint64) error {
		return c.conn.Unhold(r.size, func() error {
			if why == nil {
				why = carryOut(d, attachment)
			}
			if why != nil {
				return d.Refuse(c.conn, dispatch.Write{Key: r.key}, why)
			}
			return nil
		})
	}
	if c.drive(r, attachment) != nil {
		c.cancel() // the dispatcher has no memory even for a refusal: the port finds the connection stuck
	}
}

// forget removes a request that has waited for an upgrade from the counts.
func (c *Connection) forget(r request) {
	c.runner.Do(func(*dispatch.Dispatcher) { _ = c.conn.Unhold(r.size, func() error { return nil }) })
}

// Idle reports whether no request for a session waits here under an attachment.
func (s *Service) Idle(id session.ID, attachment uint64) bool {
	if !s.hub.Serves(id, attachment) {
		return true
	}
	settled := true
	for _, r := range s.dispatchers {
		r.Do(func(d *dispatch.Dispatcher) { settled = settled && d.Idle(id, attachment) })
	}
	return settled
}

// WaitIdle returns once all requests for a session that came before the call under an attachment have been answered (G7
// a close waits for writes).
func (s *Service) WaitIdle(ctx context.Context, id session.ID, attachment uint64) error {
	if s.Idle(id, attachment) {
		return nil
	}
	passed := make(chan struct{}, len(s.dispatchers))
	for _, r := range s.dispatchers {
		r.Do(func(d *dispatch.Dispatcher) { d.Barrier(id, attachment, func() { passed <- struct{}{} }) })
	}
	for range s.dispatchers {
		select {
		case <-passed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
