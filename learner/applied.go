package learner

import "holdfast/session"

// Applied processes the changes of an entry before anything shows that the entry was applied. It ends the attachments
// that the entry moved or ended, and goes on serving the sessions that became global (M4 former clients are notified
// first, T1 atomic swap, L8 one upgrade at a time). The goroutine that applies entries calls it.
func (s *Server) Applied(index, _ uint64, changes []session.Change) {
	s.tree.AppliedSessions(index, changes)
	ended := make(endings)
	for i := range changes {
		c := &changes[i]
		s.takeOvers.Note(c, s.clock.now())
		switch c.Kind {
		case session.Opened:
			if s.cfg.Local {
				s.locals.Promote(c.Session)
			}
		case session.Moved:
			s.moveOn(ended, c.Session)
		case session.Ended:
			// Other nodes serve most sessions. When this node begins to serve a session now, it looks the session up
			// afterwards in the state, which then shows the entry.
			if s.table.find(c.Session.ID) != nil {
				s.end(ended, expired(c.Certificate), *c.Certificate)
			}
		}
	}
	ended.forget()
	s.wait.advanced.wake()
}

// Restored compares the served sessions with the state of a restored snapshot (M4). The goroutine that applies entries
// calls it.
func (s *Server) Restored() {
	s.tree.RestoredSessions()
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
		s.end(ended, s.registry.gone(id), certificate)
	}
	s.locals.Restored()
	ended.forget()
	s.wait.advanced.wake()
}

// end stops serving an ended session and notifies its connection. why is the refusal of later touches.
func (s *Server) end(ended endings, why error, certificate session.Certificate) {
	c := s.table.end(certificate.ID, 0, why)
	s.expiries.log(c, &certificate)
	if to := c.listener(); to != nil {
		to.Gone(certificate)
		ended[c] = append(ended[c], certificate.ID)
	}
}

// moveOn stops serving a session, unless through its present attachment, and names to the former connection the
// instance that resumed the session.
func (s *Server) moveOn(ended endings, now session.Session) {
	c := s.table.end(now.ID, now.Attachment, session.MovedTo(now))
	if to := c.listener(); to != nil {
		to.Moved(now.ID, now.Attachment, now.Instance)
		ended[c] = append(ended[c], now.ID)
	}
}

// endings are ended sessions, by the connection that was notified.
type endings map[*connection][]session.ID

// forget removes the ended sessions from their connections. The goroutine that ended the sessions calls it.
func (e endings) forget() {
	for c, ids := range e {
		c.forget(ids)
	}
}
