package learner

import (
	"slices"

	"holdfast/session"
)

// connectionEnded tells the leader that the connection of some attachments has ended, if a client process took their
// sessions from another one less than half a timeout ago: the other process may have them back now (M7). A lost message
// costs the other process that time.
func (s *Server) connectionEnded(all ...*attached) {
	releases := make([]session.Release, 0, len(all))
	for _, a := range all {
		if a != nil {
			releases = append(releases, session.Release{ID: a.id, Attachment: a.attachment})
		}
	}
	s.release(releases)
}

// release tells the leader of the releases of sessions that were taken over less than half a timeout ago.
func (s *Server) release(all []session.Release) {
	now := s.clock.now()
	all = slices.DeleteFunc(all, func(r session.Release) bool {
		_, _, ok := s.takeOvers.Recent(r.ID, r.Attachment, now)
		return !ok
	})
	s.takeOvers.Release(all...)
	for part := range slices.Chunk(all, session.MaxReleases) {
		s.tellReleased(part)
	}
}

// unwanted releases the session of a reply whose client has gone meanwhile. This node may not have applied the move yet.
func (s *Server) unwanted(reply session.Reply, err error) {
	if one := &reply.Session; err == nil && one.Owner == s.cfg.Node {
		s.tellReleased([]session.Release{{ID: one.ID, Attachment: one.Attachment}})
	}
}

func (s *Server) tellReleased(all []session.Release) {
	s.upstream.submit(session.Request{Release: all}, func(session.Reply, error) {})
}
