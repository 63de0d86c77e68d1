package session

import (
	"math"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// How a client resumes all sessions of a lost node. Each session has its own resume in the window, which is refused,
// deferred and repeated separately. Queued resumes go out in one message. The outcomes in its answer are processed one
// by one, exactly like the answers to single resumes. Local sessions, and sessions that a caller waits for, are resumed
// one by one: their resumes may be refused in ways that the message cannot express.

// resumesBody resumes the sessions of several requests with one message.
type resumesBody struct {
	s       *Manager
	members []*window.Request
}

// Wanted is true.
func (b *resumesBody) Wanted() bool { return true }

// Message numbers each session's attempt, as a single resume does.
func (b *resumesBody) Message(seq uint64) *holdfastv1.ClientMessage {
	n := len(b.members)
	m := &holdfastv1.ResumeSessions{
		Seq: seq, Instance: b.s.cfg.Instance, SeenIndex: b.s.conns.MinIndex(), Ids: make([]uint64, 0, n),
		Credentials: make([]byte, 0, n*len(session.Credential{})), Attachments: make([]uint64, 0, n),
		Attempts: make([]uint64, 0, n),
	}
	for _, r := range b.members {
		of, ok := r.Body.(*resumeBody)
		if !ok {
			continue // only resumes are members
		}
		h := of.h
		b.s.attempts++
		of.local = false
		m.Ids = append(m.Ids, uint64(h.id))
		m.Credentials = append(m.Credentials, h.token.Credential[:]...)
		m.Attachments = append(m.Attachments, h.token.Attachment)
		m.Attempts = append(m.Attempts, b.s.attempts)
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_ResumeSessions{ResumeSessions: m}}
}

// resumedAll handles the outcome of each session: first the sessions that were resumed, which make a candidate the
// current connection, and then those that were refused.
func (s *Manager) resumedAll(c *conn.Conn, r *window.Request, m *holdfastv1.ResumedSessions) {
	n := len(r.Members)
	if len(m.GetAttachments()) != n || len(m.GetSafeForMs()) != n {
		s.resumesRefused(c, r, session.ErrOutcomeUnknown)
		return
	}
	refused := make(map[session.ID]error, len(m.GetFailures()))
	for _, f := range m.GetFailures() {
		refused[session.ID(f.GetId())] = wire.FromDetail(f.GetError(), "")
	}
	// The places in the message, in the order in which the outcomes are judged.
	order := make([]int, 0, n)
	for _, granted := range []bool{true, false} {
		for i, attachment := range m.GetAttachments() {
			if attachment != 0 == granted {
				order = append(order, i)
			}
		}
	}
	ordered := make([]*window.Request, n)
	for at, i := range order {
		ordered[at] = r.Members[i]
	}
	s.handleMembers(c, ordered, func(at int, member *window.Request, b *resumeBody) {
		if i := order[at]; m.GetAttachments()[i] != 0 {
			s.resumedMember(c, member, b, grantOf(m, i))
			return
		}
		err := refused[b.h.id]
		if err == nil {
			err = session.ErrOutcomeUnknown // the node has named no reason
		}
		s.resumeRefused(c, member, b, err)
	})
}

// promiseFrom converts milliseconds to a promise; negative is none.
func promiseFrom(ms uint64) time.Duration {
	if ms == 0 {
		return wire.Unknown
	}
	return time.Duration(min(ms, uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// grantOf returns the grant of the i-th session, with only the new values.
func grantOf(m *holdfastv1.ResumedSessions, i int) session.Grant {
	g := session.Grant{
		Session: session.Session{Attachment: m.GetAttachments()[i]}, SafeFor: promiseFrom(m.GetSafeForMs()[i]),
	}
	if len(m.GetApplied()) == len(m.GetAttachments()) && len(m.GetFloors()) == len(m.GetAttachments()) {
		g.Applied, g.Floor = m.GetApplied()[i], min(m.GetFloors()[i], m.GetApplied()[i])
	}
	return g
}

// resumedMember completes the grant of one session in a message, and attaches the session.
func (s *Manager) resumedMember(c *conn.Conn, r *window.Request, b *resumeBody, g session.Grant) {
	if !s.Holds(b.h) {
		c.Touches.Named = true
		return
	}
	g.Token, g.Session.Owner = b.h.token, c.State().Node
	g.Token.Attachment = g.Session.Attachment
	s.reattach(c, r, b, g)
}

// resumesRefused handles the refusal of a whole message. A final refusal is about the message, not about any session:
// each session is then resumed by itself on this connection.
func (s *Manager) resumesRefused(c *conn.Conn, r *window.Request, err error) {
	if route.Classify(err) == route.Final {
		c.ResumeSingly()
		for _, member := range r.Members {
			c.Window.Repeat(member)
		}
		return
	}
	s.handleMembers(c, r.Members, func(_ int, member *window.Request, b *resumeBody) {
		s.resumeRefused(c, member, b, err)
	})
}

// handleMembers processes the members of a request, as long as c is in use. When c is dropped, it releases the
// remaining members.
func (s *Manager) handleMembers(
	c *conn.Conn, members []*window.Request, handle func(int, *window.Request, *resumeBody),
) {
	c.Window.EachMember(members, func(i int, member *window.Request) bool {
		if b, ok := member.Body.(*resumeBody); ok {
			handle(i, member, b)
		}
		return c == s.conns.Current() || c == s.conns.Candidate()
	})
}
