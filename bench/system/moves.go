package system

import (
	"errors"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
)

// Promise touches all sessions of the stream, and reports for how long they are safe, counted from the call: 0 if the
// node promises nothing for one of them.
func (s *Stream) Promise(done func(safe time.Duration, err error)) {
	s.touch(nil, done)
}

// TouchOne sends one message for one session.
func (s *Stream) TouchOne(held Session, done func(error)) {
	id := held.(*Held).ID //nolint:errcheck // this system's own
	s.touch([]uint64{id}, func(_ time.Duration, err error) { done(err) })
}

func (s *Stream) touch(ids []uint64, done func(time.Duration, error)) {
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{
			Touch: &holdfastv1.Touch{Seq: seq, Ids: ids},
		}}
	}, func(m *holdfastv1.ServerMessage, err error) {
		switch failures := m.GetTouched().GetFailures(); {
		case err != nil:
			done(0, err)
		case len(failures) > 0:
			done(0, refusal(failures[0].GetError()))
		default:
			done(m.GetTouched().GetSafeFor().AsDuration(), nil)
		}
	})
}

// Reattach moves a session to this stream. The session has its new attachment when done is called.
func (s *Stream) Reattach(held Session, done func(error)) {
	moving := held.(*Held) //nolint:errcheck // this system's own
	token := moving.token()
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{
			Resume: &holdfastv1.Resume{Seq: seq, Token: token, Instance: s.instance, Attempt: 1},
		}}
	}, func(m *holdfastv1.ServerMessage, err error) {
		if err == nil {
			moving.Attachment = m.GetResumed().GetToken().GetAttachment()
		}
		done(err)
	})
}

// Together returns how many sessions fit in one ReattachAll: 1 until the node has reported more.
func (s *Stream) Together() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.batch
}

// ReattachAll moves sessions to this stream with one message. A repeat of it is the same move (M1 a resume is a move).
func (s *Stream) ReattachAll(all []Session, done func(left []Session, expired int, err error)) {
	m := &holdfastv1.ResumeSessions{Instance: s.instance}
	for _, one := range all {
		held := one.(*Held) //nolint:errcheck // this system's own
		m.Ids, m.Attachments = append(m.Ids, held.ID), append(m.Attachments, held.Attachment)
		m.Credentials, m.Attempts = append(m.Credentials, held.Credential[:]...), append(m.Attempts, 1)
	}
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		m.Seq = seq
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_ResumeSessions{ResumeSessions: m}}
	}, func(answer *holdfastv1.ServerMessage, err error) {
		if err != nil {
			done(all, 0, err)
			return
		}
		done(resumed(all, answer.GetResumedSessions()))
	})
}

// resumed notes the new attachments, and returns the sessions that have none and live, the number of those that have
// expired, and why one of those that live was refused.
func resumed(all []Session, m *holdfastv1.ResumedSessions) (left []Session, expired int, err error) {
	attachments := m.GetAttachments()
	if len(attachments) != len(all) {
		return all, 0, errors.New("an answer for another number of sessions")
	}
	why := map[uint64]error{}
	for _, f := range m.GetFailures() {
		why[f.GetId()] = refusal(f.GetError())
	}
	for i, one := range all {
		held := one.(*Held) //nolint:errcheck // this system's own
		switch refused := why[held.ID]; {
		case attachments[i] != 0:
			held.Attachment = attachments[i]
		case errors.Is(refused, ErrExpired):
			expired++
		case refused == nil:
			return all, 0, errors.New("a session was not moved, and no reason given")
		default:
			left, err = append(left, one), refused
		}
	}
	return left, expired, err
}

// OnExpired sets a callback that gets the number of sessions of this stream that have just expired. It must return
// soon.
func (s *Stream) OnExpired(f func(sessions int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onExpired = f
}
