package learner

import (
	"context"
	"errors"

	"holdfast/session"
)

// openLocal opens a local session (L1, L2).
func (c *connection) openLocal(ctx context.Context, o session.OpenRequest) (session.Grant, error) {
	locals := c.server.locals
	timeout, err := locals.accept(o.Timeout)
	if err != nil {
		return session.Grant{}, err
	}
	for {
		made, err := locals.open(ctx, opening{OpenRequest: o, timeout: timeout, conn: c})
		if global, ok := errors.AsType[*globalError](err); ok {
			return c.grantGlobal(ctx, global.id)
		}
		if err != nil {
			return session.Grant{}, err
		}
		locals.changed(session.Change{Kind: session.Opened, Session: made.facts})
		// The session may have moved or become global since a repeated open found it: then the next turn tells which.
		if grant, err := c.grantLocal(made); !errors.Is(err, session.ErrMoved) {
			return grant, err
		}
	}
}

// grantGlobal answers a repeated open whose session has become global as the log answers its own repeats: without a
// touch, and with EXPIRED once the session has ended (O2). It asks the leader first, so that the answer is not older
// than the call (M3, M5).
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
		s.beats.vouched() < now.Attachment {
		return session.Grant{}, session.ErrLagging // moved here, and no leader has said that it applied the move
	}
	return c.serve(session.Reply{Session: now, Repeated: true}, s.clock.look())
}

// grantLocal begins to serve a local session through c if this node still has it; the error says why not. It holds c's
// lock, so that an upgrade hands the session over either before or after. The promise counts from the touch that the
// request was (L4, L8).
func (c *connection) grantLocal(made *local) (session.Grant, error) {
	credential, ok := c.server.view.Credential(made.facts.ID)
	if !ok {
		return session.Grant{}, session.ErrLagging // ids were claimed, but this node has not seen the cluster's key
	}
	now := c.server.clock.look()
	c.mu.Lock()
	defer c.mu.Unlock()
	safe, err := c.server.local.promised(made, now)
	if err != nil {
		return session.Grant{}, err
	}
	if !c.unary && !c.over.Load() {
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

// resumeLocal gives a local session of this node a new attachment (L5). It waits for an upgrade that is under way. here
// is false when the session is not here any more, or has to be looked for again.
func (c *connection) resumeLocal(ctx context.Context,
	r session.ResumeRequest,
) (grant session.Grant, here bool, err error) {
	s := c.server
	if err = s.registry.authentic(r.Token); err != nil {
		return session.Grant{}, true, err
	}
	if f := s.local.flightOf(r.Token.ID); f != nil {
		if err = f.wait(ctx); errors.Is(err, session.ErrOutcomeUnknown) {
			return session.Grant{}, true, err
		}
		if s.local.flightOf(r.Token.ID) == f { // it landed and left the session: only the log knows the outcome
			return session.Grant{}, true, session.ErrOutcomeUnknown
		}
		return session.Grant{}, false, nil
	}
	made, left, err := s.local.resume(r, c, s.clock.look())
	if made == nil {
		return session.Grant{}, err != nil, err
	}
	s.locals.changed(session.Change{Kind: session.Moved, Session: made.facts})
	if to := left.listener(); to != nil {
		to.MovedLocally(r.Token.ID, made.facts.Attachment, made.facts.Instance)
		left.forget([]session.ID{r.Token.ID})
	}
	grant, err = c.grantLocal(made)
	if errors.Is(err, session.ErrMoved) && !s.local.has(r.Token.ID) {
		return session.Grant{}, false, nil // it has become global meanwhile
	}
	return grant, true, err
}
