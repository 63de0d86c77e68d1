package learner

import (
	"context"
	"errors"
	"time"

	"holdfast/session"
)

// openLocal opens a local session (L1, L2).
func (c *connection) openLocal(ctx context.Context, o session.OpenRequest) (session.Grant, error) {
	s := c.server
	if !s.cfg.Local {
		return session.Grant{}, &session.FieldError{
			Field: "local", Limit: "false while the cluster's setting local_sessions is off",
		}
	}
	timeout, err := s.cfg.Limits.Negotiate(o.Timeout)
	if err != nil {
		return session.Grant{}, err
	}
	if err = s.accepts(); err != nil {
		return session.Grant{}, err
	}
	for {
		made, err := s.openLocalSoon(ctx, opening{OpenRequest: o, timeout: timeout, conn: c})
		if global, ok := errors.AsType[*globalError](err); ok {
			return c.grantGlobal(ctx, global.id)
		}
		if err != nil {
			return session.Grant{}, err
		}
		s.changedLocally(session.Change{Kind: session.Opened, Session: made.facts})
		// One that moved, or became global, since the repeat of its open found it: the next look tells which.
		if grant, err := c.grantLocal(made); !errors.Is(err, session.ErrMoved) {
			return grant, err
		}
	}
}

// grantGlobal answers the repeat of an open whose session has become global as the log's own repeats are answered (O2):
// with no touch, and with EXPIRED once it has ended. The leader is asked, so that what is answered is not older than
// the call (M3, M5).
func (c *connection) grantGlobal(ctx context.Context, id session.ID) (session.Grant, error) {
	s := c.server
	if _, err := s.read(ctx, nil); err != nil {
		return session.Grant{}, err
	}
	now, ok := s.view.Session(id)
	if !ok {
		return session.Grant{}, s.gone(id)
	}
	a := s.table.find(id)
	if newer := a == nil || a.attachment != now.Attachment; newer && now.Owner == s.cfg.Node &&
		s.vouched() < now.Attachment {
		return session.Grant{}, session.ErrLagging // moved here, and no leader has said that it applied that
	}
	return c.serve(ctx, session.Reply{Session: now, Repeated: true}, s.look())
}

// accepts returns session.ErrStopping once the node stops.
func (s *Server) accepts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return session.ErrStopping
	}
	return nil
}

// grantLocal begins to serve a local session through c, if it is served still: under c's lock, so that it is handed
// over before or after. The error says why it is not. The promise counts from the touch that the request was (L4, L8).
func (c *connection) grantLocal(made *local) (session.Grant, error) {
	credential, ok := c.server.view.Credential(made.facts.ID)
	if !ok {
		return session.Grant{}, session.ErrLagging // ids were claimed, and this node has not seen the cluster's key
	}
	now := c.server.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	safe, err := c.server.local.promised(made, now)
	if err != nil {
		return session.Grant{}, err
	}
	if c.events != nil { // unary calls name their sessions by token
		c.locals[made.facts.ID] = made
	}
	return session.Grant{
		Session: made.facts,
		Token: session.Token{
			ID: made.facts.ID, Credential: credential, Attachment: made.facts.Attachment,
			Local: true,
		},
		SafeFor: safe,
	}, nil
}

// resumeLocal gives a local session of this node a new attachment (L5); here is false when it is not here any more, or
// has to be looked for again. It waits for an upgrade that is under way.
func (c *connection) resumeLocal(ctx context.Context,
	r session.ResumeRequest,
) (grant session.Grant, here bool, err error) {
	s := c.server
	if err = s.authentic(r.Token); err != nil {
		return session.Grant{}, true, err
	}
	if f := s.local.flightOf(r.Token.ID); f != nil {
		if err = f.wait(ctx); errors.Is(err, session.ErrOutcomeUnknown) {
			return session.Grant{}, true, err
		}
		if s.local.flightOf(r.Token.ID) == f { // it landed and left the session: only the log knows
			return session.Grant{}, true, session.ErrOutcomeUnknown
		}
		return session.Grant{}, false, nil
	}
	made, left, err := s.local.resume(r, c, s.look())
	if made == nil {
		return session.Grant{}, err != nil, err
	}
	s.changedLocally(session.Change{Kind: session.Moved, Session: made.facts})
	if left != nil && left.events != nil {
		left.events.MovedLocally(r.Token.ID, made.facts.Attachment, made.facts.Instance)
		left.forget([]session.ID{r.Token.ID})
	}
	grant, err = c.grantLocal(made)
	if errors.Is(err, session.ErrMoved) && !s.local.has(r.Token.ID) {
		return session.Grant{}, false, nil // it has become global meanwhile
	}
	return grant, true, err
}

// touchLocal touches a session by a token of a local one.
func (s *Server) touchLocal(ctx context.Context, t session.Token, now time.Duration) (time.Duration, error) {
	if err := s.authentic(t); err != nil {
		return -1, err
	}
	one, err := s.local.named(t)
	if err != nil {
		return -1, err
	}
	if one != nil {
		safe, why := s.local.heard(one, now)
		if why == nil || s.local.has(t.ID) {
			return safe, why
		}
	}
	if a := s.upgraded(t); a != nil {
		return s.table.touch(a, now)
	}
	return -1, s.notLocal(ctx, t.ID)
}

// notLocal is why a session that is not here is not touched by a token of a local one: it has ended, or it lives
// elsewhere as far as this node knows. A process of this node before may have had it upgraded, and this one not have
// seen that: it says of a session of its own that this has ended only when it has seen how that ended, or after a good
// round (M5).
func (s *Server) notLocal(ctx context.Context, id session.ID) error {
	if _, global := s.view.Session(id); global || id.Node() != s.cfg.Node {
		return s.notHere(id)
	}
	if _, ended := s.certificate(id); !ended {
		if _, err := s.read(ctx, nil); err != nil {
			return err
		}
		if _, global := s.view.Session(id); global {
			return s.notHere(id)
		}
	}
	return s.gone(id)
}

// closeLocal ends a local session of this node; here is false when it is not here any more. It waits for an upgrade
// that is under way.
func (s *Server) closeLocal(ctx context.Context, t session.Token) (here bool, err error) {
	if err = s.authentic(t); err != nil {
		return true, err
	}
	if f := s.local.flightOf(t.ID); f != nil {
		if err = f.wait(ctx); errors.Is(err, session.ErrOutcomeUnknown) {
			return true, err
		}
	}
	one, err := s.local.named(t)
	if err != nil {
		return true, err
	}
	if one == nil {
		c, ok := s.local.certificate(t.ID)
		return ok, expired(&c)
	}
	gone, err := s.local.close(one, s.look(), s.cfg.Clock())
	if err == nil {
		s.tellGone([]localGone{gone})
	}
	return true, err
}

// expireLocal ends the local sessions that are due (L3).
func (s *Server) expireLocal(now time.Duration) {
	s.tellGone(s.local.expire(now, s.stalls.stalled(), s.cfg.Clock()))
}

func (s *Server) changedLocally(c session.Change) {
	if s.cfg.LocalChanged != nil {
		s.cfg.LocalChanged(c)
	}
}

// tellGone tells connections of the local sessions that have ended, and has each forget its own after that.
func (s *Server) tellGone(all []localGone) {
	ended := make(endings)
	for _, gone := range all {
		s.changedLocally(session.Change{Kind: session.Ended, Session: gone.facts, Certificate: gone.certificate})
		if gone.conn.events != nil {
			gone.conn.events.Gone(gone.certificate)
			ended[gone.conn] = append(ended[gone.conn], gone.certificate.ID)
		}
	}
	ended.forget()
}
