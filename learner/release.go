package learner

import (
	"slices"

	"holdfast/session"
)

// connectionEnded reports to the leader that the connection of some attachments has ended, if a client process took
// their sessions over from another process less than half a timeout ago: the other process may have them back now (M7
// no take-over from a living holder). If the message is lost, the other process waits for the rest of that time.
func (s *Server) connectionEnded(all ...*attached) {
	releases := make([]session.Release, 0, len(all))
	for _, a := range all {
		if a != nil {
			releases = append(releases, session.Release{ID: a.id, Attachment: a.attachment})
		}
	}
	s.release(releases)
}

// release reports to the leader the released sessions whose take-over is less than half a timeout old.
func (s *Server) release(all []session.Release) {
	now := s.clock.now()
	all = slices.DeleteFunc(all, func(r session.Release) bool {
		_, _, ok := s.takeOvers.Recent(r.ID, r.Attachment, now)
		return !ok
	})
	s.takeOvers.Release(all...)
	for part := range slices.Chunk(all, session.MaxReleases) {
		s.sendReleases(part)
	}
}

// releaseUnwanted releases the session of a reply whose client is gone. This node may not have applied the move yet.
func (s *Server) releaseUnwanted(reply session.Reply, err error) {
	if one := &reply.Session; err == nil && one.Owner == s.cfg.Node {
		s.sendReleases([]session.Release{{ID: one.ID, Attachment: one.Attachment}})
	}
}

func (s *Server) sendReleases(all []session.Release) {
	s.upstream.submit(session.Request{Release: all}, func(session.Reply, error) {})
}
