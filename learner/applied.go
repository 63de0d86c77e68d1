package learner

import "holdfast/session"

// Applied takes in the changes of an entry before anything shows that the entry was applied. It ends what the entry
// moved or ended, and goes on serving what the entry made global (M4, T1, L8). The goroutine that applies entries calls
// it.
func (s *Server) Applied(index, _ uint64, changes []session.Change) {
	s.tree.AppliedSessions(index, changes)
	ended := make(endings)
	for i := range changes {
		c := &changes[i]
		s.takeOvers.Note(c, s.clock.now())
		switch c.Kind {
		case session.Opened:
			if s.cfg.Local {
				s.upgrades.promote(c.Session)
			}
		case session.Moved:
			s.moveOn(ended, c.Session)
		case session.Ended:
			// Most sessions are served elsewhere, or by nobody. One that begins to be served now is looked up in the
			// state afterwards, which shows the entry.
			if s.table.find(c.Session.ID) != nil {
				s.end(ended, expired(&c.Certificate), c.Certificate)
			}
		}
	}
	ended.forget()
	s.wait.advanced.tell()
}

// Restored compares everything that the node serves with the state that a snapshot brought (M4). The goroutine that
// applies entries calls it.
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
	s.upgrades.restored(ended)
	ended.forget()
	s.wait.advanced.tell()
}

// end stops serving a session that has ended and tells its connection. why is the refusal of later touches.
func (s *Server) end(ended endings, why error, certificate session.Certificate) {
	c := s.table.end(certificate.ID, 0, why)
	s.expiries.tell(c, &certificate)
	if to := c.listener(); to != nil {
		to.Gone(certificate)
		ended[c] = append(ended[c], certificate.ID)
	}
}

// moveOn stops serving a session through any attachment but the present one, and tells the former connection which
// instance has resumed the session.
func (s *Server) moveOn(ended endings, now session.Session) {
	c := s.table.end(now.ID, now.Attachment, session.MovedTo(now))
	if to := c.listener(); to != nil {
		to.Moved(now.ID, now.Attachment, now.Instance)
		ended[c] = append(ended[c], now.ID)
	}
}

// endings are sessions that have ended, by the connection that was told so.
type endings map[*connection][]session.ID

// forget makes each connection forget its own sessions, on the goroutine that ended them.
func (e endings) forget() {
	for c, ids := range e {
		c.forget(ids)
	}
}
