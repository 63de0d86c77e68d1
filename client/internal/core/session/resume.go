package session

import (
	"errors"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Resume resumes the session of a token for a caller.
func (s *Manager) Resume(call *Call, t session.Token) {
	if s.HoldsID(t.ID) {
		s.answer(call, nil, ErrHeld)
		return
	}
	s.join(call, t)
}

// join makes the client hold the session of t, and resumes the session.
func (s *Manager) join(call *Call, t session.Token) {
	s.hold(call, t)
	s.ResumeSessions()
}

// QueueResume queues a resume of h on c.
func (s *Manager) QueueResume(c *conn.Conn, h *Session) {
	h.attachment.resuming = c.Window.Push(&resumeBody{s: s, h: h, on: c})
}

// ResumeSessions queues a resume for every session without a connection and without a pending resume: on the candidate,
// or else on the current connection.
func (s *Manager) ResumeSessions() {
	c := s.conns.Current()
	next := s.conns.Candidate()
	tried := next != nil && !next.Probe.Active
	if s.conns.ReadOnly(c) && !tried {
		s.waitForLeader(c)
	}
	switch next = s.conns.Candidate(); {
	case tried:
		c = next
	case next != nil:
		s.probe(next)
		return
	case c == nil || s.conns.ReadOnly(c):
		return
	}
	for _, h := range s.sessions {
		if h.attachment.on == nil && h.attachment.resuming == nil {
			s.QueueResume(c, h)
		}
	}
}

func (s *Manager) resumed(c *conn.Conn, r *window.Request, b *resumeBody, m *holdfastv1.Resumed) {
	if !s.Holds(b.h) {
		c.Touches.Named = true
		return
	}
	g, err := wire.RegainedFrom(m)
	if err != nil {
		s.resumeRefused(c, r, b, err)
		return
	}
	s.reattach(c, r, b, g)
}

// reattach attaches a session by the grant of a resume.
func (s *Manager) reattach(c *conn.Conn, r *window.Request, b *resumeBody, g session.Grant) {
	if s.servedFor(c, g.Token); !s.Holds(b.h) {
		c.Touches.Named = true
		return
	}
	// another connection has reported already that the session has become global
	if now := b.h.token; g.Token.Local && !now.Local {
		g.Token, g.Session.Local, g.Session.Attachment = now, false, now.Attachment
	}
	s.attach(b.h, c, r, g)
}

// attach records that c serves h, because of the open or resume r.
func (s *Manager) attach(h *Session, c *conn.Conn, r *window.Request, g session.Grant) {
	first := h.timeout == 0
	h.attachment.on, h.attachment.since, h.token = c, c.Window.Seq(), g.Token
	if h.attachment.resuming == r {
		h.attachment.resuming = nil
	}
	if first {
		h.timeout = g.Session.Timeout
	}
	s.recordGrant(h, g)
	h.promise.renewBy = s.conns.Now().Add(h.timeout / lostPart)
	s.dueAt = route.Earliest(s.dueAt, h.promise.renewBy)
	c.Touches.Smallest = minPositive(c.Touches.Smallest, h.timeout)
	c.Touches.At = route.Earliest(c.Touches.At, r.Sent.Add(touchIn(g.SafeFor, h.timeout)))
	back := s.recordPromise(h, r, g.SafeFor, h.timeout)
	s.emit(h, h.either(served, servedUnpromised), nil)
	if back && !first {
		s.emit(h, regained, nil)
	}
	if s.conns.ReadOnly(c) { // the node became read-only while the resume was in flight
		s.showReadOnly(h, c)
		s.conns.SeekLeader(c)
	}
	if len(h.callers.closing) > 0 {
		s.queueClose(h)
	}
	s.continueUpgrade(h)
	s.tree.Attached(h, g)
	if joining := h.callers.joining; joining != nil {
		delete(s.opens, joining)
		s.answer(joining, h, nil)
		h.callers.joining = nil
	}
}

func (s *Manager) resumeRefused(c *conn.Conn, r *window.Request, b *resumeBody, err error) {
	h := b.h
	if !s.Holds(h) {
		return
	}
	verdict := route.Classify(err)
	if s.homeElsewhere(c, h, err) {
		verdict = route.Elsewhere
	}
	if b.local && !h.token.Local && errors.Is(err, session.ErrExpired) {
		s.resumeAsGlobal(c, r, h)
		return
	}
	switch {
	case errors.Is(err, session.ErrExpired) && verdict != route.Elsewhere:
		s.conns.Served(c)
		s.expired(h, err)
		return
	case h.attachment.resuming != r: // the answer to the newer resume counts
		return
	case s.takeOver(c, r, h, err):
		return
	case final(err) && verdict != route.Elsewhere, h.callers.joining != nil && verdict == route.Final:
		s.conns.Served(c)
		s.end(h, err)
		return
	}
	if joining := h.callers.joining; joining != nil {
		joining.last = err
		if errors.Is(err, session.ErrOutcomeUnknown) {
			s.outcomeUnknown(joining)
		}
	}
	if verdict == route.Elsewhere {
		s.resumeElsewhere(c, r, h, err)
		return
	}
	s.conns.Retry(c, r, err)
	s.probeDone(c)
	s.conns.Deferred(c, err)
}

// resumeElsewhere handles a refusal by a node that cannot serve h now. The client gives up a candidate, unless it stays
// there for want of a better node.
func (s *Manager) resumeElsewhere(c *conn.Conn, r *window.Request, h *Session, err error) {
	switch {
	case s.conns.StaysReadOnly(c, err):
		h.attachment.resuming = nil
		s.conns.StayReadOnly(err)
	case c == s.conns.Candidate():
		h.attachment.resuming = nil
		s.conns.FailCandidate(err)
	case s.conns.WaitsForLeader(c, err):
		s.resumeWaits(c, h)
	default:
		s.conns.Retry(c, r, err)
		s.conns.Leave(c, err)
	}
}

// homeElsewhere reports whether the refusal of a resume should make the client search for the node of a local session.
// It should if no promise holds elsewhere and the client has nothing else to lose: no open waits, and it holds no
// global session. The client does not leave the current node, which has served it, for this search.
func (s *Manager) homeElsewhere(c *conn.Conn, h *Session, err error) bool {
	expired, ok := errors.AsType[*session.ExpiredError](err)
	if !ok || expired.LocalTo == 0 || !h.token.Local || len(s.opens) > 0 {
		return false
	}
	h.callers.upgradeSent = false // no upgrade has taken effect by now (L6 unknown local sessions)
	return h.callers.joining != nil && len(s.sessions) == 1 ||
		c != s.conns.Current() && s.conns.Home() == route.Only
}

// resumeAsGlobal resumes a session again that has become global. The node refused the local session, which it does not
// know (L6 unknown local sessions).
func (s *Manager) resumeAsGlobal(c *conn.Conn, r *window.Request, h *Session) {
	if h.attachment.resuming != r {
		return
	}
	h.attachment.resuming = nil
	s.ResumeSessions()
	// the current node serves the session, which moves to the candidate
	if h.attachment.resuming == nil && h.attachment.on != nil && c == s.conns.Candidate() {
		s.QueueResume(c, h)
	}
}

// takeOver repeats the resume of a caller that takes a session over, with the attachment that the refusal names (M1 a
// resume is a move). It reports whether it does. The first repeat goes out at once, because an old token is the common
// case. Later repeats wait, so that two processes that fight for a session come to an end.
//
// A refusal that names the requested attachment means that the holder keeps the session for half of its timeout (M7 no
// take-over from a living holder): the resume is repeated as long as its caller waits. A resume without a caller is not
// repeated: another process took the session from this client.
func (s *Manager) takeOver(c *conn.Conn, r *window.Request, h *Session, err error) bool {
	now, ok := errors.AsType[*session.MovedError](err)
	if h.callers.joining == nil || !ok || now.Instance == s.cfg.Instance {
		return false
	}
	unchanged := h.token.Attachment == now.Attachment && h.token.Local == now.Local
	if !unchanged && h.attachment.contested == MaxTakeOvers {
		return false
	}
	h.callers.joining.last = err
	h.token.Attachment, h.token.Local = now.Attachment, now.Local
	switch {
	case unchanged:
		h.attachment.kept++
		c.Window.Defer(r, s.conns.Now().Add(s.cfg.Jitter.Backoff(h.attachment.kept)))
	case h.attachment.contested == 0:
		h.attachment.contested++
		c.Window.Repeat(r)
	default:
		h.attachment.contested++
		c.Window.Defer(r, s.conns.Now().Add(s.cfg.Jitter.Backoff(h.attachment.contested)))
	}
	s.servedFor(c, h.token)
	return true
}

// movedAll handles the notice that sessions were resumed through other connections.
func (s *Manager) movedAll(c *conn.Conn, m *holdfastv1.Moved) {
	for i, id := range m.GetIds() {
		by := uint64(0)
		if all := m.GetInstances(); i < len(all) {
			by = all[i]
		}
		if h := s.sessions[session.ID(id)]; h != nil {
			s.moved(h, c, by)
		}
	}
}

// moved handles the news that c does not serve h any more, because the instance by has resumed it.
//
//   - This client's instance: one of its own resumes took effect late. The client resumes again.
//   - Another instance: that process has taken the session over. The session ends here.
//   - Instance 0: no process has resumed it. The client does, once. If the node says the same again and has accepted no
//     touch meanwhile, the client believes it.
func (s *Manager) moved(h *Session, c *conn.Conn, by uint64) {
	if h.attachment.on != c {
		return
	}
	h.attachment.on = nil
	own := by == s.cfg.Instance
	if !own && (by != 0 || h.attachment.doubted) {
		s.end(h, session.ErrMoved)
		return
	}
	h.attachment.doubted = !own
	if h.attachment.resuming == nil {
		s.emit(h, disconnected, errOvertaken)
	}
	s.ResumeSessions()
}
