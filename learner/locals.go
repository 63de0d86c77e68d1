package learner

import (
	"context"
	"errors"
	"time"

	"holdfast/learner/local"
	"holdfast/session"
)

// localNode is the rest of the node for the local sessions. It implements [local.Node]. Safe for concurrent use.
type localNode struct{ server *Server }

// Accepting returns the reason why the node opens no sessions now, nil if it does.
func (n localNode) Accepting() error {
	if n.server.modeFacts.stopping.Load() {
		return session.ErrStopping
	}
	if n.server.modeFacts.drain.on() {
		return n.server.modeFacts.drain.refusal()
	}
	return nil
}

func (n localNode) Authentic(t session.Token) error { return n.server.registry.authentic(t) }

func (n localNode) Session(id session.ID) (session.Session, bool) { return n.server.view.Session(id) }

func (n localNode) Certificate(id session.ID) (session.Certificate, bool) {
	return n.server.registry.certificate(id)
}

func (n localNode) NotServed(id session.ID) error { return n.server.registry.notHere(id) }

func (n localNode) Gone(id session.ID) error { return n.server.registry.gone(id) }

func (n localNode) AppliedIndex() uint64 { return n.server.view.AppliedIndex() }

func (n localNode) WaitApplied(ctx context.Context, index uint64) error {
	return n.server.view.WaitApplied(ctx, index)
}

func (n localNode) Sync(ctx context.Context) error { return n.server.Sync(ctx) }

func (n localNode) Ask(ctx context.Context, r session.Request) (session.Reply, error) {
	return n.server.upstream.ask(ctx, r)
}

func (n localNode) ClaimIDs(ctx context.Context) (session.ID, error) {
	return n.server.AllocateIDs(ctx, session.ClaimRequest{MS: session.MS(n.server.cfg.Clock()), Count: session.MaxClaim})
}

func (n localNode) Changed(c session.Change) {
	if n.server.cfg.LocalChanged != nil {
		n.server.cfg.LocalChanged(c)
	}
}

func (n localNode) LogEnd(conn local.Conn, e *session.Certificate) {
	one, _ := conn.(localConn)
	n.server.expiries.log(one.conn, e)
}

// localClock is the node's clock. It implements [local.Clock].
type localClock struct {
	clock *clock
	wall  func() time.Time
}

func (c localClock) Now() time.Duration { return c.clock.checkedNow() }

func (c localClock) Stalls() *session.Stalls { return c.clock.stalls.stalled() }

func (c localClock) Wall() time.Time { return c.wall() }

// localConn is a connection for its local sessions. It implements [local.Conn].
type localConn struct{ conn *connection }

// Gone sends the client the end of a session. The connection then forgets the session.
func (c localConn) Gone(certificate session.Certificate) {
	if to := c.conn.listener(); to != nil {
		to.Gone(certificate)
		c.conn.forget([]session.ID{certificate.ID})
	}
}

// Moved informs the client that another client process has resumed a formerly local session.
func (c localConn) Moved(now session.Session) {
	if to := c.conn.listener(); to != nil {
		to.Moved(now.ID, now.Attachment, now.Instance)
		c.conn.forget([]session.ID{now.ID})
	}
}

// MovedLocally informs the client that a session got a new attachment on this node.
func (c localConn) MovedLocally(id session.ID, attachment, instance uint64) {
	if to := c.conn.listener(); to != nil {
		to.MovedLocally(id, attachment, instance)
		c.conn.forget([]session.ID{id})
	}
}

// Promote hands a session over from the local sessions to the touch table. It holds the locks of the connection, of the
// local sessions and of the table's shard, in this order, so that a touch always finds the session in one of the two
// places. The global session keeps the newest touch, and the beginning of the upgrade counts as a confirmed touch (S2
// opens and moves are touches).
func (c localConn) Promote(now session.Session) bool {
	s := c.conn.server
	tag := s.table.nextTag()
	s.clock.checkedNow()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	var a *attached
	done := s.local.HandOver(now.ID, c, session.ErrMoved, func(from local.HandedOver) {
		confirmed := mark{}
		if from.Upgrading && !s.clock.stalls.suspendedSince(from.Begun) {
			confirmed = mark{tag: tag, at: from.Begun}
		}
		a = s.table.promote(now, c.conn, from, confirmed)
	})
	if done && !c.conn.unary && !c.conn.over.Load() {
		delete(c.conn.locals, now.ID)
		c.conn.sessions.put(a)
	}
	return done
}

// openLocal opens a local session (L1 local to one node, L2 local ids).
func (c *connection) openLocal(ctx context.Context, o session.OpenRequest) (session.Grant, error) {
	locals := c.server.locals
	var err error
	if o.Timeout, err = locals.Accept(o.Timeout); err != nil {
		return session.Grant{}, err
	}
	for {
		opened, err := locals.Open(ctx, o, localConn{c})
		if global, ok := errors.AsType[*local.GlobalError](err); ok {
			return c.grantGlobal(ctx, global.ID)
		}
		if err != nil {
			return session.Grant{}, err
		}
		// The session may have moved or become global after a repeated open found it. The next turn of the loop finds
		// out.
		if grant, err := c.grantLocal(opened); !errors.Is(err, session.ErrMoved) {
			return grant, err
		}
	}
}

// grantGlobal answers a repeated open of a session that has become global. It answers as the log answers repeats:
// without a touch, and with EXPIRED once the session has ended (O2 idempotent opens). It asks the leader first, so that
// the answer is not older than the call (M3 served in the leader's term, M5 lagging, not expired).
func (c *connection) grantGlobal(ctx context.Context, id session.ID) (session.Grant, error) {
	s := c.server
	if _, err := s.reads.sync(ctx, nil); err != nil {
		return session.Grant{}, err
	}
	now, ok := s.view.Session(id)
	if !ok {
		return session.Grant{}, s.registry.gone(id)
	}
	a := s.table.find(id)
	if newer := a == nil || a.attachment != now.Attachment; newer && now.Owner == s.cfg.Node &&
		s.beats.reportedAttachment() < now.Attachment {
		return session.Grant{}, session.ErrLagging // moved here, but no leader has reported the move as applied
	}
	return c.serve(session.Reply{Session: now, Repeated: true}, s.clock.checkedNow())
}

// grantLocal begins to serve a local session through c if this node still has it; the error says why not. It holds c's
// lock, so that an upgrade hands the session over either before or after. The promise counts from the touch that the
// request implies (L4 local promises, L8 one upgrade at a time).
func (c *connection) grantLocal(one *local.Session) (session.Grant, error) {
	facts := one.Facts()
	credential, ok := c.server.view.Credential(facts.ID)
	if !ok {
		return session.Grant{}, session.ErrLagging // the node has claimed ids, but has not seen the cluster's key
	}
	now := c.server.clock.checkedNow()
	c.mu.Lock()
	defer c.mu.Unlock()
	safe, err := c.server.local.Promised(one, now)
	if err != nil {
		return session.Grant{}, err
	}
	if !c.unary && !c.over.Load() {
		c.locals[facts.ID] = one
	}
	return session.Grant{
		Session: facts,
		Token:   session.Token{ID: facts.ID, Credential: credential, Attachment: facts.Attachment, Local: true},
		SafeFor: safe,
	}, nil
}

// resumeLocal gives a local session of this node a new attachment (L5 local attachments). here is false when the
// session has left the local table, or the caller must look it up again.
func (c *connection) resumeLocal(ctx context.Context,
	r session.ResumeRequest,
) (grant session.Grant, here bool, err error) {
	one, here, err := c.server.locals.Resume(ctx, r, localConn{c})
	if one == nil {
		return session.Grant{}, here, err
	}
	grant, err = c.grantLocal(one)
	if errors.Is(err, session.ErrMoved) && !c.server.local.Has(r.Token.ID) {
		return session.Grant{}, false, nil // it has become global meanwhile
	}
	return grant, true, err
}

// touchLocal touches a session by its local token, which remains valid after an upgrade (L5).
func (s *Server) touchLocal(ctx context.Context, t session.Token, now time.Duration) (time.Duration, error) {
	safe, here, err := s.locals.TouchToken(t, now)
	if here {
		return safe, err
	}
	if a := s.table.upgraded(t); a != nil {
		return s.table.touch(a, now)
	}
	return -1, s.locals.NotHere(ctx, t.ID)
}
