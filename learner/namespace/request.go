package namespace

import (
	"cmp"
	"context"
	"fmt"

	"holdfast/learner/lane"
	"holdfast/session"
	"holdfast/tree"
)

// request is one that a connection takes.
type request struct {
	key uint64
	// id is the session that it names, or 0.
	id session.ID
	// size is what it takes while it waits for an upgrade. upgrade says that it needs a global session (U4).
	size    int
	upgrade bool
	// do puts it into the lane. The attachment is 0 without a global session.
	do func(l *lane.Lane, attachment uint64) error
}

// place puts a request in its place: behind others of its session that wait for an upgrade, or into the lane.
func (c *Connection) place(r request) error {
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

// notFounded returns why a node answers nobody while it has not applied the founding of the cluster, nil once it has. A
// client that allows old answers gets none either. Without: a new or emptied node shows it that every entry is gone.
func (s *Service) notFounded() error {
	if s.hub.Shown().Founded {
		return nil
	}
	return cmp.Or(s.cfg.Node.Standing(), session.ErrLagging)
}

// drive carries out a request in the lane. A session is attached to the lane's connection with its first request. It
// may have left the node meanwhile: who ended its service then found nothing in the lane, so the state is asked again.
// Called with order held.
func (c *Connection) drive(r request, attachment uint64) (err error) {
	index := c.service.hub.Shown().Index
	fresh := false
	c.runner.Do(func(l *lane.Lane) {
		if attachment != 0 && !c.conn.Attached(r.id, attachment) {
			fresh = true
			if c.adopted[r.id] == attachment {
				l.AttachGuest(c.conn, r.id, attachment, index)
			} else {
				l.Attach(c.conn, r.id, attachment, index)
			}
		}
		err = r.do(l, attachment)
	})
	if !fresh {
		return err
	}
	if why := c.service.fate(r.id, attachment); why != nil {
		c.runner.Detach(r.id, attachment, c.service.hub.Shown().Index, why)
	}
	return err
}

// upgrading are requests that wait for the upgrade of their session, in their order.
type upgrading struct {
	waiting []request
	bytes   int
}

// await adds a request to those that wait, within the bounds of a session's unanswered writes (X1), and of what waits
// at its connection and its node (G8). Called with order held.
func (c *Connection) await(u *upgrading, r request) error {
	if len(u.waiting) >= tree.MaxUnanswered || u.bytes+r.size > tree.MaxUnansweredBytes {
		return &session.LimitError{
			Name: "requests_behind_upgrade", RetryAfter: session.BusyRetryAfter,
			Limit: fmt.Sprintf("%d, or %d bytes", tree.MaxUnanswered, tree.MaxUnansweredBytes),
		}
	}
	var err error
	c.runner.Do(func(*lane.Lane) { err = c.conn.Hold(r.size) })
	if err == nil {
		u.waiting, u.bytes = append(u.waiting, r), u.bytes+r.size
	}
	return err
}

// startUpgrade upgrades a local session, and carries out then what waits. Called with order held.
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

// upgraded carries out a request that has waited for an upgrade. If that failed, a write is answered with the error;
// what needs no global session goes on without one, behind the write that it has waited for (G3). Called with order
// held.
func (c *Connection) upgraded(r request, why error) {
	attachment, local, err := c.attachment(r.id)
	if why == nil || !r.upgrade {
		why = err
	}
	if why != nil || local {
		attachment = 0
	}
	carryOut := r.do
	r.do = func(l *lane.Lane, attachment uint64) error {
		return c.conn.Unhold(r.size, func() error {
			if why == nil {
				why = carryOut(l, attachment)
			}
			if why != nil {
				return l.Refuse(c.conn, lane.Write{Key: r.key}, why)
			}
			return nil
		})
	}
	if c.drive(r, attachment) != nil {
		c.cancel() // the lane has no room for as much as a refusal: the port finds the connection stuck
	}
}

// forget takes a request that has waited for an upgrade out of those that are counted.
func (c *Connection) forget(r request) {
	c.runner.Do(func(*lane.Lane) { _ = c.conn.Unhold(r.size, func() error { return nil }) })
}

// Settled reports whether no request for a session waits here under an attachment.
func (s *Service) Settled(id session.ID, attachment uint64) bool {
	if !s.hub.Serves(id, attachment) {
		return true
	}
	settled := true
	for _, r := range s.lanes {
		r.Do(func(l *lane.Lane) { settled = settled && l.Settled(id, attachment) })
	}
	return settled
}

// Settle returns once all requests for a session that came before the call under an attachment have been answered
// (G7).
func (s *Service) Settle(ctx context.Context, id session.ID, attachment uint64) error {
	if s.Settled(id, attachment) {
		return nil
	}
	passed := make(chan struct{}, len(s.lanes))
	for _, r := range s.lanes {
		r.Do(func(l *lane.Lane) { l.Mark(id, attachment, func() { passed <- struct{}{} }) })
	}
	for range s.lanes {
		select {
		case <-passed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
