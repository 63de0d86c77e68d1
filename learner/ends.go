package learner

import (
	"cmp"
	"context"
	"errors"

	"holdfast/session"
)

// Applied ends what an entry moved or ended, and goes on with what it made global, before anything shows that the entry
// was applied (M4, T1, L8).
func (s *Server) Applied(_, _ uint64, changes []session.Change) {
	ended := make(endings)
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case session.Opened:
			if s.cfg.Local {
				s.promote(c.Session)
			}
		case session.Moved:
			s.moveOn(ended, c.Session)
		case session.Ended:
			s.end(ended, expired(&c.Certificate), c.Certificate)
		}
	}
	ended.forget()
	s.advanced.tell()
}

// Restored compares all that is served with the state a snapshot brought (M4).
func (s *Server) Restored() {
	ended := make(endings)
	for _, id := range s.table.all() {
		if now, ok := s.view.Session(id); ok {
			s.moveOn(ended, now)
			continue
		}
		certificate, ok := s.view.Certificate(id)
		if !ok {
			certificate = session.Certificate{ID: id}
		}
		s.end(ended, s.gone(id), certificate)
	}
	s.restoreLifted(ended)
	ended.forget()
	s.advanced.tell()
}

// endings are the sessions of one entry that have ended, by the connection that was told so.
type endings map[*connection][]session.ID

// forget has each connection forget its own, at once: this is the goroutine that applies.
func (e endings) forget() {
	for c, ids := range e {
		c.forget(ids)
	}
}

// end stops serving a session that has ended, for a reason, and tells its connection.
func (s *Server) end(ended endings, why error, certificate session.Certificate) {
	if c, ok := s.table.end(certificate.ID, 0, why); ok && c != nil && c.events != nil {
		c.events.Gone(certificate)
		ended[c] = append(ended[c], certificate.ID)
	}
}

// moveOn stops serving a session through another attachment than the present one, and tells its connection who has
// resumed it.
func (s *Server) moveOn(ended endings, now session.Session) {
	if c, ok := s.table.end(now.ID, now.Attachment, session.MovedTo(now)); ok && c != nil && c.events != nil {
		c.events.Moved(now.ID, now.Attachment, now.Instance)
		ended[c] = append(ended[c], now.ID)
	}
}

// moved is why a session is not served here, or not through the attachment that was named: who has it now, as far as
// this node knows.
func (s *Server) moved(id session.ID) error {
	if now, ok := s.view.Session(id); ok {
		return session.MovedTo(now)
	}
	return session.ErrMoved
}

// explain returns a leader's word that the session of a token has moved or ended once this node has applied that: the
// answer's index would otherwise be below what it tells (N4). To an end it adds the certificate. Without one, a local
// token says which node alone can know more (L6); a global one tells that the log has known of the session. A leader
// that has committed the upgrade of a session and not applied it says that it has ended: who has applied it knows
// better (M5).
func (s *Server) explain(ctx context.Context, reply session.Reply, err error, t session.Token) error {
	gone := (*session.ExpiredError)(nil)
	if ended := errors.As(err, &gone); !ended && !errors.Is(err, session.ErrMoved) {
		return err
	}
	if behind := s.waitApplied(ctx, reply.Index); behind != nil {
		return behind
	}
	if gone == nil || gone.Certificate != nil {
		return err
	}
	if _, lives := s.view.Session(t.ID); lives {
		return session.ErrLagging
	}
	err = s.gone(cmp.Or(t.ID, gone.ID))
	if errors.As(err, &gone) && gone.Certificate == nil && s.cfg.Local && t.Local && t.ID.Node() != s.cfg.Node &&
		t.ID.Node().Valid() {
		gone.LocalTo = t.ID.Node()
	}
	return err
}

// gone is why a session that neither the state nor this node holds is refused.
func (s *Server) gone(id session.ID) error {
	if certificate, ok := s.certificate(id); ok {
		return expired(&certificate)
	}
	return &session.ExpiredError{ID: id}
}

// certificate returns how a session ended, as far as this node knows.
func (s *Server) certificate(id session.ID) (session.Certificate, bool) {
	if c, ok := s.view.Certificate(id); ok {
		return c, true
	}
	return s.local.certificate(id)
}

func expired(c *session.Certificate) error {
	certificate := *c
	return &session.ExpiredError{ID: c.ID, Certificate: &certificate}
}
