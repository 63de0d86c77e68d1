package session

import (
	"errors"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Receive handles an answer or the news of a node about sessions, and reports whether the message was any.
func (s *Manager) Receive(c *conn.Conn, msg *holdfastv1.ServerMessage) bool {
	switch m := msg.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Opened:
		if r, b, ok := conn.Answered[*openBody](c, m.Opened.GetSeq()); ok {
			s.opened(c, r, b.call, m.Opened)
		}
	case *holdfastv1.ServerMessage_Resumed:
		if r, b, ok := conn.Answered[*resumeBody](c, m.Resumed.GetSeq()); ok {
			s.resumed(c, r, b, m.Resumed)
		}
	case *holdfastv1.ServerMessage_ResumedSessions:
		if r, _, ok := conn.Answered[*resumesBody](c, m.ResumedSessions.GetSeq()); ok {
			s.resumedAll(c, r, m.ResumedSessions)
		}
	case *holdfastv1.ServerMessage_Touched:
		s.receiveTouched(c, m.Touched)
	case *holdfastv1.ServerMessage_Closed:
		if _, b, ok := conn.Answered[*closeBody](c, m.Closed.GetSeq()); ok && s.Holds(b.h) {
			s.servedFor(c, b.h.token)
			s.closed(b.h)
		}
	case *holdfastv1.ServerMessage_Upgraded:
		if r, b, ok := conn.Answered[*upgradeBody](c, m.Upgraded.GetSeq()); ok {
			s.upgraded(c, r, b.h, m.Upgraded)
		}
	case *holdfastv1.ServerMessage_Gone:
		s.handleGone(m.Gone)
	case *holdfastv1.ServerMessage_Moved:
		s.movedAll(c, m.Moved)
	default:
		return false
	}
	return true
}

// Refused handles the refusal of a request, and reports whether the request was about sessions.
func (s *Manager) Refused(c *conn.Conn, r *window.Request, err error) bool {
	switch b := r.Body.(type) {
	case *openBody:
		s.openRefused(c, r, b.call, err)
	case *resumeBody:
		s.resumeRefused(c, r, b, err)
	case *resumesBody:
		s.resumesRefused(c, r, err)
	case *closeBody:
		s.closeRefused(c, r, b.h, err)
	case *upgradeBody:
		s.upgradeRefused(c, r, b.h, err)
	case *discardBody: // the session expires on its own
	case *touchBody:
		if !b.sign { // a refusal is a sign of life, and the next touch is due as before
			s.touchDeferred(c, err)
		}
	default:
		return false
	}
	return true
}

// LostAt handles a refusal because the node of c does not serve h any more: h has expired or moved. It reports whether
// the refusal was for that reason.
func (s *Manager) LostAt(c *conn.Conn, h *Session, err error) bool {
	switch {
	case errors.Is(err, session.ErrExpired):
		s.expired(h, err)
	case errors.Is(err, session.ErrMoved):
		s.moved(h, c, holder(err))
	default:
		return false
	}
	return true
}

// handleGone handles the news that sessions have ended.
func (s *Manager) handleGone(m *holdfastv1.Gone) {
	certificates := make(map[session.ID]*session.Certificate, len(m.GetCertificate()))
	for _, p := range m.GetCertificate() {
		if cert, err := wire.CertificateFrom(p); err == nil { // a certificate that is out of range counts as none
			certificates[cert.ID] = &cert
		}
	}
	for _, raw := range m.GetIds() {
		id := session.ID(raw)
		if h := s.sessions[id]; h != nil {
			s.expired(h, &session.ExpiredError{ID: id, Certificate: certificates[id]})
		}
	}
}

// final reports whether err, the answer to a resume or a touch, ends a session for its client. After any other error
// the request is worth a retry.
func final(err error) bool {
	return errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrBadCredential) ||
		errors.Is(err, session.ErrMoved) || errors.Is(err, session.ErrInvalid)
}

// holder returns which instance has the session according to a refusal, 0 if the refusal does not say.
func holder(err error) uint64 {
	if now, ok := errors.AsType[*session.MovedError](err); ok {
		return now.Instance
	}
	return 0
}
