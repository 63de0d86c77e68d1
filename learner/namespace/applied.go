package namespace

import (
	"errors"

	"holdfast/learner/lane"
	"holdfast/learner/writes"
	"holdfast/session"
	"holdfast/tree"
)

// leaving is an attachment that has ended.
type leaving struct {
	id         session.ID
	attachment uint64
	why        error
}

// AppliedSessions takes what the entry at index did to sessions. The goroutine that applies the log calls it before
// Applied, for each entry that changes sessions.
func (s *Service) AppliedSessions(index uint64, changes []session.Change) {
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case session.Opened:
		case session.Moved:
			s.left(c.Session.ID, c.Session.Attachment, index, session.MovedTo(c.Session))
		case session.Ended:
			s.left(c.Session.ID, 0, index, &session.ExpiredError{Certificate: &c.Certificate})
		}
	}
	s.hub.AppliedSessions(index, changes)
}

// left ends the service of a session's attachments but for one, with the entry at index (V7).
func (s *Service) left(id session.ID, but, index uint64, why error) {
	all := s.hub.Attachments(id, but)
	for _, attachment := range all {
		for _, r := range s.lanes {
			r.Detach(id, attachment, index, why)
		}
	}
	s.queue.ended(id, why)
}

// Applied takes what an entry did to the tree. The goroutine that applies the log calls it for each entry that has
// commands or clocks or changes the configuration.
//
// The queue of writes hears of the outcomes before lanes can see them: a client that has an answer never finds the
// number unanswered in the queue.
func (s *Service) Applied(now State, changes []tree.Change, wrote []lane.Wrote) {
	if len(wrote) > 0 {
		s.queue.applied(outcomes(wrote))
	}
	s.hub.Applied(now.published(), changes, wrote)
	s.told.beat()
}

// outcomes returns what became of writes as the queue takes it, which passes over those of other nodes.
func outcomes(wrote []lane.Wrote) []writes.Outcome {
	all := make([]writes.Outcome, len(wrote))
	for i := range wrote {
		all[i] = writes.Outcome(wrote[i])
	}
	return all
}

// RestoredSessions says that a snapshot has replaced the sessions. The goroutine that applies the log calls it before
// Restored.
func (s *Service) RestoredSessions() {
	for _, a := range s.hub.All() {
		if why := s.fate(a.ID, a.Attachment); why != nil {
			s.leaving = append(s.leaving, leaving{a.ID, a.Attachment, why})
		}
	}
}

// fate returns why an attachment cannot write any more; nil if it can.
func (s *Service) fate(id session.ID, attachment uint64) error {
	now, ok := s.cfg.Node.Session(id)
	switch {
	case !ok:
		return &session.ExpiredError{}
	case now.Attachment != attachment:
		return session.MovedTo(now)
	}
	return nil
}

// Restored says that a snapshot has replaced the tree.
func (s *Service) Restored(now State) {
	for _, a := range s.leaving {
		for _, r := range s.lanes {
			r.Detach(a.id, a.attachment, now.Index, a.why)
		}
	}
	s.leaving = nil
	p := now.published()
	s.queue.restored(kept{now.Writers}, s.fate)
	s.hub.Restored(p)
	s.told.beat()
}

// movedBy returns the error of a move; nil for anything else.
func movedBy(err error) (moved *session.MovedError) {
	errors.As(err, &moved)
	return moved
}
