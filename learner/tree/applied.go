package tree

import (
	"errors"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
)

// endedAttachment is an attachment that has ended.
type endedAttachment struct {
	id         session.ID
	attachment uint64
	why        error
}

// AppliedSessions records the changes of sessions by the entry at index. The goroutine that applies the log calls it
// before Applied, for each entry that changes sessions.
func (s *Service) AppliedSessions(index uint64, changes []session.Change) {
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case session.Opened:
		case session.Moved:
			s.left(c.Session.ID, c.Session.Attachment, index, session.MovedTo(c.Session))
		case session.Ended:
			s.left(c.Session.ID, 0, index, &session.ExpiredError{Certificate: c.Certificate})
		}
	}
	s.hub.AppliedSessions(index, changes)
}

// left ends the service of a session's attachments except one, with the entry at index (V7 events before Moved and
// Gone).
func (s *Service) left(id session.ID, but, index uint64, why error) {
	all := s.hub.Attachments(id, but)
	for _, attachment := range all {
		for _, r := range s.dispatchers {
			r.Detach(id, attachment, index, why)
		}
	}
	s.queue.ended(id, why)
}

// Applied records an entry's effects on the tree. The goroutine that applies the log calls it for each entry that has
// commands or clocks or changes the configuration.
//
// The pending table records the outcomes before dispatchers can see them: a client that has an answer never finds the
// number unanswered in the table.
func (s *Service) Applied(now State, changes []tree.Change, wrote []pending.Outcome) {
	if len(wrote) > 0 {
		s.queue.applied(wrote)
	}
	s.hub.Applied(now.shown(), changes, wrote)
	s.applied.wake()
}

// RestoredSessions is called when a snapshot has replaced the sessions. The goroutine that applies the log calls it
// before Restored.
func (s *Service) RestoredSessions() {
	for _, a := range s.hub.All() {
		if why := s.fate(a.ID, a.Attachment); why != nil {
			s.ended = append(s.ended, endedAttachment{a.ID, a.Attachment, why})
		}
	}
}

// fate returns why an attachment can no longer write; nil if it can.
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

// Restored is called when a snapshot has replaced the tree.
func (s *Service) Restored(now State) {
	for _, a := range s.ended {
		for _, r := range s.dispatchers {
			r.Detach(a.id, a.attachment, now.Index, a.why)
		}
	}
	s.ended = nil
	p := now.shown()
	s.queue.restored(now.Writers, s.fate)
	s.hub.Restored(p)
	s.applied.wake()
}

// movedBy returns the error of a move; nil for other errors.
func movedBy(err error) (moved *session.MovedError) {
	errors.As(err, &moved)
	return moved
}
