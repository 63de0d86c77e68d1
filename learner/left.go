package learner

import "holdfast/session"

// left tells the leader that no connection has the attachments any more, of those that another client process had less
// than half a timeout ago: it may have them back now (M7). A message that is lost costs the other process that time.
func (s *Server) left(all ...*attached) {
	now := s.clock.now()
	for _, a := range all {
		if a == nil {
			continue
		}
		if _, _, ok := s.takeOvers.Recent(a.id, a.attachment, now); ok {
			s.takeOvers.Left(a.id, a.attachment)
			s.tellLeft(a.id, a.attachment)
		}
	}
}

// unwanted takes the reply to an open or a resume whose client has gone meanwhile.
func (s *Server) unwanted(reply session.Reply, err error) {
	if one := &reply.Session; err == nil && one.Owner == s.cfg.Node {
		s.tellLeft(one.ID, one.Attachment)
	}
}

func (s *Server) tellLeft(id session.ID, attachment uint64) {
	s.upstream.submit(session.Request{Left: &session.LeftRequest{ID: id, Attachment: attachment}},
		func(session.Reply, error) {})
}
